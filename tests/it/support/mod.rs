//! What the integration tests stand on: a real node to ask, and the record of tests that could not run.

pub(crate) mod bitcoind;
pub(crate) mod indexed;
pub(crate) mod skips;
