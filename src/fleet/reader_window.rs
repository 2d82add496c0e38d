//! How much is requested for a reader beside what it reads.
//!
//! What is read next is often near, and a request takes longer than its bytes. But in a small object all is near, in a large one
//! what is read next is mostly far away, and on a slow connection the bytes beside it take longer than further requests. So the
//! size of the object bounds a window, and the time that requests take chooses it within these bounds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::checksums::BLOCK;
use crate::chain::wide;

/// Bytes of a request, at least, at most, and at first.
const LEAST: u64 = 256 << 10;
const MOST: u64 = 4 << 20;
const FIRST: u64 = 1 << 20;
/// An object has so many windows, unless that makes them smaller than [`LEAST`] or larger than [`MOST`].
const WINDOWS: u64 = 64;
/// The bytes of a window times those of its object are no more than this, unless that makes it smaller than [`LEAST`].
const PRODUCT: u64 = 1 << 51;
/// After a request that took less the window is doubled, and halved after one that took longer.
const QUICK: Duration = Duration::from_millis(50);
const SLOW: Duration = Duration::from_millis(200);

/// How many blocks a request for a reader has: a power of two, at multiples of itself.
pub(super) struct ReaderWindow {
    blocks: AtomicUsize,
    most: usize,
}

impl ReaderWindow {
    /// Of an object of so many bytes.
    pub(super) fn of(bytes: u64) -> Self {
        let most = (bytes / WINDOWS).min(PRODUCT / bytes.max(1)).clamp(LEAST, MOST);
        Self { blocks: AtomicUsize::new(blocks(most.min(FIRST))), most: blocks(most) }
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    /// A request of a window that had so many blocks took so long, or failed. One that began before the last change counts no more.
    pub(super) fn adapt(&self, window: usize, taken: Option<Duration>) {
        let next = match taken {
            Some(taken) if taken < QUICK => window * 2,
            Some(taken) if taken <= SLOW => window,
            _ => window / 2,
        };
        let next = next.clamp(blocks(LEAST), self.most);
        let _ = self.blocks.compare_exchange(window, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn blocks(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(wide(BLOCK))).unwrap_or(1).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_small_and_large_objects_are_small() {
        let most = |mib: u64| ReaderWindow::of(mib << 20).most * BLOCK;
        assert_eq!([0, 4, 32, 128].map(most), [256 << 10, 256 << 10, 512 << 10, 2 << 20]);
        assert_eq!([256, 512, 1 << 10, 128 << 10].map(most), [4 << 20, 4 << 20, 2 << 20, 256 << 10]);
    }

    #[test]
    fn a_window_grows_while_requests_are_quick_and_shrinks_when_they_are_slow() {
        let window = ReaderWindow::of(512 << 20);
        let after = |milliseconds| {
            window.adapt(window.blocks(), Some(Duration::from_millis(milliseconds)));
            window.blocks() * BLOCK
        };
        assert_eq!([5, 5, 5, 100].map(after), [2 << 20, 4 << 20, 4 << 20, 4 << 20]);
        assert_eq!([900; 5].map(after), [2 << 20, 1 << 20, 512 << 10, 256 << 10, 256 << 10]);
        // of two requests at the same time one counts
        assert_eq!((after(5), after(5)), (512 << 10, 1 << 20));
        let before = window.blocks();
        window.adapt(before, None);
        window.adapt(before, None);
        assert_eq!(window.blocks() * BLOCK, 512 << 10);
    }
}
