//! `btcgraph import`: synchronises the index to the node's tip.

use btcgraph::live::Live;
use btcgraph::settings::Settings;
use btcgraph::sync::{self, Follow, Until, Wake};
use btcgraph::view::Published;
use clap::Args;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::failure::Failure;
use super::fleet::{self, JoinMode, Joining};
use super::pieces;

#[derive(Args)]
pub(super) struct ImportArguments {
    /// Begin with the published blocks at this address, s3://BUCKET/PREFIX or file:///DIRECTORY; the data directory must be empty
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// With --from: take the highest published blocks without asking the node, and end there
    #[arg(long, requires = "from")]
    without_node: bool,
}

/// Runs until the index is at the node's tip or `stop` is cancelled. Committed blocks stay in both cases.
pub(super) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    arguments: ImportArguments,
) -> Result<(), Failure> {
    let ImportArguments { from, without_node } = arguments;
    fleet::refuse_wrong_blocks(settings)?;
    if let Some(url) = &from {
        match fleet::join(settings, &stop, url, !without_node, JoinMode::Whole).await? {
            Joining::Joined | Joining::Lazily(_) => {}
            Joining::Stopped => return Ok(()),
            Joining::Present(error) => return Err(error.into()),
        }
    }
    if !without_node {
        follow(settings, &stop).await?;
    }
    fleet::check_after_import(settings, &stop).await
}

async fn follow(settings: &Settings, stop: &CancellationToken) -> Result<(), Failure> {
    let settings = settings.clone();
    let flag = pieces::stop_flag(stop);
    pieces::blocking(move || {
        let mut index = pieces::open_index(&settings)?;
        let node = match pieces::connect(&settings, &flag) {
            Err(_) if flag.is_raised() => return Ok(()),
            node => node?,
        };
        let freezing = pieces::freezing(&settings, &index, &node)?;
        let (published, space) = (Published::default(), index.required_space());
        let followed = sync::run(Follow {
            node: &node,
            index: &mut index,
            published: &published,
            live: &Live::default(),
            mempool: None,
            withheld: None,
            signals: None,
            until: Until::CaughtUp,
            poll: settings.poll(),
            wake: &Wake::default(),
            connections: pieces::connections(&settings),
            buffer_bytes: pieces::buffer_bytes(&settings),
            freezing: Some(freezing),
        });
        followed.map_err(|error| pieces::following_failed(error, &space))?;
        match published.head().map(|head| head.tip) {
            Some(tip) if flag.is_raised() => info!(height = %tip.height, "stopped; the next start continues from here"),
            Some(tip) => info!(height = %tip.height, hash = %tip.hash, "the index is at the node's tip"),
            None => info!("stopped before the first blocks are in the index; the next start continues from here"),
        }
        Ok(())
    })
    .await
}
