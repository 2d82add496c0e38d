//! What holds coins: addresses, scripts, sets of them, and the accounts of descriptors. Each is a [`Ledger`], and all are
//! answered by one [`Holdings`](holdings::Holdings); they differ only in what names them. So the fields with which they answer
//! are written once ([`LedgerFields`](ledger_fields::LedgerFields)).
//!
//! ```text
//!   address.rs ┐ ledger_fields.rs    ┌─► totals.rs, balance.rs
//!   script.rs  ├──► holdings.rs ─────┼─► utxo.rs    pages of unspent outputs
//!   set.rs     │                     ├─► entry.rs   pages of transactions, as far as they concern the ledger,
//!              │                     │              and entry_parts.rs, their inputs and outputs that are the ledger's
//!              │                     ├─► balance_point.rs   the balance period by period
//!   descriptor_account.rs ┘          └─► blocks whose coinbase pays it
//!      with descriptor_branch.rs, derived_address.rs; descriptor_info.rs says what a text is
//!   ledger_input.rs   whose side of a transaction is looked at
//!   watch/            what a subscription watches, and its events
//! ```

mod address;
mod address_error;
mod address_validation;
mod balance;
mod balance_point;
mod derived_address;
mod descriptor_account;
mod descriptor_branch;
mod descriptor_error;
mod descriptor_info;
mod entry;
mod entry_parts;
mod holdings;
mod ledger_fields;
mod ledger_input;
mod script;
mod script_info;
mod set;
mod spendability;
mod status_hash;
mod totals;
mod utxo;
mod watch;

pub(crate) use address::Address;
pub(crate) use address_error::AddressErrorObject;
pub(crate) use address_validation::AddressValidation;
pub(crate) use balance::Balance;
pub(crate) use balance_point::{BalancePoint, TurnoverTotals};
pub(crate) use derived_address::DerivedAddress;
pub(crate) use descriptor_account::DescriptorAccount;
pub(crate) use descriptor_branch::DescriptorBranch;
pub(crate) use descriptor_error::DescriptorErrorObject;
pub(crate) use descriptor_info::DescriptorInfo;
pub(crate) use entry::LedgerEntry;
pub(crate) use holdings::Ledger;
pub(crate) use ledger_input::LedgerInput;
pub(crate) use script::Script;
pub(crate) use script_info::ScriptInfo;
pub(crate) use set::{AddressLookup, AddressSet};
pub(crate) use spendability::Spendability;
pub(crate) use totals::LedgerTotalsObject;
pub(crate) use utxo::{Utxo, UtxoConnection};
pub(crate) use watch::{DescriptorMatch, LedgerEvent, LedgerEventKind, WatchSet, Watched};
