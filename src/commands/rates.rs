//! The table of rates: read at the start, and again when its file changes.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use btcgraph::rates::{RateTable, Rates, changed_at};
use btcgraph::settings::RatesSettings;
use tracing::{info, warn};

use super::failure::{Exit, Failure, OrExit};

/// How often the file is looked at.
const CHECK: Duration = Duration::from_secs(20);

/// The rates of the settings, which follow their file while the runtime runs; `None` without a file.
pub(super) fn start(settings: &RatesSettings) -> Result<Option<Rates>, Failure> {
    let Some(file) = settings.file() else { return Ok(None) };
    let read_at = changed_at(file);
    let table = RateTable::read(file).or_exit(Exit::Usage, "the setting rates.file is wrong")?;
    let rates = Rates::new(table, Duration::from_secs(settings.max_age_seconds.into()));
    info!(file = %file.display(), currencies = %rates.currencies().join(" "), "rates read");
    tokio::spawn(follow(rates.clone(), file.to_owned(), read_at));
    Ok(Some(rates))
}

/// Reads the file again each time that it has changed.
async fn follow(rates: Rates, file: PathBuf, mut read_at: Option<SystemTime>) {
    loop {
        tokio::time::sleep(CHECK).await;
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
