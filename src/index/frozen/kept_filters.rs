//! Which generations have their filters in memory.

use super::generations::Generations;

impl Generations {
    /// Keeps filters in memory, of the newest generations first, up to so many bytes. They are there as long as the generation
    /// is open.
    pub(in crate::index) fn keep_filters(&self, most_bytes: u64) {
        let kept = self.iter().map(|in_force| in_force.generation.kept_filter_bytes()).sum();
        let mut left = most_bytes.saturating_sub(kept);
        for in_force in self.iter().rev().filter(|in_force| in_force.generation.kept_filter_bytes() == 0) {
            in_force.generation.keep_filters(left);
            left = left.saturating_sub(in_force.generation.kept_filter_bytes());
        }
    }
}
