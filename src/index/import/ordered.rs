//! Work on several threads whose results are taken in order by one.

use std::ops::{ControlFlow, Range};
use std::sync::mpsc::sync_channel;
use std::thread;

use parking_lot::Mutex;

use super::super::error::IndexError;

/// Which items are begun, and which may be.
struct Begun {
    /// The one behind the last that is begun.
    next: usize,
    end: usize,
}

/// Makes items on `threads` threads, and hands them to `take` in order on this one. Each thread is at most `ahead` items ahead
/// and one: those in its channel, and one that is being made or waits for the channel. All of them are in memory, so only
/// small items are made many ahead.
///
/// After [`ControlFlow::Break`] no items are begun but those before one that is begun already; `take` receives all of them.
/// Nothing is made ahead then. Returns the number behind the last item taken.
///
/// Errors: the first error of `make` or `take`, after which no more items are begun; [`IndexError::Threads`].
pub(super) fn in_order<T: Send>(
    items: Range<usize>,
    threads: usize,
    ahead: usize,
    make: impl Fn(usize) -> Result<T, IndexError> + Sync,
    mut take: impl FnMut(T) -> Result<ControlFlow<()>, IndexError>,
) -> Result<usize, IndexError> {
    let threads = threads.clamp(1, items.len().max(1));
    let extent = Mutex::new(Begun { next: items.start, end: items.end });
    thread::scope(|scope| {
        let (make, extent) = (&make, &extent);
        let may_start = move |item: usize| {
            let mut begun = extent.lock();
            let may_begin = item < begun.end;
            if may_begin {
                begun.next = begun.next.max(item + 1);
            }
            may_begin
        };
        let mut receivers = Vec::with_capacity(threads);
        for first in 0..threads {
            let (sender, receiver) = sync_channel(ahead);
            let work = move || {
                for item in (items.start + first..items.end).step_by(threads).take_while(|item| may_start(*item)) {
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
        let (mut next, mut end) = (items.start, items.end);
        while next < end {
            let item = receivers[(next - items.start) % threads].recv().map_err(|_| IndexError::Broken)?;
            next += 1;
            if take(item?)?.is_break() {
                let mut begun = extent.lock();
                begun.end = begun.next;
                end = begun.end;
            }
        }
        Ok(next)
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
            let end = in_order(3..40, threads, 1, make, |item| {
                taken.push(item);
                Ok(ControlFlow::Continue(()))
            });
            assert_eq!(end.unwrap(), 40);
            assert_eq!(taken, (3..40).collect::<Vec<_>>());
        }
        assert_eq!(in_order(0..0, 2, 1, |_| Ok(()), |()| Ok(ControlFlow::Continue(()))).unwrap(), 0);
    }

    #[test]
    fn after_a_break_every_item_that_is_made_is_taken() {
        for threads in [1, 2, 3, 50] {
            let (count, mut taken, mut next) = (AtomicUsize::new(0), Vec::new(), 0);
            let make = |item| {
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(std::time::Duration::from_micros(if threads > 1 && item % 2 == 0 { 300 } else { 0 }));
                Ok(item)
            };
            while next < 40 {
                let first = next;
                next = in_order(next..40, threads, 1, make, |item: usize| {
                    taken.push(item);
                    Ok(if item == first + 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })
                .unwrap();
                assert!(threads > 3 || next < 40 || first > 0, "all items were begun in spite of the break");
                assert_eq!(taken, (0..next).collect::<Vec<_>>());
                assert_eq!(count.load(Ordering::Relaxed), next);
            }
        }
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let make = |item| if item == 7 { Err(IndexError::Interrupted) } else { Ok(item) };
        let mut taken = 0;
        let take = |_| {
            taken += 1;
            Ok(ControlFlow::Continue(()))
        };
        assert!(matches!(in_order(0..1_000, 2, 1, make, take), Err(IndexError::Interrupted)));
        assert_eq!(taken, 7);
        let take = |item| if item == 3 { Err(IndexError::Interrupted) } else { Ok(ControlFlow::Continue(())) };
        assert!(matches!(in_order(0..1_000, 2, 1, Ok, take), Err(IndexError::Interrupted)));
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
        assert!(matches!(in_order(0..1_000, 2, 1, make, take), Err(IndexError::Interrupted)));
        let begun = begun.into_inner();
        assert!(begun <= 2 * 3, "{begun}");
    }
}
