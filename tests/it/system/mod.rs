//! The program as a whole: its commands, everything that it talks to, and the rules that its sources keep.

mod broadcast;
mod commands;
mod demo;
pub(crate) mod examples;
mod fleet;
mod licences;
mod links;
mod modules;
mod packaging;
mod replicas;
mod scenarios;
mod serve;
mod webhooks;
