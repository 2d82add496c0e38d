//! The explorer and the playground: how their files are served, and what a browser makes of them.

mod browser;
mod explorer;
mod http;
