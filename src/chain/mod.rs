//! Bitcoin as such, without I/O: script types and addresses, amounts, difficulty, epochs, merkle branches,
//! transaction slicing. Knows nothing of storage, node or API.

mod height;
pub mod raw;

pub use height::Height;
