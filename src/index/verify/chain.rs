//! Pass 1: reads the stored chain and the spends beside each other, and computes the rows that the other tables must have.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Script, Txid};

use super::super::block::BlockOutput;
use super::super::codec::small;
use super::super::error::IndexError;
use super::super::frozen::tables::positions::BlockOffset;
use super::super::hot::resolve::{ResolvedPrevout, parse};
use super::super::hot::tables::block_hashes::{BlockPlace, ChainMembership};
use super::super::hot::tables::block_starts::BlockStart;
use super::super::hot::tables::blocks::{self, BlockRow};
use super::super::hot::tables::transactions::TransactionRow;
use super::super::hot::tables::{p2pk, payouts, spends, txids, unspent};
use super::super::keys::{Position, TxNum};
use super::link::Link;
use super::merged::InOrder;
use super::report::hex;
use super::spent::{PackedState, SpendsReader};
use super::utxo;
use super::work::{Work, sorting};
use crate::chain::Height;
use crate::chain::network::genesis_hash;

/// The tables that have an entry for each block, transaction or output, read along the chain.
struct AlongChain<'a> {
    starts: InOrder<'a, [u8; 4], [u8; 8]>,
    spends: SpendsReader<'a>,
    frozen_txids: InOrder<'a, [u8; 4], Txid>,
    frozen_positions: InOrder<'a, [u8; 4], BlockOffset>,
}

/// A transaction whose outputs are read.
#[derive(Clone, Copy)]
struct Creator<'b> {
    block: &'b BlockRow,
    height: Height,
    txnum: TxNum,
    txid: Txid,
    is_coinbase: bool,
}

/// Whether an output has a row in `unspent`, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnspentRecord {
    /// It is unspent: a live row, or one of its generation.
    Unspent,
    /// It is spent or overwritten since its generation, which has a row all the same.
    GoneSince,
}

impl UnspentRecord {
    /// The last byte of the record of an expected row.
    pub(super) const fn byte(self) -> u8 {
        match self {
            Self::Unspent => 0,
            Self::GoneSince => 1,
        }
    }
}

impl Work<'_> {
    /// Reads the chain unless its blocks cannot be requested. `below` is the highest block of generations.
    pub(super) fn read_chain(&mut self, below: Option<BlockHash>) -> Result<(), IndexError> {
        let snapshot = self.snapshot;
        let mut tables = AlongChain {
            starts: InOrder::new("block_starts", snapshot.all_block_starts()?),
            spends: SpendsReader::new(snapshot)?,
            frozen_txids: snapshot.of_each_frozen("txids", |of| of.generation.scan_txids())?,
            frozen_positions: snapshot.of_each_frozen("positions", |of| of.generation.scan_positions())?,
        };
        let (mut txnum, mut below) = (TxNum(0), below);
        let heights = snapshot.tip().map_or(0, |tip| tip.height.to_u32() + 1);
        let first_live = snapshot.first_live_height();
        for height in (0..heights).map(Height::from) {
            let Some(row) = self.differences.record(snapshot.block(height))?.flatten() else {
                self.differences.add(format!("blocks: the row at height {height} is missing or damaged"));
                return Ok(());
            };
            self.read_block_places(height, &row, txnum, &mut tables.starts)?;
            let is_frozen = height < first_live;
            if !is_frozen {
                self.check_links(height, &row, below.replace(row.hash));
            }
            if u64::from(txnum.0) + u64::from(row.transactions) > self.transactions {
                self.differences
                    .add(format!("blocks: the row at height {height} counts more transactions than the tip"));
                return Ok(());
            }
            if is_frozen {
                txnum = self.read_frozen_block(&row, height, txnum, &mut tables)?;
                continue;
            }
            for index in 0..row.transactions {
                self.read_transaction(&row, height, txnum, index == 0, &mut tables.spends)?;
                self.progress("reading the chain", u64::from(txnum.0) + 1, self.transactions)?;
                txnum = TxNum(txnum.0.saturating_add(1));
            }
        }
        tables.starts.finish(&mut self.differences)?;
        tables.frozen_positions.finish(&mut self.differences)?;
        tables.spends.finish(&mut self.differences)
    }

    fn read_block_places(
        &mut self,
        height: Height,
        row: &BlockRow,
        first: TxNum,
        starts: &mut InOrder<'_, [u8; 4], [u8; 8]>,
    ) -> Result<(), IndexError> {
        let start = BlockStart { first, height, median_time: row.median_time };
        let found = starts.take(&start.key(), &mut self.differences)?;
        if found != Some(start.value()) {
            self.differences.add(format!("block_starts: the row of height {height} is missing or differs"));
        }
        if let Some(found) = found {
            self.digests.block_starts.row(&start.key(), &found);
        }
        if height < self.snapshot.first_live_height() {
            self.digests.blocks.row(&blocks::key(height), &row.encode());
        }
        let place = BlockPlace { height, membership: ChainMembership::Main };
        self.block_hashes.push(&[row.hash.as_byte_array(), &place.value()]).map_err(sorting)
    }

    /// Each block must have the hash of its header and refer to the block below. The lowest must be the network's
    /// genesis block, the highest the tip.
    /// Returns whether that is so.
    pub(super) fn check_links(&mut self, height: Height, row: &BlockRow, below: Option<BlockHash>) -> bool {
        let before = self.differences.count();
        if row.hash != row.header.block_hash() {
            self.differences
                .add(format!("blocks: the row at height {height} has a hash that is not that of its header"));
        }
        match below {
            Some(below) if row.header.prev_blockhash != below => {
                let what = format!("blocks: the row at height {height} does not refer to the block below it");
                self.differences.add(what);
            }
            None if row.hash != genesis_hash(self.snapshot.network()) => {
                self.differences.add("blocks: the row at height 0 is not the network's genesis block");
            }
            _ => {}
        }
        if self.snapshot.tip().is_some_and(|tip| tip.height == height && tip.hash != row.hash) {
            self.differences.add("meta: the tip names another block than the highest row of blocks");
        }
        self.differences.count() == before
    }

    /// Reads a block that is in a generation, and returns the number of the transaction behind it.
    fn read_frozen_block(
        &mut self,
        row: &BlockRow,
        height: Height,
        first: TxNum,
        tables: &mut AlongChain<'_>,
    ) -> Result<TxNum, IndexError> {
        let (block, damage) = self.frozen_block(height, row, first)?;
        if let Some(damage) = damage {
            self.differences.add(damage);
        }
        let mut txnum = first;
        for (transaction, index) in block.transactions.iter().zip(0..) {
            let (txid, raw, is_coinbase) = (transaction.txid, block.raw(transaction), index == 0);
            match tables.frozen_txids.take(&txnum.to_key(), &mut self.differences)? {
                Some(stored) if stored != txid => {
                    self.differences.add(format!("txids: transaction {txnum} has another txid than its bytes"));
                }
                // the pass before reported that it is missing
                _ => {}
            }
            let (offset, length) = (small(transaction.raw.start), small(raw.len()));
            match tables.frozen_positions.take(&txnum.to_key(), &mut self.differences)? {
                Some(stored) => {
                    if (stored.offset, stored.length, stored.fee.is_none()) != (offset, length, is_coinbase) {
                        self.differences.add(format!("positions: transaction {txnum} lies elsewhere in its block"));
                    }
                    let row = TransactionRow { txid, fee: stored.fee.unwrap_or(0), is_coinbase, raw };
                    self.digests.transactions.row(&txnum.to_key(), &row.encode());
                }
                None => self.differences.add(format!("positions: transaction {txnum} is missing")),
            }
            let creator = Creator { block: row, height, txnum, txid, is_coinbase };
            let scripts = parse(txnum, raw)?;
            self.expect_optional(txnum, &scripts)?;
            let outputs = block.outputs[transaction.outputs.clone()].iter().copied();
            let outputs = outputs.zip(scripts.outputs().map(|output| output.script_pubkey));
            self.read_outputs(creator, outputs, &mut tables.spends)?;
            self.progress("reading the chain", u64::from(txnum.0) + 1, self.transactions)?;
            txnum = TxNum(txnum.0.saturating_add(1));
        }
        Ok(txnum)
    }

    fn read_transaction(
        &mut self,
        block: &BlockRow,
        height: Height,
        txnum: TxNum,
        is_coinbase: bool,
        spends: &mut SpendsReader<'_>,
    ) -> Result<(), IndexError> {
        let Some(stored) = self.snapshot.transactions.get(&txnum.to_key())? else {
            self.differences.add(format!("transactions: row {txnum} is missing"));
            return Ok(());
        };
        let Some(row) = self.differences.record(TransactionRow::decode(stored.value()))? else { return Ok(()) };
        let Some(raw) = self.differences.record(parse(txnum, row.raw))? else { return Ok(()) };
        if raw.txid() != row.txid || raw.is_coinbase() != row.is_coinbase || row.is_coinbase != is_coinbase {
            self.differences.add(format!("transactions: row {txnum} does not match its bytes"));
        }
        let salt = self.snapshot.salt();
        self.txids.push(&[&txids::key(salt.txid_prefix(&row.txid), txnum)]).map_err(sorting)?;
        self.expect_optional(txnum, &raw)?;
        let creator = Creator { block, height, txnum, txid: row.txid, is_coinbase };
        let outputs = (0..).map_while(Position::new).zip(raw.outputs()).map(|(vout, output)| {
            let script = output.script_pubkey;
            (BlockOutput::of(salt, vout, output.value, Script::from_bytes(script)), script)
        });
        self.read_outputs(creator, outputs, spends)
    }

    /// Reads what became of the outputs of a transaction, each with its script.
    fn read_outputs<'o>(
        &mut self,
        creator: Creator<'_>,
        outputs: impl Iterator<Item = (BlockOutput, &'o [u8])>,
        spends: &mut SpendsReader<'_>,
    ) -> Result<(), IndexError> {
        let Creator { block, height, txnum, txid, is_coinbase } = creator;
        for (output, script) in outputs {
            self.expect_output(&creator, &output)?;
            let BlockOutput { vout, script: script_key, value, script_type, .. } = output;
            let outpoint = spends::tx_point(txnum, vout);
            let fate = spends.take(outpoint, &mut self.differences)?;
            let is_unspendable = height == Height::GENESIS || output.never_spendable;
            if fate.packed.is_some_and(|state| (state == PackedState::Unspendable) != is_unspendable) {
                let what = if is_unspendable { "can never be spent" } else { "can be spent" };
                self.differences
                    .add(format!("spends: output {} {what}, but its generation says otherwise", hex(&outpoint)));
            }
            let mut record = UnspentRecord::GoneSince;
            if let Some(spender) = fate.spender {
                self.digests.spends.row(&outpoint, &spender);
                let median_time = block.median_time;
                let prevout =
                    ResolvedPrevout { txnum, vout, script: script_key, value, script_type, is_coinbase, median_time };
                let script = if self.checks_filters() { script.to_vec() } else { Vec::new() };
                let link = Link { input: spender, txid, prevout, script };
                if let Some(links) = &mut self.links {
                    links.push(&[&link.encode()]).map_err(sorting)?;
                }
            } else if is_unspendable {
                continue;
            } else if let Some(later) = self.overwritten_by.get(&txnum) {
                self.overwritten_rows.push((outpoint, *later));
                self.overwritten.entry(*later).or_default().push(output);
            } else {
                record = UnspentRecord::Unspent;
                let coin = utxo::encode(&txid, vout, height, is_coinbase, value, script);
                if let Some(utxos) = &mut self.utxos {
                    utxos.push(&[&coin]).map_err(sorting)?;
                }
            }
            let has_row = match record {
                UnspentRecord::Unspent => true,
                UnspentRecord::GoneSince => {
                    fate.packed == Some(PackedState::Unspent) && !self.own_overwritten.contains(&outpoint)
                }
            };
            if has_row {
                let key = unspent::key(script_key, txnum, vout);
                let row = unspent::UnspentRow { value, is_coinbase }.encode();
                self.unspent.push(&[&key, &row, &[record.byte()]]).map_err(sorting)?;
            }
        }
        Ok(())
    }

    /// Expects the rows that an output has whether it is spent or not.
    fn expect_output(&mut self, creator: &Creator<'_>, output: &BlockOutput) -> Result<(), IndexError> {
        let Creator { height, txnum, is_coinbase, .. } = *creator;
        if let Some(key_hash) = output.p2pk {
            self.p2pk.push(&[&p2pk::key(key_hash, output.script), &txnum.to_key()]).map_err(sorting)?;
        }
        if is_coinbase && height != Height::GENESIS && !output.never_spendable {
            self.payouts.push(&[&payouts::key(output.script, height)]).map_err(sorting)?;
        }
        Ok(())
    }
}
