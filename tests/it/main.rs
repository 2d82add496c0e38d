//! The integration tests, one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin;
mod announced;
mod block_files;
mod broadcast;
mod caching;
mod checker;
mod commands;
mod damage;
mod demo;
mod documented;
mod faults;
mod follow;
mod full_disk;
mod generated;
mod generations;
mod graphql;
mod histories;
mod hostile_requests;
mod http;
mod in_sync;
mod index;
mod index_exact;
mod index_flush;
mod index_model;
mod index_observed;
mod ledgers;
mod licences;
mod modules;
mod node;
mod operations;
mod playground;
mod real_chains;
mod reference;
mod scenarios;
mod schema;
mod serve;
mod sim;
mod sim_node;
mod sim_world;
mod sockets;
mod support;
mod unconfirmed;
mod view;
mod web;
