//! The table that the program prints at its end.

use std::fmt;
use std::time::Duration;

/// What was done, one row each.
#[derive(Default)]
pub(crate) struct FleetReport(Vec<String>);

impl FleetReport {
    /// Adds a row, and prints it at once.
    pub(crate) fn add(&mut self, step: &str, time: Duration, outcome: impl fmt::Display) {
        let row = format!("| {step} | {:.1} s | {outcome} |", time.as_secs_f64());
        println!("{row}");
        self.0.push(row);
    }
}

impl fmt::Display for FleetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| step | time | outcome |\n|---|---|---|")?;
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

/// Bytes as text.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Shorter names than this are not those of objects or of blocks.
const LONG_NAME: usize = 16;

/// The message of a command that failed, as a cell: without the names of objects and files, and without what the client of the
/// store says of its attempts.
pub(crate) fn failure(message: &str) -> String {
    let message = message.strip_prefix("btcgraph: ").unwrap_or(message).replace('|', "/");
    let without_attempts = match (message.find("Generic S3 error"), message.rfind("; ")) {
        (Some(from), Some(to)) if from < to => format!("{}…{}", &message[..from], &message[to..]),
        _ => message,
    };
    let is_path = |word: &str| word.starts_with('/');
    let is_name = |word: &str| {
        let mut runs = word.split(|letter: char| !letter.is_ascii_hexdigit());
        runs.any(|run| run.len() >= LONG_NAME)
    };
    let words = without_attempts.split(' ').map(|word| {
        // `objects/…`
        let folder = &word[..word.find('/').map_or(0, |at| at + 1)];
        let end = if word.ends_with(':') { ":" } else { "" };
        match word {
            word if is_path(word) => format!("…{end}"),
            word if is_name(word) => format!("{folder}…{end}"),
            word => word.to_owned(),
        }
    });
    format!("fails: `{}`", words.collect::<Vec<_>>().join(" "))
}
