//! What texts and bytes are that a client submits, against what a real node says of the same, and what BIPs publish.

mod addresses;
mod psbts;
mod scripts;
mod taproot;
mod unsigned_psbts;
