//! What a running server observed: the same chain may have other rows.

pub(in crate::index) mod block_observed;
pub(in crate::index) mod departed;
pub(in crate::index) mod first_seen;
pub(in crate::index) mod mempool;
pub(in crate::index) mod mempool_samples;
