//! The process as the operating system sees it: memory, files, threads, time. Of Linux alone, from `/proc` (proc(5));
//! elsewhere only since when it runs. The names are those that Prometheus's own libraries give.

use std::fs;
use std::time::{Instant, SystemTime};

use super::{Kind, Metrics, MetricsError};

/// Linux counts processor time in hundredths of a second towards programs, whatever it does inside (`USER_HZ`).
const TICKS_A_SECOND: f64 = 100.0;

/// Its kind, its name, what it is, and how it is read where it is there.
type SharedPayload = (Kind, &'static str, &'static str, fn() -> Option<f64>);

pub(crate) fn add(metrics: &Metrics) -> Result<(), MetricsError> {
    let version = env!("CARGO_PKG_VERSION");
    let build = move || vec![(Some(version), 1.0)];
    metrics.add(
        Kind::Gauge,
        "btcgraph_build_info",
        "1; the label is the version of btcgraph.",
        Some("version"),
        build,
    )?;
    let (began, started) = (SystemTime::UNIX_EPOCH, SystemTime::now());
    let start = started.duration_since(began).map_or(0.0, |since| since.as_secs_f64());
    let help = "Start of the server, in seconds since 1970.";
    metrics.add_one(Kind::Gauge, "process_start_time_seconds", help, move || start)?;
    let since = Instant::now();
    let help = "Time since the start of the server, in seconds.";
    metrics.add_one(Kind::Gauge, "btcgraph_process_uptime_seconds", help, move || since.elapsed().as_secs_f64())?;
    let told: [SharedPayload; 5] = [
        (Kind::Gauge, "process_resident_memory_bytes", "Resident memory of the process, in bytes.", resident_bytes),
        (Kind::Gauge, "process_threads", "Threads of the process.", threads),
        (Kind::Counter, "process_cpu_seconds_total", "Processor time of the process, in seconds.", cpu_seconds),
        (Kind::Gauge, "process_open_fds", "Open files and sockets of the process.", open_files),
        (Kind::Gauge, "process_max_fds", "Limit of open files and sockets of the process.", most_files),
    ];
    for (kind, name, help, read) in told {
        metrics.add(kind, name, help, None, move || read().map(|value| (None, value)).into_iter().collect())?;
    }
    Ok(())
}

/// The number behind a name in `/proc/self/status`.
fn status(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

fn resident_bytes() -> Option<f64> {
    status("VmRSS").map(|kibibytes| kibibytes * 1024.0)
}

fn threads() -> Option<f64> {
    status("Threads")
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // behind the name of the program, which may hold anything
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let [user, system] = [fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?];
    Some((user + system) / TICKS_A_SECOND)
}

fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    // that of the directory itself
    u32::try_from(count.saturating_sub(1)).ok().map(f64::from)
}

fn most_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_operating_system_is_understood() {
        let _file = fs::File::open("/proc/self/stat").unwrap();
        assert!(resident_bytes().unwrap() > 1e6);
        assert!(threads().unwrap() >= 1.0);
        assert!(open_files().unwrap() >= 3.0 && open_files().unwrap() < most_files().unwrap());
        let before = cpu_seconds().unwrap();
        let until = Instant::now() + std::time::Duration::from_millis(100);
        while Instant::now() < until {}
        assert!(cpu_seconds().unwrap() > before);
    }
}
