//! Reads whole tables of a generation, entry by entry in the order of the rows. An entry that cannot be decoded is an
//! error among the others.

use bitcoin::Txid;
use bitcoin::hashes::Hash;
use redb::Value;

use super::super::super::error::IndexError;
use super::super::super::hot::tables::address_prefixes::{self, AddressCode};
use super::super::super::hot::tables::history::{HistoryKey, HistoryRow, key as history_key, split_key};
use super::super::super::hot::tables::op_returns;
use super::super::super::hot::tables::p2pk::P2pkKey;
use super::super::super::hot::tables::payouts::PayoutKey;
use super::super::super::hot::tables::spends::{TxPoint, tx_point};
use super::super::super::hot::tables::unspent::{UnspentKeyBytes, UnspentValue};
use super::super::super::keys::TxNum;
use super::super::tables::entries::PackedEntry;
use super::super::tables::filters::{FilterKey, Filtered, NAME};
use super::super::tables::positions::BlockOffset;
use super::super::tables::spends::OutputState;
use super::super::tables::txid_prefixes::{CutBits, CutHash};

use super::super::derived::{DerivedFile, PackedTable};
use super::super::table::FrozenTable;
use super::super::tables::{entries, history, positions, spends, txid_prefixes, txids, wtxids};
use super::Generation;

/// The entries of a table.
pub(in crate::index) type PackedEntries<K, V> = Box<dyn Iterator<Item = Result<(K, V), IndexError>>>;

impl Generation {
    /// How many bits of a keyed hash its `txid_prefixes` has.
    pub(in crate::index) fn cut_bits(&self) -> CutBits {
        self.cut_bits
    }

    /// The tables whose number of rows differs from the number that was counted when they were built: name, rows, and
    /// the recorded number.
    pub(in crate::index) fn miscounted(&self) -> Result<Vec<(String, u64, u64)>, IndexError> {
        let mut rows = vec![
            count(&self.blocks)?,
            count(&self.block_starts)?,
            count(&self.block_hashes)?,
            count(&self.txids)?,
            count(&self.txid_prefixes)?,
            count(&self.positions)?,
            count(&self.spends)?,
            count(&self.late_spends)?,
            count(&self.overwritten)?,
            count(&self.history)?,
            count(&self.unspent)?,
            count(&self.payouts)?,
            count(&self.p2pk)?,
        ];
        if let Some(filters) = &self.filter_rows {
            rows.push(count(filters)?);
        }
        let recorded =
            |name: &str| self.counts.iter().find(|(table, _)| table == name).map_or(0, |(_, count)| count.rows);
        let compared = rows.into_iter().map(|(name, rows)| {
            let recorded = recorded(&name);
            (name, rows, recorded)
        });
        Ok(compared.filter(|(_, rows, recorded)| rows != recorded).collect())
    }

    /// Checks that its filters say of all that it has that it may be there. Reads them and three tables.
    ///
    /// Errors: [`IndexError::Corrupt`] if not, or if a filter is damaged; storage errors.
    pub(in crate::index) fn check_filters(&self) -> Result<(), IndexError> {
        let Some(filters) = self.read_filters()? else { return Ok(()) };
        let check = |of, key: FilterKey| {
            let hides = || IndexError::corrupt(NAME, format!("a filter hides {key:?} of {of:?}"));
            filters.may_have(of, key).then_some(()).ok_or_else(hides)
        };
        for row in self.scan_txid_prefixes()? {
            check(Filtered::Txids, row?.0.0.into())?;
        }
        for row in self.scan_late_spends()? {
            check(Filtered::LateSpends, row?.0.into())?;
        }
        for row in self.scan_history_steps()? {
            check(Filtered::Scripts, split_key(&row?.0).0.into())?;
        }
        Ok(())
    }

    /// The heights of its blocks.
    pub(in crate::index) fn scan_blocks(&self) -> Result<PackedEntries<[u8; 4], ()>, IndexError> {
        plain(&self.blocks, |_| ())
    }

    pub(in crate::index) fn scan_block_starts(&self) -> Result<PackedEntries<[u8; 4], [u8; 8]>, IndexError> {
        plain(&self.block_starts, |value| *value)
    }

    pub(in crate::index) fn scan_block_hashes(&self) -> Result<PackedEntries<[u8; 32], [u8; 5]>, IndexError> {
        plain(&self.block_hashes, |value| *value)
    }

    /// Each transaction (txnum) with its txid.
    pub(in crate::index) fn scan_txids(&self) -> Result<PackedEntries<[u8; 4], Txid>, IndexError> {
        let begin = self.range.txnums.0;
        packed(&self.txids, move |first, row, found| {
            if !txids::is_row_key(begin, TxNum::from_key(first)) {
                let what = format!("the row before {} is not full", TxNum::from_key(first));
                return Err(IndexError::corrupt("txids", what));
            }
            let txids = row.chunks_exact(txids::TXID);
            let rest = txids.remainder().len();
            let txids = txids.filter_map(|txid| Txid::from_slice(txid).ok());
            found.extend((u32::from_be_bytes(first)..).map(u32::to_be_bytes).zip(txids));
            let what = || format!("the row of {} has {rest} bytes behind its txids", TxNum::from_key(first));
            if rest == 0 { Ok(()) } else { Err(IndexError::corrupt("txids", what())) }
        })
    }

    /// Each transaction by its cut hash.
    pub(in crate::index) fn scan_txid_prefixes(&self) -> Result<PackedEntries<(CutHash, TxNum), ()>, IndexError> {
        hashes(txid_prefixes::NAME, &self.txid_prefixes)
    }

    /// Each transaction (txnum) with where its bytes are.
    pub(in crate::index) fn scan_positions(&self) -> Result<PackedEntries<[u8; 4], BlockOffset>, IndexError> {
        packed(&self.positions, |first, row, found| {
            let mut txnums = u32::from_be_bytes(first)..;
            positions::each(row, |position| {
                found.extend(txnums.next().map(|txnum| (txnum.to_be_bytes(), position)));
                true
            })
        })
    }

    pub(in crate::index) fn scan_spends(&self) -> Result<PackedEntries<TxPoint, OutputState>, IndexError> {
        packed(&self.spends, |first, row, found| {
            spends::each(first, row, |txnum, vout, state| {
                found.push((tx_point(txnum, vout), state));
                true
            })
        })
    }

    pub(in crate::index) fn scan_late_spends(&self) -> Result<PackedEntries<TxPoint, TxPoint>, IndexError> {
        plain(&self.late_spends, |value| *value)
    }

    pub(in crate::index) fn scan_overwritten(&self) -> Result<PackedEntries<TxPoint, [u8; 4]>, IndexError> {
        plain(&self.overwritten, |value| *value)
    }

    pub(in crate::index) fn scan_history(&self) -> Result<PackedEntries<HistoryKey, HistoryRow>, IndexError> {
        packed(&self.history, |first, row, found| {
            history::each(first, row, |script, txnum, totals| {
                found.push((history_key(script, txnum), totals));
                true
            })
        })
    }

    /// The same, with the totals of the script before each transaction, too.
    pub(in crate::index) fn scan_history_steps(
        &self,
    ) -> Result<PackedEntries<HistoryKey, [HistoryRow; 2]>, IndexError> {
        packed(&self.history, |first, row, found| {
            history::each_step(first, row, |script, txnum, totals| {
                found.push((history_key(script, txnum), totals));
                true
            })
        })
    }

    pub(in crate::index) fn scan_unspent(&self) -> Result<PackedEntries<UnspentKeyBytes, UnspentValue>, IndexError> {
        plain(&self.unspent, |value| *value)
    }

    pub(in crate::index) fn scan_payouts(&self) -> Result<PackedEntries<PayoutKey, ()>, IndexError> {
        plain(&self.payouts, |()| ())
    }

    pub(in crate::index) fn scan_p2pk(&self) -> Result<PackedEntries<P2pkKey, [u8; 4]>, IndexError> {
        plain(&self.p2pk, |value| *value)
    }
}

impl DerivedFile {
    /// The addresses whose beginnings lie in a range, each with the first transaction that pays it, in their order.
    pub(in crate::index) fn addresses(
        &self,
        (low, high): (AddressCode, AddressCode),
    ) -> Result<PackedEntries<AddressCode, TxNum>, IndexError> {
        let PackedTable::AddressPrefixes(table) = self.packed() else { return Ok(Box::new(std::iter::empty())) };
        let found = entries::within::<12, 4, _>(address_prefixes::NAME, table, (low.0, high.0))?;
        Ok(Box::new(found.map(|entry| entry.map(|(code, txnum)| (AddressCode(code), TxNum::from_key(txnum))))))
    }

    /// The OP_RETURN outputs whose keys lie in a range, the end excluded, each with further bytes of its data, in their order.
    pub(in crate::index) fn op_returns(
        &self,
        (low, end): ([u8; 10], [u8; 10]),
    ) -> Result<impl DoubleEndedIterator<Item = PackedEntry<10, 5>> + use<>, IndexError> {
        let found = match self.packed() {
            PackedTable::OpReturns(table) => Some(entries::within::<10, 5, _>(op_returns::NAME, table, (low, end))?),
            _ => None,
        };
        let found = found.into_iter().flatten();
        Ok(found.filter(move |entry| !entry.as_ref().is_ok_and(|(key, _)| *key == end)))
    }

    /// The entries of a table of `entries.rs`, key and value one behind the other.
    pub(in crate::index) fn scan_entries(&self) -> Result<PackedEntries<Vec<u8>, ()>, IndexError> {
        fn whole<const KEY: usize, const VALUE: usize>(
            name: &'static str,
            table: &FrozenTable<&'static [u8; KEY], &'static [u8]>,
        ) -> Result<PackedEntries<Vec<u8>, ()>, IndexError> {
            packed(table, move |first, row, found| {
                entries::each::<KEY, VALUE>(name, first, row, |key, value| {
                    found.push(([&key[..], &value].concat(), ()));
                })
            })
        }
        match self.packed() {
            PackedTable::Wtxids(_) => Ok(Box::new(std::iter::empty())),
            PackedTable::AddressPrefixes(table) => whole::<12, 4>(address_prefixes::NAME, table),
            PackedTable::OpReturns(table) => whole::<10, 5>(op_returns::NAME, table),
        }
    }

    /// Each transaction by its cut hash, if it is a table of these.
    pub(in crate::index) fn scan_hashes(&self) -> Result<PackedEntries<(CutHash, TxNum), ()>, IndexError> {
        match self.packed() {
            PackedTable::Wtxids(table) => hashes(wtxids::NAME, table),
            PackedTable::AddressPrefixes(_) | PackedTable::OpReturns(_) => Ok(Box::new(std::iter::empty())),
        }
    }
}

/// The entries of a table of cut hashes.
fn hashes(
    name: &'static str,
    table: &FrozenTable<&'static [u8; 6], &'static [u8]>,
) -> Result<PackedEntries<(CutHash, TxNum), ()>, IndexError> {
    packed(table, move |first, row, found| {
        txid_prefixes::each(name, CutHash::from_key(first), row, |hash, txnum| {
            found.push(((hash, txnum), ()));
            true
        })
    })
}

fn count<const KEY: usize, V: Value + 'static>(
    table: &FrozenTable<&'static [u8; KEY], V>,
) -> Result<(String, u64), IndexError> {
    Ok((table.name().to_owned(), table.len()?))
}

/// The rows of a table that has its live form.
fn plain<const KEY: usize, V: Value + 'static, T: 'static>(
    table: &FrozenTable<&'static [u8; KEY], V>,
    value: impl for<'v> Fn(V::SelfType<'v>) -> T + 'static,
) -> Result<PackedEntries<[u8; KEY], T>, IndexError> {
    let rows = table.range::<&[u8; KEY]>(..)?;
    Ok(Box::new(rows.map(move |row| {
        let (key, row) = row?;
        Ok((*key.value(), value(row.value())))
    })))
}

/// The entries of a table whose rows have many, which `decode` appends to a list.
fn packed<const KEY: usize, K: 'static, V: 'static>(
    table: &FrozenTable<&'static [u8; KEY], &'static [u8]>,
    decode: impl Fn([u8; KEY], &[u8], &mut Vec<(K, V)>) -> Result<(), IndexError> + 'static,
) -> Result<PackedEntries<K, V>, IndexError> {
    let rows = table.range::<&[u8; KEY]>(..)?;
    Ok(Box::new(rows.flat_map(move |row| {
        let mut found = Vec::new();
        let decoded =
            row.map_err(IndexError::from).and_then(|(key, row)| decode(*key.value(), row.value(), &mut found));
        found.into_iter().map(Ok).chain(decoded.err().map(Err))
    })))
}
