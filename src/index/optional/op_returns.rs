//! Lookups of OP_RETURN outputs by the beginning of their data, through the live rows of the optional table `op_returns` and
//! the files of generations.

use std::ops::Range;

use super::super::error::IndexError;
use super::super::hot::tables::op_returns::{self, DataRest};
use super::super::keys::{Position, TxNum};
use super::super::snapshot::Snapshot;
use super::OptionalTable;

/// An output whose data has the first bytes that were looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpReturnPosition {
    /// Its transaction.
    pub txnum: TxNum,
    /// Its number there.
    pub vout: u32,
    /// Whether the first eight bytes of its data are those that were looked up, as far as these say. The others are to be
    /// compared with the output itself.
    pub may_match: bool,
}

/// Outputs in the order of the chain.
type Positions = Box<dyn DoubleEndedIterator<Item = Result<OpReturnPosition, IndexError>>>;

impl Snapshot {
    /// The OP_RETURN outputs of these transactions of the active chain whose pushed data has the same first three bytes as
    /// `prefix`, in the order of the chain, read lazily from either end. None if `prefix` is shorter.
    ///
    /// Errors: [`IndexError::TableOff`] or `TableNotReady` unless the table `op_returns` is on and complete; storage errors.
    pub fn op_returns(
        &self,
        prefix: &[u8],
        txnums: &Range<TxNum>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<OpReturnPosition, IndexError>> + use<>, IndexError> {
        let table = OptionalTable::OpReturns;
        self.check_complete(table)?;
        let mut sources: Vec<Positions> = Vec::new();
        if let Some((tag, _)) = op_returns::parts(prefix.iter().copied()) {
            let rest: Vec<u8> = prefix.iter().skip(tag.len()).take(size_of::<DataRest>()).copied().collect();
            let found = move |key: [u8; 10], data: DataRest| {
                let (_, txnum, vout) = op_returns::split_entry_key(&key);
                OpReturnPosition { txnum, vout: vout.to_u32(), may_match: data.starts_with(&rest) }
            };
            let keys = |txnums: &Range<TxNum>| {
                let key = |txnum| op_returns::entry_key(tag, txnum, Position::ZERO);
                (key(txnums.start), key(txnums.end))
            };
            let live = |txnums: Range<TxNum>| -> Result<Option<Positions>, IndexError> {
                let Some(rows) = &self.optional.op_returns else { return Ok(None) };
                let (low, high) = keys(&txnums);
                let [low, high] = [low, high].map(|key| op_returns::with_rest(key, [0; 5]));
                let found = found.clone();
                Ok(Some(Box::new(rows.range::<&[u8; 15]>(&low..&high)?.map(move |row| {
                    let (key, data) = op_returns::split_key(row?.0.value());
                    Ok(found(key, data))
                }))))
            };
            for of in self.generations.iter() {
                let within = txnums.start.max(of.first())..txnums.end.min(of.end);
                if within.start >= within.end {
                    continue;
                }
                // a generation has its live rows until its file is in force
                sources.extend(match of.derived(table) {
                    Some(file) => {
                        let (low, high) = keys(&within);
                        let found = found.clone();
                        let entries = file.op_returns((low, high))?;
                        let entries = entries.map(move |entry| entry.map(|(key, data)| found(key, data)));
                        Some(Box::new(entries) as Positions)
                    }
                    None => live(within)?,
                });
            }
            let within = txnums.start.max(self.generations.end())..txnums.end;
            if within.start < within.end {
                sources.extend(live(within)?);
            }
        }
        Ok(sources.into_iter().flatten())
    }
}
