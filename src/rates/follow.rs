//! Keeps a table up to date. What cannot be read is logged, and the last table stays.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tracing::{info, warn};

use super::{RateTable, Rates};
use crate::outbound::Fetch;

/// When a table is fetched from a URL.
#[derive(Clone, Copy, Debug)]
pub struct FetchPauses {
    /// The pause after a table was fetched.
    pub refresh: Duration,
    /// The pause after that failed.
    pub retry: Duration,
}

/// When a file last changed, as far as the file system says.
#[must_use]
pub fn changed_at(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|found| found.modified()).ok()
}

/// Reads the file again each time that it has changed since `read_at`. Looks at it whenever `check` has passed. Never returns.
pub async fn follow_file(rates: Rates, file: PathBuf, mut read_at: Option<SystemTime>, check: Duration) {
    loop {
        tokio::time::sleep(check).await;
        let changed = changed_at(&file);
        if changed == read_at {
            continue;
        }
        read_at = changed;
        let path = file.clone();
        match tokio::task::spawn_blocking(move || RateTable::read(&path)).await {
            Ok(Ok(table)) => {
                rates.set(table);
                info!(file = %file.display(), currencies = %rates.currencies().join(" "), "rates read again");
            }
            Ok(Err(error)) => warn!(file = %file.display(), %error, "the changed rates cannot be read: the rates stay"),
            Err(error) => warn!(%error, "reading the rates failed: the rates stay"),
        }
    }
}

/// Fetches the table now and again and again. Never returns.
pub async fn follow_url(rates: Rates, source: Fetch, pauses: FetchPauses) {
    loop {
        let pause = match fetch(&source).await {
            Ok(table) => {
                rates.set(table);
                info!(url = %source.target(), currencies = %rates.currencies().join(" "), "rates fetched");
                pauses.refresh
            }
            Err(error) => {
                warn!(url = %source.target(), %error, "the rates cannot be fetched: the rates stay");
                pauses.retry
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Errors: why there is no table, in words.
async fn fetch(source: &Fetch) -> Result<RateTable, String> {
    let text = source.text().await.map_err(|error| error.to_string())?;
    let parsed = tokio::task::spawn_blocking(move || text.parse::<RateTable>()).await;
    parsed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}
