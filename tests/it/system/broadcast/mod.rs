//! Transactions that clients send or have judged: each outcome on the simulated node and on a real one.
//!
//! ```text
//!   lab.rs       a node, an index and a mempool that follow it, the schema over them, and coins to spend
//!      ├── outcomes.rs       what becomes of one transaction
//!      ├── replacing.rs      … and of those that spend the same
//!      ├── packages.rs       … and of several together
//!      ├── judged.rs         what would become of them
//!      └── refusals.rs       what is not sent at all
//!   served.rs    the program and a real node
//! ```

mod judged;
mod lab;
mod outcomes;
mod packages;
mod refusals;
mod replacing;
mod served;
