//! What a page of an explorer reads, from a snapshot without the schema, and what to ask for.

use anyhow::{Context, Result, ensure};
use bitcoin::{Address, Network, Txid};
use btcgraph::chain::{Height, address_of};
use btcgraph::index::{Occurrence, Snapshot, StoredTransaction, TxNum, WantedTransaction};
use btcgraph::sim::Rng;

/// Transactions of a page.
const PAGE_LENGTH: usize = 25;
/// The first blocks of a simulated chain have hardly any transactions. Of a short chain its second half is read.
const FIRST: u32 = 150;

pub(crate) const TRANSACTION: &str = "a transaction with its prevouts and spenders";
pub(crate) const ADDRESS: &str = "an address: balance and the newest 25";
pub(crate) const BLOCK_PAGE: &str = "25 transactions of a block, with inputs and outputs";

/// What is asked for, all of it frozen, always the same.
pub(crate) struct Subjects {
    pub(crate) txids: Vec<Txid>,
    pub(crate) addresses: Vec<String>,
    pub(crate) heights: Vec<Height>,
}

impl Subjects {
    /// Picks so many of each.
    pub(crate) fn pick(snapshot: &Snapshot, count: usize) -> Result<Self> {
        let last = snapshot.frozen().context("blocks are frozen")?.height;
        let first_txnum = |height| -> Result<u64> {
            Ok(snapshot.block(height)?.context("the chain has it")?.first_txnum(height)?.0.into())
        };
        let from = FIRST.min(last.to_u32() / 2);
        let (first, end) = (first_txnum(Height::from(from))?, first_txnum(last)?);
        let mut rng = Rng::new(1);
        let (mut txids, mut addresses, mut heights) = (Vec::new(), Vec::new(), Vec::new());
        while txids.len() < count {
            let txnum = TxNum(u32::try_from(rng.between(first, end - 1))?);
            let read = snapshot.read_several(&[WantedTransaction::At(txnum)], usize::MAX, |transaction| transaction)?;
            let transaction = read.into_iter().flatten().next().context("the chain has it")?;
            txids.push(transaction.txid);
            let scripts = transaction.parts.output.iter().map(|output| output.script_pubkey.as_script());
            addresses.extend(scripts.filter_map(|script| address_of(script, Network::Regtest)));
            heights.push(Height::from(u32::try_from(rng.between(from.into(), u64::from(last.to_u32()) - 1))?));
        }
        addresses.truncate(count);
        Ok(Self { txids, addresses, heights })
    }
}

pub(crate) fn read_transaction(snapshot: &Snapshot, txid: Txid) -> Result<()> {
    let transaction = snapshot.newest(&txid)?.context("the chain has it")?;
    read_inputs_and_outputs(snapshot, &[transaction])
}

pub(crate) fn read_address(snapshot: &Snapshot, address: &str) -> Result<()> {
    let address: Address<_> = address.parse()?;
    let script = snapshot.script_key(address.assume_checked().script_pubkey().as_bytes());
    snapshot.totals(script, TxNum(u32::MAX))?.context("it received something")?;
    let newest = snapshot.history(script, TxNum(0)..TxNum(u32::MAX))?.rev().take(PAGE_LENGTH);
    let newest: Vec<_> = newest.map(|row| Ok(WantedTransaction::At(row?.0))).collect::<Result<_>>()?;
    let read = snapshot.read_several(&newest, usize::MAX, drop)?;
    ensure!(read.iter().all(Option::is_some), "the chain has all of them");
    Ok(())
}

pub(crate) fn read_block_page(snapshot: &Snapshot, height: Height) -> Result<()> {
    let block = snapshot.block(height)?.context("the chain has it")?;
    let first = block.first_txnum(height)?;
    let count = block.transactions.min(u32::try_from(PAGE_LENGTH)?);
    read_inputs_and_outputs(snapshot, &snapshot.newest_of_block(first, Occurrence { height, index: 0 }, count)?)
}

/// Reads what these transactions spend, and the txids of those that spend their outputs.
fn read_inputs_and_outputs(snapshot: &Snapshot, transactions: &[StoredTransaction]) -> Result<()> {
    let inputs = transactions.iter().filter(|transaction| transaction.fee.is_some());
    let prevouts = inputs.flat_map(|transaction| &transaction.parts.input).map(|input| input.previous_output.txid);
    let prevouts: Vec<_> = prevouts.map(WantedTransaction::Newest).collect();
    let read = snapshot.read_several(&prevouts, usize::MAX, drop)?;
    ensure!(read.iter().all(Option::is_some), "the chain has all of them");
    for transaction in transactions {
        for vout in 0..u32::try_from(transaction.parts.output.len())? {
            if let Some(spender) = snapshot.spender(transaction.txnum, vout)? {
                snapshot.txid(spender.txnum)?.context("the chain has it")?;
            }
        }
    }
    Ok(())
}
