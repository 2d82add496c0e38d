//! A generation in force: up to its end, with its optional tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::error::IndexError;
use super::super::hot::tables::spends::SpendingInput;
use super::super::hot::tables::unspent::UnspentKey;
use super::super::hot::tip::Tip;
use super::super::keys::TxNum;
use super::super::optional::OptionalTable;
use super::derived::{DerivedFile, DerivedName};
use super::generation::Generation;

/// A generation up to its end.
#[derive(Clone)]
pub(in crate::index) struct InForce {
    pub(in crate::index) generation: Arc<Generation>,
    /// Its file, in the directory of generations.
    pub(in crate::index) name: String,
    /// Its highest block that counts.
    pub(in crate::index) last: Tip,
    /// The number after its last transaction that counts.
    pub(in crate::index) end: TxNum,
    /// Its optional tables, which count up to the same end.
    pub(in crate::index) derived: BTreeMap<OptionalTable, Arc<DerivedFile>>,
}

impl InForce {
    pub(super) fn has(&self, txnum: TxNum) -> bool {
        self.generation.range().txnums.0 <= txnum && txnum < self.end
    }

    pub(in crate::index) fn first(&self) -> TxNum {
        self.generation.range().txnums.0
    }

    /// The file of one of its optional tables.
    pub(in crate::index) fn derived(&self, table: OptionalTable) -> Option<&Arc<DerivedFile>> {
        self.derived.get(&table)
    }

    /// The name that the file of one of its optional tables is to have, if it does not have that file in its newest version.
    pub(in crate::index) fn lacks(&self, table: OptionalTable) -> Option<DerivedName> {
        let newest = DerivedName::newest(table, &self.name);
        self.derived(table).is_none_or(|file| file.name != newest).then_some(newest)
    }

    /// Whether all its blocks count: no reorganisation has shortened it.
    pub(in crate::index) fn is_whole(&self) -> bool {
        self.end == self.generation.range().txnums.1
    }

    /// The input of one of its transactions that spends an output.
    pub(super) fn spender(&self, txnum: TxNum, vout: u32) -> Result<Option<SpendingInput>, IndexError> {
        let spender = self.generation.spender(txnum, vout)?;
        Ok(spender.filter(|spender| spender.txnum < self.end))
    }

    /// Whether one of its transactions overwrites an output (BIP30).
    fn overwrites(&self, txnum: TxNum, vout: u32) -> Result<bool, IndexError> {
        Ok(self.generation.overwriter(txnum, vout)?.is_some_and(|later| later < self.end))
    }
}

/// Whether a transaction of these generations spends or overwrites an output.
pub(super) fn is_removed(generations: &[InForce], output: UnspentKey) -> Result<bool, IndexError> {
    for in_force in generations {
        if in_force.spender(output.txnum, output.vout)?.is_some() || in_force.overwrites(output.txnum, output.vout)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl DerivedFile {
    /// Whether it has all transactions of a generation up to its end.
    pub(in crate::index) fn is_of(&self, in_force: &InForce) -> Result<bool, IndexError> {
        let (own, generation) = (self.range, &in_force.generation);
        let has_last = generation.block_hash(own.last.height)? == Some(own.last.hash);
        Ok(has_last && own.txnums.0 == generation.range().txnums.0 && in_force.end <= own.txnums.1)
    }
}
