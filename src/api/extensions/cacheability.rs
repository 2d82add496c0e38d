//! How lasting each field of the schema is: whether what it says of its object can ever become another.
//!
//! ```text
//!   Fixed    never, once the object is deep in the main chain         Block.hash, Transaction.fee
//!   Found    the same of what is found; what is not may be later      Query.block
//!   Asked    by its arguments: of a height it is fixed, of now not    Chain.range, Address.balance
//!   Chain    with the main chain                                      Block.confirmations, Output.spentBy
//!   Head     with the mempool, or what was seen of stale blocks, too  Transaction.firstSeenAt, Ledger.transactions
//!   Moment   at any time: of the node, the clock, this server         ServerInfo.subscriptions
//! ```
//!
//! An answer is as lasting as the least lasting of its fields and of the objects these were asked of; the objects say by
//! themselves how deep they are ([`ReadSet`](crate::view::ReadSet)). So what a list or a value object holds is fixed where the
//! field that tells it is not: only the list itself is new. A field that may be asked for what the chain was at a height or
//! up to it says where it is resolved what that was ([`View::note_chain_up_to`](crate::view::View::note_chain_up_to)).
//!
//! A field that is not here lasts a moment. A test holds that there is none, and none here that the schema does not have;
//! another, that what is asked again and again while the chain goes on never contradicts its mark. In doubt take the less
//! lasting: that costs a client a question more, and the other costs it a wrong answer, for a year.

use std::collections::HashMap;
use std::sync::LazyLock;

use Mark::{Asked, Chain, Fixed, Found, Head, Moment};
use async_graphql::Value;

use crate::limits::declarations;
use crate::view::Dependency;

/// How lasting a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// What it says of an object deep in the main chain stays so.
    Fixed,
    /// It looks for objects: to have found one stays so, and that is all it says.
    Found,
    /// It depends on what it is asked for, and notes that itself where it is resolved.
    Asked,
    /// It depends on the main chain up to the tip, and nothing else.
    Chain,
    /// It depends on the mempool, on stale blocks, or on what was observed of them.
    Head,
    /// It depends on what has no state that could be named.
    Moment,
}

/// The fields of `Server.limits`, from the declarations of the limits.
macro_rules! limit_fields {
    (
        clients { $(
            $(#[doc = $doc:expr])+
            $name:ident: $type:ty, $unit:ident = $default:expr, $bounds:expr, $setting:literal, $field:literal;
        )+ }
        protocol $protocol:tt
    ) => {
        concat!($($field, " ",)+ "packageSize")
    };
}

/// All fields of all types with fields: the type, the mark, and the names of its fields with that mark.
#[rustfmt::skip]
pub const MARKS: &[(&str, Mark, &str)] = &[
    ("AcceptResult", Moment, "txid wtxid allowed vsize fee effectiveFeeRate effectiveIncludes reject"),
    ("Address", Fixed, "id address type script"),
    ("Address", Asked, "stats balance utxos"),
    ("Address", Head, "publicKey p2pkScripts transactions coinbaseBlocks"),
    ("AddressLookup", Fixed, "input address error"),
    ("AddressSet", Fixed, "members"),
    ("AddressSet", Asked, "stats balance utxos"),
    ("AddressSet", Head, "transactions coinbaseBlocks"),
    ("Balance", Fixed, "confirmed immature spentInMempool pendingIn unconfirmedDelta total spendable"),
    (
        "BitcoinNode",
        Moment,
        "reachable version subversion chain blocks headers bestBlockHash verificationProgress \
         initialBlockDownload pruned connections warnings",
    ),
    (
        "Block",
        Fixed,
        "id hash height header headerHex rawHex version merkleRoot time medianTime timestamp bits nonce \
         difficulty target chainwork size strippedSize weight txCount chainStatus previous subsidy totalFees \
         coinbaseValue unclaimedReward fees stats cumulative txids transaction transactions",
    ),
    ("Block", Chain, "confirmations next"),
    ("Block", Head, "siblings reorg"),
    ("BlockConnected", Moment, "seq cursor block"),
    ("BlockConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("BlockDisconnected", Moment, "seq cursor block reorg"),
    ("BlockEdge", Fixed, "cursor node"),
    ("BlockFeeStats", Fixed, "total average median min max medianFeeRate averageFeeRate feeRatePercentiles"),
    ("BlockHeader", Fixed, "hash height hex version previousHash merkleRoot time timestamp bits nonce"),
    (
        "BlockStats",
        Fixed,
        "inputCount outputCount inputValue outputValue segwitTxCount segwitSize segwitWeight \
         taprootOutputCount opReturnCount opReturnBytes utxoDelta coinDaysDestroyed outputsByType",
    ),
    ("BlockTemplate", Moment, "height previousHash totalFees txCount weight txids takenAt"),
    ("BroadcastResult", Moment, "outcome txid wtxid transaction replaced reject"),
    ("Chain", Fixed, "id network genesisHash"),
    ("Chain", Asked, "supply range epoch"),
    ("Chain", Chain, "summary difficultyAdjustment epochs"),
    (
        "ChainSummary",
        Chain,
        "blocks transactions outputs sizeBytes difficulty hashrate24h blocks24h transactions24h \
         outputValue24h averageFee24h subsidy24h averageBlockInterval24h",
    ),
    ("ChainSummary", Head, "staleBlocks30d"),
    ("ChainTip", Moment, "hash height branchLength status block"),
    ("ConflictedTransaction", Head, "txid wasIn conflictingTxids"),
    (
        "CumulativeStats",
        Fixed,
        "txCount inputCount outputCount outputValue fees subsidy unspendable size weight utxoCount",
    ),
    ("DatabaseInfo", Moment, "formatVersion fileBytes tables"),
    ("DecodedTransaction", Moment, "transaction allInputsKnown missingInputs alreadyKnown"),
    (
        "DifficultyAdjustment",
        Chain,
        "epoch progress blocksDone blocksRemaining estimatedChange estimatedAt nextHeight averageInterval \
         expectedBlocks previousChange",
    ),
    (
        "DifficultyEpoch",
        Fixed,
        "index startHeight endHeight startTime endTime bits difficulty change actualTimespan stats complete",
    ),
    ("DifficultyEpochConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("DifficultyEpochEdge", Fixed, "cursor node"),
    ("DiskShortage", Moment, "neededBytes freeBytes"),
    ("FeeBin", Head, "fromRate toRate vsize count cumulativeVsize"),
    ("FeeEstimate", Moment, "targetBlocks feeRate source mode asOf hitRate"),
    ("Input", Fixed, "index transaction outpointTxid outpointVout prevout sequence isCoinbase scriptSigHex witness"),
    ("InputConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("InputEdge", Fixed, "cursor node"),
    ("Ledger", Asked, "stats balance utxos"),
    ("Ledger", Head, "transactions"),
    ("LedgerEntry", Head, "transaction net received spent balanceAfter sentToSelf touched"),
    ("LedgerEntryConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("LedgerEntryEdge", Fixed, "cursor node"),
    ("LedgerEvent", Moment, "seq cursor kind entry reason replacedBy isCorrection depth balance"),
    (
        "LedgerStats",
        Fixed,
        "txCount mempoolTxCount receivedCount received spentCount spent utxoCount firstSeen lastSeen \
         minedBlocks used",
    ),
    ("Limits", Moment, declarations!(limit_fields)),
    ("LockTime", Fixed, "raw height time"),
    ("LockTime", Chain, "isFinalAtNextBlock"),
    ("LostBlock", Moment, "height hash"),
    ("Mempool", Fixed, "id"),
    (
        "Mempool",
        Head,
        "stats txids transactions recent feeHistogram projectedBlocks balanceChanges replacements history",
    ),
    ("Mempool", Moment, "nextBlockTemplate"),
    (
        "MempoolEntry",
        Head,
        "addedAt addedAtHeight ancestorCount ancestorVsize ancestorFees descendantCount descendantVsize \
         descendantFees parents children hasUnconfirmedInputs projectedBlock vsizeAhead isReplaceable \
         bumpFeeTo",
    ),
    ("MempoolSample", Head, "at count vsize totalFee minFeeRate txPerSecond vbytesPerSecond vsizeByFeeRate"),
    (
        "MempoolStats",
        Head,
        "count vsize weight bytes totalFee memoryUsage maxMemory minFeeRate minRelayFeeRate \
         incrementalFeeRate loaded sequence outputCount",
    ),
    ("MempoolStats", Moment, "txPerSecond vbytesPerSecond"),
    ("MerkleProof", Fixed, "blockHash height position branch root headerHex"),
    ("Mutation", Moment, "broadcastTransaction broadcastPackage"),
    ("Node", Fixed, "id"),
    ("OpReturn", Fixed, "payload pushes utf8"),
    (
        "Output",
        Fixed,
        "id outpoint vout transaction value scriptPubKey asm scriptType address script opReturn isCoinbase \
         matureAtHeight",
    ),
    ("Output", Asked, "spendStatus"),
    ("Output", Chain, "isMature spentBy spentHeight"),
    ("Output", Head, "unspendableReason spentInMempoolBy"),
    ("OutputConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("OutputEdge", Fixed, "cursor node"),
    ("OutputSpentEvent", Moment, "txid vout output spentBy confirmed"),
    ("PackageResult", Moment, "accepted message results replaced packageFeeRate"),
    ("PageInfo", Fixed, "hasNextPage hasPreviousPage startCursor endCursor"),
    ("ProjectedBlock", Head, "index txCount vsize weight totalFees medianFeeRate feeRatePercentiles transactions"),
    ("ProjectedBlockDelta", Moment, "index sequence full added removed"),
    ("Query", Fixed, "chain mempool"),
    (
        "Query",
        Found,
        "block blocksByHash transaction transactionsById transactionByIndex output outputs address script \
         addresses node nodes",
    ),
    ("Query", Asked, "blocks headers transactions"),
    ("Query", Chain, "tip snapshot"),
    ("Query", Head, "staleBlocks reorgs"),
    (
        "Query",
        Moment,
        "decodeTransaction testTransactions feeEstimate feeEstimates recommendedFees sync server bitcoinNode \
         chainTips",
    ),
    (
        "RangeStats",
        Fixed,
        "fromHeight toHeight fromTime toTime blockCount txCount inputCount outputCount outputValue fees \
         subsidy size weight chainwork difficultySum averageInterval hashrate tps utxoDelta emptyBlocks \
         averageFeeRate",
    ),
    ("RbfNode", Head, "txid fee vsize seenAt fullRbf mined replaces"),
    ("RecommendedFees", Moment, "nextBlock within3Blocks within6Blocks economy minimum asOf"),
    ("RejectInfo", Moment, "code reason details missingInputs conflictsWith requiredFee"),
    (
        "Reorg",
        Head,
        "id at depth forkHeight forkHash disconnected isComplete connectedCount connected returnedCount \
         returnedToMempool conflictedCount conflicted",
    ),
    ("ReorgConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("ReorgEdge", Fixed, "cursor node"),
    ("Script", Fixed, "id scriptHash scriptHashElectrum"),
    ("Script", Asked, "stats balance utxos"),
    ("Script", Head, "hex address transactions coinbaseBlocks"),
    ("ScriptDelta", Head, "script address net received spent txCount"),
    ("ScriptDeltaConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("ScriptDeltaEdge", Fixed, "cursor node"),
    ("ScriptTypeCount", Fixed, "type count value"),
    ("ServerInfo", Moment, "id version gitCommit startedAt limits database subscriptions features"),
    ("Snapshot", Chain, "height hash"),
    ("Snapshot", Head, "takenAt"),
    ("Snapshot", Moment, "mempoolSequence nodeHeight nodeHeaders inSync mempoolInSync"),
    ("Spendability", Fixed, "ok reasons notBeforeHeight"),
    (
        "Subscription",
        Moment,
        "chainEvents newBlock reorg ledgerEvents transactionStatus outputSpent mempoolEvents \
         unconfirmedTransaction mempoolStats recommendedFees projectedBlock difficultyAdjustment syncProgress",
    ),
    (
        "Supply",
        Fixed,
        "height subsidyIssued circulating unspendable genesis bip30 unspendableScripts unclaimedRewards \
         immatureCoinbase",
    ),
    (
        "SyncProgress",
        Moment,
        "phase indexedHeight targetHeight progress blocksPerSecond etaSeconds ready diskShortage lostBlock silenceSeconds",
    ),
    ("TableInfo", Moment, "name rows"),
    (
        "Transaction",
        Fixed,
        "id txid wtxid version lockTime size strippedSize weight vsize isCoinbase hex state block \
         indexInBlock globalIndex merkleProof inputs outputs inputCount outputCount inputValue outputValue \
         fee feeRate signalsRbf",
    ),
    ("Transaction", Chain, "confirmations"),
    (
        "Transaction",
        Head,
        "occurrences effectiveFeeRate firstSeenAt confirmedAfterSeconds mempool replaces replacedBy rbfTree \
         conflicts",
    ),
    ("TransactionAdded", Moment, "seq cursor txid transaction"),
    ("TransactionConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("TransactionEdge", Fixed, "cursor node"),
    ("TransactionRemoved", Moment, "seq cursor txid reason replacedBy isCorrection block"),
    ("TransactionStatusEvent", Moment, "txid state replacedBy confirmations projectedBlock transaction"),
    ("TxOccurrence", Head, "block index onMainChain"),
    ("TxidConnection", Fixed, "edges nodes pageInfo totalCount"),
    ("TxidEdge", Fixed, "cursor node"),
    (
        "Utxo",
        Fixed,
        "output outpoint value height confirmations isCoinbase matureAtHeight spentInMempoolBy spendable \
         effectiveValue",
    ),
    ("UtxoConnection", Fixed, "edges nodes pageInfo totalCount totalValue"),
    ("UtxoEdge", Fixed, "cursor node"),
];

impl Mark {
    /// The mark of a field, by the names of its type and its own.
    #[must_use]
    pub fn of(type_name: &str, field: &str) -> Self {
        static MARKED: LazyLock<HashMap<(&str, &str), Mark>> = LazyLock::new(|| {
            let fields = MARKS.iter().flat_map(|&(type_name, mark, fields)| {
                fields.split_ascii_whitespace().map(move |field| ((type_name, field), mark))
            });
            fields.collect()
        });
        MARKED.get(&(type_name, field)).copied().unwrap_or(Moment)
    }

    /// What an answer depends on in which the field says this; `None` is null.
    pub(crate) fn basis(self, said: Option<&Value>) -> Dependency {
        match self {
            Fixed | Asked => Dependency::Object,
            Found if said.is_some_and(is_all_there) => Dependency::Object,
            Chain => Dependency::Chain,
            // what is looked for in vain may arrive in the mempool, or become stale
            Found | Head => Dependency::Head,
            Moment => Dependency::External,
        }
    }
}

/// Whether nothing that was looked for is missing.
fn is_all_there(found: &Value) -> bool {
    match found {
        Value::Null => false,
        Value::List(items) => !items.contains(&Value::Null),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_marked_lasts_a_moment() {
        assert_eq!((Mark::of("Block", "hash"), Mark::of("Block", "confirmations")), (Fixed, Chain));
        for (type_name, field) in [("Block", "nothing"), ("Nothing", "hash"), ("__Schema", "types")] {
            assert_eq!(Mark::of(type_name, field), Moment, "{type_name}.{field}");
        }
    }

    #[test]
    fn what_was_not_found_may_be_found_later() {
        let (here, null) = (Value::from("a"), Value::Null);
        let some = Value::List(vec![here.clone(), null.clone()]);
        let all = Value::List(vec![here.clone(), here.clone()]);
        for (said, basis) in [
            (Some(&here), Dependency::Object),
            (Some(&all), Dependency::Object),
            (Some(&some), Dependency::Head),
            (Some(&null), Dependency::Head),
            (None, Dependency::Head),
        ] {
            assert_eq!(Found.basis(said), basis, "{said:?}");
            assert_eq!(Fixed.basis(said), Dependency::Object, "the null of a fixed field is fixed");
            assert_eq!(Asked.basis(said), Dependency::Object, "the field has said more itself");
        }
    }
}
