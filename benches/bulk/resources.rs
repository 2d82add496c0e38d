//! What this process used, on Linux.

/// Prints processor time, memory and bytes written of this process.
pub(super) fn print(transactions: usize) -> anyhow::Result<()> {
    let number = |path: &str, name: &str| -> Option<f64> {
        let text = std::fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    if let Some(peak) = number("/proc/self/status", "VmHWM:") {
        println!("  peak memory: {:.0} MiB", peak / 1_024.0);
    }
    if let Some(written) = number("/proc/self/io", "wchar:") {
        println!("  written: {:.1} bytes a transaction", written / transactions as f64);
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    // user and system time in hundredths of a second
    if let (Some(user), Some(system)) = (fields.get(11), fields.get(12)) {
        let ticks = user.parse::<f64>()? + system.parse::<f64>()?;
        println!("  processor: {:.2} us a transaction", ticks * 1e4 / transactions as f64);
    }
    Ok(())
}
