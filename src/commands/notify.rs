//! `btcgraph notify`: notifies a running server that the node has a new block.

use bitcoin::BlockHash;
use btcgraph::settings::Settings;

use super::admin;
use super::failure::{Exit, Failure, OrExit};

/// Ends when the server has accepted the notice, which takes milliseconds, or after some seconds without a server.
pub(super) fn run(settings: &Settings, hash: BlockHash) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.or_exit(Exit::Failed, "cannot start the runtime")?.block_on(notify(settings, hash))
}

async fn notify(settings: &Settings, hash: BlockHash) -> Result<(), Failure> {
    let address = &settings.admin.listen;
    let answer = admin::ask(address, &format!("/notify/{hash}"), &[]).await.or_exit(
        Exit::Failed,
        format!(
            "cannot notify a server at {address} of block {hash}. Is `btcgraph serve` running, with the same --admin, \
             --data-dir and --network, and as the same user?"
        ),
    )?;
    match answer.status {
        202 => Ok(()),
        _ => Err(Failure::new(Exit::Failed, answer.reason().await)),
    }
}
