//! All types that declare how cacheable their fields are.

use std::borrow::Cow;
use std::sync::LazyLock;

use async_graphql::OutputType;

use super::by_type::{ByType, TypeCacheability};
use super::declaration::{FieldCacheability, declared};
use super::limits::LIMIT_CACHEABILITY;
use super::mark::Cacheability;
use crate::api::mutation::Mutation;
use crate::api::pagination::connection::{Connection, Edge, PageInfo};
use crate::api::pagination::list_descriptions::items_of_lists;
use crate::api::query::{self, Query};
use crate::api::scalars::Txid;
use crate::api::types::node_interface::NodeInterface;
use crate::api::types::{block, chain, ledger, mempool, miner, node, psbt, rates, server, spend, transaction};

/// The name of a type, and the names of its fields by cacheability.
type Declared = (Cow<'static, str>, [(Cacheability, &'static str); 6]);

/// By the folder of the type, and its name in Rust.
const TYPES: &[fn() -> Declared] = &[
    of_query::<query::AccountQuery>,
    of_query::<query::BlockQuery>,
    of_query::<query::ChainQuery>,
    of_query::<query::DecodeQuery>,
    of_query::<query::DryRunQuery>,
    of_query::<query::FeeQuery>,
    of_query::<query::LedgerQuery>,
    of_query::<query::OpReturnQuery>,
    of_query::<query::OperationsQuery>,
    of_query::<query::RateQuery>,
    of_query::<query::SearchQuery>,
    of_query::<query::TransactionQuery>,
    of::<Mutation>,
    of::<NodeInterface>,
    of::<PageInfo>,
    // block
    of::<block::AuditTotals>,
    of::<block::Block>,
    of::<block::BlockAuditObject>,
    of::<block::BlockFeeStats>,
    of::<block::BlockHeader>,
    of::<block::BlockStats>,
    of::<block::BlockSummary>,
    of::<block::CoinbaseObject>,
    of::<block::CompactFilterObject>,
    of::<block::CumulativeTotals>,
    of::<block::MerkleProofObject>,
    of::<block::ScriptTypeCount>,
    of::<block::SilentPaymentTweak>,
    of::<block::TransactionAudit>,
    of::<block::WtxidProofObject>,
    // chain
    of::<chain::Bip9DeploymentObject>,
    of::<chain::Bip9Statistics>,
    of::<chain::BlockConnected>,
    of::<chain::BlockDisconnected>,
    of::<chain::Chain>,
    of::<chain::ChainEventObject>,
    of::<chain::ChainSummary>,
    of::<chain::ChainTipObject>,
    of::<chain::ConflictedTransaction>,
    of::<chain::DeploymentObject>,
    of::<chain::DifficultyAdjustment>,
    of::<chain::DifficultyEpochObject>,
    of::<chain::Halving>,
    of::<chain::RangeTotals>,
    of::<chain::Reorg>,
    of::<chain::ReorgBlock>,
    of::<chain::ScriptTypeTotals>,
    of::<chain::SeriesPoint>,
    of::<chain::SnapshotObject>,
    of::<chain::SupplyObject>,
    of::<chain::UtxoSetObject>,
    of::<chain::UtxoTypeCount>,
    // ledger
    of::<ledger::Address>,
    of::<ledger::AddressErrorObject>,
    of::<ledger::AddressLookup>,
    of::<ledger::AddressSet>,
    of::<ledger::AddressValidation>,
    of::<ledger::Balance>,
    of::<ledger::BalancePoint>,
    of::<ledger::DerivedAddress>,
    of::<ledger::DescriptorAccount>,
    of::<ledger::DescriptorBranch>,
    of::<ledger::DescriptorErrorObject>,
    of::<ledger::DescriptorInfo>,
    of::<ledger::DescriptorMatch>,
    of::<ledger::Ledger>,
    of::<ledger::LedgerEntry>,
    of::<ledger::LedgerEvent>,
    of::<ledger::LedgerTotalsObject>,
    of::<ledger::Script>,
    of::<ledger::ScriptInfo>,
    of::<ledger::Spendability>,
    of::<ledger::TurnoverTotals>,
    of::<ledger::Utxo>,
    of::<ledger::UtxoConnection>,
    // mempool
    of::<mempool::BlockTemplateObject>,
    of::<mempool::FeeBinObject>,
    of::<mempool::FeeEstimateObject>,
    of::<mempool::FeeTrackRecord>,
    of::<mempool::Mempool>,
    of::<mempool::MempoolEntry>,
    of::<mempool::MempoolEventObject>,
    of::<mempool::MempoolSampleObject>,
    of::<mempool::MempoolSeriesPoint>,
    of::<mempool::MempoolStats>,
    of::<mempool::PastFeeEstimate>,
    of::<mempool::ProjectedBlockDelta>,
    of::<mempool::ProjectedBlockObject>,
    of::<mempool::RbfNode>,
    of::<mempool::RecommendedFeesObject>,
    of::<mempool::ScriptDelta>,
    of::<mempool::TransactionAdded>,
    of::<mempool::TransactionRemoved>,
    // miner
    of::<miner::Miner>,
    of::<miner::MinerSeriesPoint>,
    of::<miner::MinerShare>,
    of::<miner::MinerTotalsObject>,
    // node
    of::<node::BitcoinNode>,
    of::<node::DiskShortageObject>,
    of::<node::LostBlock>,
    of::<node::SyncProgress>,
    // psbt
    of::<psbt::DecodedPsbt>,
    of::<psbt::PsbtDerivation>,
    of::<psbt::PsbtInput>,
    of::<psbt::PsbtOutput>,
    of::<psbt::PsbtPreimage>,
    of::<psbt::PsbtProprietaryEntry>,
    of::<psbt::PsbtSignature>,
    of::<psbt::PsbtTapLeaf>,
    of::<psbt::PsbtUnknownEntry>,
    of::<psbt::PsbtXpub>,
    // rates
    of::<rates::CurrencyValue>,
    of::<rates::RateObject>,
    // server
    of::<server::DatabaseInfo>,
    of::<server::FeatureInfo>,
    of::<server::ServerInfo>,
    of::<server::TableInfo>,
    // spend
    of::<spend::OutputAgeObject>,
    of::<spend::RelativeLockObject>,
    of::<spend::TapLeafObject>,
    of::<spend::TransactionHop>,
    // transaction
    of::<transaction::AcceptResult>,
    of::<transaction::BroadcastResult>,
    of::<transaction::DecodedTransaction>,
    of::<transaction::Input>,
    of::<transaction::LockTime>,
    of::<transaction::NetEffectObject>,
    of::<transaction::OpReturn>,
    of::<transaction::OutPointObject>,
    of::<transaction::Output>,
    of::<transaction::OutputSpentEvent>,
    of::<transaction::PackageResult>,
    of::<transaction::RejectInfo>,
    of::<transaction::Transaction>,
    of::<transaction::TransactionStatusEvent>,
    of::<transaction::TxOccurrence>,
];

fn of<T: FieldCacheability + OutputType>() -> Declared {
    (T::type_name(), declared::<T>())
}

/// Those of a part of the root.
fn of_query<T: FieldCacheability>() -> Declared {
    (Query::type_name(), declared::<T>())
}

/// Those of the connection and the edge of a list: whatever the items are, the fields are the same. What a connection has
/// besides, it declares itself.
fn of_list(item: &str) -> [Declared; 2] {
    [
        (format!("{item}Connection").into(), declared::<Connection<Txid>>()),
        (format!("{item}Edge").into(), declared::<Edge<Txid>>()),
    ]
}

/// All fields of all types but `Subscription`: the type, the cacheability, and the names of the fields that have it, separated
/// by spaces.
pub fn field_cacheability() -> impl Iterator<Item = (&'static str, Cacheability, &'static str)> {
    static DECLARED: LazyLock<Vec<Declared>> =
        LazyLock::new(|| TYPES.iter().map(|declared| declared()).chain(items_of_lists().flat_map(of_list)).collect());
    let declared = DECLARED.iter().flat_map(|(type_name, fields)| {
        let fields = fields.iter().filter(|(_, names)| !names.is_empty());
        fields.map(|(mark, names)| (&**type_name, *mark, *names))
    });
    declared.chain(LIMIT_CACHEABILITY.iter().copied())
}

/// The cacheability of the fields of a type, by its name.
pub(crate) fn type_cacheability(type_name: &str) -> TypeCacheability {
    static BY_TYPE: LazyLock<ByType> = LazyLock::new(|| {
        let mut types = ByType::default();
        for (type_name, mark, fields) in field_cacheability() {
            types.add(type_name, mark, fields);
        }
        types
    });
    BY_TYPE.of(type_name)
}

impl Cacheability {
    /// The cacheability of a field, by the names of its type and its own.
    #[must_use]
    pub fn of(type_name: &str, field: &str) -> Self {
        type_cacheability(type_name).field(field)
    }
}
