//! `spends`: first outpoint (txnum 4 ‖ vout 3) → for each transaction the number of its outputs in this row (varint),
//! then a code for each output: 0 unspent at the end of the generation, 1 unspendable, else the distance to the spending
//! transaction in txnums «1 | whether its vin follows; vin is 0 if it does not. All are varints.
//!
//! A transaction whose outputs do not fit a row continues in the next, which begins with its next output.

use std::ops::Bound;

use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder, put_varint, varint_size};
use super::super::super::error::IndexError;
use super::super::super::hot::tables::spends::{SpendingInput, TxPoint, split_tx_point, tx_point};
use super::super::super::keys::{Position, TxNum};
use super::super::page::{PackedRow, value_bytes};
use super::super::table::StoredTable;
use super::super::versions::TableVersions;

pub(in crate::index) const TABLE: TableDefinition<'static, &TxPoint, &[u8]> = TableDefinition::new("spends");

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new("spends", 1..=1);

const ROW: usize = value_bytes(4, 7);
const UNSPENT: u64 = 0;
const UNSPENDABLE: u64 = 1;

/// What became of an output up to the end of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum OutputState {
    Unspent,
    /// It never entered the UTXO set.
    Unspendable,
    Spent(SpendingInput),
}

impl OutputState {
    pub(in crate::index) fn spender(self) -> Option<SpendingInput> {
        match self {
            Self::Spent(spender) => Some(spender),
            Self::Unspent | Self::Unspendable => None,
        }
    }
}

/// Packs the outputs of consecutive transactions.
#[derive(Default)]
pub(in crate::index) struct SpendPacker {
    first: Option<TxPoint>,
    row: Vec<u8>,
    /// Memory for the transaction that [`SpendPacker::push`] adds.
    one: PackedOutputs,
}

impl SpendPacker {
    /// Adds the outputs of the next transaction, and rows that are full to `rows`.
    ///
    /// Errors: [`IndexError::Corrupt`] if an output is spent before it was created.
    pub(in crate::index) fn push(
        &mut self,
        txnum: TxNum,
        outputs: &[OutputState],
        rows: &mut Vec<PackedRow<7>>,
    ) -> Result<(), IndexError> {
        let mut one = std::mem::take(&mut self.one);
        one.bytes.clear();
        one.ends.clear();
        one.push(txnum, outputs)?;
        self.append(txnum, &one, rows)?;
        self.one = one;
        Ok(())
    }

    /// Adds the outputs of the next transactions, of which `first` is the first one, and rows that are full to `rows`.
    ///
    /// Errors: [`IndexError::Corrupt`] if they are not what was packed.
    pub(in crate::index) fn append(
        &mut self,
        first: TxNum,
        packed: &PackedOutputs,
        rows: &mut Vec<PackedRow<7>>,
    ) -> Result<(), IndexError> {
        let mut next = 0;
        while next < packed.ends.len() {
            let begin = next.checked_sub(1).map_or(0, |before| packed.ends[before]);
            // a row has at most as many as it has bytes
            let ends = &packed.ends[next..packed.ends.len().min(next + ROW)];
            let fitting = ends.partition_point(|end| self.row.len() + end - begin <= ROW);
            let txnum = TxNum(first.0.saturating_add(u32::try_from(next).unwrap_or(u32::MAX)));
            if fitting > 0 {
                next += fitting;
                self.first.get_or_insert(tx_point(txnum, Position::ZERO));
                self.row.extend_from_slice(&packed.bytes[begin..packed.ends[next - 1]]);
            } else if let Some(row) = self.take() {
                rows.push(row);
            } else {
                self.split(txnum, &packed.bytes[begin..packed.ends[next]], rows)?;
                next += 1;
            }
        }
        Ok(())
    }

    /// Adds the outputs of a transaction that do not fit a row.
    fn split(&mut self, txnum: TxNum, packed: &[u8], rows: &mut Vec<PackedRow<7>>) -> Result<(), IndexError> {
        let fits = |row: &[u8], count: usize, size: usize| row.len() + varint_size(count as u64) + size <= ROW;
        let (codes, ends) = codes(packed)?;
        let (mut done, mut from) = (0, 0);
        while done < ends.len() {
            let count =
                ends[done..].iter().zip(1..).take_while(|(end, count)| fits(&self.row, *count, **end - from)).count();
            let to = ends[done + count - 1];
            if self.first.is_none() {
                let vout = Position::new(u32::try_from(done).unwrap_or(u32::MAX));
                let vout = vout.ok_or_else(|| IndexError::corrupt("spends", "a transaction has too many outputs"))?;
                self.first = Some(tx_point(txnum, vout));
            }
            put_varint(&mut self.row, count as u64);
            self.row.extend_from_slice(&codes[from..to]);
            (done, from) = (done + count, to);
            if done < ends.len() {
                rows.extend(self.take());
            }
        }
        Ok(())
    }

    /// Writes the entries that are in no complete row yet, for [`SpendPacker::decode_state`].
    pub(in crate::index) fn encode_state(&self, state: &mut Encoder) {
        state.blob(self.first.as_ref().map_or(&[], TxPoint::as_slice)).blob(&self.row);
    }

    pub(in crate::index) fn decode_state(state: &mut Decoder<'_>) -> Result<Self, IndexError> {
        Ok(Self { first: state.optional_key()?, row: state.blob()?.to_vec(), ..Self::default() })
    }

    /// The last row.
    pub(in crate::index) fn finish(mut self) -> Option<PackedRow<7>> {
        self.take()
    }

    fn take(&mut self) -> Option<PackedRow<7>> {
        let first = self.first.take()?;
        Some((first, std::mem::replace(&mut self.row, Vec::with_capacity(ROW))))
    }
}

/// The outputs of consecutive transactions, each transaction as it stands in a row. Several threads pack, and one of them all
/// appends to rows with [`SpendPacker::append`]: where a row ends depends on all before it.
#[derive(Default)]
pub(in crate::index) struct PackedOutputs {
    bytes: Vec<u8>,
    /// Where each transaction ends.
    ends: Vec<usize>,
}

impl PackedOutputs {
    /// Adds the outputs of the next transaction.
    ///
    /// Errors: [`IndexError::Corrupt`] if an output is spent before it was created.
    pub(in crate::index) fn push(&mut self, txnum: TxNum, outputs: &[OutputState]) -> Result<(), IndexError> {
        put_varint(&mut self.bytes, outputs.len() as u64);
        for output in outputs {
            match output {
                OutputState::Unspent => put_varint(&mut self.bytes, UNSPENT),
                OutputState::Unspendable => put_varint(&mut self.bytes, UNSPENDABLE),
                OutputState::Spent(SpendingInput { txnum: spender, vin }) => {
                    let distance = spender.0.checked_sub(txnum.0).filter(|distance| *distance > 0);
                    let distance = distance.ok_or_else(|| {
                        IndexError::corrupt("spends", format!("an output of {txnum} is spent by {spender}"))
                    })?;
                    put_varint(&mut self.bytes, u64::from(distance) << 1 | u64::from(*vin > 0));
                    if *vin > 0 {
                        put_varint(&mut self.bytes, u64::from(*vin));
                    }
                }
            }
        }
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

/// The codes of a packed transaction, and where each ends.
fn codes(packed: &[u8]) -> Result<(&[u8], Vec<usize>), IndexError> {
    let mut rest = Decoder::new("spends", packed);
    let count: u32 = rest.varint()?;
    let codes = &packed[packed.len() - rest.left()..];
    let mut ends = Vec::new();
    for _ in 0..count {
        let code: u64 = rest.varint()?;
        if code > UNSPENDABLE && code & 1 == 1 {
            rest.varint_32()?;
        }
        ends.push(codes.len() - rest.left());
    }
    Ok((codes, ends))
}

/// The state of an output, `None` if the table does not have it.
pub(in crate::index) fn read(
    table: &impl StoredTable<&'static TxPoint, &'static [u8]>,
    outpoint: TxPoint,
) -> Result<Option<OutputState>, IndexError> {
    let Some(row) = table.range::<&TxPoint>(..=&outpoint)?.next_back().transpose()? else { return Ok(None) };
    let (mut found, wanted) = (None, split_tx_point(&outpoint));
    each(*row.0.value(), row.1.value(), |txnum, vout, state| {
        found = ((txnum, vout) == wanted).then_some(state);
        (txnum, vout) < wanted
    })?;
    Ok(found)
}

/// Returns what [`read`] does, of an outpoint below `end`, where the generation ends. Outputs behind each other are read from
/// one row, which `kept` has from one call to the next. It may have that of another generation: below their ends no two have
/// the same outpoints.
pub(in crate::index) fn read_near(
    table: &impl StoredTable<&'static TxPoint, &'static [u8]>,
    kept: &mut Option<KeptRow>,
    outpoint: TxPoint,
    end: TxPoint,
) -> Result<Option<OutputState>, IndexError> {
    let kept_row = kept.take().filter(|kept| kept.first <= outpoint && outpoint < kept.until);
    let mut row = if let Some(kept_row) = kept_row {
        kept_row
    } else {
        let row = table.range::<&TxPoint>(..=&outpoint)?.next_back().transpose()?;
        let Some((first, row)) = row else { return Ok(None) };
        let behind = (Bound::Excluded(&outpoint), Bound::Excluded(&end));
        let next = table.range::<&TxPoint>(behind)?.next().transpose()?;
        let until = next.map_or(end, |(key, _)| *key.value());
        KeptRow::new(first.value(), row.value(), until)
    };
    // not kept if it fails: then its entries are read further than `at` says
    let found = row.find(split_tx_point(&outpoint))?;
    *kept = Some(row);
    Ok(found)
}

/// Visits the outputs of a row until `visit` returns false.
pub(in crate::index) fn each(
    first: TxPoint,
    row: &[u8],
    mut visit: impl FnMut(TxNum, Position, OutputState) -> bool,
) -> Result<(), IndexError> {
    let mut entries = RowEntries::new(&first);
    let mut row = Decoder::new("spends", row);
    while let Some((txnum, vout, state)) = entries.next(&mut row)? {
        if !visit(txnum, vout, state) {
            break;
        }
    }
    Ok(())
}

/// How far the outputs of a row are read.
#[derive(Debug)]
struct RowEntries {
    /// The next output, of a transaction that has so many more in this row.
    txnum: TxNum,
    vout: Position,
    left: u32,
    /// Whether the number of outputs of the first transaction was read: the next one begins behind it, at its output 0.
    has_begun: bool,
}

impl RowEntries {
    fn new(first: &TxPoint) -> Self {
        let (txnum, vout) = split_tx_point(first);
        Self { txnum, vout, left: 0, has_begun: false }
    }

    /// The next output of the row, of which `row` is what follows.
    fn next(&mut self, row: &mut Decoder<'_>) -> Result<Option<(TxNum, Position, OutputState)>, IndexError> {
        while self.left == 0 {
            if row.is_empty() {
                return Ok(None);
            }
            if self.has_begun {
                (self.txnum, self.vout) = (TxNum(self.txnum.0.saturating_add(1)), Position::ZERO);
            }
            (self.left, self.has_begun) = (row.varint_32()?, true);
        }
        let state = match row.varint::<u64>()? {
            UNSPENT => OutputState::Unspent,
            UNSPENDABLE => OutputState::Unspendable,
            code => {
                let vin = if code & 1 == 1 { row.varint()? } else { 0 };
                let spender = u32::try_from(code >> 1).ok().and_then(|distance| self.txnum.0.checked_add(distance));
                let spender = spender.ok_or_else(|| row.corrupt("has a distance that is too large"))?;
                OutputState::Spent(SpendingInput { txnum: TxNum(spender), vin })
            }
        };
        let vout = self.vout;
        self.vout = Position::new(vout.to_u32() + 1).ok_or_else(|| row.corrupt("has too many outputs"))?;
        self.left -= 1;
        Ok(Some((self.txnum, vout, state)))
    }
}

/// A row that was read up to an output.
#[derive(Debug)]
pub(in crate::index) struct KeptRow {
    first: TxPoint,
    /// The first outpoint behind it: that with which the next row begins, or the end of the generation.
    until: TxPoint,
    row: Box<[u8]>,
    /// Where in the row the next output is.
    at: usize,
    entries: RowEntries,
    /// The output before that.
    last: Option<(TxNum, Position, OutputState)>,
}

impl KeptRow {
    fn new(first: &TxPoint, row: &[u8], until: TxPoint) -> Self {
        Self { first: *first, until, row: row.into(), at: 0, entries: RowEntries::new(first), last: None }
    }

    /// The state of an output, `None` if it is not in the row.
    fn find(&mut self, wanted: (TxNum, Position)) -> Result<Option<OutputState>, IndexError> {
        if self.last.is_some_and(|(txnum, vout, _)| wanted < (txnum, vout)) {
            (self.at, self.entries, self.last) = (0, RowEntries::new(&self.first), None);
        }
        let mut rest = Decoder::new("spends", &self.row[self.at..]);
        while self.last.is_none_or(|(txnum, vout, _)| (txnum, vout) < wanted)
            && let Some(next) = self.entries.next(&mut rest)?
        {
            self.last = Some(next);
        }
        self.at = self.row.len() - rest.left();
        Ok(self.last.filter(|(txnum, vout, _)| (*txnum, *vout) == wanted).map(|(_, _, state)| state))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::index::frozen::tables::tests::table_of;

    const END: TxPoint = [u8::MAX; 7];

    fn state() -> impl Strategy<Value = OutputState> {
        prop_oneof![
            Just(OutputState::Unspent),
            Just(OutputState::Unspendable),
            (1_u32..5, 0_u32..3).prop_map(|(near, vin)| OutputState::Spent(SpendingInput { txnum: TxNum(near), vin })),
            (1_u32..1 << 30, any::<u32>())
                .prop_map(|(far, vin)| OutputState::Spent(SpendingInput { txnum: TxNum(far), vin })),
        ]
    }

    proptest! {
        // a case has some thousand outputs
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn every_output_is_read_also_of_transactions_that_fill_rows(
            transactions in prop::collection::vec(
                prop_oneof![8 => prop::collection::vec(state(), 0..6), 1 => prop::collection::vec(state(), 900..3_000)], 1..30,
            ),
            places in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
            together in 1..20_u32,
        ) {
            let first = 3_u32;
            let (mut packer, mut rows) = (SpendPacker::default(), Vec::new());
            let (mut packer_of_packed, mut packed, mut rows_of_packed) = (SpendPacker::default(), Vec::new(), Vec::new());
            let (mut expected, mut outputs_of) = (Vec::new(), BTreeMap::new());
            for (txnum, mut outputs) in (first..).zip(transactions) {
                if (txnum - first).is_multiple_of(together) {
                    packed.push((txnum, PackedOutputs::default()));
                }
                for state in &mut outputs {
                    if let OutputState::Spent(spender) = state {
                        spender.txnum.0 += txnum;
                    }
                }
                packer.push(TxNum(txnum), &outputs, &mut rows).unwrap();
                packed.last_mut().unwrap().1.push(TxNum(txnum), &outputs).unwrap();
                let at = |vout: u32| tx_point(TxNum(txnum), Position::new(vout).unwrap());
                expected.extend((0..).map(at).zip(outputs.clone()));
                expected.push((at(u32::try_from(outputs.len()).unwrap()), OutputState::Unspent));
                // the output behind the last does not exist
                let last = expected.len() - 1;
                expected[last].1 = OutputState::Unspendable;
                outputs_of.insert(txnum, outputs);
            }
            rows.extend(packer.finish());
            prop_assert!(rows.iter().all(|(_, row)| row.len() <= ROW));
            for rows in rows.windows(2) {
                let (txnum, vout) = split_tx_point(&rows[1].0);
                // a transaction is split only if a row does not fit it
                let next = match usize::try_from(vout.to_u32()).unwrap() {
                    0 => &outputs_of[&txnum.0][..],
                    vout => &outputs_of[&txnum.0][vout..=vout],
                };
                let mut packed = PackedOutputs::default();
                packed.push(txnum, next).unwrap();
                prop_assert!(rows[0].1.len() + packed.bytes.len() > ROW, "{:?} fits the row before it", rows[1].0);
            }
            for (first, packed) in packed {
                packer_of_packed.append(TxNum(first), &packed, &mut rows_of_packed).unwrap();
            }
            rows_of_packed.extend(packer_of_packed.finish());
            prop_assert_eq!(&rows, &rows_of_packed);
            let table = table_of(TABLE, &rows);
            let (mut before, mut kept) = (None, None);
            for (at, (outpoint, state)) in expected.iter().enumerate() {
                let is_behind = expected.get(at + 1).is_none_or(|(next, _)| next[..4] != outpoint[..4]);
                let found = read(&*table, *outpoint).unwrap();
                prop_assert_eq!(found, (!is_behind).then_some(*state), "{:?} behind {:?}", outpoint, before);
                prop_assert_eq!(read_near(&*table, &mut kept, *outpoint, END).unwrap(), found);
                before = Some(outpoint);
            }
            // in any order
            for place in places {
                let outpoint = place.get(&expected).0;
                let found = read_near(&*table, &mut kept, outpoint, END).unwrap();
                prop_assert_eq!(found, read(&*table, outpoint).unwrap(), "{:?}", outpoint);
            }
        }
    }

    proptest! {
        #[test]
        fn a_damaged_row_is_an_error_or_has_other_entries(row in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = each([0; 7], &row, |_, _, _| true);
        }

        #[test]
        fn a_damaged_row_is_read_near_others_as_it_is_alone(
            damaged in prop::collection::vec(any::<u8>(), 0..50),
            wanted in prop::collection::vec((0_u32..40, 0_u32..4), 1..50),
        ) {
            let (mut packer, mut rows) = (SpendPacker::default(), Vec::new());
            for txnum in 0..20 {
                packer.push(TxNum(txnum), &[OutputState::Unspent; 2], &mut rows).unwrap();
            }
            rows.extend(packer.finish());
            rows.push((tx_point(TxNum(20), Position::ZERO), damaged));
            let mut last = SpendPacker::default();
            last.push(TxNum(30), &[OutputState::Unspendable; 2], &mut rows).unwrap();
            rows.extend(last.finish());
            let (table, mut kept) = (table_of(TABLE, &rows), None);
            for (txnum, vout) in wanted {
                let outpoint = tx_point(TxNum(txnum), Position::new(vout).unwrap());
                let near = read_near(&*table, &mut kept, outpoint, END).map_err(|error| error.to_string());
                let alone = read(&*table, outpoint).map_err(|error| error.to_string());
                prop_assert_eq!(near, alone, "{} {}", txnum, vout);
            }
        }
    }

    #[test]
    fn a_row_is_not_kept_beyond_the_end_of_its_generation() {
        let table = |first: u32, state| {
            let (mut packer, mut rows) = (SpendPacker::default(), Vec::new());
            for txnum in first..first + 20 {
                packer.push(TxNum(txnum), &[state; 2], &mut rows).unwrap();
            }
            rows.extend(packer.finish());
            table_of(TABLE, &rows)
        };
        // a reorganisation has lowered the end of the first, and the second begins there
        let (shortened, later) = (table(0, OutputState::Unspent), table(10, OutputState::Unspendable));
        let point = |txnum| tx_point(TxNum(txnum), Position::ZERO);
        let mut kept = None;
        for txnum in [9, 10, 11, 9, 15, 3, 12] {
            let found = if txnum < 10 {
                read_near(&*shortened, &mut kept, point(txnum), point(10))
            } else {
                read_near(&*later, &mut kept, point(txnum), point(30))
            };
            let expected = if txnum < 10 { OutputState::Unspent } else { OutputState::Unspendable };
            assert_eq!(found.unwrap(), Some(expected), "{txnum}");
        }
    }

    #[test]
    fn an_output_that_is_spent_before_it_exists_is_refused() {
        let spent = OutputState::Spent(SpendingInput { txnum: TxNum(4), vin: 0 });
        assert!(SpendPacker::default().push(TxNum(4), &[spent], &mut Vec::new()).is_err());
    }
}
