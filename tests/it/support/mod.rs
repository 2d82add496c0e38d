//! What the integration tests stand on: a real node to ask, a naive model to compare with, and the
//! record of tests that could not run.

pub(crate) mod agree;
pub(crate) mod api;
pub(crate) mod bitcoind;
pub(crate) mod clock;
pub(crate) mod cut;
pub(crate) mod following;
pub(crate) mod frozen;
pub(crate) mod gate;
pub(crate) mod hostile;
pub(crate) mod indexed;
pub(crate) mod model;
pub(crate) mod pages;
pub(crate) mod pool;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod quantiles;
pub(crate) mod scenario;
pub(crate) mod skips;
pub(crate) mod socket;
pub(crate) mod test_process;
pub(crate) mod test_server;
pub(crate) mod tools;
