//! The integration tests, one binary.

mod commands;
mod licences;
mod rooms;
mod skips;
