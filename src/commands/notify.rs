//! `btcgraph notify`: notifies a running server that the node has a new block.

use bitcoin::BlockHash;
use btcgraph::settings::Settings;

use super::admin;
use super::failure::Failure;

/// Ends when the server has accepted the notice, which takes milliseconds, or after some seconds without a server.
pub(super) fn run(settings: &Settings, hash: BlockHash) -> Result<(), Failure> {
    admin::command(settings, &format!("/notify/{hash}"), &[]).map(|_| ())
}
