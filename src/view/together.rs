//! Reads transactions together that the fields of one answer ask for one by one.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::answer::{QueuePlace, ReadingStep};
use super::{Transaction, View};
use crate::index::WantedTransaction;

/// How often a field waits for others to begin at most: answers nest so deep that some begin late.
const WAITS: u32 = 16;

impl View {
    /// Reads a transaction of the chain together with what other fields ask for. `None` if it is to be read alone: no other field
    /// asks for one, it is not on the chain or its txid is repeated there (BIP30), the byte budget does not allow all, or it cannot
    /// be read.
    pub async fn read_together(&self, wanted: WantedTransaction) -> Option<Arc<Transaction>> {
        let mut place = QueuePlace::join(&self.wanted, wanted);
        let (mut seen, mut waits) = (place.number, WAITS);
        loop {
            wait_once().await;
            match place.next(seen, waits > 0) {
                ReadingStep::Wait(joined) => (seen, waits) = (joined, waits - 1),
                ReadingStep::Take(found) => return found,
                ReadingStep::Read(wanted) if wanted.len() > 1 => self.read_for_all(&wanted),
                // one is not faster together
                ReadingStep::Read(_) | ReadingStep::WaitForReader => {}
            }
        }
    }

    fn read_for_all(&self, queued: &[WantedTransaction]) {
        let mut distinct = Vec::with_capacity(queued.len());
        let mut places = HashMap::with_capacity(queued.len());
        for wanted in queued {
            places.entry(*wanted).or_insert_with(|| {
                distinct.push(*wanted);
                distinct.len() - 1
            });
        }
        let bytes = self.budget.left().saturating_sub(self.wanted.result_bytes());
        let make = |stored| Arc::new(Self::newest_placed(stored));
        // each field that finds nothing reads alone, and meets the error
        let Ok(found) = self.head.chain.read_several(&distinct, bytes, make) else { return };
        self.wanted.put_all(queued, |wanted| places.get(wanted).and_then(|at| found[*at].clone()));
    }
}

/// Waits until all other fields that can begin or continue have done so.
pub async fn wait_once() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
