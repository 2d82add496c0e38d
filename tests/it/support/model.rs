//! What a chain says, counted in the simplest way: every row that an index must answer with, from the blocks alone.
//!
//! Nothing here is shared with the code under test but the `bitcoin` types. Heights, transaction numbers and positions
//! are plain numbers; amounts are in satoshi.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::{Block, BlockHash, OutPoint, ScriptBuf, Transaction, Txid};

/// The position of a transaction in the chain; the genesis coinbase is 0.
pub(crate) type TxNum = u32;

/// Running totals of one script, its transaction included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) received: u64,
    pub(crate) spent: u64,
    pub(crate) coinbase_received: u64,
    pub(crate) transactions: u32,
    pub(crate) outputs_received: u32,
    pub(crate) outputs_spent: u32,
    pub(crate) coinbase_transactions: u32,
}

/// An unspent output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unspent {
    pub(crate) value: u64,
    pub(crate) height: u32,
    pub(crate) coinbase: bool,
}

/// What a block made unspendable, by the kinds of Core's `gettxoutsetinfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unspendable {
    pub(crate) genesis_block: u64,
    /// Unspent outputs of an earlier copy of a transaction, booked where they were overwritten.
    pub(crate) bip30: u64,
    pub(crate) scripts: u64,
    pub(crate) unclaimed_rewards: u64,
}

/// One block. All counts are of this block alone but those of the unspent outputs, which are as of this block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockTotals {
    pub(crate) hash: BlockHash,
    pub(crate) first_txnum: TxNum,
    pub(crate) transactions: u32,
    /// Without the coinbase's.
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    /// Without the coinbase's.
    pub(crate) input_value: u64,
    pub(crate) output_value: u64,
    pub(crate) subsidy: u64,
    pub(crate) fees: u64,
    pub(crate) unspendable: Unspendable,
    pub(crate) utxo_count: u64,
    pub(crate) utxo_value: u64,
}

/// The truth about a chain at its tip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// By height.
    pub(crate) blocks: Vec<BlockTotals>,
    /// By transaction number: the txid and the height.
    pub(crate) transactions: Vec<(Txid, u32)>,
    /// By txid: every copy in the chain, the latest last.
    pub(crate) copies: BTreeMap<Txid, Vec<TxNum>>,
    /// Per script: its totals after each of its transactions. Scripts that can never be spent have no entry.
    pub(crate) history: BTreeMap<ScriptBuf, BTreeMap<TxNum, Totals>>,
    /// Per script: what is unspent, by (txnum, vout).
    pub(crate) unspent: BTreeMap<ScriptBuf, BTreeMap<(TxNum, u32), Unspent>>,
    /// (funding txnum, vout) to (spending txnum, vin).
    pub(crate) spends: BTreeMap<(TxNum, u32), (TxNum, u32)>,
    /// Per script: the heights of the blocks whose coinbase paid it.
    pub(crate) payouts: BTreeMap<ScriptBuf, BTreeSet<u32>>,
    /// Where each unspent output is, by outpoint: its script, and its place in `unspent`.
    places: BTreeMap<OutPoint, (ScriptBuf, (TxNum, u32))>,
}

impl Model {
    /// Counts a regtest chain, whose blocks come in order from genesis on.
    pub(crate) fn of<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Model {
        let mut model = Model::default();
        for block in blocks {
            model.connect(block);
        }
        model
    }

    /// Totals of a script at the tip.
    pub(crate) fn totals(&self, script: &ScriptBuf) -> Totals {
        self.history.get(script).and_then(|rows| rows.last_key_value()).map(|(_, totals)| *totals).unwrap_or_default()
    }

    /// All unspent outputs.
    pub(crate) fn utxos(&self) -> BTreeMap<OutPoint, (ScriptBuf, Unspent)> {
        let unspent = |(outpoint, (script, place)): (&OutPoint, &(ScriptBuf, (TxNum, u32)))| {
            (*outpoint, (script.clone(), self.unspent[script][place]))
        };
        self.places.iter().map(unspent).collect()
    }

    fn connect(&mut self, block: &Block) {
        let height = number(self.blocks.len());
        let before = self.blocks.last().map_or((0, 0), |block| (block.utxo_count, block.utxo_value));
        let mut totals = BlockTotals {
            hash: block.block_hash(),
            first_txnum: number(self.transactions.len()),
            transactions: number(block.txdata.len()),
            inputs: 0,
            outputs: 0,
            input_value: 0,
            output_value: 0,
            subsidy: if height / 150 < 64 { 5_000_000_000 >> (height / 150) } else { 0 },
            fees: 0,
            unspendable: Unspendable::default(),
            utxo_count: before.0,
            utxo_value: before.1,
        };
        // The coinbase comes first and is paid what the others leave.
        for tx in &block.txdata {
            self.connect_transaction(tx, height, &mut totals);
        }
        let coinbase_value = value_of(&block.txdata[0]);
        totals.fees = totals.input_value + coinbase_value - totals.output_value;
        totals.unspendable.unclaimed_rewards =
            if height == 0 { 0 } else { totals.subsidy + totals.fees - coinbase_value };
        self.blocks.push(totals);
    }

    fn connect_transaction(&mut self, tx: &Transaction, height: u32, block: &mut BlockTotals) {
        let txid = tx.compute_txid();
        let txnum = number(self.transactions.len());
        let mut changes: BTreeMap<ScriptBuf, Change> = BTreeMap::new();

        if !tx.is_coinbase() {
            for (vin, input) in (0u32..).zip(&tx.input) {
                let (script, place, unspent) = self.remove(&input.previous_output, block).expect("a valid spend");
                self.spends.insert(place, (txnum, vin));
                let change = changes.entry(script).or_default();
                change.spent += unspent.value;
                change.outputs_spent += 1;
                block.inputs += 1;
                block.input_value += unspent.value;
            }
        }
        for (vout, output) in (0u32..).zip(&tx.output) {
            let value = output.value.to_sat();
            let script = output.script_pubkey.clone();
            block.outputs += 1;
            block.output_value += value;
            if height == 0 {
                block.unspendable.genesis_block += value;
                continue;
            }
            if script.as_bytes().first() == Some(&0x6a) || script.len() > 10_000 {
                block.unspendable.scripts += value;
                continue;
            }
            let outpoint = OutPoint { txid, vout };
            if let Some((_, _, overwritten)) = self.remove(&outpoint, block) {
                block.unspendable.bip30 += overwritten.value;
                let change = changes.entry(script.clone()).or_default();
                change.overwritten += overwritten.value;
                change.outputs_overwritten += 1;
            }
            let change = changes.entry(script.clone()).or_default();
            change.received += value;
            change.outputs_received += 1;
            block.utxo_count += 1;
            block.utxo_value += value;
            self.places.insert(outpoint, (script.clone(), (txnum, vout)));
            let unspent = Unspent { value, height, coinbase: tx.is_coinbase() };
            self.unspent.entry(script).or_default().insert((txnum, vout), unspent);
        }
        for (script, change) in changes {
            let mut totals = self.totals(&script);
            totals.received = totals.received + change.received - change.overwritten;
            totals.outputs_received = totals.outputs_received + change.outputs_received - change.outputs_overwritten;
            totals.spent += change.spent;
            totals.outputs_spent += change.outputs_spent;
            totals.transactions += 1;
            if tx.is_coinbase() {
                // what is overwritten stays counted here: it tells how much is immature, not what the balance is
                totals.coinbase_received += change.received;
                totals.coinbase_transactions += 1;
                self.payouts.entry(script.clone()).or_default().insert(height);
            }
            self.history.entry(script).or_default().insert(txnum, totals);
        }
        self.transactions.push((txid, height));
        self.copies.entry(txid).or_default().push(txnum);
    }

    fn remove(&mut self, outpoint: &OutPoint, block: &mut BlockTotals) -> Option<(ScriptBuf, (TxNum, u32), Unspent)> {
        let (script, place) = self.places.remove(outpoint)?;
        let of_script = self.unspent.get_mut(&script).expect("has a place");
        let unspent = of_script.remove(&place).expect("has a place");
        if of_script.is_empty() {
            self.unspent.remove(&script);
        }
        block.utxo_count -= 1;
        block.utxo_value -= unspent.value;
        Some((script, place, unspent))
    }
}

/// What one transaction does to one script.
#[derive(Default)]
struct Change {
    received: u64,
    overwritten: u64,
    spent: u64,
    outputs_received: u32,
    outputs_overwritten: u32,
    outputs_spent: u32,
}

fn value_of(tx: &Transaction) -> u64 {
    tx.output.iter().map(|output| output.value.to_sat()).sum()
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("a test chain is short")
}
