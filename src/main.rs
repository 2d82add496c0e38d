//! The `btcgraph` command.

fn main() {}
