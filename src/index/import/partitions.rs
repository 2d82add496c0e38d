//! How many partitions the hashes of an import are taken apart into.

/// Bytes that the outputs of a transaction take in memory while their partition is sorted: two and a half of 96. A spent one
/// has two effects of 24 bytes, sorted and unsorted; an unspent one has one, and its row.
pub(super) const PARTITION_BYTES: u64 = 240;

/// How many leading bits of a hash name its partition: so many that what a thread sorts of one partition fits into
/// its part of the memory, and, for the largest chains nearly, the transactions of one into the cache of a processor.
pub(super) fn partition_bits(transactions: u64, memory: usize, threads: usize) -> u32 {
    const CACHED: u64 = 1 << 16;
    let bytes = transactions.saturating_mul(PARTITION_BYTES);
    let share = u64::try_from(memory / 2 / threads.max(1)).unwrap_or(u64::MAX).max(1);
    let partitions = bytes.div_ceil(share).max(transactions / CACHED);
    (u64::BITS - partitions.leading_zeros()).clamp(2, 12)
}
