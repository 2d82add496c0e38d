//! The unconfirmed transactions: those that wait for a block, what they pay, and the blocks that they would make.
//!
//! ```text
//!   mempool.rs  Mempool           what can be asked of all of them
//!     ├─ stats.rs                 their figures
//!     ├─ sample.rs                what they were
//!     │    └─ past_estimate.rs    what was recommended then, and what was needed
//!     ├─ list.rs                  pages of them
//!     ├─ block_template.rs        the next block as the node would make it
//!     ├─ fee_bin.rs               how much pays how much
//!     ├─ projected_block.rs       the blocks to come
//!     │    └─ projected_block_delta.rs   how one of them changes
//!     ├─ rbf_node.rs              which replaced which
//!     └─ script_delta.rs          what they do to scripts
//!   entry.rs    MempoolEntry      one of them among the others
//!   fees.rs     feerates to pay, from the mempool and the node; hit_rate.rs says how well they would have done,
//!               and track_record.rs how well those of the past did
//! ```

mod block_template;
mod entry;
mod fee_bin;
mod fees;
mod hit_rate;
mod list;
mod mempool;
mod mempool_event;
mod past_estimate;
mod projected_block;
mod projected_block_delta;
mod rbf_node;
mod sample;
mod script_delta;
mod stats;
mod track_record;

pub(crate) use block_template::BlockTemplateObject;
pub(crate) use entry::MempoolEntry;
pub(crate) use fee_bin::{FeeBinObject, feerate};
pub(crate) use fees::{FeeEstimateObject, FeeMode, FeeSource, RecommendedFeesObject};
pub(crate) use mempool::{Mempool, PROJECTED};
pub(crate) use mempool_event::{MempoolEventObject, RemovalReason, TransactionAdded, TransactionRemoved};
pub(crate) use past_estimate::PastFeeEstimate;
pub(crate) use projected_block::ProjectedBlockObject;
pub(crate) use projected_block_delta::{ProjectedBlockDelta, ProjectedBlockReader};
pub(crate) use rbf_node::{REPLACED, RbfNode};
pub(crate) use sample::{MempoolSampleObject, MempoolSeriesPoint};
pub(crate) use script_delta::{ScriptDelta, page_of_block as script_delta_page};
pub(crate) use stats::MempoolStats;
pub(crate) use track_record::FeeTrackRecord;
