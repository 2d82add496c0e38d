//! The admin socket of a server, and the commands that use it.

#![cfg(unix)]

mod notify;
mod socket;
mod transport;
mod verify;
