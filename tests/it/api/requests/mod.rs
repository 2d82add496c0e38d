//! What holds for requests of any kind.

mod costs;
mod every_request;
mod ids;
mod operations;
mod pages;
mod rates;
mod search;
mod wait_for_tip;
mod wrong_arguments;
