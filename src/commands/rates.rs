//! The table of rates: from a file, which is read at the start and again when it changes, or from a URL.

use std::time::Duration;

use btcgraph::outbound::{Fetch, FetchLimits, TlsConfig};
use btcgraph::rates::{FetchPauses, RateTable, Rates, changed_at, follow_file, follow_url};
use btcgraph::settings::RatesSettings;
use tracing::info;

use super::failure::{Exit, Failure, OrExit};

/// How often the file is looked at.
const CHECK: Duration = Duration::from_secs(20);
/// The pause after a table was not fetched.
const RETRY: Duration = Duration::from_mins(1);
/// What fetching a table may take.
const LIMITS: FetchLimits =
    FetchLimits { body_bytes: 64 << 20, connect_timeout: Duration::from_secs(10), timeout: Duration::from_mins(1) };

/// The rates of the settings, which follow their file or URL while the runtime runs; `None` without either. From a URL there
/// are none at first.
pub(super) fn start(settings: &RatesSettings) -> Result<Option<Rates>, Failure> {
    let longest = Duration::from_secs(settings.max_age_seconds.into());
    if let Some(target) = &settings.url {
        let tls = target.is_secure().then(TlsConfig::of_system).transpose();
        let tls = tls.or_exit(Exit::Failed, "cannot check the host of rates.url")?;
        let source = Fetch::new(target.clone(), settings.allow_private, tls, LIMITS);
        let refresh = Duration::from_secs(settings.refresh_seconds.into());
        let rates = Rates::new(RateTable::default(), longest);
        tokio::spawn(follow_url(rates.clone(), source, FetchPauses { refresh, retry: RETRY.min(refresh) }));
        return Ok(Some(rates));
    }
    let Some(file) = settings.file() else { return Ok(None) };
    let read_at = changed_at(file);
    let table = RateTable::read(file).or_exit(Exit::Usage, "the setting rates.file is wrong")?;
    let rates = Rates::new(table, longest);
    info!(file = %file.display(), currencies = %rates.currencies().join(" "), "rates read");
    tokio::spawn(follow_file(rates.clone(), file.to_owned(), read_at, CHECK));
    Ok(Some(rates))
}
