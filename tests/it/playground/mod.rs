//! The playground: how its files are served, and what a browser makes of them.

mod browser;
mod http;
