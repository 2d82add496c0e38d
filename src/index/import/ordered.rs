//! Work on several threads whose results are taken in order by one.

use std::sync::mpsc::sync_channel;
use std::thread;

use super::super::error::IndexError;

/// Makes the items 0 to `count` on `threads` threads, and hands them to `take` in order on this one. Each thread is at
/// most two items ahead: one in its channel, and one that is being made or waits for the channel.
///
/// Errors: the first error of `make` or `take`, after which no more items are begun; [`IndexError::Threads`].
pub(super) fn in_order<T: Send>(
    count: usize,
    threads: usize,
    make: impl Fn(usize) -> Result<T, IndexError> + Sync,
    mut take: impl FnMut(T) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let threads = threads.clamp(1, count.max(1));
    thread::scope(|scope| {
        let make = &make;
        let mut receivers = Vec::with_capacity(threads);
        for first in 0..threads {
            let (sender, receiver) = sync_channel(1);
            let work = move || {
                for item in (first..count).step_by(threads) {
                    let item = make(item);
                    let failed = item.is_err();
                    // the receivers are dropped after an error elsewhere
                    if sender.send(item).is_err() || failed {
                        break;
                    }
                }
            };
            let name = format!("import-{first}");
            thread::Builder::new().name(name).spawn_scoped(scope, work).map_err(IndexError::Threads)?;
            receivers.push(receiver);
        }
        for item in 0..count {
            let item = receivers[item % threads].recv().map_err(|_| IndexError::Broken)?;
            take(item?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn items_are_taken_in_order_from_any_number_of_threads() {
        for threads in [1, 2, 3, 50] {
            let mut taken = Vec::new();
            let make = |item: usize| {
                thread::sleep(std::time::Duration::from_micros(if item.is_multiple_of(3) { 300 } else { 0 }));
                Ok(item)
            };
            in_order(40, threads, make, |item| {
                taken.push(item);
                Ok(())
            })
            .unwrap();
            assert_eq!(taken, (0..40).collect::<Vec<_>>());
        }
        in_order(0, 2, |_| Ok(()), |()| Ok(())).unwrap();
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let make = |item| if item == 7 { Err(IndexError::Interrupted) } else { Ok(item) };
        let mut taken = 0;
        let take = |_| {
            taken += 1;
            Ok(())
        };
        assert!(matches!(in_order(1_000, 2, make, take), Err(IndexError::Interrupted)));
        assert_eq!(taken, 7);
        let take = |item| if item == 3 { Err(IndexError::Interrupted) } else { Ok(()) };
        assert!(matches!(in_order(1_000, 2, Ok, take), Err(IndexError::Interrupted)));
    }

    #[test]
    fn each_thread_begins_at_most_three_items_before_it_stops() {
        let begun = AtomicUsize::new(0);
        let make = |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let take = |()| {
            // time enough to begin everything, if nothing stopped the threads
            thread::sleep(std::time::Duration::from_millis(50));
            Err(IndexError::Interrupted)
        };
        assert!(matches!(in_order(1_000, 2, make, take), Err(IndexError::Interrupted)));
        let begun = begun.into_inner();
        assert!(begun <= 2 * 3, "{begun}");
    }
}
