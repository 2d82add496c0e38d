//! `btcgraph publish`: uploads the frozen blocks of the index to an object store. While a server has the index open, that server
//! says which files they are.

use std::num::NonZeroU64;
use std::time::Duration;

use btcgraph::fleet::{self, FleetStore, PublishOptions, PublishOutcome, PublishedCut};
use btcgraph::index::{Index, IndexError, IndexOptions, Snapshot};
use btcgraph::server::admin::DescribeCut;
use btcgraph::settings::{ByteSize, Settings};
use btcgraph::view::Published;
use clap::Args;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::super::failure::{Exit, Failure, OrExit};
use super::super::{config, fleet as stores, in_use, pieces};
use super::{refuse_wrong_blocks, with_current_files};

/// Reading which blocks are frozen needs little memory.
const CACHE_BYTES: usize = 16 << 20;
/// The pause after a failure, unless the pause between publications is shorter.
const RETRY_PAUSE: Duration = Duration::from_mins(1);
/// Bytes a second beside a running server, unless the command has another rate: the blocks that it follows arrive as without.
const RATE_BESIDE_A_SERVER: ByteSize = ByteSize::new(32 << 20);

#[derive(Args)]
pub(in crate::commands) struct PublishArguments {
    /// Where to upload to: s3://BUCKET/PREFIX, with the AWS variables of the environment, or file:///DIRECTORY
    #[arg(long, value_name = "URL")]
    to: String,
    /// Publish again and again, with this pause: a number with s, m, h or d behind it, as in 6h
    #[arg(long, value_name = "DURATION", value_parser = pause)]
    every: Option<Duration>,
    /// The most bytes a second that are read and uploaded, as in 8MiB, or 0B for no bound [default: 32MiB with --every or
    /// while a server has the index open, and otherwise no bound]
    #[arg(long, value_name = "BYTES")]
    rate: Option<ByteSize>,
}

/// Publishes once, or until `stop` is cancelled.
pub(in crate::commands) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    arguments: PublishArguments,
) -> Result<(), Failure> {
    let PublishArguments { to, every, rate } = arguments;
    let store = stores::open_store(&to, true)?;
    let rate = |is_served| bytes_per_second(rate, is_served || every.is_some());
    loop {
        // each time, because a server may find meanwhile that it joined wrong blocks; where there is no index, a join or a
        // restore may be writing its note
        if settings.index_file().exists() {
            refuse_wrong_blocks(settings)?;
        }
        let published = tokio::select! {
            published = publish(settings, &stop, &store, rate) => published,
            () = stop.cancelled() => Ok(()),
        };
        let stopped = stop.is_cancelled();
        let pause = match (published, every) {
            (_, _) if stopped => {
                info!("stopped; run the command again to continue");
                return Ok(());
            }
            (Ok(()), Some(every)) => every,
            // what only the user can change ends it
            (Err(failure), Some(every)) if failure.exit() != Exit::Usage => {
                let pause = every.min(RETRY_PAUSE);
                warn!(error = failure.message(), again_in = ?pause, "cannot publish");
                pause
            }
            (published, _) => return published,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

async fn publish(
    settings: &Settings,
    stop: &CancellationToken,
    store: &FleetStore,
    rate: impl Fn(bool) -> Option<NonZeroU64>,
) -> Result<(), Failure> {
    let options = |is_served: bool| PublishOptions {
        network: settings.network,
        directory: settings.publishing_dir(),
        keep: settings.publish.keep(),
        rate: rate(is_served),
        stop: stop.clone(),
    };
    let published = with_current_files(async || {
        let (cut, is_served) = cut_of(settings).await?;
        if let Some(frozen) = cut.left_out {
            let height = cut.files.last().map(|file| file.height);
            warn!(
                height,
                frozen,
                "publishing up to this height: a reorganisation shortened the generation above it, which `serve` and `import` build again"
            );
        }
        Ok(fleet::publish(store, &cut, &options(is_served)).await)
    });
    let PublishOutcome { manifest, is_new, objects, bytes, retired } = published.await??;
    info!(
        height = manifest.height,
        is_new,
        uploaded_objects = objects,
        uploaded_bytes = bytes,
        retired_manifests = retired.manifests,
        removed_objects = retired.objects,
        "published"
    );
    config::to_stdout(&format!("{manifest}\n"))
}

/// The bound of a rate in the arguments, or the default where a server has the index open, or may open it meanwhile.
fn bytes_per_second(rate: Option<ByteSize>, is_beside_server: bool) -> Option<NonZeroU64> {
    let rate = rate.or(is_beside_server.then_some(RATE_BESIDE_A_SERVER))?;
    NonZeroU64::new(rate.to_bytes())
}

/// The frozen blocks of the index of the settings, and whether a server has it open.
async fn cut_of(settings: &Settings) -> Result<(PublishedCut, bool), Failure> {
    let here = settings.clone();
    let found = pieces::blocking(move || {
        let options = IndexOptions { cache_bytes: CACHE_BYTES, ..pieces::index_options(&here) };
        match Index::open_existing(&options) {
            Err(error @ IndexError::InUse { .. }) => Ok(Err(error)),
            index => Ok(Ok(cut(&here, &index?.snapshot()?)?)),
        }
    });
    match found.await? {
        Ok(cut) => Ok((cut, false)),
        Err(error) => Ok((ask(settings, &error).await?, true)),
    }
}

fn cut(settings: &Settings, snapshot: &Snapshot) -> Result<PublishedCut, Failure> {
    let frozen = snapshot.frozen_files()?.ok_or(fleet::FleetError::NothingFrozen)?;
    Ok(PublishedCut::new(settings.network, frozen)?)
}

/// Asks the server that has the index open.
async fn ask(settings: &Settings, error: &IndexError) -> Result<PublishedCut, Failure> {
    let answer = in_use::ask_about_index(settings, "/cut", error).await?;
    let text = answer.text().await.or_exit(Exit::Failed, "the response of the server ended early")?;
    serde_json::from_str(&text).or_exit(Exit::Failed, "the server has another version")
}

/// Describes the frozen blocks of a running server, for [`ask`].
pub(in crate::commands) fn describe(settings: &Settings, published: &Published) -> Box<DescribeCut> {
    let (settings, published) = (settings.clone(), published.clone());
    Box::new(move |asked| {
        in_use::check_asked_text(&settings, asked)?;
        let head = published.head().ok_or("the index is empty yet: wait until the server has indexed a block")?;
        let cut = cut(&settings, &head.chain).map_err(|failure| failure.message())?;
        serde_json::to_string(&cut).map_err(|error| error.to_string())
    })
}

/// Reads a duration of at least a second.
fn pause(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: give a number with s, m, h or d behind it, as in 6h");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    match number.checked_mul(seconds) {
        Some(seconds @ 1..=31_536_000) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("{text:?} is not from 1s to 365d")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_bounded_beside_a_server_unless_it_is_set() {
        let rate = |rate: Option<&str>, is_beside_server| {
            bytes_per_second(rate.map(|rate| rate.parse().unwrap()), is_beside_server).map(NonZeroU64::get)
        };
        assert_eq!([rate(None, true), rate(None, false)], [Some(32 << 20), None]);
        assert_eq!([rate(Some("8MiB"), true), rate(Some("8MiB"), false)], [Some(8 << 20); 2]);
        assert_eq!([rate(Some("0B"), true), rate(Some("0B"), false)], [None; 2]);
    }

    #[test]
    fn pauses_have_a_unit_and_bounds() {
        let read = |text: &str| pause(text).map(|pause| pause.as_secs());
        assert_eq!([read("1s"), read("90m"), read("6h"), read("7d")], [Ok(1), Ok(5_400), Ok(21_600), Ok(604_800)]);
        for text in ["", "6", "h", "-1h", "1.5h", "6 h", "6w", "é"] {
            assert!(pause(text).unwrap_err().starts_with(&format!("{text:?} is no duration")), "{text}");
        }
        for text in ["0s", "366d", "18446744073709551615d"] {
            assert_eq!(pause(text).unwrap_err(), format!("{text:?} is not from 1s to 365d"));
        }
    }
}
