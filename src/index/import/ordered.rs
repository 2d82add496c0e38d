//! Work on several threads whose results are taken in order by one.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::{io, thread};

use parking_lot::{Condvar, Mutex};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::super::error::IndexError;

/// The threads of a phase. They stay from one call of [`in_order`] to the next: each uses the memory again that it has freed, where the
/// system clears what a new thread allocates. Those of the next phase, which allocates other sizes, are new.
pub(super) struct ImportThreads(ThreadPool);

impl ImportThreads {
    /// Starts so many.
    ///
    /// Errors: [`IndexError::Threads`].
    pub(super) fn start(count: usize) -> Result<Self, IndexError> {
        let builder = ThreadPoolBuilder::new().num_threads(count.max(1)).thread_name(|at| format!("import-{at}"));
        builder.build().map(Self).map_err(|error| IndexError::Threads(io::Error::other(error)))
    }

    pub(super) fn count(&self) -> usize {
        self.0.current_num_threads()
    }
}

/// Makes items on all `threads`, and hands them to `take` in order on this one. Each thread begins the first item that no other
/// has begun. At most `threads.count() * (ahead + 1)` items are made or being made at once, beside the one that `take` has. All of them
/// are in memory, so only small items are made many ahead.
///
/// After [`ControlFlow::Break`] no more items are begun, and `take` receives all that are. Nothing is made ahead then. Returns the
/// number behind the last item taken.
///
/// Errors: the first error of `make` or `take`, after which no more items are begun.
///
/// # Panics
///
/// If `make` panics.
pub(super) fn in_order<T: Send>(
    items: Range<usize>,
    threads: &ImportThreads,
    ahead: usize,
    make: impl Fn(usize) -> Result<T, IndexError> + Sync,
    mut take: impl FnMut(T) -> Result<ControlFlow<()>, IndexError>,
) -> Result<usize, IndexError> {
    let working = threads.count().clamp(1, items.len().max(1));
    let (shared, make) = (&SharedItems::new(items, working, working * (ahead + 1)), &make);
    threads.0.in_place_scope(|scope| {
        // the threads end however this does
        let taking = Taking(shared);
        for _ in 0..working {
            scope.spawn(move |_| {
                let _working = Working(shared);
                while let Some(item) = shared.begin() {
                    shared.put(item, make(item));
                }
            });
        }
        while let Some(item) = taking.next() {
            if take(item?)?.is_break() {
                shared.begin_no_more();
            }
        }
        Ok(shared.items.lock().taken)
    })
}

/// The items, and what waits for them.
struct SharedItems<T> {
    items: Mutex<Items<T>>,
    /// More items than these are not made or being made at once.
    most: usize,
    /// Another item may be begun, or none will.
    room: Condvar,
    /// An item is made, or a thread has ended.
    made: Condvar,
}

struct Items<T> {
    /// The item to take next.
    taken: usize,
    /// The item to begin next.
    next: usize,
    end: usize,
    /// Those from the one to take next on, as far as they are made.
    made: VecDeque<Option<Result<T, IndexError>>>,
    /// Threads that have not ended.
    working: usize,
}

impl<T> SharedItems<T> {
    fn new(items: Range<usize>, threads: usize, most: usize) -> Self {
        let Range { start, end } = items;
        let items = Items { taken: start, next: start, end, made: VecDeque::new(), working: threads };
        Self { items: Mutex::new(items), most, room: Condvar::new(), made: Condvar::new() }
    }

    /// Waits until another item may be begun. `None` when there is none.
    fn begin(&self) -> Option<usize> {
        let mut items = self.items.lock();
        while items.next < items.end && items.next - items.taken >= self.most {
            self.room.wait(&mut items);
        }
        let item = items.next;
        (item < items.end).then(|| {
            items.next += 1;
            item
        })
    }

    fn put(&self, item: usize, made: Result<T, IndexError>) {
        if made.is_err() {
            self.begin_no_more();
        }
        let mut items = self.items.lock();
        let at = item - items.taken;
        let length = items.made.len().max(at + 1);
        items.made.resize_with(length, || None);
        items.made[at] = Some(made);
        self.made.notify_one();
    }

    fn begin_no_more(&self) {
        let mut items = self.items.lock();
        items.end = items.next;
        self.room.notify_all();
    }
}

/// The thread that takes. When it is dropped, no more items are begun.
struct Taking<'a, T>(&'a SharedItems<T>);

impl<T> Taking<'_, T> {
    /// Waits for the next item. `None` after the last one.
    fn next(&self) -> Option<Result<T, IndexError>> {
        let mut items = self.0.items.lock();
        while items.taken < items.end {
            if let Some(made) = items.made.front_mut().and_then(Option::take) {
                items.made.pop_front();
                items.taken += 1;
                self.0.room.notify_one();
                return Some(made);
            }
            if items.working == 0 {
                // the thread that began it panicked
                return Some(Err(IndexError::Broken));
            }
            self.0.made.wait(&mut items);
        }
        None
    }
}

impl<T> Drop for Taking<'_, T> {
    fn drop(&mut self) {
        self.0.begin_no_more();
    }
}

/// A thread that makes items.
struct Working<'a, T>(&'a SharedItems<T>);

impl<T> Drop for Working<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            // its item is never made, so nothing is taken that would make room for the others
            self.0.begin_no_more();
        }
        self.0.items.lock().working -= 1;
        self.0.made.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn start(threads: usize) -> ImportThreads {
        ImportThreads::start(threads).unwrap()
    }

    #[test]
    fn items_are_taken_in_order_from_any_number_of_threads() {
        for threads in [1, 2, 3, 50] {
            let mut taken = Vec::new();
            let make = |item: usize| {
                thread::sleep(std::time::Duration::from_micros(if item.is_multiple_of(3) { 300 } else { 0 }));
                Ok(item)
            };
            let end = in_order(3..40, &start(threads), 1, make, |item| {
                taken.push(item);
                Ok(ControlFlow::Continue(()))
            });
            assert_eq!(end.unwrap(), 40);
            assert_eq!(taken, (3..40).collect::<Vec<_>>());
        }
        assert_eq!(in_order(0..0, &start(2), 1, |_| Ok(()), |()| Ok(ControlFlow::Continue(()))).unwrap(), 0);
    }

    #[test]
    fn after_a_break_every_item_that_is_made_is_taken() {
        for threads in [1, 2, 3, 50] {
            // one call after the other, as in a phase
            let (threads, count, mut taken, mut next) = (start(threads), AtomicUsize::new(0), Vec::new(), 0);
            let make = |item| {
                count.fetch_add(1, Ordering::Relaxed);
                let pause = if threads.count() > 1 && item % 2 == 0 { 300 } else { 0 };
                thread::sleep(std::time::Duration::from_micros(pause));
                Ok(item)
            };
            while next < 40 {
                let first = next;
                next = in_order(next..40, &threads, 1, make, |item: usize| {
                    taken.push(item);
                    Ok(if item == first + 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })
                .unwrap();
                assert!(threads.count() > 3 || next < 40 || first > 0, "all items were begun in spite of the break");
                assert_eq!(taken, (0..next).collect::<Vec<_>>());
                assert_eq!(count.load(Ordering::Relaxed), next);
            }
        }
    }

    #[test]
    fn a_panic_of_one_thread_ends_the_others() {
        let (sender, ended) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let (threads, take) = (start(3), |_| Ok(ControlFlow::Continue(())));
            let make = |item| if item == 5 { panic!("of the test") } else { Ok(item) };
            let work = std::panic::AssertUnwindSafe(|| in_order(0..1_000, &threads, 1, make, take));
            let is_panic = std::panic::catch_unwind(work).is_err();
            // and the threads work on
            sender.send((is_panic, in_order(0..100, &threads, 1, Ok, take).ok())).unwrap();
        });
        assert_eq!(ended.recv_timeout(std::time::Duration::from_mins(1)), Ok((true, Some(100))));
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let make = |item| if item == 7 { Err(IndexError::Interrupted) } else { Ok(item) };
        let (threads, mut taken) = (start(2), 0);
        let take = |_| {
            taken += 1;
            Ok(ControlFlow::Continue(()))
        };
        assert!(matches!(in_order(0..1_000, &threads, 1, make, take), Err(IndexError::Interrupted)));
        assert_eq!(taken, 7);
        let take = |item| if item == 3 { Err(IndexError::Interrupted) } else { Ok(ControlFlow::Continue(())) };
        assert!(matches!(in_order(0..1_000, &threads, 1, Ok, take), Err(IndexError::Interrupted)));
    }

    #[test]
    fn few_items_are_begun_before_one_is_taken() {
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
        assert!(matches!(in_order(0..1_000, &start(2), 1, make, take), Err(IndexError::Interrupted)));
        let begun = begun.into_inner();
        assert!(begun <= 2 * 3, "{begun}");
    }
}
