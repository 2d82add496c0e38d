//! Makes rows of the changes of scripts.

use super::super::super::super::codec::{Decoder, Encoder, low_byte, put_varint, varint_size};
use super::super::super::super::error::IndexError;
use super::super::super::super::hot::tables::history::{HistoryChange, HistoryKey, HistoryRow, key};
use super::super::super::super::keys::{ScriptKey, TxNum};
use super::super::super::page::{PackedRow, value_bytes};
use super::entry::{FEW, HAS_TOTALS, decode_change, decode_count, decode_txnum, encode_entry, encode_totals, net};

pub(super) const ROW: usize = value_bytes(4, 14);

/// Packs the changes of scripts in the order of (script key, txnum).
#[derive(Default)]
pub(in crate::index) struct HistoryPacker {
    first: Option<HistoryKey>,
    row: Vec<u8>,
    /// The script of the last group of the row.
    last: Option<ScriptKey>,
    group: Group,
}

/// The script whose entries are added, with those that are not in the row yet.
#[derive(Default)]
struct Group {
    script: Option<ScriptKey>,
    totals: HistoryRow,
    entries: Vec<u8>,
    count: usize,
    txnum: TxNum,
    /// The bytes before its entries, but the count's.
    lead: Vec<u8>,
}

impl HistoryPacker {
    /// Begins a script, which has these totals before this generation.
    pub(in crate::index) fn script(&mut self, script: ScriptKey, totals: HistoryRow) {
        self.close();
        self.group.script = Some(script);
        self.group.totals = totals;
    }

    /// Adds the next transaction of the script. Returns a row that is full.
    ///
    /// Errors: [`IndexError::Corrupt`] if a total overflows, or no script is begun.
    pub(in crate::index) fn push(
        &mut self,
        txnum: TxNum,
        change: &HistoryChange,
    ) -> Result<Option<PackedRow<14>>, IndexError> {
        let no_script = || IndexError::corrupt("history", "a transaction is packed before its script");
        let script = self.group.script.ok_or_else(no_script)?;
        let (change, totals) = self.group.net_and_totals(change)?;
        let last = self.last.filter(|_| self.first.is_some());
        if self.group.count == 0 {
            self.group.begin(script, last);
        }
        let before = self.group.entries.len();
        let stands_in_key = self.first.is_none() && self.group.count == 0;
        self.group.encode(txnum, &change, stands_in_key);
        let mut full = None;
        if self.row.len() + self.group.size(1) > ROW && !stands_in_key {
            // this entry begins the next row
            self.group.entries.truncate(before);
            self.close();
            full = self.take();
            self.group.begin(script, None);
            self.group.encode(txnum, &change, true);
        }
        if self.first.is_none() {
            self.first = Some(key(script, txnum));
        }
        self.group.advance(txnum, totals);
        Ok(full)
    }

    /// Adds scripts that no generation before has, and rows that are full to `rows`: they are those of [`HistoryPacker::push`] with
    /// each of their transactions.
    ///
    /// Errors: [`IndexError::Corrupt`] if they are not what was packed.
    pub(in crate::index) fn append(
        &mut self,
        packed: &PackedScripts,
        rows: &mut Vec<PackedRow<14>>,
    ) -> Result<(), IndexError> {
        let mut next = 0;
        while next < packed.scripts.len() {
            self.close();
            // the first group of a part has no difference to a script before it, so it is packed again
            if next > 0 {
                let begin = packed.scripts[next - 1].end;
                // a row has at most as many as it has bytes
                let scripts = &packed.scripts[next..packed.scripts.len().min(next + ROW)];
                let fitting = scripts.partition_point(|script| self.row.len() + script.end - begin <= ROW);
                if fitting > 0 {
                    next += fitting;
                    let last = packed.scripts[next - 1];
                    self.row.extend_from_slice(&packed.bytes[begin..last.end]);
                    self.last = Some(last.script);
                    continue;
                }
            }
            // this one ends a row and begins the next
            self.script(packed.scripts[next].script, HistoryRow::default());
            let mut entries = packed.entries(next)?;
            loop {
                self.copy_entries(&mut entries);
                let Some((txnum, change)) = entries.next()? else { break };
                rows.extend(self.push(txnum, &change)?);
            }
            next += 1;
        }
        Ok(())
    }

    /// Adds as many of the next entries as their samples show to fit the row: none, unless they begin at a sample. None of them
    /// begins the row, because [`HistoryPacker::push`] adds an entry to each that it begins.
    fn copy_entries(&mut self, entries: &mut GroupEntries<'_>) {
        let group = &mut self.group;
        let Some((first, later)) = entries.samples.split_first() else { return };
        if entries.read != first.entries {
            return;
        }
        let fits = |end: &&EntrySample| {
            self.row.len() + group.size(end.entries - first.entries) + end.position - first.position <= ROW
        };
        let fitting = later.iter().take_while(fits).count();
        entries.samples = &later[fitting..];
        if let Some(last) = fitting.checked_sub(1).map(|last| &later[last]) {
            group.entries.extend_from_slice(&entries.bytes[first.position..last.position]);
            group.count += last.entries - first.entries;
            (group.txnum, group.totals) = (last.txnum, last.totals);
            entries.skip_to(last);
        }
    }

    /// Ends the script, and writes the groups that are in no complete row yet, for [`HistoryPacker::decode_state`].
    /// [`HistoryPacker::script`] must follow.
    pub(in crate::index) fn encode_state(&mut self, state: &mut Encoder) {
        self.close();
        let (first, last) = (self.first.as_ref(), self.last.as_ref());
        state.blob(first.map_or(&[], HistoryKey::as_slice)).blob(last.map_or(&[], |script| &script.0)).blob(&self.row);
    }

    pub(in crate::index) fn decode_state(state: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let (first, last) = (state.optional_key()?, state.optional_key()?.map(ScriptKey));
        Ok(Self { first, last, row: state.blob()?.to_vec(), group: Group::default() })
    }

    /// The last row.
    pub(in crate::index) fn finish(mut self) -> Option<PackedRow<14>> {
        self.close();
        self.take()
    }

    /// Moves the entries of the script to the row.
    fn close(&mut self) {
        if self.group.count > 0 {
            self.group.close(&mut self.row);
            self.last = self.group.script;
        }
    }

    fn take(&mut self) -> Option<PackedRow<14>> {
        let first = self.first.take()?;
        Some((first, std::mem::replace(&mut self.row, Vec::with_capacity(ROW))))
    }
}

impl Group {
    /// Begins a group for the entries that follow, behind that of `last` if it does not begin a row.
    fn begin(&mut self, script: ScriptKey, last: Option<ScriptKey>) {
        self.entries.clear();
        self.lead.clear();
        let difference = last.map_or(0, |last| script.to_number() - last.to_number()).to_be_bytes();
        let difference = &difference[difference.iter().take_while(|byte| **byte == 0).count()..];
        self.lead.push(low_byte(difference.len()));
        self.lead.extend_from_slice(difference);
        if self.totals != HistoryRow::default() {
            self.lead[0] |= HAS_TOTALS;
            encode_totals(&mut self.lead, &self.totals);
        }
    }

    /// What a transaction changes but for what it overwrites, and the totals after it.
    fn net_and_totals(&self, change: &HistoryChange) -> Result<(HistoryChange, HistoryRow), IndexError> {
        let overflow = || IndexError::corrupt("history", "a total of a script is larger than any chain allows");
        let totals = self.totals.plus(change).ok_or_else(overflow)?;
        Ok((net(change).ok_or_else(overflow)?, totals))
    }

    /// Adds an entry, which [`Group::advance`] counts. A row's first one leaves out the txnum, which is in the key.
    fn encode(&mut self, txnum: TxNum, change: &HistoryChange, stands_in_key: bool) {
        let difference = txnum.0 - if self.count == 0 { 0 } else { self.txnum.0 };
        encode_entry(&mut self.entries, (!stands_in_key).then_some(difference), &self.totals, change);
    }

    fn advance(&mut self, txnum: TxNum, totals: HistoryRow) {
        self.count += 1;
        self.txnum = txnum;
        self.totals = totals;
    }

    /// A sample behind its last entry, with a position among its entries.
    fn sample(&self) -> EntrySample {
        EntrySample { position: self.entries.len(), entries: self.count, txnum: self.txnum, totals: self.totals }
    }

    /// Moves what stands before its entries, and these.
    fn close(&mut self, row: &mut Vec<u8>) {
        let head = row.len();
        row.append(&mut self.lead);
        if self.count <= FEW {
            row[head] |= low_byte(self.count) << 5;
        } else {
            put_varint(row, self.count as u64);
        }
        row.append(&mut self.entries);
        self.count = 0;
    }

    /// Its bytes with so many entries more than are counted.
    fn size(&self, more: usize) -> usize {
        let count = self.count + more;
        let count = if count <= FEW { 0 } else { varint_size(count as u64) };
        self.lead.len() + count + self.entries.len()
    }
}

/// The groups of scripts that no generation before has, each as it stands in a row behind the one before it. Several threads
/// pack, and one of them all appends to rows with [`HistoryPacker::append`]: where a row ends depends on all before it.
#[derive(Default)]
pub(in crate::index) struct PackedScripts {
    bytes: Vec<u8>,
    scripts: Vec<PackedScript>,
    samples: Vec<EntrySample>,
    group: Group,
}

#[derive(Clone, Copy)]
struct PackedScript {
    script: ScriptKey,
    /// Where its group ends, and its samples do.
    end: usize,
    samples_end: usize,
}

/// So many entries are between two samples of a script that has more.
const SAMPLED: usize = 16;

/// What is known before an entry, or behind the last one, so that those up to there are copied without decoding them.
struct EntrySample {
    /// In all bytes.
    position: usize,
    /// So many entries of the script are before it.
    entries: usize,
    /// Of the entry before it.
    txnum: TxNum,
    totals: HistoryRow,
}

impl PackedScripts {
    pub(in crate::index) fn clear(&mut self) {
        self.bytes.clear();
        self.scripts.clear();
        self.samples.clear();
    }

    /// The bytes in memory of what was added.
    pub(in crate::index) fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&self.scripts[..]) + size_of_val(&self.samples[..])
    }

    /// The bytes in memory before it grows.
    pub(in crate::index) fn capacity(&self) -> usize {
        let Self { bytes, scripts, samples, .. } = self;
        bytes.capacity()
            + scripts.capacity() * size_of::<PackedScript>()
            + samples.capacity() * size_of::<EntrySample>()
    }

    /// Adds a script with its transactions in order, of which there is at least one.
    ///
    /// Errors: [`IndexError::Corrupt`] if a total overflows.
    pub(in crate::index) fn push(
        &mut self,
        script: ScriptKey,
        changes: impl IntoIterator<Item = (TxNum, HistoryChange)>,
    ) -> Result<(), IndexError> {
        let (group, first_sample) = (&mut self.group, self.samples.len());
        group.totals = HistoryRow::default();
        group.begin(script, self.scripts.last().map(|last| last.script));
        for (txnum, change) in changes {
            if group.count > 0 && group.count.is_multiple_of(SAMPLED) {
                self.samples.push(group.sample());
            }
            let (change, totals) = group.net_and_totals(&change)?;
            group.encode(txnum, &change, false);
            group.advance(txnum, totals);
        }
        if group.count > SAMPLED {
            self.samples.push(group.sample());
        }
        let size = group.entries.len();
        group.close(&mut self.bytes);
        let end = self.bytes.len();
        for sample in &mut self.samples[first_sample..] {
            sample.position += end - size;
        }
        self.scripts.push(PackedScript { script, end, samples_end: self.samples.len() });
        Ok(())
    }

    /// The entries of a script.
    fn entries(&self, number: usize) -> Result<GroupEntries<'_>, IndexError> {
        let before = number.checked_sub(1).map(|before| self.scripts[before]);
        let (begin, first_sample) = before.map_or((0, 0), |before| (before.end, before.samples_end));
        let PackedScript { end, samples_end, .. } = self.scripts[number];
        let bytes = &self.bytes[..end];
        let mut row = Decoder::new("history", &bytes[begin..]);
        let head = row.u8()?;
        row.take(usize::from(head & 0xf))?;
        let count = usize::try_from(decode_count(head, &mut row)?).unwrap_or(usize::MAX);
        let samples = &self.samples[first_sample..samples_end];
        Ok(GroupEntries { bytes, row, count, read: 0, txnum: TxNum(0), totals: HistoryRow::default(), samples })
    }
}

/// Reads the entries of a packed script.
struct GroupEntries<'p> {
    /// All bytes up to the end of the script.
    bytes: &'p [u8],
    row: Decoder<'p>,
    count: usize,
    read: usize,
    /// Of the entry before.
    txnum: TxNum,
    totals: HistoryRow,
    /// Those that are not passed.
    samples: &'p [EntrySample],
}

impl GroupEntries<'_> {
    fn next(&mut self) -> Result<Option<(TxNum, HistoryChange)>, IndexError> {
        if self.read == self.count {
            return Ok(None);
        }
        let head = self.row.u8()?;
        self.txnum = decode_txnum(head, self.txnum, &mut self.row)?;
        let change = decode_change(&mut self.row, head, &self.totals)?;
        let totals = self.totals.plus(&change);
        self.totals = totals.ok_or_else(|| self.row.corrupt("has totals that are too large"))?;
        self.read += 1;
        Ok(Some((self.txnum, change)))
    }

    fn skip_to(&mut self, sample: &EntrySample) {
        self.row = Decoder::new("history", &self.bytes[sample.position..]);
        (self.read, self.txnum, self.totals) = (sample.entries, sample.txnum, sample.totals);
    }
}
