//! Unit tests of the mempool, and a model that it must agree with.

mod agree;
mod audit;
mod departures;
mod encoding;
mod model;
mod reorgs;
mod stage;
mod writing;
