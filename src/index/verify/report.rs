//! What the check found.

use bitcoin::Amount;
use bitcoin::hashes::sha256d;

use super::super::update::Tip;

/// The most differences that are told one by one.
const TOLD: usize = 100;

/// The result of checking an index against itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The newest block, `None` in an empty index.
    pub tip: Option<Tip>,
    /// The outputs that are unspent.
    pub utxo_set: UtxoSet,
    /// What was compared.
    pub tables: Vec<TableReport>,
    /// What is wrong, as far as it is told one by one; empty when all is well.
    pub differences: Vec<String>,
}

/// The UTXO set as `gettxoutsetinfo` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtxoSet {
    /// How many outputs.
    pub outputs: u64,
    /// Their value.
    pub total_amount: Amount,
    /// Core's `hash_serialized_3`.
    pub hash_serialized_3: sha256d::Hash,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReport {
    /// Its name.
    pub name: &'static str,
    /// Its rows.
    pub rows: u64,
    /// SHA-256 over its rows in order, each key and value as stored. Equal for equal chains with equal salts.
    pub digest: bitcoin::hashes::sha256::Hash,
}

impl Report {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Collects what is wrong, and counts what is too much to tell.
#[derive(Default)]
pub(super) struct Differences {
    told: Vec<String>,
    untold: u64,
}

impl Differences {
    pub(super) fn add(&mut self, what: impl Into<String>) {
        if self.told.len() < TOLD { self.told.push(what.into()) } else { self.untold += 1 }
    }

    /// Adds the error as a difference if a row cannot be decoded; other errors go on.
    pub(super) fn tell<T>(
        &mut self,
        result: Result<T, super::super::error::IndexError>,
    ) -> Result<Option<T>, super::super::error::IndexError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(super::super::error::IndexError::Corrupt { table, what }) => {
                self.add(format!("{table}: {what}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut told = std::mem::take(&mut self.told);
        if self.untold > 0 {
            told.push(format!("and {} more", self.untold));
        }
        told
    }
}
