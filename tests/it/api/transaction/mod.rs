//! Transactions, their inputs and outputs.

mod features;
mod filters;
mod op_returns;
mod proofs;
mod spends;
mod transactions;
