//! The process as the operating system sees it: memory, files, threads, time. Of Linux alone, from `/proc` (proc(5));
//! elsewhere only its start. The names are those of Prometheus's own libraries, whose collector is not used: it counts
//! processor time in whole seconds.

use std::fs;
use std::time::{Instant, SystemTime};

use prometheus::Registry;

use super::collector::{MetricKind, MetricsError, register};

/// Linux counts processor time in hundredths of a second towards programs, whatever it does inside (`USER_HZ`).
const TICKS_A_SECOND: f64 = 100.0;

/// A metric: its kind, its name, its help, and how it is read where the operating system has it.
type ProcessMetric = (MetricKind, &'static str, &'static str, fn() -> Option<f64>);

const METRICS: [ProcessMetric; 5] = [
    (MetricKind::Gauge, "process_resident_memory_bytes", "Resident memory of the process, in bytes.", resident_bytes),
    (MetricKind::Gauge, "process_threads", "Threads of the process.", threads),
    (MetricKind::Counter, "process_cpu_seconds_total", "Processor time of the process, in seconds.", cpu_seconds),
    (MetricKind::Gauge, "process_open_fds", "Open files and sockets of the process.", open_files),
    (MetricKind::Gauge, "process_max_fds", "Limit of open files and sockets of the process.", max_files),
];

pub(crate) fn add(registry: &Registry) -> Result<(), MetricsError> {
    let build = Box::new(|| vec![(Some(env!("CARGO_PKG_VERSION")), 1.0)]);
    let help = "1; the label is the version of btcgraph.";
    register(registry, MetricKind::Gauge, "btcgraph_build_info", help, Some("version"), build)?;
    let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let help = "Start of the server, in seconds since 1970.";
    let read = Box::new(move || vec![(None, start)]);
    register(registry, MetricKind::Gauge, "process_start_time_seconds", help, None, read)?;
    let since = Instant::now();
    let help = "Time since the start of the server, in seconds.";
    let read = Box::new(move || vec![(None, since.elapsed().as_secs_f64())]);
    register(registry, MetricKind::Gauge, "btcgraph_process_uptime_seconds", help, None, read)?;
    for (kind, name, help, read) in METRICS {
        let read = Box::new(move || read().map(|value| (None, value)).into_iter().collect());
        register(registry, kind, name, help, None, read)?;
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

fn max_files() -> Option<f64> {
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
        assert!(open_files().unwrap() >= 3.0 && open_files().unwrap() < max_files().unwrap());
        let before = cpu_seconds().unwrap();
        let until = Instant::now() + std::time::Duration::from_millis(100);
        while Instant::now() < until {}
        assert!(cpu_seconds().unwrap() > before);
    }
}
