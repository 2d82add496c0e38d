//! The integration tests, one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod index;
mod licences;
mod node;
mod rooms;
mod sim;
mod skips;
mod support;
