//! Output descriptors (BIPs 380 to 389) and account keys: the scripts of a wallet from its public keys.
//!
//! ```text
//!   text ──► parse.rs ──► OutputDescriptor ──► derive.rs    scriptPubKey and path at (branch, index)
//!              │
//!              ├── combo.rs         combo (BIP384): the descriptors that it stands for
//!              ├── tap_leaves.rs    leaves of sortedmulti_a (BIP387), which the library does not have
//!              ├── safety.rs        whether only the keys of a script spend its coins
//!              ├── account_key.rs   xpub, ypub, zpub alone (BIPs 44, 49, 84, SLIP-132) as a descriptor
//!              ├── faults.rs        which argument is wrong in a text that the library refuses
//!              └── error.rs         what is wrong, and where
//!
//!   script ──► infer.rs    the descriptor of a script alone
//! ```
//!
//! A descriptor has one branch for each path of its multipath step (BIP389): `<0;1>` is the receive and the change chain.
//! Private keys are refused before anything else is looked at, and no message repeats one.

mod account_key;
mod combo;
mod derive;
mod error;
mod faults;
mod infer;
mod parse;
mod safety;
mod tap_leaves;
#[cfg(test)]
mod tests;

pub use derive::{BranchDeriver, INDEX_END, OutputDescriptor};
pub use error::DescriptorError;
pub use infer::inferred_descriptor;
pub use parse::{LONGEST_DESCRIPTOR, MOST_BRANCHES};
