//! Authentication: the tokens of the settings, and the client that each request belongs to.

pub(crate) mod authenticator;
pub(crate) mod tokens;
