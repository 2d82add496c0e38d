//! Transactions: parts, state, filters, and what a client submits.

mod accept_result;
mod broadcast_outcome;
mod broadcast_result;
mod decoded_transaction;
mod input;
mod lock_time;
mod net_effect;
mod occurrence;
mod op_return;
mod outpoint;
mod outpoint_input;
mod output;
mod output_spent;
mod package_result;
mod reject_code;
mod reject_info;
mod submitted;
mod transaction;
mod transaction_filter;
mod transaction_status;

pub(crate) use accept_result::AcceptResult;
pub(crate) use broadcast_outcome::BroadcastOutcome;
pub(crate) use broadcast_result::BroadcastResult;
pub(crate) use decoded_transaction::DecodedTransaction;
pub(crate) use input::Input;
pub(crate) use outpoint::OutPointObject;
pub(crate) use outpoint_input::OutPointInput;
pub(crate) use output::Output;
pub(crate) use output_spent::{OutputSpentEvent, SpendFollower};
pub(crate) use package_result::PackageResult;
pub(crate) use reject_code::{RejectCode, reject_code};
pub(crate) use reject_info::RejectInfo;
pub(crate) use submitted::{Submission, check_package, max_feerate, max_fees};
pub(crate) use transaction::Transaction;
pub(crate) use transaction_filter::{SCAN_BYTES, TransactionFilter, begins_with, filtered};
pub(crate) use transaction_status::{StatusFollower, StatusRequest, TransactionStatusEvent};
