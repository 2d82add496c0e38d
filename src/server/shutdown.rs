//! The end of a server: how it waits for connections that are still open.

use std::io;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long open connections have to end once the server stops.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Kept by every connection and websocket. The server has stopped when the last is dropped.
pub(crate) type Open = mpsc::Sender<()>;

/// Waits until a server has finished, but not longer than 5 seconds after `shutdown` is cancelled.
pub(crate) async fn within_deadline(
    finished: impl Future<Output = io::Result<()>>,
    shutdown: &CancellationToken,
) -> io::Result<()> {
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(TIMEOUT).await;
    };
    tokio::select! {
        result = finished => result,
        () = deadline => {
            tracing::warn!("connections are still open, and are closed");
            Ok(())
        }
    }
}
