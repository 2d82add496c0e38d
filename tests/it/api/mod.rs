//! The schema as a client sees it: what answers contain, against the chain, a naive model and a real node.

pub(crate) mod block;
mod caching;
pub(crate) mod chain;
mod checker;
mod decoded;
pub(crate) mod documented;
mod generated;
pub(crate) mod ledgers;
pub(crate) mod mempool;
mod reference;
mod requests;
mod schema;
pub(crate) mod subscriptions;
mod transaction;
mod view;
pub(crate) mod web;
