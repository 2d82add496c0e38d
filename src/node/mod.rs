//! Talks to a Bitcoin Core node, nothing else.
