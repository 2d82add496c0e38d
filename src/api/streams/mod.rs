//! The readers behind the subscriptions: what each follows, and where it resumes.

pub(crate) mod chain;
pub(crate) mod follower;
pub(crate) mod head_lease;
pub(crate) mod heads;
pub(crate) mod ledger;
pub(crate) mod mempool;
pub(crate) mod open;
pub(crate) mod projections;
pub(crate) mod reorgs;
pub(crate) mod resume;
pub(crate) mod resume_point;
pub(crate) mod sampled;
pub(crate) mod unconfirmed;
pub(crate) mod watch_place;
