//! Finds the transaction that every input spends, partition by partition of the hashes of txids.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::ReadableTable;

use super::super::codec::{Decoder, Encoder, put_varint};
use super::super::error::IndexError;
use super::super::frozen::tables::txid_prefixes::{CutBits, CutHash};
use super::super::frozen::tables::{txid_prefixes, txids};
use super::super::keys::TxNum;
use super::chain::ImportedChain;
use super::ordered::{ImportThreads, in_order};
use super::progress::{ImportPhase, ReportedProgress};
use super::read::TRANSACTION;
use super::run_buffers::ThreadBuffers;
use super::run_kinds::RunKind;
use super::runs::Runs;
use super::stages::JOINING;
use super::workspace::Workspace;

/// About how many transactions of a partition share the bits of the hash by which they are found.
const BUCKET: usize = 4;

/// What every spend begins with: the txnum of what it spends, that of its transaction.
const SPEND_HEAD: usize = 4 + 4;

/// What a partition gives, but the spends.
struct Joined {
    hashes: Vec<(CutHash, TxNum)>,
    /// Transactions whose hashes are equal.
    equal: Vec<Vec<TxNum>>,
    /// The first input that spends what does not exist.
    unresolved: Option<(TxNum, u32)>,
}

/// What joining has between two partitions, beside the copies that it found.
#[derive(Default)]
pub(super) struct JoinState {
    /// The next partition.
    pub(super) next: usize,
    packer: txid_prefixes::TxidPrefixPacker,
    /// The transactions of the newest hash, which may go on in the next partition.
    last: Vec<(CutHash, TxNum)>,
}

impl JoinState {
    fn encode(&self, row: &mut Encoder) {
        row.varint(self.next as u64);
        self.packer.encode_state(row);
        row.varint(self.last.len() as u64);
        for (hash, txnum) in &self.last {
            row.bytes(&hash.to_key()).u32(txnum.0);
        }
    }

    pub(super) fn decode(row: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let (next, packer) = (row.varint()?, txid_prefixes::TxidPrefixPacker::decode_state(row)?);
        let mut last = Vec::new();
        for _ in 0..row.varint::<u64>()? {
            last.push((CutHash::from_key(row.array()?), TxNum(row.u32()?)));
        }
        Ok(Self { next, packer, last })
    }
}

/// The runs of this phase, and the buffers before those that it makes.
struct JoinRuns {
    transactions: Arc<Runs>,
    prevouts: Arc<Runs>,
    /// For spends, by the range of what they spend.
    buffers: ThreadBuffers<1>,
}

/// Writes `txid_prefixes`, finds copies, and makes the runs of spends.
pub(super) fn join(
    work: &mut Workspace,
    mut state: JoinState,
    progress: &mut ReportedProgress<'_>,
) -> Result<(), IndexError> {
    let partitions = work.chain.partitions();
    progress.begin(ImportPhase::Joining, state.next, partitions)?;
    let ranges = work.chain.ranges.len();
    let spends = work.runs(RunKind::Spends, Runs::bundle_of(ranges));
    let threads = ImportThreads::start(work.chain.options.threads)?;
    let memory = work.chain.options.memory / 4 / threads.count();
    let runs = JoinRuns {
        transactions: work.runs(RunKind::Transactions, Runs::bundle_of(partitions)),
        prevouts: work.runs(RunKind::Prevouts, Runs::bundle_of(partitions)),
        buffers: ThreadBuffers::new(threads.count(), || [spends.buffers(ranges, memory)]),
    };
    let cut_bits = CutBits::of(work.chain.next.0);
    while state.next < partitions {
        let (clock, mut copies) = (work.clock(), BTreeMap::new());
        let (chain, builder) = (&work.chain, &mut work.builder);
        let make = |partition| join_partition(chain, partition, cut_bits, &runs);
        in_order(state.next..partitions, &threads, 1, make, |joined: Joined| {
            if let Some((txnum, vin)) = joined.unresolved {
                let txid = builder.with_table(txids::TABLE, |table| txids::read(table, txnum))?;
                let txid = txid.map_or_else(|| txnum.to_string(), |txid| txid.to_string());
                let what = format!("input {vin} of its transaction {txid} spends an output that does not exist");
                return Err(chain.invalid(txnum, what));
            }
            for equal in joined.equal {
                builder.with_table(txids::TABLE, |table| find_copies(table, &equal, &mut copies))?;
            }
            let (mut rows, JoinState { packer, last, .. }) = (Vec::new(), &mut state);
            for (hash, txnum) in joined.hashes {
                if last.first().is_some_and(|(first, _)| *first != hash) {
                    last.sort_unstable();
                    rows.extend(last.drain(..).filter_map(|(hash, txnum)| packer.push(hash, txnum)));
                }
                last.push((hash, txnum));
            }
            builder.append(txid_prefixes::TABLE, &rows, Vec::as_slice)?;
            state.next += 1;
            progress.advance()?;
            Ok(clock.flow(chain))
        })?;
        runs.buffers.flush()?;
        work.chain.overwritten.extend(copies);
        if state.next < partitions {
            work.checkpoint(|row| state.encode(row.bytes(&[JOINING])))?;
        }
    }
    let JoinState { mut packer, mut last, .. } = state;
    last.sort_unstable();
    let mut rows: Vec<_> = last.into_iter().filter_map(|(hash, txnum)| packer.push(hash, txnum)).collect();
    rows.extend(packer.finish());
    work.builder.append(txid_prefixes::TABLE, &rows, Vec::as_slice)?;
    work.retire(RunKind::Transactions)?;
    work.retire(RunKind::Prevouts)
}

fn join_partition(
    chain: &ImportedChain,
    partition: usize,
    cut_bits: CutBits,
    runs: &JoinRuns,
) -> Result<Joined, IndexError> {
    let JoinRuns { transactions, prevouts, buffers } = runs;
    let mut keys = Vec::with_capacity(transactions.partition_bytes(partition) / TRANSACTION);
    transactions.consume(partition, |chunk| {
        let mut chunk = Decoder::new("import", chunk);
        while !chunk.is_empty() {
            keys.push((chunk.u64()?, TxNum(chunk.u32()?)));
        }
        Ok(())
    })?;
    let (keys, ends) = sorted(keys);
    let bucket = |hash: u64| bucket_of(hash, ends.len());
    let equal = keys.chunk_by(|one, other| one.0 == other.0).filter(|equal| equal.len() > 1);
    let equal = equal.map(|equal| equal.iter().map(|(_, txnum)| *txnum).collect()).collect();

    let mut unresolved = None;
    buffers.with(|[spends]| {
        prevouts.consume(partition, |chunk| {
            let mut chunk = Decoder::new("import", chunk);
            while !chunk.is_empty() {
                let (hash, spender) = (chunk.u64()?, TxNum(chunk.u32()?));
                let (vout, vin): (u32, u32) = (chunk.varint_32()?, chunk.varint_32()?);
                let bucket = bucket(hash);
                let from = bucket.checked_sub(1).map_or(0, |before| ends[before]);
                let keys = &keys[index(from)..index(ends[bucket])];
                // the latest copy before the input
                let copy = keys.partition_point(|key| *key < (hash, spender)).checked_sub(1).map(|at| keys[at]);
                if let Some((_, txnum)) = copy.filter(|copy| copy.0 == hash) {
                    let record = spends.record(chain.range_of(txnum))?;
                    let mut head = [0; SPEND_HEAD];
                    head[..4].copy_from_slice(&txnum.to_key());
                    head[4..].copy_from_slice(&spender.to_key());
                    record.extend_from_slice(&head);
                    put_varint(record, vout.into());
                    put_varint(record, vin.into());
                } else {
                    let input = (spender, vin);
                    unresolved = Some(unresolved.map_or(input, |first: (TxNum, u32)| first.min(input)));
                }
            }
            Ok(())
        })
    })?;
    let hashes = keys.iter().map(|(hash, txnum)| (cut_bits.cut(chain.prefix_of_hash(partition, *hash)), *txnum));
    Ok(Joined { hashes: hashes.collect(), equal, unresolved })
}

/// The bucket of a hash, of so many, which are a power of two.
fn bucket_of(hash: u64, buckets: usize) -> usize {
    usize::try_from(hash >> (u64::BITS - buckets.ilog2())).unwrap_or(0)
}

/// The transactions in the order of their hashes, and of each bucket the number of transactions up to its end. As hashes are spread
/// evenly, putting them into their buckets does most of the sorting.
fn sorted(transactions: Vec<(u64, TxNum)>) -> (Vec<(u64, TxNum)>, Vec<u32>) {
    let buckets = 1 << (transactions.len() / BUCKET).max(2).ilog2();
    let mut ends = vec![0_u32; buckets];
    for (hash, _) in &transactions {
        ends[bucket_of(*hash, buckets)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum;
    }
    // each bucket is filled from its end, which is its beginning then
    let (mut sorted, mut at) = (vec![(0, TxNum(0)); transactions.len()], ends.clone());
    for transaction in transactions.iter().rev() {
        let at = &mut at[bucket_of(transaction.0, buckets)];
        *at -= 1;
        sorted[index(*at)] = *transaction;
    }
    drop(transactions);
    let mut from = 0;
    for end in &ends {
        sorted[from..index(*end)].sort_unstable();
        from = index(*end);
    }
    (sorted, ends)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Notes which of these transactions, whose hashes are equal, are copies of each other (BIP30).
fn find_copies(
    table: &impl ReadableTable<&'static [u8; 4], &'static [u8]>,
    equal: &[TxNum],
    copies: &mut BTreeMap<TxNum, TxNum>,
) -> Result<(), IndexError> {
    let mut before = None;
    for txnum in equal {
        let txid = txids::read(table, *txnum)?;
        match before.replace((*txnum, txid)) {
            Some((copy, same)) if same == txid => copies.insert(copy, *txnum),
            Some(_) => {
                let what = "two txids have the same hash under the salt of this index: import with another salt";
                return Err(IndexError::corrupt("txids", what));
            }
            None => None,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn transactions_are_sorted_and_each_bucket_ends_behind_its_last_hash(
            // spread evenly, or nearly all in one bucket
            hashes in prop_oneof![
                prop::collection::vec(any::<u64>(), 0..600),
                prop::collection::vec(prop_oneof![0..9_u64, any::<u64>()], 0..600),
            ],
        ) {
            let transactions: Vec<_> = hashes.into_iter().zip((0..).map(TxNum)).collect();
            let (found, ends) = sorted(transactions.clone());
            let mut expected = transactions;
            expected.sort_unstable();
            for (bucket, end) in ends.iter().enumerate() {
                let up_to = expected.iter().filter(|(hash, _)| bucket_of(*hash, ends.len()) <= bucket).count();
                prop_assert_eq!(index(*end), up_to);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
