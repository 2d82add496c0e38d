/// A count of things in memory, which never exceeds 64 bits.
#[must_use]
pub fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
