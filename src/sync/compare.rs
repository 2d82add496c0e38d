//! Compares the index with its node: the hash over the UTXO set, and random blocks.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use bitcoin::OutPoint;

use super::error::SyncError;
use super::fork::fork_point;
use crate::chain::Height;
use crate::index::{IndexError, Report, Snapshot, Tip, TxNum};
use crate::node::{Node, TxOutSetHash, TxOutSetInfo, VerboseBlock, VerboseInput, VerboseTransaction};

/// The state of the node before the check of the index, which may take hours.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// The height of its newest block.
    pub height: Height,
    /// Its report on its UTXO set; `None` if its newest block is not the tip of the index.
    pub utxo_set: Option<TxOutSetInfo>,
}

impl NodeState {
    /// Requests the UTXO set from the node, if the node is at this tip. The node reads all of it, which takes minutes
    /// on mainnet.
    ///
    /// Errors: as [`SyncError::Node`].
    pub fn at(node: &Node, tip: Option<Tip>) -> Result<Self, SyncError> {
        let info = node.chain_info()?;
        let Some(tip) = tip.filter(|tip| tip.hash == info.best_block_hash) else {
            return Ok(Self { height: info.blocks, utxo_set: None });
        };
        let set = node.txout_set_info(TxOutSetHash::HashSerialized3)?;
        // a block may have arrived before the node began
        Ok(Self { height: set.height, utxo_set: Some(set).filter(|set| set.best_block == tip.hash) })
    }
}

/// The result of a comparison with the node.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The highest block of both chains; below the tip of the index after a reorganisation that the index has not
    /// followed yet. `None` if the index is empty.
    pub agreed: Option<Tip>,
    /// The state of the node; without a UTXO set none was compared.
    pub node: NodeState,
    /// The lowest height from which the node has all blocks: those below it were pruned, and not compared.
    pub kept_from: Height,
    /// The heights of the blocks whose inputs and outputs were compared.
    pub blocks: Vec<Height>,
    /// All differences.
    pub differences: Vec<String>,
}

/// Compares the UTXO set in `report` with the one in `state`, and `count` random blocks of those in both chains (always
/// including the highest) that the node has not pruned. A reorganisation at the tip is no difference, as the index will follow
/// it.
///
/// Errors: [`SyncError`]; a difference is not an error.
pub fn compare_with_node(
    node: &Node,
    chain: &Snapshot,
    report: &Report,
    state: NodeState,
    count: usize,
) -> Result<Comparison, SyncError> {
    let agreed = fork_point(node, chain)?;
    let mut differences = Vec::new();
    if let Some(info) = &state.utxo_set {
        compare_utxo_sets(report, info, &mut differences);
    }
    let mut blocks = Vec::new();
    let kept_from = node.chain_info()?.prune_height.unwrap_or_default();
    let drawn = agreed.map(|agreed| draw(kept_from..=agreed.height, count)).transpose()?;
    for height in drawn.into_iter().flatten() {
        let block = node.block_verbose(&chain.block_hash(height)?)?;
        differences.extend(compare_block(chain, height, &block)?);
        blocks.push(height);
    }
    Ok(Comparison { agreed, node: state, kept_from, blocks, differences })
}

fn compare_utxo_sets(report: &Report, info: &TxOutSetInfo, differences: &mut Vec<String>) {
    let ours = &report.utxo_set;
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            differences.push(format!("UTXO set: {what}: the index has {ours}, the node {theirs}"));
        }
    };
    compare("outputs", ours.outputs.to_string(), info.outputs.to_string());
    compare("amount", ours.total_amount.to_string(), info.total_amount.to_string());
    if let Some(hash) = &info.hash_serialized_3 {
        compare("hash_serialized_3", ours.hash_serialized_3.to_string(), hash.to_string());
    }
}

/// `count` different heights of a range, its highest one among them.
fn draw(range: RangeInclusive<Height>, count: usize) -> Result<BTreeSet<Height>, SyncError> {
    let (lowest, highest) = range.into_inner();
    let Some(above) = highest.to_u32().checked_sub(lowest.to_u32()) else { return Ok(BTreeSet::new()) };
    let mut heights = BTreeSet::from([highest]);
    let blocks = u64::from(above) + 1;
    let count = count.min(usize::try_from(blocks).unwrap_or(usize::MAX));
    while heights.len() < count {
        let drawn = getrandom::u64().map_err(IndexError::from)? % blocks;
        heights.extend(u32::try_from(drawn).map(|drawn| Height::from(lowest.to_u32() + drawn)));
    }
    Ok(heights)
}

/// The differences between a block of the index and the node's report on it.
fn compare_block(chain: &Snapshot, height: Height, block: &VerboseBlock) -> Result<Vec<String>, IndexError> {
    let Some(row) = chain.block(height)? else { return Ok(vec![format!("height {height}: the index has no block")]) };
    let mut differences = Vec::new();
    if row.hash != block.hash || usize::try_from(row.transactions) != Ok(block.transactions.len()) {
        differences.push(format!("height {height}: the index and the node have different blocks"));
        return Ok(differences);
    }
    let Some(first) = row.running.transactions.checked_sub(row.transactions.into()) else {
        return Ok(vec![format!("height {height}: the index counts fewer transactions up to the block than in it")]);
    };
    for (position, expected) in (first..).zip(&block.transactions) {
        let txnum = TxNum(u32::try_from(position).unwrap_or(u32::MAX));
        let found = match compare_transaction(chain, txnum, expected) {
            // what is damaged differs; other errors end the comparison
            Err(IndexError::Corrupt { table, what }) => Some(format!("{table} is damaged: {what}")),
            found => found?,
        };
        if let Some(what) = found {
            differences.push(format!("height {height}, transaction {}: {what}", expected.txid));
        }
    }
    Ok(differences)
}

fn compare_transaction(
    chain: &Snapshot,
    txnum: TxNum,
    expected: &VerboseTransaction,
) -> Result<Option<String>, IndexError> {
    let Some(stored) = chain.transaction(txnum)? else { return Ok(Some("is missing".into())) };
    if (stored.txid, stored.parts.compute_txid()) != (expected.txid, expected.txid) {
        return Ok(Some(format!("the index has {} in its place", stored.txid)));
    }
    if expected.fee.is_some() && stored.fee != expected.fee.map(bitcoin::Amount::to_sat) {
        return Ok(Some(format!("the index has a fee of {:?} sat, the node {:?}", stored.fee, expected.fee)));
    }
    if stored.parts.output != expected.outputs {
        return Ok(Some("its outputs differ".into()));
    }
    for (vin, input) in (0..).zip(&expected.inputs) {
        if let Some(what) = compare_input(chain, stored.txnum, vin, input)? {
            return Ok(Some(format!("input {vin}: {what}")));
        }
    }
    Ok(None)
}

/// Checks an input: the output that it spends, and the spender of that output.
fn compare_input(
    chain: &Snapshot,
    spending: TxNum,
    vin: u32,
    expected: &VerboseInput,
) -> Result<Option<String>, IndexError> {
    let (Some(OutPoint { txid, vout }), Some(spent)) = (expected.outpoint, &expected.spent) else { return Ok(None) };
    let before = chain.positions(&txid)?.into_iter().rfind(|txnum| *txnum < spending);
    let Some(funding) = before else { return Ok(Some(format!("the index does not have {txid}"))) };
    let Some(stored) = chain.transaction(funding)? else { return Ok(Some(format!("{txid} is missing"))) };
    let same_output = stored.parts.output(vout).is_some_and(|output| output.to_tx_out() == spent.output);
    if !same_output || stored.fee.is_none() != spent.is_coinbase || chain.occurrence(funding)?.height != spent.height {
        return Ok(Some(format!("the index and the node disagree on output {txid}:{vout}")));
    }
    match chain.spender(funding, vout)? {
        Some(spender) if (spender.txnum, spender.vin) == (spending, vin) => Ok(None),
        _ => Ok(Some(format!("the index does not record that it spends {txid}:{vout}"))),
    }
}
