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

mod by_type;
#[cfg(test)]
mod tests;

use Cacheability::{ByArgument, Immutable, ImmutableIfFound, Never, UntilNextHead, UntilNextTip};
use async_graphql::Value;

pub(crate) use by_type::TypeCacheability;

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

/// The fields of the types of `Server.limits`, from the declarations of the limits.
macro_rules! limit_fields {
    (
        clients { $(
            $(#[doc = $group_doc:expr])+
            $group:ident: $group_type:ident { $(
                $(#[doc = $doc:expr])+
                $name:ident: $type:ty, $unit:ident = $default:expr, $bounds:expr, $setting:literal, $field:literal;
            )+ $( fixed {
                $(#[doc = $fixed_doc:expr])+
                $fixed_name:ident: $fixed_type:ty = $fixed_value:expr, $fixed_field:literal;
            } )? }
        )+ }
        protocol $protocol:tt
    ) => {
        &[
            ("Limits", Never, concat!($(stringify!($group), " "),+)),
            $( (stringify!($group_type), Never, concat!($($field, " ",)+ $($fixed_field)?)), )+
        ]
    };
}

const LIMIT_CACHEABILITY: &[(&str, Cacheability, &str)] = declarations!(limit_fields);

/// All fields of all types but `Subscription`: the type, the cacheability, and the names of the fields that have it, separated
/// by spaces.
pub fn field_cacheability() -> impl Iterator<Item = (&'static str, Cacheability, &'static str)> {
    FIELD_CACHEABILITY.iter().chain(LIMIT_CACHEABILITY).copied()
}

/// Those of the types that are no limits.
#[rustfmt::skip]
const FIELD_CACHEABILITY: &[(&str, Cacheability, &str)] = &[
    ("AcceptResult", Never, "txid wtxid allowed vsize fee effectiveFeeRate effectiveIncludes reject"),
    ("Address", Immutable, "id address type script"),
    ("Address", ByArgument, "stats balance balanceHistory utxos"),
    ("Address", UntilNextHead, "publicKey p2pkScripts transactions coinbaseBlocks"),
    ("AddressError", Immutable, "code message position positions"),
    ("AddressLookup", Immutable, "input ledger error"),
    ("AddressSet", Immutable, "id members"),
    ("AddressSet", ByArgument, "stats balance balanceHistory utxos"),
    ("AddressSet", UntilNextHead, "transactions coinbaseBlocks"),
    (
        "AddressValidation",
        Immutable,
        "isValid error networks isThisNetwork address scriptType witnessVersion witnessProgram script",
    ),
    ("AuditTotals", UntilNextHead, "blockCount averageMatchRate fees projectedFees"),
    ("Balance", Immutable, "confirmed immature spentInMempool pendingIn unconfirmedDelta total spendable"),
    ("Balance", Never, "value"),
    ("BalancePoint", Immutable, "startAt endAt firstBlock lastBlock blockCount balanceAfter net turnover"),
    (
        "Bip9Deployment",
        Never,
        "bit signallingStartAt timeoutAt minActivationHeight bip9State sinceHeight nextBip9State statistics",
    ),
    (
        "Bip9Statistics",
        Never,
        "periodBlockCount thresholdBlockCount elapsedBlockCount signallingBlockCount isPossible",
    ),
    ("Deployment", Never, "name isActive activationHeight bip9"),
    (
        "BitcoinNode",
        Never,
        "isReachable softwareVersion subversion network height headerHeight bestBlockHash verificationProgress \
         isInitialBlockDownload pruned peerCount warnings",
    ),
    (
        "Block",
        Immutable,
        "id hash height header headerHex rawHex version merkleRoot time medianTime timestamp bits nonce \
         difficulty target chainwork size strippedSize weight txCount chainStatus previousBlock subsidy totalFees coinbase \
         coinbaseValue unclaimedReward feeStats stats cumulative txids transaction transactions \
         summary balanceChanges silentPaymentTweaks",
    ),
    ("Block", UntilNextTip, "confirmations nextBlock epoch"),
    ("Block", Never, "compactFilter"),
    // the table of pools is of this server
    ("Block", UntilNextHead, "siblings reorg firstSeenAt audit miner"),
    (
        "BlockAudit",
        UntilNextHead,
        "projectedTxCount totalProjectedWeight totalProjectedFees matchRate missing fresh unexpected unseen \
         prioritised",
    ),
    ("BlockConnected", Never, "seq cursor block"),
    ("BlockConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("BlockDisconnected", Never, "seq cursor block reorg"),
    ("BlockEdge", Immutable, "cursor node"),
    ("BlockFeeStats", Immutable, "totalFees averageFee medianFee minFee maxFee medianFeeRate averageFeeRate feeRatePercentiles"),
    ("BlockHeader", Immutable, "hash height hex version previousBlockHash merkleRoot time timestamp bits nonce"),
    ("BlockSummary", Immutable, "txids txFees vsizes totalOutputValues feeRates effectiveFeeRates txFeatures"),
    ("BlockSummary", UntilNextHead, "txFirstSeenAt"),
    (
        "BlockStats",
        Immutable,
        "inputCount outputCount totalInputValue totalOutputValue segwitTxCount segwitSize segwitWeight \
         taprootOutputCount opReturnCount opReturnBytes utxoDelta coinDaysDestroyed outputsByType",
    ),
    ("BlockTemplate", Never, "height previousBlockHash totalFees txCount weight txids takenAt"),
    ("BroadcastResult", Never, "outcome txid wtxid transaction replaced reject"),
    ("Chain", Immutable, "id network genesisHash"),
    ("Chain", ByArgument, "supply range series utxoSet epoch"),
    ("Chain", UntilNextHead, "miners miner"),
    ("Chain", Never, "deployments"),
    ("Chain", UntilNextTip, "summary difficultyAdjustment epochs halving"),
    ("ChainEvent", Never, "seq cursor"),
    ("ChainSummary", UntilNextTip, "blockCount difficulty totals last24h medianFee24h"),
    ("ChainSummary", UntilNextHead, "recentStaleBlockCount"),
    ("ChainTip", Never, "hash height branchLength status block"),
    ("CompactFilter", Never, "blockHash hex filterHeader"),
    ("Coinbase", Immutable, "text minerName scriptSigHex heightFromScript witnessCommitment transaction"),
    ("Coinbase", UntilNextTip, "matureAtHeight"),
    ("Coinbase", UntilNextHead, "minerEvidence"),
    ("ConflictedTransaction", UntilNextHead, "txid disconnectedBlockHash conflictingTxids"),
    ("ConflictedTransactionConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ConflictedTransactionEdge", Immutable, "cursor node"),
    (
        "CumulativeTotals",
        Immutable,
        "txCount inputCount outputCount outputValue fees subsidy unspendable size weight utxoCount",
    ),
    ("DatabaseInfo", Never, "formatVersion fileBytes tables"),
    (
        "DecodedPsbt",
        Never,
        "version unsignedTransaction finalTransaction globalXpubs unknownEntries proprietaryEntries inputs outputs fee \
         estimatedVsize estimatedFeeRate isFinalized nextRole",
    ),
    ("DecodedTransaction", Never, "transaction isResolved missingInputs alreadyKnown"),
    ("DerivedAddress", Immutable, "path branch index address scriptPubKey ledger"),
    ("DerivedAddress", UntilNextHead, "used"),
    ("DerivedAddressConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("DerivedAddressEdge", Immutable, "cursor node"),
    ("DescriptorAccount", Immutable, "id descriptor checksum scriptType isRanged gapLimit"),
    (
        "DescriptorAccount",
        UntilNextHead,
        "branches usedCount nextUnused addresses stats balance balanceHistory utxos transactions \
         coinbaseBlocks",
    ),
    ("DescriptorBranch", Immutable, "index path isChange"),
    ("DescriptorBranch", UntilNextHead, "usedCount derivedCount lastUsed nextUnused"),
    ("DescriptorError", Immutable, "code message position"),
    (
        "DescriptorInfo",
        Immutable,
        "isValid error descriptor checksum keyNetwork scriptType isRanged isMultipath branchCount isSolvable \
         isPrivate derivedAddresses",
    ),
    ("DescriptorMatch", Immutable, "descriptorIndex derived"),
    (
        "DifficultyAdjustment",
        UntilNextTip,
        "epoch progress minedBlockCount remainingBlockCount estimatedChange estimatedAt nextHeight averageInterval \
         expectedBlockCount previousChange",
    ),
    (
        "DifficultyEpoch",
        Immutable,
        "id index startHeight endHeight startedAt endedAt bits difficulty change actualTimespan stats blocks \
         isComplete",
    ),
    ("DifficultyEpochConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("DifficultyEpochEdge", Immutable, "cursor node"),
    ("DiskShortage", Never, "neededBytes freeBytes"),
    ("CurrencyValue", Never, "amount rate"),
    ("Feature", Never, "name enabled setting"),
    ("FeeBin", UntilNextHead, "fromRate toRate totalVsize txCount cumulativeVsize"),
    ("FeeTrackRecord", UntilNextHead, "targetBlocks estimateCount enoughCount averageFeeRate averageNeededFeeRate"),
    ("FeeEstimate", Never, "requestedBlocks targetBlocks feeRate source mode asOf hitRate"),
    ("Halving", UntilNextTip, "index subsidy nextSubsidy nextHeight remainingBlockCount estimatedAt"),
    (
        "Input",
        Immutable,
        "index transaction outpoint prevout sequence isCoinbase scriptSigHex witness scriptSigAsm redeemScript \
         witnessScript tapLeaf annex sighashTypes relativeLock",
    ),
    ("InputConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("InputEdge", Immutable, "cursor node"),
    ("Ledger", ByArgument, "stats balance balanceHistory utxos"),
    ("Ledger", UntilNextHead, "transactions coinbaseBlocks"),
    ("LedgerEntry", UntilNextHead, "transaction inputs outputs net received spent balanceAfter sentToSelf touched"),
    ("LedgerEntry", Never, "value"),
    ("LedgerEntryConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("LedgerEntryEdge", Immutable, "cursor node"),
    ("LedgerEvent", Never, "seq cursor kind entry reason replacedByTxid isCorrection isBackfill depth matches balance"),
    (
        "LedgerTotals",
        Immutable,
        "txCount mempoolTxCount receivedCount received spentCount spent utxoCount firstSeenBlock lastSeenBlock \
         minedBlockCount used statusHash",
    ),
    ("LockTime", Immutable, "raw height time"),
    ("LockTime", UntilNextTip, "isFinalAtNextBlock"),
    ("LostBlock", Never, "height hash"),
    ("Mempool", Immutable, "id"),
    (
        "Mempool",
        UntilNextHead,
        "stats txids transactions feeHistogram projectedBlocks balanceChanges replacements history feeTrackRecord",
    ),
    ("Mempool", Never, "nextBlockTemplate"),
    (
        "MempoolEntry",
        UntilNextHead,
        "addedAt addedAtHeight ancestorCount totalAncestorVsize totalAncestorFees descendantCount totalDescendantVsize \
         totalDescendantFees parents children isSpendingUnconfirmed projectedBlockIndex totalVsizeAhead isReplaceable \
         bumpFeeTo",
    ),
    ("MempoolEvent", Never, "seq cursor"),
    ("MempoolSample", UntilNextHead, "takenAt txCount totalVsize totalFees minFeeRate txPerSecond vbytesPerSecond vsizeByFeeRate pastFeeEstimates"),
    ("MempoolSeriesPoint", UntilNextHead, "startAt endAt sample"),
    (
        "MempoolStats",
        UntilNextHead,
        "txCount totalVsize totalWeight totalSize totalFees memoryUsage maxMemory minFeeRate minRelayFeeRate \
         incrementalFeeRate loaded sequence outputCount",
    ),
    ("MempoolStats", Never, "txPerSecond vbytesPerSecond"),
    ("MerkleProof", Immutable, "blockHash height position merkleBranch root headerHex"),
    ("Mutation", Never, "broadcastTransaction broadcastPackage"),
    (
        "NetEffect",
        Immutable,
        "received spent net feePaid feeAttribution ownInputCount ownOutputCount isSelfTransfer",
    ),
    ("Miner", Immutable, "id slug"),
    ("Miner", UntilNextHead, "name link tags payoutAddresses stats minerShare series firstBlock lastBlock blocks"),
    ("MinerSeriesPoint", UntilNextHead, "startAt endAt firstBlock lastBlock blockCount share hashrate stats audits"),
    ("MinerShare", UntilNextHead, "miner rank share hashrate stats audits staleBlockCount"),
    ("MinerTotals", UntilNextHead, "blockCount emptyBlockCount fees reward"),
    ("Node", Immutable, "id"),
    ("OpReturn", Immutable, "payload pushes data utf8"),
    ("OutPoint", Immutable, "txid vout text"),
    (
        "Output",
        Immutable,
        "id outpoint vout transaction value scriptPubKey asm scriptType address script opReturn isCoinbase \
         matureAtHeight",
    ),
    ("Output", ByArgument, "spendStatus"),
    ("Output", UntilNextTip, "isMature spentBy spentHeight age lifespan"),
    ("OutputAge", Immutable, "blockCount seconds"),
    ("Output", UntilNextHead, "unspendableReason spentInMempoolBy"),
    ("OutputConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("OutputEdge", Immutable, "cursor node"),
    ("OutputSpentEvent", Never, "outpoint output spentBy isConfirmed"),
    ("PackageResult", Never, "accepted message results replaced packageFeeRate"),
    ("PageInfo", Immutable, "hasNextPage hasPreviousPage startCursor endCursor"),
    ("PastFeeEstimate", UntilNextHead, "targetBlocks tipHeight feeRate neededFeeRate isEnough"),
    (
        "ProjectedBlock",
        UntilNextHead,
        "index maxWeight txCount vsize weight totalFees medianFeeRate feeRatePercentiles transactions",
    ),
    ("ProjectedBlockDelta", Never, "index sequence projectedBlock added removed"),
    ("PsbtDerivation", Immutable, "publicKey fingerprint path"),
    (
        "PsbtInput",
        Never,
        "index outpoint prevout isUtxoKnown isUtxoConsistent value script redeemScript witnessScript sighashType derivations \
         signatures requiredSignatureCount unsignedKeys missingKeyHash missingRedeemScriptHash missingWitnessScriptHash \
         isFinalized finalScriptSig finalWitness preimages taprootInternalKey taprootMerkleRoot taprootScripts \
         unknownEntries proprietaryEntries nextRole",
    ),
    ("PsbtInputConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("PsbtInputEdge", Immutable, "cursor node"),
    (
        "PsbtOutput",
        Immutable,
        "index value script redeemScript witnessScript derivations taprootInternalKey taprootTree unknownEntries \
         proprietaryEntries isChange",
    ),
    ("PsbtOutputConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("PsbtOutputEdge", Immutable, "cursor node"),
    ("PsbtPreimage", Immutable, "hashType hashHex preimage"),
    ("PsbtProprietaryEntry", Immutable, "identifier subtype keyData valueData"),
    ("PsbtSignature", Immutable, "publicKey signature"),
    ("PsbtTapLeaf", Immutable, "scriptHex leafVersion depth controlBlock"),
    ("PsbtUnknownEntry", Immutable, "key valueData"),
    ("PsbtXpub", Immutable, "xpub fingerprint path"),
    ("Query", Immutable, "chain mempool validateDescriptor validateAddress decodeScript"),
    (
        "Query",
        ImmutableIfFound,
        "block blocksByHash transaction transactionsByTxid transactionByIndex output outputsByOutpoint address script \
         ledgers ledgerSet node nodes",
    ),
    ("Query", ByArgument, "blocks blockAtTime headers transactions opReturns"),
    ("Query", UntilNextTip, "tip snapshot"),
    ("Query", UntilNextHead, "staleBlocks reorgs descriptor search"),
    (
        "Query",
        Never,
        "compactFilters decodePsbt decodeTransaction testTransactions feeEstimate feeEstimates recommendedFees sync server bitcoinNode rate \
         currencies \
         chainTips",
    ),
    (
        "RangeTotals",
        Immutable,
        "fromHeight toHeight startedAt endedAt blockCount txCount inputCount outputCount outputValue fees \
         subsidy size weight chainwork difficultySum averageInterval hashrate txPerSecond utxoDelta emptyBlockCount \
         averageFee averageFeeRate inputValue segwitTxCount segwitSize segwitWeight taprootOutputCount opReturnCount \
         opReturnBytes coinDaysDestroyed totalsByType averageFeeRatePercentiles",
    ),
    ("Rate", Never, "currency price quotedAt"),
    ("RbfNode", UntilNextHead, "txid fee vsize seenAt isFullRbf isMined replacedNodes"),
    ("RbfNodeConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("RbfNodeEdge", Immutable, "cursor node"),
    ("RecommendedFees", Never, "within1Block within3Blocks within6Blocks economy minimum asOf"),
    ("RejectInfo", Never, "code rejectReason details missingInputs conflictsWith requiredFee"),
    (
        "Reorg",
        UntilNextHead,
        "id observedAt depth forkHeight forkHash disconnected isComplete connected returnedToMempool conflicted",
    ),
    ("RelativeLock", Immutable, "blockCount seconds spendableAtHeight spendableAt"),
    ("RelativeLock", UntilNextTip, "isSatisfiedAtNextBlock"),
    ("ReorgBlock", Immutable, "hash height"),
    ("ReorgBlock", UntilNextHead, "block"),
    ("ReorgBlockConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ReorgBlockEdge", Immutable, "cursor node"),
    ("ReorgConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ReorgEdge", Immutable, "cursor node"),
    ("Script", Immutable, "id scriptHash electrumScriptHash"),
    ("Script", ByArgument, "stats balance balanceHistory utxos"),
    ("Script", UntilNextHead, "hex asm type address info transactions coinbaseBlocks"),
    ("ScriptDelta", Immutable, "script address net received spent txCount"),
    ("ScriptDeltaConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("ScriptDeltaEdge", Immutable, "cursor node"),
    (
        "ScriptInfo",
        Immutable,
        "script descriptor hash160 publicKeys requiredSignatureCount witnessVersion witnessProgram isUnspendable p2sh segwit \
         p2shSegwit",
    ),
    ("ScriptTypeCount", Immutable, "type outputCount totalValue"),
    (
        "ScriptTypeTotals",
        Immutable,
        "type createdCount createdValue spentCount spentValue unspendableCount unspendableValue",
    ),
    ("SeriesPoint", Immutable, "startAt endAt firstBlock lastBlock blockCount stats difficulty utxoSet"),
    ("SeriesPoint", UntilNextHead, "audits"),
    ("SearchResultConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("SearchResultEdge", Immutable, "cursor node"),
    ("ServerInfo", Never, "id softwareVersion gitCommit startedAt limits database subscriptionCount features"),
    ("SilentPaymentTweak", Immutable, "transaction tweak"),
    ("SilentPaymentTweakConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("SilentPaymentTweakEdge", Immutable, "cursor node"),
    ("Snapshot", UntilNextTip, "height hash"),
    ("Snapshot", UntilNextHead, "takenAt"),
    ("Snapshot", Never, "cursor mempoolSequence nodeHeight nodeHeaderHeight isInSync isMempoolInSync"),
    ("Spendability", Immutable, "isSpendable reasons notBeforeHeight"),
    (
        "SupplyTotals",
        Immutable,
        "height subsidyIssued circulating unspendable genesis bip30 unspendableScripts unclaimedRewards \
         immatureCoinbase",
    ),
    (
        "SyncProgress",
        Never,
        "phase indexedHeight targetHeight progress blocksPerSecond etaSeconds isReady diskShortage lostBlock silenceSeconds",
    ),
    ("TapLeaf", Immutable, "script leafVersion internalKey controlBlock"),
    ("TableInfo", Never, "name rowCount totalBytes"),
    (
        "Transaction",
        Immutable,
        "id txid wtxid version lockTime size strippedSize weight vsize isCoinbase hex state block \
         indexInBlock globalIndex merkleProof inputs outputs inputCount outputCount totalInputValue totalOutputValue \
         fee feeRate isSignalingRbf features ancestors sigopCost adjustedVsize coinDaysDestroyed merkleBlockHex wtxidProof",
    ),
    ("Transaction", ByArgument, "netEffect"),
    ("Transaction", UntilNextTip, "confirmations"),
    (
        "Transaction",
        UntilNextHead,
        "descendants occurrences effectiveFeeRate txAudit firstSeenAt confirmedAfterSeconds mempoolEntry replaces replacedBy \
         rbfTree conflicts",
    ),
    ("TransactionAdded", Never, "seq cursor txid transaction"),
    ("TransactionAudit", UntilNextHead, "isProjected isSeen isPrioritised"),
    ("TransactionConnection", Immutable, "edges nodes pageInfo totalCount"),
    ("TransactionEdge", Immutable, "cursor node"),
    ("TransactionHop", Immutable, "transaction depth outpoint value"),
    ("TransactionRemoved", Never, "seq cursor txid reason replacedByTxid isCorrection block"),
    ("TransactionStatusEvent", Never, "txid state replacedByTxid confirmations projectedBlockIndex transaction"),
    ("TurnoverTotals", Immutable, "received spent txCount receivedFromSelf"),
    ("TxOccurrence", UntilNextHead, "block index isOnMainChain"),
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
    ("UtxoSet", Immutable, "height unspentCount totalValue byType"),
    ("UtxoTypeCount", Immutable, "type unspentCount totalValue"),
    ("WtxidProof", Immutable, "position merkleBranch witnessRoot reservedValue commitment coinbaseHex coinbaseProof"),
];

impl Cacheability {
    /// The cacheability of a field, by the names of its type and its own.
    #[must_use]
    pub fn of(type_name: &str, field: &str) -> Self {
        TypeCacheability::of(type_name).field(field)
    }

    /// What an answer depends on in which the field has this value; `None` is null.
    pub(crate) fn dependency(self, value: Option<&Value>) -> Dependency {
        match self {
            Immutable | ByArgument => Dependency::Object,
            ImmutableIfFound if value.is_some_and(is_all_there) => Dependency::Object,
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
