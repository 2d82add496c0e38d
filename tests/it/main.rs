//! The integration tests, one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod licences;
mod rooms;
mod skips;
