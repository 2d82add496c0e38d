//! Stores and disks that fail: each command ends with a clear message, and the next one goes on.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use crate::flaky_proxy::{FlakyProxy, Treatment};
use crate::garage::{self, Garage};
use crate::published_chain::PublishedChain;
use crate::report::{FleetReport, failure};

/// What each request to a slow store waits for.
const DELAY: Duration = Duration::from_millis(500);
/// The part of the program that runs on a disk of its own: a file system in memory, which is enlarged once the command failed.
const ON_A_SMALL_DISK: &str = r#"
    mount -t tmpfs -o size="$SMALL" none "$DIRECTORY" || exit 99
    "$@" 2>"$LOG.small" && exit 98
    mount -o remount,size="$LARGE" "$DIRECTORY" || exit 97
    exec "$@" 2>"$LOG.large""#;

/// All of them, at a store of one node.
pub(crate) fn run(chain: &PublishedChain, garage: &Garage, report: &mut FleetReport) -> Result<()> {
    let endpoint = garage.endpoint(0);
    chain.forget_published()?;
    chain.run(chain.publish(&endpoint, "faults"))?.ensure_success()?;
    truncated_object(chain, garage, report)?;
    failing_store(chain, garage, report)?;
    full_disk(chain, &endpoint, report)
}

/// The largest object loses its second half.
fn truncated_object(chain: &PublishedChain, garage: &Garage, report: &mut FleetReport) -> Result<()> {
    let endpoint = garage.endpoint(0);
    let bucket = Bucket::open(&endpoint)?;
    let (name, whole) = bucket.largest("faults/objects")?;
    bucket.write(&name, whole[..whole.len() / 2].to_vec())?;
    let directory = chain.fresh("joiner")?;
    let failed = chain.run(chain.join(&endpoint, "faults", &directory))?.ensure_failure("it is truncated")?;
    report.add("join, an object truncated", failed.time, failure(&failed.message()));
    let failed = chain.run(chain.publish(&endpoint, "faults"))?.ensure_failure("it is truncated")?;
    report.add("publish, the same", failed.time, failure(&failed.message()));
    bucket.remove(&name)?;
    let published = chain.run(chain.publish(&endpoint, "faults"))?.ensure_success()?;
    ensure!(published.logged("published", "uploaded_objects")? == 1, "one object was removed");
    let joined = chain.run(chain.join(&endpoint, "faults", &directory))?.ensure_success()?;
    chain.ensure_equal(&directory)?;
    report.add("the object removed, published again, joined", published.time + joined.time, "equal files");
    Ok(())
}

/// A store that answers 500, late, or not at all.
fn failing_store(chain: &PublishedChain, garage: &Garage, report: &mut FleetReport) -> Result<()> {
    let proxy = FlakyProxy::start(garage.port(0))?;
    let endpoint = proxy.endpoint();
    for (name, treatment) in [("answers 500", Treatment::Fail), ("does not answer", Treatment::Stall)] {
        let prefix = name.replace(' ', "-");
        chain.forget_published()?;
        proxy.set(treatment);
        let failed = chain.run(chain.publish(&endpoint, &prefix))?.ensure_failure("run the command again")?;
        report.add(&format!("publish, the store {name}"), failed.time, failure(&failed.message()));
        let directory = chain.fresh("joiner")?;
        let failed = chain.run(chain.join(&endpoint, "faults", &directory))?.ensure_failure("run the command again")?;
        report.add(&format!("join, the store {name}"), failed.time, failure(&failed.message()));
        proxy.set(Treatment::Pass);
        let published = chain.run(chain.publish(&endpoint, &prefix))?.ensure_success()?;
        let joined = chain.run(chain.join(&endpoint, &prefix, &directory))?.ensure_success()?;
        chain.ensure_equal(&directory)?;
        report.add("both again, the store answers", published.time + joined.time, "equal files");
    }
    proxy.set(Treatment::Delay(DELAY));
    chain.forget_published()?;
    let published = chain.run(chain.publish(&endpoint, "slow"))?.ensure_success()?;
    let directory = chain.fresh("joiner")?;
    let joined = chain.run(chain.join(&endpoint, "slow", &directory))?.ensure_success()?;
    chain.ensure_equal(&directory)?;
    report.add("publish and join, each request 0.5 s late", published.time + joined.time, "equal files");
    Ok(())
}

/// A joiner whose disk has no space for the published blocks, and a publisher whose disk has none for its notes.
fn full_disk(chain: &PublishedChain, endpoint: &str, report: &mut FleetReport) -> Result<()> {
    let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        report.add("a full disk", Duration::ZERO, "left out: this user may not mount file systems");
        return Ok(());
    }
    let (bytes, _) = PublishedChain::frozen(&chain.publisher())?;
    let (large, directory) = (bytes * 3 + (256 << 20), chain.fresh("joiner")?);
    let joining = chain.join(endpoint, "faults", &directory);
    let refused = on_a_small_disk(chain, &directory, &joining, (bytes / 2, large))?;
    ensure!(refused.contains("do not fit on the disk"), "the small disk was no reason: {refused}");
    report.add("join, half of the space that it needs", Duration::ZERO, failure(&refused));

    // the notes of a publisher, checksums among them, are on the disk of the index
    chain.forget_published()?;
    let notes = chain.notes();
    std::fs::create_dir_all(&notes)?;
    let refused = on_a_small_disk(chain, &notes, &chain.publish(endpoint, "full"), (4 << 10, 64 << 20))?;
    ensure!(refused.contains("No space left on device"), "the small disk was no reason: {refused}");
    report.add("publish, no space for its notes", Duration::ZERO, failure(&refused));
    let directory = chain.fresh("joiner")?;
    let joined = chain.run(chain.join(endpoint, "full", &directory))?.ensure_success()?;
    chain.ensure_equal(&directory)?;
    report.add("each again with space, and a join from there", joined.time, "equal files");
    Ok(())
}

/// Runs a command with `directory` on a disk of the first size, on which it must fail, and again when it has the second, on which
/// it must succeed. Returns the message of the first.
fn on_a_small_disk(
    chain: &PublishedChain,
    directory: &Path,
    command: &Command,
    (small, large): (u64, u64),
) -> Result<String> {
    let log = chain.path("disk");
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", ON_A_SMALL_DISK, "sh"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("DIRECTORY", directory).env("LOG", &log);
    shell.env("SMALL", small.to_string()).env("LARGE", large.to_string());
    let outcome = chain.run(shell)?;
    let read = |end: &str| std::fs::read_to_string(log.with_extension(end)).unwrap_or_default();
    let (first, second) = (read("small"), read("large"));
    ensure!(outcome.code == Some(0), "it ended with {:?}:\n{first}\n{second}", outcome.code);
    Ok(first.lines().filter(|line| !line.starts_with('{')).map(str::trim).collect::<Vec<_>>().join(" "))
}

/// The bucket, as an administrator has it.
struct Bucket {
    store: Box<dyn ObjectStore>,
    runtime: tokio::runtime::Runtime,
}

impl Bucket {
    fn open(endpoint: &str) -> Result<Self> {
        // a client must have one, although nothing is encrypted here; a second time there is one already
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let [_, (_, region), (_, key), (_, secret)] = Garage::variables(endpoint);
        let store = AmazonS3Builder::new().with_endpoint(endpoint).with_allow_http(true).with_region(region);
        let store = store.with_access_key_id(key).with_secret_access_key(secret).with_bucket_name(garage::BUCKET);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { store: Box::new(store.build()?), runtime })
    }

    /// The largest object below a prefix.
    fn largest(&self, prefix: &str) -> Result<(String, Vec<u8>)> {
        self.runtime.block_on(async {
            let listed = self.store.list_with_delimiter(Some(&prefix.into())).await?;
            let largest = listed.objects.into_iter().max_by_key(|object| object.size).context("there is no object")?;
            let content = self.store.get(&largest.location).await?.bytes().await?;
            Ok((largest.location.to_string(), content.to_vec()))
        })
    }

    fn write(&self, name: &str, content: Vec<u8>) -> Result<()> {
        self.runtime.block_on(self.store.put(&name.into(), PutPayload::from(content)))?;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.store.delete(&name.into()))?)
    }
}
