//! What the mempool promises, told by small stories, and a model that it must agree with.

mod agree;
mod departures;
mod model;
mod reorgs;
mod stage;
mod writing;
mod written;
