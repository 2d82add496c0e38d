//! Files of generations that are not complete on this machine yet: what is missing of them is fetched when it is read.
//!
//! ```text
//!   FrozenTable ─► redb ─► Unchanged ─► PartialFile::read ─ there? ─► the file
//!                                                         └ missing ─► fetched, verified, stored in the file (fleet)
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::frozen::Generations;

thread_local! {
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience::SHORT) };
}

/// How long a thread waits for what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    is_endless: bool,
}

impl Patience {
    /// A moment, after which the read fails: a client waits for the answer.
    pub const SHORT: Self = Self { is_endless: false };
    /// Until it is there or the process stops: a change of the chain that began must not fail halfway.
    pub const ENDLESS: Self = Self { is_endless: true };

    /// That of this thread.
    #[must_use]
    pub fn current() -> Self {
        PATIENCE.get()
    }

    /// Whether reads wait until it is there.
    #[must_use]
    pub fn is_endless(self) -> bool {
        self.is_endless
    }

    /// Does some work with it on this thread.
    pub fn scope<T>(self, work: impl FnOnce() -> T) -> T {
        struct Restored(Patience);

        impl Drop for Restored {
            fn drop(&mut self) {
                PATIENCE.set(self.0);
            }
        }

        let _restored = Restored(PATIENCE.replace(self));
        work()
    }
}

/// A file of which some bytes may be missing. It does not change otherwise.
pub trait PartialFile: fmt::Debug + Send + Sync {
    /// Its bytes once it is complete.
    fn bytes(&self) -> u64;

    /// How many of them are missing.
    fn missing_bytes(&self) -> u64;

    /// Whether it is complete, and will never fetch anything again.
    fn is_complete(&self) -> bool;

    /// Reads bytes, and fetches first what is missing of them. Blocks the thread meanwhile, as long as its [`Patience`] lasts.
    ///
    /// Errors: what is missing cannot be fetched now; the file cannot be read.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Unfetched>;
}

/// Partial files by the name of their generation.
pub type PartialFiles = BTreeMap<String, Arc<dyn PartialFile>>;

/// Why bytes cannot be read that are missing on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfetched(pub String);

impl Generations {
    /// The bytes of their files that are missing on this machine.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.iter().map(|in_force| in_force.generation.missing_bytes()).sum()
    }

    /// Whether bytes of one may be missing on this machine.
    pub(super) fn are_partial(&self) -> bool {
        self.iter().any(|in_force| in_force.generation.is_partial())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patience_of_a_thread_is_restored_behind_its_work() {
        assert_eq!(Patience::current(), Patience::SHORT);
        let inner = Patience::ENDLESS.scope(|| {
            let inner = Patience::SHORT.scope(Patience::current);
            assert!(Patience::current().is_endless());
            inner
        });
        assert_eq!((inner, Patience::current()), (Patience::SHORT, Patience::SHORT));
        let failed = std::panic::catch_unwind(|| Patience::ENDLESS.scope(|| std::panic::resume_unwind(Box::new(1))));
        assert!(failed.is_err() && Patience::current() == Patience::SHORT);
    }
}
