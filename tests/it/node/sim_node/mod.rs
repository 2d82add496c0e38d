//! The simulated node against a real one: both have the same chain and get the same requests.

mod client;
mod comparison;
mod files;
mod follow;
mod mempool;
mod pair;
mod rpc_and_rest;
mod signals;
mod switches;

pub(crate) use pair::client;
