//! How many rows a table has, and how large they are.

use redb::{Key, ReadOnlyTable, ReadableTableMetadata, Value};

use super::error::IndexError;
use crate::chain::wide;

/// A table, its number of rows and their size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRows {
    /// Its name, as in the description of the file format.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// The bytes of its keys and values. `None` if they are of different sizes, so that only reading the table shows it
    /// ([`Snapshot::table_bytes`](super::Snapshot::table_bytes)).
    pub bytes: Option<u64>,
}

impl TableRows {
    pub(super) fn of<K: Key + 'static, V: Value + 'static>(
        name: &str,
        table: Option<&ReadOnlyTable<K, V>>,
    ) -> Result<Self, IndexError> {
        let rows = table.map_or(Ok(0), ReadOnlyTable::len)?;
        let row_bytes = K::fixed_width().zip(V::fixed_width()).map(|(key, value)| wide(key.saturating_add(value)));
        let bytes = if rows == 0 { Some(0) } else { row_bytes.map(|bytes| rows.saturating_mul(bytes)) };
        Ok(Self { name: name.to_owned(), rows, bytes })
    }
}
