//! What a chain says, counted in the simplest way: every row that an index must answer with, from the blocks alone.
//!
//! Nothing here is shared with the code under test but the `bitcoin` types. Heights, transaction numbers and positions
//! are plain numbers; amounts are in satoshi.

mod blocks;

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::consensus::serialize;
use bitcoin::hashes::hash160;
use bitcoin::{Block, OutPoint, ScriptBuf, Transaction, Txid, Weight};

pub(crate) use blocks::{BlockTotals, OfType, Sums, TYPES, Unspendable, type_of};

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

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OneTransaction {
    pub(crate) txid: Txid,
    pub(crate) height: u32,
    /// Its place in its block.
    pub(crate) index: u32,
    /// `None` for a coinbase.
    pub(crate) fee: Option<u64>,
    pub(crate) raw: Vec<u8>,
}

/// The truth about a chain at its tip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// By height.
    pub(crate) blocks: Vec<BlockTotals>,
    /// By height.
    pub(crate) sums: Vec<Sums>,
    /// By transaction number.
    pub(crate) transactions: Vec<OneTransaction>,
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
    /// Per public key, by its hash: the scripts that pay it bare, with the first transaction that did.
    pub(crate) bare_keys: BTreeMap<hash160::Hash, BTreeMap<ScriptBuf, TxNum>>,
    /// Where each unspent output is, by outpoint: its script, and its place in `unspent`.
    places: BTreeMap<OutPoint, (ScriptBuf, (TxNum, u32))>,
    /// Per block: what takes it back, the last change last.
    journal: Vec<Vec<Change>>,
}

/// A change that connecting a block made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Created(OutPoint),
    Removed(OutPoint, ScriptBuf, (TxNum, u32), Unspent),
    Spent((TxNum, u32)),
    Moved(ScriptBuf, TxNum),
    PaidOut(ScriptBuf, u32),
    ShowedKey(hash160::Hash, ScriptBuf),
    Transaction,
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

    /// Totals of a script after the block at a height.
    pub(crate) fn totals_at(&self, script: &ScriptBuf, height: u32) -> Totals {
        let block = &self.blocks[place_of(height)];
        let rows = self.history.get(script).map(|rows| rows.range(..block.first_txnum + block.transactions));
        rows.and_then(|mut rows| rows.next_back()).map(|(_, totals)| *totals).unwrap_or_default()
    }

    /// All unspent outputs.
    pub(crate) fn utxos(&self) -> BTreeMap<OutPoint, (ScriptBuf, Unspent)> {
        let unspent = |(outpoint, (script, place)): (&OutPoint, &(ScriptBuf, (TxNum, u32)))| {
            (*outpoint, (script.clone(), self.unspent[script][place]))
        };
        self.places.iter().map(unspent).collect()
    }

    /// The scripts that the block at a height pays or spends, but those that can never be spent.
    pub(crate) fn affected_scripts(&self, height: u32) -> impl Iterator<Item = &ScriptBuf> {
        self.journal[place_of(height)].iter().filter_map(|change| match change {
            Change::Moved(script, _) => Some(script),
            _ => None,
        })
    }

    /// Takes back the blocks that are not of this chain, and adds those that are missing.
    pub(crate) fn follow<'b>(&mut self, chain: impl IntoIterator<Item = &'b Block>) {
        let chain: Vec<_> = chain.into_iter().collect();
        let shared = self.blocks.iter().zip(&chain).take_while(|(known, block)| known.hash == block.block_hash());
        let shared = shared.count();
        while self.blocks.len() > shared {
            self.disconnect();
        }
        for block in &chain[shared..] {
            self.connect(block);
        }
    }

    /// Adds a block.
    pub(crate) fn connect(&mut self, block: &Block) {
        let height = number(self.blocks.len());
        let before = self.blocks.last().map_or((0, 0), |block| (block.utxo_count, block.utxo_value));
        let mut times: Vec<_> = self.blocks.iter().rev().take(10).map(|block| block.header.time).collect();
        times.push(block.header.time);
        times.sort_unstable();
        let coinbase_value = value_of(&block.txdata[0]);
        let weight = weight(block.weight());
        let mut totals = BlockTotals {
            hash: block.block_hash(),
            header: block.header,
            median_time: times[times.len() / 2],
            work: block.header.work(),
            size: number(block.total_size()),
            // weight is the size with witnesses, and three times the size without
            stripped_size: (weight - number(block.total_size())) / 3,
            weight,
            first_txnum: number(self.transactions.len()),
            transactions: number(block.txdata.len()),
            inputs: 0,
            outputs: 0,
            input_value: 0,
            output_value: 0,
            coinbase_value,
            subsidy: if height / 150 < 64 { 5_000_000_000 >> (height / 150) } else { 0 },
            fees: 0,
            fees_and_weights: Vec::new(),
            segwit: (0, 0, 0),
            taproot_outputs: 0,
            op_returns: (0, 0),
            coin_age: 0,
            types: BTreeMap::new(),
            unspendable: Unspendable::default(),
            utxo_count: before.0,
            utxo_value: before.1,
        };
        self.journal.push(Vec::new());
        // The coinbase comes first and is paid what the others leave.
        for (index, tx) in (0..).zip(&block.txdata) {
            self.connect_transaction(tx, (height, index), &mut totals);
        }
        totals.fees = totals.input_value + coinbase_value - totals.output_value;
        totals.unspendable.unclaimed_rewards =
            if height == 0 { 0 } else { totals.subsidy + totals.fees - coinbase_value };
        self.sums.push(self.sums.last().cloned().unwrap_or_default().plus(&totals));
        self.blocks.push(totals);
    }

    fn connect_transaction(&mut self, tx: &Transaction, (height, index): (u32, u32), block: &mut BlockTotals) {
        let txid = tx.compute_txid();
        let txnum = number(self.transactions.len());
        let mut movements: BTreeMap<ScriptBuf, Movement> = BTreeMap::new();

        let spent_before = block.input_value;
        if !tx.is_coinbase() {
            for (vin, input) in (0u32..).zip(&tx.input) {
                let (script, place, unspent) = self.remove(&input.previous_output, block).expect("a valid spend");
                self.spends.insert(place, (txnum, vin));
                self.note(Change::Spent(place));
                let of_type = block.types.entry(type_of(&script)).or_default();
                add(&mut of_type.spent, unspent.value);
                let created = match unspent.height {
                    height if height < number(self.blocks.len()) => self.blocks[place_of(height)].median_time,
                    _ => block.median_time,
                };
                block.coin_age += u128::from(unspent.value) * u128::from(block.median_time.saturating_sub(created));
                let movement = movements.entry(script).or_default();
                movement.spent += unspent.value;
                movement.outputs_spent += 1;
                block.inputs += 1;
                block.input_value += unspent.value;
            }
        }
        for (vout, output) in (0u32..).zip(&tx.output) {
            let value = output.value.to_sat();
            let script = output.script_pubkey.clone();
            block.outputs += 1;
            block.output_value += value;
            let of_type = block.types.entry(type_of(&script)).or_default();
            add(&mut of_type.created, value);
            if script.is_p2tr() {
                block.taproot_outputs += 1;
            }
            if script.is_op_return() {
                block.op_returns = (block.op_returns.0 + 1, block.op_returns.1 + number(script.len()));
            }
            if let Some(key) = script.p2pk_public_key() {
                let hash = key.pubkey_hash().to_raw_hash();
                let first = self.bare_keys.entry(hash).or_default().entry(script.clone());
                if let std::collections::btree_map::Entry::Vacant(vacant) = first {
                    vacant.insert(txnum);
                    self.note(Change::ShowedKey(hash, script.clone()));
                }
            }
            if height == 0 {
                add(&mut of_type.unspendable, value);
                block.unspendable.genesis_block += value;
                continue;
            }
            if script.as_bytes().first() == Some(&0x6a) || script.len() > 10_000 {
                add(&mut of_type.unspendable, value);
                block.unspendable.scripts += value;
                continue;
            }
            let outpoint = OutPoint { txid, vout };
            if let Some((_, _, overwritten)) = self.remove(&outpoint, block) {
                add(&mut block.types.entry(type_of(&script)).or_default().unspendable, overwritten.value);
                block.unspendable.bip30 += overwritten.value;
                let movement = movements.entry(script.clone()).or_default();
                movement.overwritten += overwritten.value;
                movement.outputs_overwritten += 1;
            }
            let movement = movements.entry(script.clone()).or_default();
            movement.received += value;
            movement.outputs_received += 1;
            block.utxo_count += 1;
            block.utxo_value += value;
            self.places.insert(outpoint, (script.clone(), (txnum, vout)));
            let unspent = Unspent { value, height, coinbase: tx.is_coinbase() };
            self.unspent.entry(script).or_default().insert((txnum, vout), unspent);
            self.note(Change::Created(outpoint));
        }
        for (script, movement) in movements {
            let mut totals = self.totals(&script);
            totals.received = totals.received + movement.received - movement.overwritten;
            totals.outputs_received =
                totals.outputs_received + movement.outputs_received - movement.outputs_overwritten;
            totals.spent += movement.spent;
            totals.outputs_spent += movement.outputs_spent;
            totals.transactions += 1;
            if tx.is_coinbase() {
                // overwritten outputs stay counted here: this sum yields the immature value, not the balance
                totals.coinbase_received += movement.received;
                totals.coinbase_transactions += 1;
                self.payouts.entry(script.clone()).or_default().insert(height);
                self.note(Change::PaidOut(script.clone(), height));
            }
            self.history.entry(script.clone()).or_default().insert(txnum, totals);
            self.note(Change::Moved(script, txnum));
        }
        let fee = (!tx.is_coinbase()).then(|| block.input_value - spent_before - value_of(tx));
        if let Some(fee) = fee {
            let (size, weight) = (number(tx.total_size()), weight(tx.weight()));
            block.fees_and_weights.push((fee, weight));
            if tx.input.iter().any(|input| !input.witness.is_empty()) {
                let (count, sizes, weights) = block.segwit;
                block.segwit = (count + 1, sizes + size, weights + weight);
            }
        }
        self.transactions.push(OneTransaction { txid, height, index, fee, raw: serialize(tx) });
        self.copies.entry(txid).or_default().push(txnum);
        self.note(Change::Transaction);
    }

    /// Takes the last block back.
    pub(crate) fn disconnect(&mut self) {
        self.blocks.pop().expect("has a block");
        self.sums.pop().expect("has a block");
        for change in self.journal.pop().expect("has a block").into_iter().rev() {
            match change {
                Change::Created(outpoint) => {
                    let (script, place) = self.places.remove(&outpoint).expect("was created");
                    remove_from(&mut self.unspent, &script, |of_script| of_script.remove(&place).is_some());
                }
                Change::Removed(outpoint, script, place, unspent) => {
                    self.unspent.entry(script.clone()).or_default().insert(place, unspent);
                    self.places.insert(outpoint, (script, place));
                }
                Change::Spent(place) => {
                    self.spends.remove(&place).expect("was spent");
                }
                Change::Moved(script, txnum) => {
                    remove_from(&mut self.history, &script, |rows| rows.remove(&txnum).is_some());
                }
                Change::PaidOut(script, height) => {
                    remove_from(&mut self.payouts, &script, |heights| heights.remove(&height));
                }
                Change::ShowedKey(hash, script) => {
                    remove_from(&mut self.bare_keys, &hash, |scripts| scripts.remove(&script).is_some());
                }
                Change::Transaction => {
                    let OneTransaction { txid, .. } = self.transactions.pop().expect("was added");
                    remove_from(&mut self.copies, &txid, |copies| copies.pop().is_some());
                }
            }
        }
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
        self.note(Change::Removed(*outpoint, script.clone(), place, unspent));
        Some((script, place, unspent))
    }

    fn note(&mut self, change: Change) {
        self.journal.last_mut().expect("a block is being connected").push(change);
    }
}

/// What one transaction does to one script.
#[derive(Default)]
struct Movement {
    received: u64,
    overwritten: u64,
    spent: u64,
    outputs_received: u32,
    outputs_overwritten: u32,
    outputs_spent: u32,
}

/// Takes something out of one of several collections, and with the last thing the collection.
fn remove_from<K: Ord, C: Default + PartialEq>(all: &mut BTreeMap<K, C>, key: &K, remove: impl FnOnce(&mut C) -> bool) {
    let one = all.get_mut(key).expect("is there");
    assert!(remove(one), "is there");
    if *one == C::default() {
        all.remove(key);
    }
}

fn add(pair: &mut (u64, u64), value: u64) {
    *pair = (pair.0 + 1, pair.1 + value);
}

fn value_of(tx: &Transaction) -> u64 {
    tx.output.iter().map(|output| output.value.to_sat()).sum()
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("a test chain is short")
}

fn weight(weight: Weight) -> u32 {
    u32::try_from(weight.to_wu()).expect("a block weighs little")
}

fn place_of(height: u32) -> usize {
    usize::try_from(height).expect("a height fits")
}
