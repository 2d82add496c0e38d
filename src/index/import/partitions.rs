//! How many partitions the hashes of an import are taken apart into.

/// Bytes that the outputs of a transaction take in memory while their partition is sorted and packed. With 2.47 inputs and 2.75
/// outputs each they took 301: 4.5 effects of 24 bytes, unsorted and sorted, 75 of packed groups and samples of them, and 10 of
/// unspent rows.
pub(super) const PARTITION_BYTES: u64 = 320;

/// How many leading bits of a hash name its partition: so many that what a thread sorts of one partition fits into its part of
/// the memory, and, with up to 268 million transactions, those of one into the cache of a processor.
pub(super) fn partition_bits(transactions: u64, memory: usize, threads: usize) -> u32 {
    const CACHED: u64 = 1 << 16;
    let bytes = transactions.saturating_mul(PARTITION_BYTES);
    let share = u64::try_from(memory / 2 / threads.max(1)).unwrap_or(u64::MAX).max(1);
    let partitions = bytes.div_ceil(share).max(transactions / CACHED);
    (u64::BITS - partitions.leading_zeros()).clamp(2, 12)
}
