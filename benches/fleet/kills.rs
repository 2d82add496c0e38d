//! Publishers and joiners that are killed at random moments, and go on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use btcgraph::sim::Rng;

use crate::garage::Garage;
use crate::published_chain::PublishedChain;
use crate::report::FleetReport;

/// Kills each of both so many times.
pub(crate) fn run(chain: &PublishedChain, garage: &Garage, kills: usize, report: &mut FleetReport) -> Result<()> {
    let (endpoint, mut rng) = (garage.endpoint(0), Rng::new(30));
    chain.forget_published()?;
    let publishing = chain.run(chain.publish(&endpoint, "timed"))?.ensure_success()?.time;
    let joiner = chain.fresh("joiner")?;
    let joining = chain.run(chain.join(&endpoint, "timed", &joiner))?.ensure_success()?.time;

    let (began, mut killed, mut stores, mut empty, mut whole) = (Instant::now(), 0, 0, 0, 0);
    while killed < kills {
        // each store is published to until it is complete
        let prefix = format!("kills{stores}");
        stores += 1;
        chain.forget_published()?;
        while killed < kills && is_killed(chain, chain.publish(&endpoint, &prefix), random(&mut rng, publishing))? {
            killed += 1;
            // whatever was uploaded: there is no manifest yet, or all that it names is there
            if joins_or_finds_nothing(chain, &endpoint, &prefix)? { whole += 1 } else { empty += 1 }
        }
        chain.run(chain.publish(&endpoint, &prefix))?.ensure_success()?;
        ensure!(joins_or_finds_nothing(chain, &endpoint, &prefix)?, "a complete store has no manifest");
    }
    let what = format!(
        "{stores} stores, all complete at the end; after a kill {empty} times no manifest, {whole} times a whole index"
    );
    report.add(&format!("{killed} × `kill -9` of a publisher"), began.elapsed(), what);

    let (began, mut killed, mut indexes, mut complete) = (Instant::now(), 0, 0, 0);
    while killed < kills {
        let directory = chain.fresh("joiner")?;
        indexes += 1;
        while killed < kills && is_killed(chain, chain.join(&endpoint, "timed", &directory), random(&mut rng, joining))?
        {
            killed += 1;
            // once there is an index with blocks it is followed
            if is_joined(&directory) {
                complete += 1;
                break;
            }
        }
        finish(chain, &endpoint, "timed", &directory)?;
        chain.ensure_equal(&directory)?;
    }
    let what = format!("{indexes} indexes with equal files at the end, {complete} of them joined before the kill");
    report.add(&format!("{killed} × `kill -9` of a joiner"), began.elapsed(), what);
    let verified = chain.verify(&chain.path("joiner"))?;
    report.add("`verify` of the last one", verified, "clean");
    Ok(())
}

/// A moment within this time.
fn random(rng: &mut Rng, whole: Duration) -> Duration {
    let thousandths = u32::try_from(rng.below(1_000)).unwrap_or(0);
    whole * thousandths / 1_000
}

/// Kills a command after this time. Returns false if it had ended by then, which must be well.
fn is_killed(chain: &PublishedChain, command: Command, after: Duration) -> Result<bool> {
    let outcome = chain.run_and(command, |process| {
        thread::sleep(after);
        // one that has ended is not killed
        let _ = process.kill();
        Ok(())
    })?;
    if outcome.code.is_none() {
        return Ok(true);
    }
    outcome.ensure_success()?;
    Ok(false)
}

/// Joins from a store, which must end with all blocks or without a manifest. Returns whether there was one.
fn joins_or_finds_nothing(chain: &PublishedChain, endpoint: &str, prefix: &str) -> Result<bool> {
    let directory = chain.fresh("witness")?;
    let outcome = chain.run(chain.join(endpoint, prefix, &directory))?;
    if outcome.code == Some(0) {
        chain.ensure_equal(&directory)?;
        return Ok(true);
    }
    outcome.ensure_failure("there are no manifests in")?;
    Ok(false)
}

/// Whether a directory has an index with blocks: the files are in force, and the download is removed.
fn is_joined(directory: &Path) -> bool {
    let frozen = fs::read_dir(directory.join("regtest/index.frozen"));
    frozen.is_ok_and(|files| files.count() > 0) && !directory.join("regtest/index.joining").exists()
}

/// Joins, or follows the node if the index has blocks already.
fn finish(chain: &PublishedChain, endpoint: &str, prefix: &str, directory: &Path) -> Result<()> {
    let joined = chain.run(chain.join(endpoint, prefix, directory))?;
    if joined.code != Some(0) {
        joined.ensure_failure("only an empty data directory can join")?;
        chain.run(chain.program(directory, &["import"]))?.ensure_success()?;
    }
    Ok(())
}
