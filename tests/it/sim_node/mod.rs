//! The simulated node against a real one: both hold the same chain and are asked the same questions.

mod answers;
mod client;
mod conversation;
mod files;
mod follow;
mod mempool;
mod pair;
mod signals;
mod switches;

pub(crate) use pair::client;
