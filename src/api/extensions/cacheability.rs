//! How cacheable each field of the schema is: whether its value for an object can change.
//!
//! ```text
//!   Immutable         never changes once the object is deep in the main chain    Block.hash, Transaction.fee
//!   ImmutableIfFound  what was found stays found; what was not may be later      Query.block
//!   ByArgument        at a height it is immutable, at the tip it is not          Chain.range, Address.balance
//!   UntilNextTip      changes with the main chain                                Block.confirmations, Output.spentBy
//!   UntilNextHead     changes with the mempool or the stale blocks seen, too     Transaction.firstSeenAt
//!   Never             changes at any time: the node, the clock, this server      ServerInfo.subscriptions
//! ```
//!
//! An answer is as cacheable as the least cacheable of its fields and of the objects that they belong to; an object notes
//! its own depth ([`ReadSet`](crate::view::ReadSet)). What a list or a value object contains is immutable where the field
//! that returns it is not: only the list itself is new. A field with an argument for a height notes in its resolver up to
//! which height it depends on the chain ([`View::note_chain_up_to`](crate::view::View::note_chain_up_to)).
//!
//! A field that is not listed is never cached; subscriptions are not listed, because no client caches events. One test
//! compares the list with the schema; another repeats queries while the chain grows and compares the answers with the list.
//! In doubt choose the less cacheable: that costs a client one more request, and the other costs it a wrong answer for a year.

use std::collections::HashMap;
use std::sync::LazyLock;

use Cacheability::{ByArgument, Immutable, ImmutableIfFound, Never, UntilNextHead, UntilNextTip};
use async_graphql::Value;

use crate::limits::declarations;
use crate::view::Dependency;

/// How cacheable a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cacheability {
    /// Its value for an object deep in the main chain never changes.
    Immutable,
    /// It looks objects up: one that was found stays found.
    ImmutableIfFound,
    /// It depends on its arguments, and its resolver notes on what.
    ByArgument,
    /// It depends on the main chain up to the tip, and on nothing else.
    UntilNextTip,
    /// It depends on the mempool, on stale blocks, or on when they were seen.
    UntilNextHead,
    /// It depends on something without a version: the node, the clock, this server.
    Never,
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

/// All fields of all types but `Subscription`: the type, the cacheability, and the names of the fields that have it.
#[rustfmt::skip]
pub const FIELD_CACHEABILITY: &[(&str, Cacheability, &str)] = &[
    ("AcceptResult", Never, "txid wtxid allowed vsize fee effectiveFeeRate effectiveIncludes reject"),
    ("Address", Immutable, "id address type script"),
    ("Address", ByArgument, "stats balance utxos"),
    ("Address", UntilNextHead, "publicKey p2pkScripts transactions coinbaseBlocks"),
    ("AddressError", Immutable, "code message position"),
    ("AddressLookup", Immutable, "input ledger error"),
    ("AddressSet", Immutable, "id members"),
    ("AddressSet", ByArgument, "stats balance utxos"),
    ("AddressSet", UntilNextHead, "transactions coinbaseBlocks"),
    ("Balance", Immutable, "confirmed immature spentInMempool pendingIn unconfirmedDelta total spendable"),
    (
        "BitcoinNode",
        Never,
        "reachable version subversion network height headerHeight bestBlockHash verificationProgress \
         initialBlockDownload pruned peerCount warnings",
    ),
    (
        "Block",
        Immutable,
        "id hash height header headerHex rawHex version merkleRoot time medianTime timestamp bits nonce \
         difficulty target chainwork size strippedSize weight txCount chainStatus previous subsidy totalFees \
         coinbaseValue unclaimedReward feeStats stats cumulative txids transaction transactions",
    ),
    ("Block", UntilNextTip, "confirmations next"),
    ("Block", UntilNextHead, "siblings reorg"),
    ("BlockConnected", Never, "seq cursor block"),
    ("BlockConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("BlockDisconnected", Never, "seq cursor block reorg"),
    ("BlockEdge", Immutable, "cursor node"),
    ("BlockFeeStats", Immutable, "totalFees averageFee medianFee minFee maxFee medianFeeRate averageFeeRate feeRatePercentiles"),
    ("BlockHeader", Immutable, "hash height hex version previousHash merkleRoot time timestamp bits nonce"),
    (
        "BlockStats",
        Immutable,
        "inputCount outputCount inputValue outputValue segwitTxCount segwitSize segwitWeight \
         taprootOutputCount opReturnCount opReturnBytes utxoDelta coinDaysDestroyed outputsByType",
    ),
    ("BlockTemplate", Never, "height previousHash totalFees txCount weight txids takenAt"),
    ("BroadcastResult", Never, "outcome txid wtxid transaction replaced reject"),
    ("Chain", Immutable, "id network genesisHash"),
    ("Chain", ByArgument, "supply range epoch"),
    ("Chain", UntilNextTip, "summary difficultyAdjustment epochs"),
    ("ChainEvent", Never, "seq cursor"),
    ("ChainSummary", UntilNextTip, "blockCount difficulty totals last24h"),
    ("ChainSummary", UntilNextHead, "staleBlockCount30d"),
    ("ChainTip", Never, "hash height branchLength status block"),
    ("ConflictedTransaction", UntilNextHead, "txid wasIn conflictingTxids"),
    ("ConflictedTransactionConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ConflictedTransactionEdge", Immutable, "cursor node"),
    (
        "CumulativeTotals",
        Immutable,
        "txCount inputCount outputCount outputValue fees subsidy unspendable size weight utxoCount",
    ),
    ("DatabaseInfo", Never, "formatVersion fileBytes tables"),
    ("DecodedTransaction", Never, "transaction allInputsKnown missingInputs alreadyKnown"),
    ("DerivedAddress", Immutable, "path branch index address scriptPubKey ledger"),
    ("DerivedAddress", UntilNextHead, "used"),
    ("DerivedAddressConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("DerivedAddressEdge", Immutable, "cursor node"),
    ("DescriptorAccount", Immutable, "id descriptor checksum scriptType isRanged gapLimit"),
    (
        "DescriptorAccount",
        UntilNextHead,
        "branches usedCount nextUnused addresses stats balance utxos transactions coinbaseBlocks",
    ),
    ("DescriptorBranch", Immutable, "index path isChange"),
    ("DescriptorBranch", UntilNextHead, "usedCount derivedCount lastUsed nextUnused"),
    ("DescriptorError", Immutable, "code message position"),
    (
        "DescriptorInfo",
        Immutable,
        "isValid error descriptor checksum keyNetwork scriptType isRanged isMultipath branchCount isSolvable \
         hasPrivateKeys addresses",
    ),
    (
        "DifficultyAdjustment",
        UntilNextTip,
        "epoch progress blocksDone blocksRemaining estimatedChange estimatedAt nextHeight averageInterval \
         expectedBlocks previousChange",
    ),
    (
        "DifficultyEpoch",
        Immutable,
        "id index startHeight endHeight startTime endTime bits difficulty change actualTimespan stats complete",
    ),
    ("DifficultyEpochConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("DifficultyEpochEdge", Immutable, "cursor node"),
    ("DiskShortage", Never, "neededBytes freeBytes"),
    ("Feature", Never, "name enabled setting"),
    ("FeeBin", UntilNextHead, "fromRate toRate totalVsize txCount cumulativeVsize"),
    ("FeeEstimate", Never, "requestedBlocks targetBlocks feeRate source mode asOf hitRate"),
    ("Input", Immutable, "index transaction outpoint prevout sequence isCoinbase scriptSigHex witness"),
    ("InputConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("InputEdge", Immutable, "cursor node"),
    ("Ledger", ByArgument, "stats balance utxos"),
    ("Ledger", UntilNextHead, "transactions coinbaseBlocks"),
    ("LedgerEntry", UntilNextHead, "transaction net received spent balanceAfter sentToSelf touched"),
    ("LedgerEntryConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("LedgerEntryEdge", Immutable, "cursor node"),
    ("LedgerEvent", Never, "seq cursor kind entry reason replacedByTxid isCorrection depth balance"),
    (
        "LedgerTotals",
        Immutable,
        "txCount mempoolTxCount receivedCount received spentCount spent utxoCount firstSeen lastSeen \
         minedBlocks used",
    ),
    ("Limits", Never, declarations!(limit_fields)),
    ("LockTime", Immutable, "raw height time"),
    ("LockTime", UntilNextTip, "isFinalAtNextBlock"),
    ("LostBlock", Never, "height hash"),
    ("Mempool", Immutable, "id"),
    (
        "Mempool",
        UntilNextHead,
        "stats txids transactions recent feeHistogram projectedBlocks balanceChanges replacements history",
    ),
    ("Mempool", Never, "nextBlockTemplate"),
    (
        "MempoolEntry",
        UntilNextHead,
        "addedAt addedAtHeight ancestorCount ancestorVsize ancestorFees descendantCount descendantVsize \
         descendantFees parents children hasUnconfirmedInputs projectedBlockIndex vsizeAhead isReplaceable \
         bumpFeeTo",
    ),
    ("MempoolEvent", Never, "seq cursor"),
    ("MempoolSample", UntilNextHead, "at txCount totalVsize totalFees minFeeRate txPerSecond vbytesPerSecond vsizeByFeeRate"),
    (
        "MempoolStats",
        UntilNextHead,
        "txCount totalVsize totalWeight totalSize totalFees memoryUsage maxMemory minFeeRate minRelayFeeRate \
         incrementalFeeRate loaded sequence outputCount",
    ),
    ("MempoolStats", Never, "txPerSecond vbytesPerSecond"),
    ("MerkleProof", Immutable, "blockHash height position branch root headerHex"),
    ("Mutation", Never, "broadcastTransaction broadcastPackage"),
    ("Node", Immutable, "id"),
    ("OpReturn", Immutable, "payload pushes utf8"),
    ("OutPoint", Immutable, "txid vout text"),
    (
        "Output",
        Immutable,
        "id outpoint vout transaction value scriptPubKey asm scriptType address script opReturn isCoinbase \
         matureAtHeight",
    ),
    ("Output", ByArgument, "spendStatus"),
    ("Output", UntilNextTip, "isMature spentBy spentHeight"),
    ("Output", UntilNextHead, "unspendableReason spentInMempoolBy"),
    ("OutputConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("OutputEdge", Immutable, "cursor node"),
    ("OutputSpentEvent", Never, "outpoint output spentBy isConfirmed"),
    ("PackageResult", Never, "accepted message results replaced packageFeeRate"),
    ("PageInfo", Immutable, "hasNextPage hasPreviousPage startCursor endCursor"),
    ("ProjectedBlock", UntilNextHead, "index txCount vsize weight totalFees medianFeeRate feeRatePercentiles transactions"),
    ("ProjectedBlockDelta", Never, "index sequence projectedBlock added removed"),
    ("Query", Immutable, "chain mempool validateDescriptor"),
    (
        "Query",
        ImmutableIfFound,
        "block blocksByHash transaction transactionsByTxid transactionByIndex output outputsByOutpoint address script \
         ledgers ledgerSet node nodes",
    ),
    ("Query", ByArgument, "blocks headers transactions"),
    ("Query", UntilNextTip, "tip snapshot"),
    ("Query", UntilNextHead, "staleBlocks reorgs descriptor"),
    (
        "Query",
        Never,
        "decodeTransaction testTransactions feeEstimate feeEstimates recommendedFees sync server bitcoinNode \
         chainTips",
    ),
    (
        "RangeTotals",
        Immutable,
        "fromHeight toHeight fromTime toTime blockCount txCount inputCount outputCount outputValue fees \
         subsidy size weight chainwork difficultySum averageInterval hashrate tps utxoDelta emptyBlocks \
         averageFee averageFeeRate",
    ),
    ("RbfNode", UntilNextHead, "txid fee vsize seenAt fullRbf mined replacedNodes"),
    ("RecommendedFees", Never, "nextBlock within3Blocks within6Blocks economy minimum asOf"),
    ("RejectInfo", Never, "code rejectReason details missingInputs conflictsWith requiredFee"),
    (
        "Reorg",
        UntilNextHead,
        "id at depth forkHeight forkHash disconnected isComplete connected returnedToMempool conflicted",
    ),
    ("ReorgBlock", Immutable, "hash height"),
    ("ReorgBlock", UntilNextHead, "block"),
    ("ReorgBlockConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ReorgBlockEdge", Immutable, "cursor node"),
    ("ReorgConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ReorgEdge", Immutable, "cursor node"),
    ("Script", Immutable, "id scriptHash electrumScriptHash"),
    ("Script", ByArgument, "stats balance utxos"),
    ("Script", UntilNextHead, "hex address transactions coinbaseBlocks"),
    ("ScriptDelta", UntilNextHead, "script address net received spent txCount"),
    ("ScriptDeltaConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ScriptDeltaEdge", Immutable, "cursor node"),
    ("ScriptTypeCount", Immutable, "type outputCount totalValue"),
    ("ServerInfo", Never, "id version gitCommit startedAt limits database subscriptions features"),
    ("Snapshot", UntilNextTip, "height hash"),
    ("Snapshot", UntilNextHead, "takenAt"),
    ("Snapshot", Never, "cursor mempoolSequence nodeHeight nodeHeaders inSync mempoolInSync"),
    ("Spendability", Immutable, "ok reasons notBeforeHeight"),
    (
        "Supply",
        Immutable,
        "height subsidyIssued circulating unspendable genesis bip30 unspendableScripts unclaimedRewards \
         immatureCoinbase",
    ),
    (
        "SyncProgress",
        Never,
        "phase indexedHeight targetHeight progress blocksPerSecond etaSeconds ready diskShortage lostBlock silenceSeconds",
    ),
    ("TableInfo", Never, "name rows"),
    (
        "Transaction",
        Immutable,
        "id txid wtxid version lockTime size strippedSize weight vsize isCoinbase hex state block \
         indexInBlock globalIndex merkleProof inputs outputs inputCount outputCount inputValue outputValue \
         fee feeRate signalsRbf",
    ),
    ("Transaction", UntilNextTip, "confirmations"),
    (
        "Transaction",
        UntilNextHead,
        "occurrences effectiveFeeRate firstSeenAt confirmedAfterSeconds mempoolEntry replaces replacedBy rbfTree \
         conflicts",
    ),
    ("TransactionAdded", Never, "seq cursor txid transaction"),
    ("TransactionConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("TransactionEdge", Immutable, "cursor node"),
    ("TransactionRemoved", Never, "seq cursor txid reason replacedByTxid isCorrection block"),
    ("TransactionStatusEvent", Never, "txid state replacedByTxid confirmations projectedBlockIndex transaction"),
    ("TxOccurrence", UntilNextHead, "block index onMainChain"),
    ("TxidConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("TxidEdge", Immutable, "cursor node"),
    (
        "Utxo",
        Immutable,
        "output outpoint value height confirmations isCoinbase matureAtHeight spentInMempoolByTxid spendability \
         effectiveValue",
    ),
    ("UtxoConnection", Immutable, "edges nodes pageInfo totalCount totalValue"),
    ("UtxoEdge", Immutable, "cursor node"),
];

impl Cacheability {
    /// The cacheability of a field, by the names of its type and its own.
    #[must_use]
    pub fn of(type_name: &str, field: &str) -> Self {
        static MARKED: LazyLock<HashMap<(&str, &str), Cacheability>> = LazyLock::new(|| {
            let fields = FIELD_CACHEABILITY.iter().flat_map(|&(type_name, mark, fields)| {
                fields.split_ascii_whitespace().map(move |field| ((type_name, field), mark))
            });
            fields.collect()
        });
        MARKED.get(&(type_name, field)).copied().unwrap_or(Never)
    }

    /// What an answer depends on in which the field has this value; `None` is null.
    pub(crate) fn dependency(self, said: Option<&Value>) -> Dependency {
        match self {
            Immutable | ByArgument => Dependency::Object,
            ImmutableIfFound if said.is_some_and(is_all_there) => Dependency::Object,
            UntilNextTip => Dependency::Chain,
            // an object that is missing may arrive in the mempool, or become stale
            ImmutableIfFound | UntilNextHead => Dependency::Head,
            Never => Dependency::External,
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
    fn a_field_that_is_not_listed_is_never_cached() {
        assert_eq!(
            (Cacheability::of("Block", "hash"), Cacheability::of("Block", "confirmations")),
            (Immutable, UntilNextTip)
        );
        for (type_name, field) in [("Block", "nothing"), ("Nothing", "hash"), ("__Schema", "types")] {
            assert_eq!(Cacheability::of(type_name, field), Never, "{type_name}.{field}");
        }
    }

    #[test]
    fn a_missing_object_may_be_found_later() {
        let (here, null) = (Value::from("a"), Value::Null);
        let some = Value::List(vec![here.clone(), null.clone()]);
        let all = Value::List(vec![here.clone(), here.clone()]);
        for (said, dependency) in [
            (Some(&here), Dependency::Object),
            (Some(&all), Dependency::Object),
            (Some(&some), Dependency::Head),
            (Some(&null), Dependency::Head),
            (None, Dependency::Head),
        ] {
            assert_eq!(ImmutableIfFound.dependency(said), dependency, "{said:?}");
            assert_eq!(Immutable.dependency(said), Dependency::Object, "the null of a fixed field is fixed");
            assert_eq!(ByArgument.dependency(said), Dependency::Object, "the field has said more itself");
        }
    }
}
