//! The commands of the command line. One file per command.

mod admin;
mod command_line;
mod config;
mod demo;
mod drain;
mod failure;
mod flags;
mod fleet;
mod health;
mod import;
mod in_use;
mod log;
mod logging;
mod manual;
mod metrics;
mod notify;
mod panics;
mod pieces;
mod rates;
mod serve;
mod shutdown;
mod token;
mod verify;
mod webhooks;

pub(crate) use command_line::CommandLine;
