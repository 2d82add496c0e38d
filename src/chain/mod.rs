//! Bitcoin as such, without I/O: script types and addresses, amounts, difficulty, epochs, merkle branches,
//! transaction slicing. Knows nothing of storage, node or API.
//!
//! Everything here is a function of its arguments and says which BIP or which file of Bitcoin Core its rule is
//! from. The types of the `bitcoin` crate (`Amount`, `Script`, `Txid`, `Work`) are used as they are; what that crate
//! leaves open (a height, a feerate, the type of a script) has a type of its own here.

mod address;
mod asm;
pub mod coinbase;
pub mod compact_filter;
mod count;
pub mod descriptor;
pub mod difficulty;
mod features;
mod feerate;
pub mod float;
mod height;
pub mod merkle;
pub mod network;
mod period;
pub mod pools;
pub mod psbt;
pub mod raw;
mod reason;
pub mod script;
mod secrets;
mod sigops;
pub mod silent_payments;
pub mod spend;
pub mod spending;
pub mod subsidy;
mod test_data;
mod time;
mod transaction_parts;

pub use address::{AddressEncoding, AddressError, address_beginning, address_of, parse_address, parse_any_address};
pub use asm::{asm, script_sig_asm};
pub use count::wide;
pub use difficulty::epoch::{BLOCKS_PER_EPOCH, DifficultyEpoch};
pub use features::{StructuralFeature, features};
pub use feerate::{Feerate, vsize};
pub use height::Height;
pub use period::{CalendarUnit, SeriesGroup};
pub use script::ScriptType;
pub use secrets::hidden;
pub use sigops::{adjusted_vsize, may_count_for_more, policy_weight, sigop_cost};
pub use time::median_time_past;
pub use transaction_parts::{OutputPart, TransactionParts, impossible_outpoint};
