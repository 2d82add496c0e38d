//! The tables about scripts, partition by partition of the script keys.

use parking_lot::Mutex;

use super::super::codec::{Decoder, Encoder, put_varint};
use super::super::error::IndexError;
use super::super::frozen::tables::history;
use super::super::hot::tables::history::HistoryChange;
use super::super::hot::tables::{payouts, unspent};
use super::super::keys::{Position, ScriptKey, TxNum};
use super::amount;
use super::chain::{BITS_BEHIND_PARTITION, ImportedChain};
use super::ordered::{ImportThreads, in_order};
use super::place::place;
use super::progress::{ImportPhase, ReportedProgress};
use super::run_kinds::RunKind;
use super::runs::Runs;
use super::stages::SCRIPTS;
use super::workspace::Workspace;

/// What became of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Unspent,
    Spent(TxNum),
    Overwritten(TxNum),
}

/// An output that entered the UTXO set.
pub(super) struct ScriptOutput {
    pub(super) script: ScriptKey,
    pub(super) txnum: TxNum,
    pub(super) vout: Position,
    /// In sat.
    pub(super) value: u64,
    pub(super) is_coinbase: bool,
    pub(super) fate: Fate,
}

/// Memory of which a partition has used less than a part of so many is not kept for the next one.
const MOST_UNUSED: usize = 4;
/// About as many effects as fit the fast cache of a processor while they are sorted.
const SORTED_AT_ONCE: usize = 1 << 10;

/// Flags of an output, beside those of its amount.
const COINBASE: u8 = 1;
const SPENT: u8 = 2;
const OVERWRITTEN: u8 = 4;
const _: () = assert!((COINBASE | SPENT | OVERWRITTEN) & amount::SIZE == 0, "no flag is another");
/// What every output begins with: flags, script key, txnum, and that of the transaction that spends or overwrites it, or 0.
const OUTPUT_HEAD: usize = 1 + 10 + 4 + 4;
/// The fewest bytes of an output, whose vout and amount have one at least.
const LEAST_OUTPUT: usize = OUTPUT_HEAD + 1 + 1;

impl ScriptOutput {
    pub(super) fn encode(&self, record: &mut Vec<u8>) {
        let (fate, by) = match self.fate {
            Fate::Unspent => (0, TxNum(0)),
            Fate::Spent(by) => (SPENT, by),
            Fate::Overwritten(by) => (OVERWRITTEN, by),
        };
        let mut head = [0; OUTPUT_HEAD];
        head[0] = fate | if self.is_coinbase { COINBASE } else { 0 } | amount::flags(self.value);
        head[1..11].copy_from_slice(&self.script.0);
        head[11..15].copy_from_slice(&self.txnum.to_key());
        head[15..].copy_from_slice(&by.to_key());
        record.extend_from_slice(&head);
        put_varint(record, self.vout.to_u32().into());
        amount::put(record, self.value);
    }

    fn decode(record: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let flags = record.u8()?;
        let (script, txnum, by) = (ScriptKey(record.array()?), TxNum(record.u32()?), TxNum(record.u32()?));
        let vout = Position::new(record.varint_32()?).ok_or_else(|| record.corrupt("has too many outputs"))?;
        let value = amount::read(record, flags)?;
        let fate = match flags & !(COINBASE | amount::SIZE) {
            0 => Fate::Unspent,
            SPENT => Fate::Spent(by),
            OVERWRITTEN => Fate::Overwritten(by),
            _ => return Err(record.corrupt("has unknown flags")),
        };
        if fate != Fate::Unspent && by <= txnum {
            return Err(record.corrupt("is spent before it was created"));
        }
        Ok(Self { script, txnum, vout, value, is_coinbase: flags & COINBASE != 0, fate })
    }
}

/// What an output does to its script in one transaction. Sorts by script, then transaction. Packed it has 24 bytes, and not 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(8))]
struct ScriptEffect {
    /// Script key ‖ txnum ‖ kind: one number, for it is compared most of the time.
    key: u128,
    value: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum EffectKind {
    Receive,
    ReceiveCoinbase,
    Spend,
    Overwrite,
}

impl EffectKind {
    const ALL: [Self; 4] = [Self::Receive, Self::ReceiveCoinbase, Self::Spend, Self::Overwrite];
    const BITS: u32 = 2;
}

const _: () = assert!(size_of::<ScriptEffect>() == 24, "the estimate of an import computes with it");

impl ScriptEffect {
    /// Holds a place.
    const NONE: Self = Self { key: 0, value: 0 };

    fn new(script: ScriptKey, txnum: TxNum, kind: EffectKind, value: u64) -> Self {
        Self { key: (script.to_number() << 32 | u128::from(txnum.0)) << EffectKind::BITS | kind as u128, value }
    }

    fn kind(&self) -> EffectKind {
        EffectKind::ALL[usize::try_from(self.key & 3).unwrap_or(0)]
    }

    /// Script key ‖ txnum.
    fn script_and_txnum(&self) -> u128 {
        self.key >> EffectKind::BITS
    }

    fn txnum(&self) -> TxNum {
        let [.., a, b, c, d] = self.script_and_txnum().to_be_bytes();
        TxNum(u32::from_be_bytes([a, b, c, d]))
    }

    fn script(&self) -> ScriptKey {
        let mut script = [0; 10];
        script.copy_from_slice(&self.script_and_txnum().to_be_bytes()[2..12]);
        ScriptKey(script)
    }

    fn change(&self) -> HistoryChange {
        let (value, none) = (u128::from(self.value), HistoryChange::default());
        match self.kind() {
            EffectKind::Receive => HistoryChange { received: value, outputs_received: 1, ..none },
            EffectKind::ReceiveCoinbase => HistoryChange {
                received: value,
                outputs_received: 1,
                coinbase_received: self.value,
                is_coinbase_payment: true,
                ..none
            },
            EffectKind::Spend => HistoryChange { spent: value, outputs_spent: 1, ..none },
            EffectKind::Overwrite => HistoryChange { overwritten: value, outputs_overwritten: 1, ..none },
        }
    }
}

/// The rows of a partition, in their order.
#[derive(Default)]
struct ScriptRows {
    history: history::PackedScripts,
    unspent: Vec<(unspent::UnspentKeyBytes, unspent::UnspentValue)>,
    payouts: Vec<(payouts::PayoutKey, ())>,
}

/// Memory of partitions that are done, for later ones. Freed by another thread than the one that allocated it, it would wait in
/// the allocator beside new memory. It is freed nevertheless once a partition has left most of it unused: it was taken for one
/// that has a script with very many transactions.
#[derive(Default)]
struct DoneMemory {
    rows: Mutex<Vec<ScriptRows>>,
    effects: Mutex<Vec<PartitionEffects>>,
}

/// The effects of a partition.
#[derive(Default)]
struct PartitionEffects {
    unsorted: Vec<ScriptEffect>,
    sorted: Vec<ScriptEffect>,
}

impl DoneMemory {
    fn rows(&self) -> ScriptRows {
        let mut rows = self.rows.lock().pop().unwrap_or_default();
        rows.history.clear();
        rows.unspent.clear();
        rows.payouts.clear();
        rows
    }

    /// Memory of which the sorted effects are yet to be overwritten.
    fn effects(&self) -> PartitionEffects {
        let mut effects = self.effects.lock().pop().unwrap_or_default();
        effects.unsorted.clear();
        effects
    }

    fn keep_rows(&self, rows: ScriptRows) {
        if rows.history.size() >= rows.history.capacity() / MOST_UNUSED {
            self.rows.lock().push(rows);
        }
    }

    fn keep_effects(&self, effects: PartitionEffects) {
        let PartitionEffects { unsorted, sorted } = &effects;
        if unsorted.len() + sorted.len() >= (unsorted.capacity() + sorted.capacity()) / MOST_UNUSED {
            self.effects.lock().push(effects);
        }
    }
}

/// What this phase has between two partitions.
#[derive(Default)]
pub(super) struct ScriptsState {
    /// The next partition.
    pub(super) next: usize,
    packer: history::HistoryPacker,
}

impl ScriptsState {
    fn encode(&mut self, row: &mut Encoder) {
        row.varint(self.next as u64);
        // the next partition begins with another script
        self.packer.encode_state(row);
    }

    pub(super) fn decode(row: &mut Decoder<'_>) -> Result<Self, IndexError> {
        Ok(Self { next: row.varint()?, packer: history::HistoryPacker::decode_state(row)? })
    }
}

/// Writes `history`, `unspent` and `payouts`.
pub(super) fn scripts(
    work: &mut Workspace,
    mut state: ScriptsState,
    progress: &mut ReportedProgress<'_>,
) -> Result<(), IndexError> {
    let partitions = work.chain.partitions();
    progress.begin(ImportPhase::Scripts, state.next, partitions)?;
    let outputs = work.runs(RunKind::Scripts, Runs::bundle_of(partitions));
    let threads = ImportThreads::start(work.chain.options.threads)?;
    let (done, mut history) = (DoneMemory::default(), Vec::new());
    while state.next < partitions {
        let clock = work.clock();
        let (chain, builder) = (&work.chain, &mut work.builder);
        let make = |partition| rows_of(chain, partition, &outputs, &done);
        in_order(state.next..partitions, &threads, 1, make, |rows: ScriptRows| {
            history.clear();
            state.packer.append(&rows.history, &mut history)?;
            builder.append(history::TABLE, &history, Vec::as_slice)?;
            builder.append(unspent::TABLE, &rows.unspent, |row| row)?;
            builder.append(payouts::TABLE, &rows.payouts, |()| ())?;
            done.keep_rows(rows);
            state.next += 1;
            progress.advance()?;
            Ok(clock.flow(chain))
        })?;
        if state.next < partitions {
            work.checkpoint(|row| state.encode(row.bytes(&[SCRIPTS])))?;
        }
    }
    let last: Vec<_> = state.packer.finish().into_iter().collect();
    work.builder.append(history::TABLE, &last, Vec::as_slice)?;
    work.retire(RunKind::Scripts)
}

/// Packs the effects of a partition.
fn pack(effects: &[ScriptEffect], packed: &mut history::PackedScripts) -> Result<(), IndexError> {
    for effects in effects.chunk_by(|one, other| one.script_and_txnum() >> 32 == other.script_and_txnum() >> 32) {
        let transactions = effects.chunk_by(|one, other| one.script_and_txnum() == other.script_and_txnum());
        let changes = transactions.map(|same| {
            let change = same[1..].iter().fold(same[0].change(), |change, effect| change.and(&effect.change()));
            (same[0].txnum(), change)
        });
        packed.push(effects[0].script(), changes)?;
    }
    Ok(())
}

fn rows_of(
    chain: &ImportedChain,
    partition: usize,
    outputs: &Runs,
    done: &DoneMemory,
) -> Result<ScriptRows, IndexError> {
    // no output has more than two
    let most = outputs.partition_bytes(partition) / LEAST_OUTPUT * 2;
    let bits = (most / SORTED_AT_ONCE).max(1).ilog2().min(BITS_BEHIND_PARTITION);
    let list_of = |effect: &ScriptEffect| chain.bits_behind_partition(effect.script(), bits);
    let (mut rows, mut effects) = (done.rows(), done.effects());
    let unsorted = &mut effects.unsorted;
    unsorted.reserve_exact(most);
    let mut lists = vec![0; 1 << bits];
    outputs.consume(partition, |chunk| {
        let mut chunk = Decoder::new("import", chunk);
        while !chunk.is_empty() {
            let ScriptOutput { script, txnum, vout, value, is_coinbase, fate } = ScriptOutput::decode(&mut chunk)?;
            let list = &mut lists[chain.bits_behind_partition(script, bits)];
            *list += 1;
            let kind = if is_coinbase { EffectKind::ReceiveCoinbase } else { EffectKind::Receive };
            unsorted.push(ScriptEffect::new(script, txnum, kind, value));
            match fate {
                Fate::Unspent => {
                    let row = unspent::UnspentRow { value, is_coinbase };
                    rows.unspent.push((unspent::key(script, txnum, vout), row.encode()));
                }
                Fate::Spent(txnum) => {
                    *list += 1;
                    unsorted.push(ScriptEffect::new(script, txnum, EffectKind::Spend, value));
                }
                Fate::Overwritten(txnum) => {
                    *list += 1;
                    unsorted.push(ScriptEffect::new(script, txnum, EffectKind::Overwrite, value));
                }
            }
            if is_coinbase {
                rows.payouts.push((payouts::key(script, chain.start_of(txnum)?.height), ()));
            }
        }
        Ok(())
    })?;
    sort_by_lists(unsorted, &mut lists, list_of, &mut effects.sorted);
    pack(&effects.sorted, &mut rows.history)?;
    done.keep_effects(effects);
    rows.unspent.sort_unstable();
    rows.payouts.sort_unstable();
    rows.payouts.dedup();
    Ok(rows)
}

/// Sorts effects that belong to lists in order, of these lengths: the fewer are sorted at once, the faster.
fn sort_by_lists(
    unsorted: &[ScriptEffect],
    lengths: &mut [usize],
    list_of: impl Fn(&ScriptEffect) -> usize,
    sorted: &mut Vec<ScriptEffect>,
) {
    sorted.reserve_exact(unsorted.len().saturating_sub(sorted.len()));
    sorted.resize(unsorted.len(), ScriptEffect::NONE);
    place(unsorted, lengths, list_of, sorted);
    let mut begin = 0;
    for end in lengths {
        // by one number, without the value: the values of one key are added up
        sorted[begin..*end].sort_unstable_by_key(|effect| effect.key);
        begin = *end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_in_order_make_what_sorting_at_once_makes(
            scripts in prop::collection::vec((any::<[u8; 2]>(), 0..50_u32, 0..4_usize), 0..300),
            bits in prop::sample::select(vec![0_u32, 1, 5]),
            before in 0..400_usize,
        ) {
            let effect = |(head, txnum, kind): ([u8; 2], u32, usize)| {
                let script = ScriptKey([head[0], head[1], 0, 0, 0, 0, 0, 0, 0, 7]);
                ScriptEffect::new(script, TxNum(txnum), EffectKind::ALL[kind], txnum.into())
            };
            let unsorted: Vec<_> = scripts.into_iter().map(effect).collect();
            let list_of = |effect: &ScriptEffect| usize::from(effect.script().0[0]) >> (8 - bits);
            let mut lengths = vec![0; 1 << bits];
            for effect in &unsorted {
                lengths[list_of(effect)] += 1;
            }
            // memory of an earlier partition, of whatever length
            let mut sorted = vec![ScriptEffect::new(ScriptKey([9; 10]), TxNum(9), EffectKind::Spend, 9); before];
            sort_by_lists(&unsorted, &mut lengths, list_of, &mut sorted);
            let mut expected = unsorted;
            expected.sort_unstable();
            prop_assert!(sorted == expected);
        }
    }
}
