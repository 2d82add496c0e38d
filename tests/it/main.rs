//! The integration tests, one binary. A folder for each layer of the program, and `support`, on which all of them stand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// as in the program: models and comparisons make many small allocations
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod api;
mod index;
mod mempool;
mod node;
mod server;
mod support;
mod sync;
mod system;
