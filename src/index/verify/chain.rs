//! Pass 1: reads the stored chain and the spends beside each other, and computes the rows that the other tables must have.

use std::iter::Peekable;

use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::hex::DisplayHex;
use bitcoin::{BlockHash, Script};

use super::super::block::BlockOutput;
use super::super::error::IndexError;
use super::super::keys::{Position, TxNum};
use super::super::resolve::{ResolvedPrevout, parse};
use super::super::tables::block_hashes::{BlockPlace, ChainMembership};
use super::super::tables::block_starts::BlockStart;
use super::super::tables::blocks::BlockRow;
use super::super::tables::transactions::TransactionRow;
use super::super::tables::{p2pk, payouts, spends, txids, unspent};
use super::link::Link;
use super::{Work, sorting, utxo};
use crate::chain::Height;
use crate::chain::network::genesis_hash;

/// The rows of `spends`, in the order of the spent outputs.
type SpendRows<'a> = Peekable<Box<dyn Iterator<Item = Result<(spends::TxPoint, spends::TxPoint), IndexError>> + 'a>>;

impl Work<'_> {
    pub(super) fn read_chain(&mut self) -> Result<(), IndexError> {
        let snapshot = self.snapshot;
        let rows = snapshot.spends.range::<&spends::TxPoint>(..)?;
        let rows = rows.map(|row| row.map(|(key, value)| (*key.value(), *value.value())).map_err(IndexError::from));
        let mut spends: SpendRows<'_> = (Box::new(rows) as Box<dyn Iterator<Item = _>>).peekable();
        let (mut txnum, mut below) = (TxNum(0), None);
        let heights = snapshot.tip().map_or(0, |tip| tip.height.to_u32() + 1);
        for height in (0..heights).map(Height::from) {
            let Some(row) = self.differences.record(snapshot.block(height))?.flatten() else {
                self.differences.add(format!("blocks: the row at height {height} is missing or damaged"));
                return Ok(());
            };
            self.read_block_places(height, &row, txnum)?;
            self.check_links(height, &row, below.replace(row.hash));
            if u64::from(txnum.0) + u64::from(row.transactions) > self.transactions {
                self.differences
                    .add(format!("blocks: the row at height {height} counts more transactions than the tip"));
                return Ok(());
            }
            for index in 0..row.transactions {
                self.read_transaction(&row, height, txnum, index == 0, &mut spends)?;
                self.progress("reading the chain", u64::from(txnum.0) + 1, self.transactions)?;
                txnum = TxNum(txnum.0.saturating_add(1));
            }
        }
        for row in spends {
            self.superfluous("spends", &row?.0);
        }
        Ok(())
    }

    fn read_block_places(&mut self, height: Height, row: &BlockRow, first: TxNum) -> Result<(), IndexError> {
        let start = BlockStart { first, height, median_time: row.median_time };
        let found = self.snapshot.block_starts.get(&start.key())?.map(|value| *value.value());
        if found != Some(start.value()) {
            self.differences.add(format!("block_starts: the row of height {height} is missing or differs"));
        }
        let place = BlockPlace { height, membership: ChainMembership::Main };
        self.block_hashes.push(&[row.hash.as_byte_array(), &place.value()]).map_err(sorting)
    }

    /// Each block must have the hash of its header and refer to the block below. The lowest must be the network's
    /// genesis block, the highest the tip.
    fn check_links(&mut self, height: Height, row: &BlockRow, below: Option<BlockHash>) {
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
    }

    fn read_transaction(
        &mut self,
        block: &BlockRow,
        height: Height,
        txnum: TxNum,
        is_coinbase: bool,
        spends: &mut SpendRows<'_>,
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
        for (vout, output) in (0..).map_while(Position::new).zip(raw.outputs()) {
            let script = output.script_pubkey;
            let output = BlockOutput::of(salt, vout, output.value, Script::from_bytes(script));
            self.expect_output(height, &row, txnum, &output)?;
            let outpoint = spends::tx_point(txnum, vout);
            while let Some(row) = spends.next_if(|row| row.as_ref().is_ok_and(|(key, _)| *key < outpoint)) {
                self.superfluous("spends", &row?.0);
            }
            let BlockOutput { script: script_key, value, script_type, .. } = output;
            if let Some(spend) = spends.next_if(|row| !row.as_ref().is_ok_and(|(key, _)| *key != outpoint)) {
                let prevout = ResolvedPrevout {
                    txnum,
                    vout,
                    script: script_key,
                    value,
                    script_type,
                    is_coinbase,
                    median_time: block.median_time,
                };
                let link = Link { input: spend?.1, txid: row.txid, prevout };
                if let Some(links) = &mut self.links {
                    links.push(&[&link.encode()]).map_err(sorting)?;
                }
            } else if height != Height::GENESIS && !output.never_spendable {
                if let Some(later) = self.overwritten_by.get(&txnum) {
                    self.overwritten_rows.push((outpoint, *later));
                    self.overwritten.entry(*later).or_default().push(output);
                } else {
                    let key = unspent::key(script_key, txnum, vout);
                    let value = unspent::UnspentRow { value, is_coinbase }.encode();
                    self.unspent.push(&[&key, &value]).map_err(sorting)?;
                    let record = utxo::encode(&row.txid, vout, height, is_coinbase, output.value, script);
                    if let Some(utxos) = &mut self.utxos {
                        utxos.push(&[&record]).map_err(sorting)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Expects the rows that an output has whether it is spent or not.
    fn expect_output(
        &mut self,
        height: Height,
        row: &TransactionRow<'_>,
        txnum: TxNum,
        output: &BlockOutput,
    ) -> Result<(), IndexError> {
        if let Some(key_hash) = output.p2pk {
            self.p2pk.push(&[&p2pk::key(key_hash, output.script), &txnum.to_key()]).map_err(sorting)?;
        }
        if row.is_coinbase && height != Height::GENESIS && !output.never_spendable {
            self.payouts.push(&[&payouts::key(output.script, height)]).map_err(sorting)?;
        }
        Ok(())
    }

    pub(super) fn superfluous(&mut self, table: &'static str, key: &[u8]) {
        self.differences.add(format!("{table}: row {} must not exist", hex(key)));
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    DisplayHex::to_lower_hex_string(bytes)
}

/// SHA-256 over rows as they are read.
#[derive(Default)]
pub(super) struct Digest {
    engine: sha256::HashEngine,
    pub(super) rows: u64,
}

impl Digest {
    pub(super) fn row(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.engine.input(key);
        self.engine.input(value);
    }

    pub(super) fn finish(self) -> sha256::Hash {
        sha256::Hash::from_engine(self.engine)
    }
}
