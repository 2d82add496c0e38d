//! What holds coins: addresses, scripts, sets of them, and the accounts of descriptors. Each is a [`Ledger`], and all are
//! answered by one [`Holdings`](holdings::Holdings); they differ only in what names them.
//!
//! ```text
//!   address.rs ┐                     ┌─► totals.rs, balance.rs
//!   script.rs  ├──► holdings.rs ─────┼─► utxo.rs    pages of unspent outputs
//!   set.rs     │                     ├─► entry.rs   pages of transactions, as far as they concern the ledger
//!   descriptor_account.rs ┘          └─► blocks whose coinbase pays it
//!      with descriptor_branch.rs, derived_address.rs; descriptor_info.rs says what a text is
//!   watched.rs        what a subscription follows: holdings in one view after the other
//!   ledger_event.rs   an event of such a subscription
//! ```

mod address;
mod address_error;
mod balance;
mod derived_address;
mod descriptor_account;
mod descriptor_branch;
mod descriptor_error;
mod descriptor_info;
mod entry;
mod holdings;
mod ledger_event;
mod ledger_event_kind;
mod script;
mod set;
mod spendability;
mod totals;
mod utxo;
mod watched;

pub(crate) use address::Address;
pub(crate) use derived_address::DerivedAddress;
pub(crate) use descriptor_account::DescriptorAccount;
pub(crate) use descriptor_info::DescriptorInfo;
pub(crate) use entry::LedgerEntry;
pub(crate) use holdings::Ledger;
pub(crate) use ledger_event::LedgerEvent;
pub(crate) use ledger_event_kind::LedgerEventKind;
pub(crate) use script::Script;
pub(crate) use set::{AddressLookup, AddressSet, WatchInput};
pub(crate) use utxo::Utxo;
pub(crate) use watched::Watched;
