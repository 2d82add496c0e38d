//! The integration tests, one binary.

mod licences;
mod rooms;
mod skips;
