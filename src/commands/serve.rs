//! `btcgraph serve`: follows the node and answers requests.

use btcgraph::settings::Settings;
use tokio_util::sync::CancellationToken;

use super::failure::{Exit, Failure};

/// Runs until it is done or `stop` is cancelled.
pub(super) async fn run(_settings: &Settings, _stop: CancellationToken) -> Result<(), Failure> {
    Err(Failure::new(Exit::Failed, "`serve` is not available in this version"))
}
