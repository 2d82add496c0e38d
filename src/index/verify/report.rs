//! What the check found.

use bitcoin::Amount;
use bitcoin::hashes::sha256d;
use bitcoin::hex::DisplayHex;

use super::super::hot::tip::Tip;

/// The most differences that a report lists.
const LISTED: usize = 100;

/// The result of checking an index against itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The newest block, `None` in an empty index.
    pub tip: Option<Tip>,
    /// The outputs that are unspent.
    pub utxo_set: UtxoSet,
    /// What was compared.
    pub tables: Vec<TableReport>,
    /// What is wrong: the first differences, and a last line that counts the others. Empty if nothing is wrong.
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
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Collects differences, and counts those that are too many to list.
#[derive(Default)]
pub(super) struct Differences {
    listed: Vec<String>,
    unlisted: u64,
}

impl Differences {
    pub(super) fn add(&mut self, what: impl Into<String>) {
        if self.listed.len() < LISTED { self.listed.push(what.into()) } else { self.unlisted += 1 }
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.listed.len()).unwrap_or(u64::MAX).saturating_add(self.unlisted)
    }

    pub(super) fn superfluous(&mut self, table: &'static str, key: &[u8]) {
        self.add(format!("{table}: row {} must not exist", hex(key)));
    }

    /// Adds the error as a difference if a row cannot be decoded, and returns other errors.
    pub(super) fn record<T>(
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
        let mut listed = std::mem::take(&mut self.listed);
        if self.unlisted > 0 {
            listed.push(format!("and {} more", self.unlisted));
        }
        listed
    }
}

/// A key or a value, as a difference names it.
pub(super) fn hex(bytes: &[u8]) -> String {
    DisplayHex::to_lower_hex_string(bytes)
}
