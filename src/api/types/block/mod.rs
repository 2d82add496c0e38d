//! Blocks: header, statistics, fees, proofs, and how an argument names one.

mod audit_totals;
mod block;
mod block_at;
mod block_audit;
mod block_clock;
mod block_fee_stats;
mod block_filter;
mod block_header;
mod block_range;
mod block_stats;
mod block_summary;

mod coinbase;
mod compact_filter;
mod cumulative_totals;
mod effective_rates;
mod merkle_proof;
mod script_type_count;
mod silent_payment_tweak;
mod transaction_audit;
mod wtxid_proof;

pub(crate) use audit_totals::{AUDITS, AuditTotals, compared_blocks};
pub(crate) use block::Block;
pub(crate) use block_at::{BlockAt, height_of};
pub(crate) use block_audit::BlockAuditObject;
pub(crate) use block_clock::{BlockClock, TimeLookup};
pub(crate) use block_fee_stats::{BlockFeeStats, median_fee};
pub(crate) use block_filter::BlockFilter;
pub(crate) use block_header::BlockHeader;
pub(crate) use block_range::BlockRangeInput;
pub(crate) use block_stats::BlockStats;
pub(crate) use block_summary::BlockSummary;
pub(crate) use coinbase::CoinbaseObject;
pub(crate) use compact_filter::CompactFilterObject;
pub(crate) use cumulative_totals::CumulativeTotals;
pub(crate) use effective_rates::{effective_rates, mined_feerates};
pub(crate) use merkle_proof::MerkleProofObject;
pub(crate) use script_type_count::ScriptTypeCount;
pub(crate) use silent_payment_tweak::SilentPaymentTweak;
pub(crate) use transaction_audit::TransactionAudit;
pub(crate) use wtxid_proof::WtxidProofObject;
