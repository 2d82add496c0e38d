//! How a subscription follows what happens to a ledger, on the chain and in the mempool, as one ordered list.
//!
//! Both have an order of their own, and each Head remembers where they met ([`TipHistory`](crate::view::TipHistory)): so a reader
//! that resumes is sent the same in the same order as one that stayed, whichever Heads each of them saw.
//!
//! ```text
//!   events of the mempool up to a turn ──► blocks that left, the highest first ──► blocks that joined ──► events …
//!        mempool.rs                            blocks.rs                               blocks.rs
//!                                              └──────────────── route.rs ─────────────────┘
//! ```
//!
//! A reader that was away for longer than is remembered, or during whose absence the server was started anew, is sent the
//! blocks that left and joined meanwhile, which the index knows at any depth, then that what happened in the mempool is
//! missing, and what waits there now, whether it has heard of it before or not.
//!
//! ```text
//!   blocks that left ──► blocks that joined ──► GAP ──► SEEN of all that waits ──► GAP_END ──► events …
//!                                                      replay.rs
//! ```

//!
//! A stream that watches descriptors searches each Head for scripts that were used before it moves there, so that what pays
//! several scripts of a wallet at once is sent whole. Scripts that become watched by that can have a history that the stream
//! has passed, because the wallet used them behind its gap: that is sent first.
//!
//! ```text
//!   Head ──► more scripts? ──► CONFIRMED and depths of their blocks ──► SEEN of what waits there ──► events …
//!                                   backfill.rs
//! ```

pub(crate) mod backfill;
pub(crate) mod blocks;
pub(crate) mod event;
pub(crate) mod follower;
pub(crate) mod mempool;
pub(crate) mod mined;
pub(crate) mod replay;
pub(crate) mod route;
