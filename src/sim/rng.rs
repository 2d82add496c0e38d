//! Pseudorandom numbers that are equal on every machine and with every version of every library.

/// `SplitMix64`: small, fast and good enough for test data; not for cryptography.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Rng { state: seed }
    }

    /// The next number, uniform over all of `u64`.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`; 0 when `bound` is 0. The bias of less than `bound / 2^64` is accepted.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in `percent` of 100 cases.
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A position in a collection of `len` elements; 0 when it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        // A number below a usize fits into a usize.
        u64::try_from(len).map_or(0, |len| usize::try_from(self.below(len)).unwrap_or(0))
    }

    /// One element of `choices`, `None` when there is none.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.index(choices.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(7);
        let drawn: Vec<u64> = (0..200).map(|_| rng.between(3, 5)).collect();
        assert!(drawn.iter().all(|n| (3..=5).contains(n)));
        assert!((3..=5).all(|n| drawn.contains(&n)));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.choose::<u8>(&[]), None);
    }
}
