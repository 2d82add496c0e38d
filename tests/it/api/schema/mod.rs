//! The committed schema: it is that of the running code, it is described to the last argument, and what it calls Int
//! fits 32 bits. How its fields are named is tested in `names.rs`, the examples of its
//! root fields in `examples.rs`.

mod examples;
mod features;
mod names;

use std::collections::BTreeMap;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{
    FieldDefinition, InputValueDefinition, ServiceDocument, TypeKind, TypeSystemDefinition,
};
use async_graphql::{Positioned, parser::types::BaseType, parser::types::Type};
use btcgraph::api::type_definitions;

/// Where `Int` is used, and why 32 bits are enough for ever. Not listed are `first` and `last`, counts of rows that the
/// server limits.
const INT_FITS: &[(&str, &str)] = &[
    ("AcceptResult.vsize", "as Transaction.vsize, or what signature operations count for: they are limited"),
    ("AddressError.position", "an index in a text that a request bounds"),
    ("AddressError.positions", "as AddressError.position"),
    ("AddressValidation.witnessVersion", "at most 16"),
    ("AuditTotals.blockCount", "at most the height of the tip plus one"),
    ("BalancePoint.blockCount", "at most the height of the tip plus one"),
    ("Bip9Deployment.bit", "a bit of the version: below 29"),
    ("Bip9Deployment.minActivationHeight", "as Block.height"),
    ("Bip9Deployment.sinceHeight", "as Block.height"),
    ("Bip9Statistics.elapsedBlockCount", "as Bip9Statistics.periodBlockCount"),
    ("Bip9Statistics.periodBlockCount", "2,016, or 144 on regtest"),
    ("Bip9Statistics.signallingBlockCount", "as Bip9Statistics.periodBlockCount"),
    ("Bip9Statistics.thresholdBlockCount", "as Bip9Statistics.periodBlockCount"),
    ("BitcoinNode.headerHeight", "as Block.height"),
    ("BitcoinNode.height", "as Block.height"),
    ("BitcoinNode.peerCount", "a connection takes a port or a file descriptor"),
    ("Block.confirmations", "at most the height of the tip plus one"),
    ("Block.height", "a block every ten minutes: 2^31 of them take 40,000 years"),
    ("Block.size", "at most 4,000,000 bytes (consensus)"),
    ("Block.strippedSize", "at most 1,000,000 bytes (consensus)"),
    ("Block.transaction(index)", "as Block.txCount"),
    ("Block.txCount", "a transaction has 60 bytes at least, a block 4,000,000 at most"),
    ("Block.weight", "at most 4,000,000 (consensus)"),
    ("BlockAt.height", "as Block.height"),
    ("BlockAudit.projectedTxCount", "as Block.txCount"),
    ("BlockAudit.totalProjectedWeight", "as Block.weight"),
    ("BlockFilter.minTxCount", "as Block.txCount"),
    ("BlockFilter.signalsBit", "at most 28"),
    ("BlockHeader.height", "as Block.height"),
    ("BlockRange.lastBlocks", "as Block.height"),
    ("BlockStats.inputCount", "as Input.index"),
    ("BlockStats.opReturnBytes", "as Block.size"),
    ("BlockStats.opReturnCount", "as OutPoint.vout"),
    ("BlockStats.outputCount", "as OutPoint.vout"),
    ("BlockStats.segwitSize", "as Block.size"),
    ("BlockStats.segwitTxCount", "as Block.txCount"),
    ("BlockStats.segwitWeight", "as Block.weight"),
    ("BlockStats.taprootOutputCount", "as OutPoint.vout"),
    ("BlockStats.utxoDelta", "at most the outputs or the inputs of a block"),
    ("BlockSummary.vsizes", "as Transaction.vsize"),
    ("BlockTemplate.height", "as Block.height"),
    ("BlockTemplate.txCount", "as Block.txCount"),
    ("BlockTemplate.weight", "as Block.weight"),
    ("Chain.epoch(index)", "as Block.height"),
    ("ChainSummary.blockCount", "the height of the tip plus one"),
    ("ChainSummary.recentStaleBlockCount", "at most as many as a setting keeps"),
    ("ChainTip.branchLength", "at most the height of its tip"),
    ("ChainTip.height", "as Block.height"),
    ("Coinbase.heightFromScript", "below 2^31 by its encoding"),
    ("Coinbase.matureAtHeight", "as Output.matureAtHeight"),
    ("DatabaseInfo.formatVersion", "raised by hand"),
    ("DecodedPsbt.estimatedVsize", "as Transaction.vsize"),
    ("Deployment.activationHeight", "as Block.height"),
    ("DerivedAddress.branch", "below 16"),
    ("DerivedAddress.index", "below 2^31, where hardened indexes begin (BIP32)"),
    ("DescriptorAccount.addresses(branch)", "as DerivedAddress.branch"),
    ("DescriptorAccount.gapLimit", "a count of scripts, limited by the server"),
    ("DescriptorAccount.nextUnused(branch)", "as DerivedAddress.branch"),
    ("DescriptorAccount.usedCount", "at most as many as the server derives"),
    ("DescriptorBranch.derivedCount", "at most as many as the server derives"),
    ("DescriptorBranch.index", "as DerivedAddress.branch"),
    ("DescriptorBranch.usedCount", "at most as many as the server derives"),
    ("DescriptorError.position", "an index in a text that a request bounds"),
    ("DescriptorInfo.branchCount", "at most 16"),
    ("DescriptorInfo.derivedAddresses(branch)", "as DerivedAddress.branch"),
    ("DescriptorInfo.derivedAddresses(fromIndex)", "as DerivedAddress.index"),
    ("DescriptorInput.gapLimit", "as DescriptorAccount.gapLimit"),
    ("DescriptorMatch.descriptorIndex", "a position in a list of at most 32"),
    ("DifficultyAdjustment.minedBlockCount", "at most 2,016"),
    ("DifficultyAdjustment.nextHeight", "as Block.height"),
    ("DifficultyAdjustment.remainingBlockCount", "at most 2,016"),
    ("DifficultyEpoch.endHeight", "as Block.height"),
    ("DifficultyEpoch.index", "as Block.height"),
    ("DifficultyEpoch.startHeight", "as Block.height"),
    ("FeeBin.txCount", "as MempoolStats.txCount"),
    ("FeeEstimate.requestedBlocks", "as FeeEstimate.targetBlocks"),
    ("FeeEstimate.targetBlocks", "at most 1,008"),
    ("FeeTrackRecord.enoughCount", "at most as many as points in a series"),
    ("FeeTrackRecord.estimateCount", "at most as many as points in a series"),
    ("FeeTrackRecord.targetBlocks", "at most 6"),
    ("Halving.index", "at most 33"),
    ("Halving.nextHeight", "as Block.height"),
    ("Halving.remainingBlockCount", "at most 210,000"),
    ("HeightRange.from", "as Block.height"),
    ("HeightRange.to", "as Block.height"),
    ("Input.index", "an input has 41 bytes at least, a block 4,000,000 at most"),
    ("LedgerEvent.depth", "as Block.confirmations"),
    ("LedgerTotals.mempoolTxCount", "transactions in the memory of one node"),
    ("LedgerTotals.minedBlockCount", "at most the height of the tip plus one"),
    ("LockTime.height", "below 500,000,000 by definition"),
    ("LostBlock.height", "as Block.height"),
    ("Mempool.feeHistogram(binVsize)", "a size in vbytes, at most that of thousands of blocks"),
    ("Mempool.feeTrackRecord(stepSeconds)", "as Mempool.history(stepSeconds)"),
    ("Mempool.history(stepSeconds)", "seconds, of no more than 68 years"),
    ("MempoolEntry.addedAtHeight", "as Block.height"),
    ("MempoolEntry.ancestorCount", "as MempoolStats.txCount"),
    ("MempoolEntry.descendantCount", "as MempoolStats.txCount"),
    ("MempoolEntry.projectedBlockIndex", "as ProjectedBlock.index"),
    ("MempoolEntry.totalAncestorVsize", "the relay rules limit it to 101,000 vbytes by default"),
    ("MempoolEntry.totalDescendantVsize", "as MempoolEntry.totalAncestorVsize"),
    ("MempoolSample.txCount", "as MempoolStats.txCount"),
    ("MempoolStats.outputCount", "each takes 40 bytes of memory at least: 2^31 of them are 86 GB"),
    ("MempoolStats.txCount", "each takes 60 bytes of memory at least: 2^31 of them are 128 GB"),
    ("MerkleProof.height", "as Block.height"),
    ("MerkleProof.position", "as Block.txCount"),
    ("MinerSeriesPoint.blockCount", "at most the height of the tip plus one"),
    ("MinerShare.rank", "at most as many as a table of pools has"),
    ("MinerShare.staleBlockCount", "at most as many as a setting keeps"),
    ("MinerTotals.blockCount", "at most the height of the tip plus one"),
    ("MinerTotals.emptyBlockCount", "at most the height of the tip plus one"),
    ("NetEffect.ownInputCount", "as Input.index"),
    ("NetEffect.ownOutputCount", "as OutPoint.vout"),
    ("OutPoint.vout", "an output has 9 bytes at least, a block 4,000,000 at most"),
    ("OutPointInput.vout", "as OutPoint.vout"),
    ("Output.matureAtHeight", "a height plus 100"),
    ("Output.spentHeight", "as Block.height"),
    ("Output.vout", "as OutPoint.vout"),
    ("OutputAge.blockCount", "at most the height of the tip"),
    ("PastFeeEstimate.targetBlocks", "as FeeTrackRecord.targetBlocks"),
    ("PastFeeEstimate.tipHeight", "as Block.height"),
    ("ProjectedBlock.index", "at most as many as transactions"),
    ("ProjectedBlock.maxWeight", "as Block.weight"),
    ("ProjectedBlock.txCount", "as Block.txCount"),
    ("ProjectedBlock.vsize", "as Block.weight"),
    ("ProjectedBlock.weight", "as Block.weight"),
    ("ProjectedBlockDelta.index", "as ProjectedBlock.index"),
    ("PsbtInput.index", "as Input.index"),
    ("PsbtInput.requiredSignatureCount", "at most 20"),
    ("PsbtOutput.index", "as OutPoint.vout"),
    ("PsbtProprietaryEntry.subtype", "one byte"),
    ("PsbtTapLeaf.depth", "at most 128 (BIP341)"),
    ("PsbtTapLeaf.leafVersion", "at most 254"),
    ("Query.block(height)", "as Block.height"),
    ("Query.descriptor(gapLimit)", "as DescriptorAccount.gapLimit"),
    ("Query.feeEstimate(targetBlocks)", "as FeeEstimate.targetBlocks"),
    ("Query.feeEstimates(targets)", "as FeeEstimate.targetBlocks"),
    ("Query.output(vout)", "as OutPoint.vout"),
    ("RangeTotals.blockCount", "at most the height of the tip plus one"),
    ("RangeTotals.emptyBlockCount", "at most the height of the tip plus one"),
    ("RangeTotals.fromHeight", "as Block.height"),
    ("RangeTotals.toHeight", "as Block.height"),
    ("RbfNode.vsize", "as Block.weight"),
    ("RelativeLock.blockCount", "at most 65,535"),
    ("RelativeLock.spendableAtHeight", "a height plus 65,535"),
    ("Reorg.depth", "as Block.height"),
    ("Reorg.forkHeight", "as Block.height"),
    ("ReorgBlock.height", "as Block.height"),
    ("ScriptDelta.txCount", "as MempoolStats.txCount"),
    ("ScriptInfo.requiredSignatureCount", "at most 20"),
    ("ScriptInfo.witnessVersion", "at most 16"),
    ("ScriptTypeCount.outputCount", "as OutPoint.vout"),
    ("SeriesPoint.blockCount", "at most the height of the tip plus one"),
    ("ServerInfo.subscriptionCount", "each takes memory: there cannot be 2^31"),
    ("Snapshot.height", "as Block.height"),
    ("Snapshot.nodeHeaderHeight", "as Block.height"),
    ("Snapshot.nodeHeight", "as Block.height"),
    ("Spendability.notBeforeHeight", "a height plus 100"),
    ("Subscription.ledgerEvents(depths)", "as Block.confirmations"),
    ("Subscription.mempoolStats(everySeconds)", "at most 3,600"),
    ("Subscription.newBlock(confirmations)", "as Block.confirmations"),
    ("Subscription.projectedBlock(index)", "as ProjectedBlock.index"),
    ("Subscription.transactionStatus(untilConfirmations)", "as Block.confirmations"),
    ("SupplyTotals.height", "as Block.height"),
    ("SyncProgress.indexedHeight", "as Block.height"),
    ("SyncProgress.targetHeight", "as Block.height"),
    ("TapLeaf.leafVersion", "at most 254"),
    ("Transaction.adjustedVsize", "five times the sigop cost, or a quarter of the weight"),
    ("Transaction.ancestors(depth)", "as TransactionHop.depth"),
    ("Transaction.confirmations", "as Block.confirmations"),
    ("Transaction.confirmedAfterSeconds", "between the times of two clocks of 32 bits; no transaction waits 68 years"),
    ("Transaction.descendants(depth)", "as TransactionHop.depth"),
    ("Transaction.indexInBlock", "as Block.txCount"),
    ("Transaction.inputCount", "as Input.index"),
    ("Transaction.outputCount", "as OutPoint.vout"),
    ("Transaction.sigopCost", "at most 80,000 in a block, and 80 for each byte that a client sends"),
    ("Transaction.size", "as Block.size"),
    ("Transaction.strippedSize", "as Block.strippedSize"),
    ("Transaction.vsize", "a quarter of the weight"),
    ("Transaction.weight", "as Block.weight"),
    ("TransactionHop.depth", "at most as many as a list without pages has items"),
    ("TransactionStatusEvent.confirmations", "as Block.confirmations"),
    ("TransactionStatusEvent.projectedBlockIndex", "as ProjectedBlock.index"),
    ("TxOccurrence.index", "as Block.txCount"),
    ("Utxo.confirmations", "as Block.confirmations"),
    ("Utxo.height", "as Block.height"),
    ("Utxo.matureAtHeight", "a height plus 100"),
    ("UtxoFilter.minConfirmations", "as Block.confirmations"),
    ("UtxoSet.height", "as Block.height"),
    ("WtxidProof.position", "as Block.txCount"),
];

fn committed() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema.graphql");
    std::fs::read_to_string(path).expect("schema.graphql is part of the project")
}

#[test]
fn the_committed_schema_is_that_of_the_code() {
    assert!(
        committed() == btcgraph::api::sdl(),
        "schema.graphql is not the schema of the code. If the change is meant: btcgraph schema > schema.graphql"
    );
}

/// Everything that can have a description, by its place in the schema.
struct Walk {
    described: BTreeMap<String, bool>,
    ints: Vec<String>,
}

impl Walk {
    fn of(document: &ServiceDocument) -> Self {
        let mut walk = Self { described: BTreeMap::new(), ints: Vec::new() };
        for definition in &document.definitions {
            let TypeSystemDefinition::Type(definition) = definition else { continue };
            let definition = &definition.node;
            let name = definition.name.node.to_string();
            walk.described.insert(name.clone(), definition.description.is_some());
            match &definition.kind {
                TypeKind::Object(object) => walk.fields(&name, &object.fields),
                TypeKind::Interface(interface) => walk.fields(&name, &interface.fields),
                TypeKind::InputObject(input) => {
                    for field in &input.fields {
                        walk.input(&format!("{name}.{}", field.node.name.node), field);
                    }
                }
                TypeKind::Enum(values) => {
                    for value in &values.values {
                        walk.described
                            .insert(format!("{name}.{}", value.node.value.node), value.node.description.is_some());
                    }
                }
                TypeKind::Scalar | TypeKind::Union(_) => {}
            }
        }
        walk.ints.sort();
        walk
    }

    fn fields(&mut self, owner: &str, fields: &[Positioned<FieldDefinition>]) {
        for field in fields {
            let place = format!("{owner}.{}", field.node.name.node);
            self.described.insert(place.clone(), field.node.description.is_some());
            if is_int(&field.node.ty.node) {
                self.ints.push(place.clone());
            }
            for argument in &field.node.arguments {
                self.input(&format!("{place}({})", argument.node.name.node), argument);
            }
        }
    }

    fn input(&mut self, place: &str, value: &Positioned<InputValueDefinition>) {
        self.described.insert(place.to_owned(), value.node.description.is_some());
        let counts_rows = ["first", "last"].contains(&value.node.name.node.as_str());
        if is_int(&value.node.ty.node) && !counts_rows {
            self.ints.push(place.to_owned());
        }
    }
}

fn is_int(found: &Type) -> bool {
    match &found.base {
        BaseType::Named(name) => name == "Int",
        BaseType::List(item) => is_int(item),
    }
}

#[test]
fn arguments_of_pages_come_in_one_order() {
    const ORDER: [&str; 8] = ["filter", "range", "at", "order", "first", "after", "last", "before"];
    let document = parse_schema(type_definitions()).unwrap();
    let mut pages = 0;
    for definition in &document.definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let TypeKind::Object(object) = &definition.node.kind else { continue };
        for field in &object.fields {
            let names: Vec<_> = field.node.arguments.iter().map(|found| found.node.name.node.as_str()).collect();
            if names.contains(&"first") && names.contains(&"after") {
                let places: Vec<_> = names.iter().map(|name| ORDER.iter().position(|known| known == name)).collect();
                let place = format!("{}.{}", definition.node.name.node, field.node.name.node);
                // those of one list alone come first
                assert!(places.is_sorted(), "{place}: {names:?}");
                pages += 1;
            }
        }
    }
    assert!(pages > 20, "{pages}");
}

#[test]
fn everything_in_the_schema_has_a_description() {
    let walk = Walk::of(&parse_schema(type_definitions()).unwrap());
    assert!(walk.described.len() > 100, "the schema was read");
    let bare: Vec<_> = walk.described.iter().filter(|(_, described)| !**described).collect();
    assert!(bare.is_empty(), "{bare:?}");
}

#[test]
fn what_is_an_int_fits_32_bits_for_ever() {
    let walk = Walk::of(&parse_schema(type_definitions()).unwrap());
    let listed: Vec<_> = INT_FITS.iter().map(|(place, _)| (*place).to_owned()).collect();
    assert_eq!(walk.ints, listed, "an Int of the schema without a reason here, or the other way round");
}

/// The fields of a type with their types and without their descriptions.
fn fields_of(document: &ServiceDocument, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<(String, String)>> {
    let types = document.definitions.iter().filter_map(|definition| match definition {
        TypeSystemDefinition::Type(found) if wanted(&found.node.name.node) => match &found.node.kind {
            TypeKind::Object(object) => Some((found.node.name.node.to_string(), &object.fields)),
            _ => None,
        },
        _ => None,
    });
    let field = |field: &Positioned<FieldDefinition>| (field.node.name.node.to_string(), field.node.ty.to_string());
    types.map(|(name, fields)| (name, fields.iter().map(field).collect())).collect()
}

#[test]
fn all_connections_have_the_same_fields() {
    let found = fields_of(&parse_schema(type_definitions()).unwrap(), |name| name.ends_with("Connection"));
    assert!(found.len() >= 10, "{found:?}");
    for (name, fields) in found {
        let item = name.strip_suffix("Connection").unwrap();
        let mut expected = vec![
            ("edges".to_owned(), format!("[{item}Edge!]!")),
            ("nodes".to_owned(), format!("[{item}!]!")),
            ("pageInfo".to_owned(), "PageInfo!".to_owned()),
            ("totalCount".to_owned(), "UInt53".to_owned()),
        ];
        if name == "UtxoConnection" {
            expected.push(("totalValue".to_owned(), "Sats".to_owned()));
        }
        assert_eq!(fields, expected, "{name}");
    }
}
