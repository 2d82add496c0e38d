//! Connections: how many there may be, and how long their clients may take, before a request is parsed.

pub(crate) mod file_limit;
pub(crate) mod framing;
pub(crate) mod listener;
pub(crate) mod min_rate;
pub(crate) mod timed_stream;
