//! What a snapshot reads of the live optional tables.

use std::sync::Arc;

use redb::{ReadOnlyTable, ReadTransaction, TableHandle};

use super::super::error::IndexError;
use super::super::hot::tables::{address_prefixes, if_exists, meta, op_returns, wtxids};
use super::super::table_rows::TableRows;
use super::{OptionalTable, TableState, read_state};

/// What a snapshot reads of the live optional tables. A table is `None` if the file is of a version without it.
pub(in crate::index) struct OptionalReads {
    pub(in crate::index) wtxids: Option<ReadOnlyTable<&'static [u8; 10], ()>>,
    pub(in crate::index) address_prefixes: Option<Arc<ReadOnlyTable<&'static [u8; 26], ()>>>,
    pub(in crate::index) op_returns: Option<ReadOnlyTable<&'static [u8; 15], ()>>,
    states: [TableState; OptionalTable::ALL.len()],
}

impl OptionalReads {
    pub(in crate::index) fn open(transaction: &ReadTransaction) -> Result<Self, IndexError> {
        let meta = transaction.open_table(meta::TABLE)?;
        let mut states = [TableState::Off; OptionalTable::ALL.len()];
        for table in OptionalTable::ALL {
            states[table.place()] = read_state(&meta, table)?;
        }
        Ok(Self {
            wtxids: if_exists(transaction.open_table(wtxids::TABLE))?,
            address_prefixes: if_exists(transaction.open_table(address_prefixes::TABLE))?.map(Arc::new),
            op_returns: if_exists(transaction.open_table(op_returns::TABLE))?,
            states,
        })
    }

    pub(in crate::index) fn state(&self, table: OptionalTable) -> TableState {
        self.states[table.place()]
    }

    /// The rows of each table.
    pub(in crate::index) fn table_rows(&self) -> Result<Vec<TableRows>, IndexError> {
        Ok(vec![
            TableRows::of(wtxids::TABLE.name(), self.wtxids.as_ref())?,
            TableRows::of(address_prefixes::TABLE.name(), self.address_prefixes.as_deref())?,
            TableRows::of(op_returns::TABLE.name(), self.op_returns.as_ref())?,
        ])
    }
}
