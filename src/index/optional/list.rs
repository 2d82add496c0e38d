//! The list of optional tables, and the rows that a transaction has in each.

use std::fmt;

use super::super::frozen::TableVersions;
use super::super::frozen::tables::address_prefixes as packed_address_prefixes;
use super::super::frozen::tables::op_returns as packed_op_returns;
use super::super::frozen::tables::wtxids as packed_wtxids;
use super::super::hot::tables::{address_prefixes, op_returns, wtxids};
use super::super::keys::TxNum;
use super::RowContext;
use crate::chain::raw::RawTransaction;

/// An optional table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OptionalTable {
    /// Lookups of confirmed transactions by their wtxids.
    Wtxids,
    /// Lookups of used addresses by their beginnings.
    AddressPrefixes,
    /// Lookups of OP_RETURN outputs by the beginning of their data.
    OpReturns,
}

/// Which optional tables an index has.
#[expect(clippy::struct_excessive_bools, reason = "tables that are switched on, each by its own name")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalTables {
    /// Lookups of confirmed transactions by their wtxids.
    pub wtxids: bool,
    /// Lookups of used addresses by their beginnings.
    pub address_prefixes: bool,
    /// Lookups of OP_RETURN outputs by the beginning of their data.
    pub op_returns: bool,
    /// Filter headers of blocks, whose table is none of [`OptionalTable`]: its rows build on each other.
    pub block_filters: bool,
}

impl OptionalTables {
    /// Whether it has a table.
    #[must_use]
    pub fn has(&self, table: OptionalTable) -> bool {
        match table {
            OptionalTable::Wtxids => self.wtxids,
            OptionalTable::AddressPrefixes => self.address_prefixes,
            OptionalTable::OpReturns => self.op_returns,
        }
    }
}

impl OptionalTable {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Wtxids, Self::AddressPrefixes, Self::OpReturns];

    /// Its place in [`OptionalTable::ALL`].
    pub(in crate::index) const fn place(self) -> usize {
        match self {
            Self::Wtxids => 0,
            Self::AddressPrefixes => 1,
            Self::OpReturns => 2,
        }
    }

    /// The name of the live table, of the packed one, of the row in `meta` and of the setting in `index`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wtxids => wtxids::NAME,
            Self::AddressPrefixes => address_prefixes::NAME,
            Self::OpReturns => op_returns::NAME,
        }
    }

    /// The table with a name.
    pub(in crate::index) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// What a transaction is found by.
    pub(in crate::index) const fn subject(self) -> &'static str {
        match self {
            Self::Wtxids => "wtxid",
            Self::AddressPrefixes => "addresses",
            Self::OpReturns => "data",
        }
    }

    /// The version of the live rows. Rows of another version are deleted and made again.
    pub(in crate::index) const fn live_version(self) -> u32 {
        match self {
            Self::Wtxids => wtxids::VERSION,
            Self::AddressPrefixes => address_prefixes::VERSION,
            Self::OpReturns => op_returns::VERSION,
        }
    }

    /// The versions of the packed table.
    pub(in crate::index) const fn versions(self) -> TableVersions {
        match self {
            Self::Wtxids => packed_wtxids::VERSIONS,
            Self::AddressPrefixes => packed_address_prefixes::VERSIONS,
            Self::OpReturns => packed_op_returns::VERSIONS,
        }
    }

    /// Bytes of a live key. The records of a build have as many.
    pub(in crate::index) const fn key_bytes(self) -> usize {
        match self {
            Self::Wtxids => size_of::<wtxids::WtxidKey>(),
            Self::AddressPrefixes => size_of::<address_prefixes::AddressKey>(),
            Self::OpReturns => size_of::<op_returns::OpReturnKey>(),
        }
    }

    /// About the bytes that a build takes on the disk for each transaction: of its records and of its part of the rows.
    pub(in crate::index) const fn build_bytes_per_transaction(self) -> u64 {
        match self {
            Self::Wtxids => 17,
            Self::AddressPrefixes => 90,
            Self::OpReturns => 8,
        }
    }

    /// Whether a transaction may have rows, as far as its witness says.
    pub(in crate::index) const fn is_possible(self, has_witness: bool) -> bool {
        match self {
            Self::Wtxids => has_witness,
            Self::AddressPrefixes | Self::OpReturns => true,
        }
    }

    /// Visits the keys of the live rows of a transaction.
    pub(in crate::index) fn each_key(
        self,
        context: RowContext,
        txnum: TxNum,
        transaction: &RawTransaction<'_>,
        visit: &mut dyn FnMut(&[u8]),
    ) {
        match self {
            Self::Wtxids if transaction.has_witness() => visit(&wtxids::key_of(context.salt, txnum, transaction)),
            Self::Wtxids => {}
            Self::OpReturns => {
                for key in op_returns::keys_of(txnum, transaction) {
                    visit(&key);
                }
            }
            Self::AddressPrefixes => {
                for key in address_prefixes::keys_of(context, txnum, transaction) {
                    visit(&key);
                }
            }
        }
    }
}

/// The transaction of a live key of a table.
pub(in crate::index) fn txnum_of(table: OptionalTable, key: &[u8]) -> TxNum {
    let at = match table {
        OptionalTable::Wtxids => wtxids::TXNUM_AT,
        OptionalTable::AddressPrefixes => address_prefixes::TXNUM_AT,
        OptionalTable::OpReturns => op_returns::TXNUM_AT,
    };
    let bytes = key.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(TxNum(u32::MAX), |bytes| TxNum::from_key(*bytes))
}

impl fmt::Display for OptionalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
