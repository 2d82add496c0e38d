//! Has cargo notice that the playground was built, or built anew.

use std::path::Path;

/// Where `scripts/playground.sh` leaves the playground for `src/server/playground.rs` to embed.
const BUILT: &str = "playground/dist";

fn main() {
    // cargo takes a path that does not exist for changed, every time
    let watched = if Path::new(BUILT).is_dir() { BUILT } else { "playground" };
    println!("cargo::rerun-if-changed={watched}");
}
