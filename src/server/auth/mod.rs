//! Who asks: tokens, and what each client may do and spend.

pub(crate) mod callers;
pub(crate) mod tokens;
