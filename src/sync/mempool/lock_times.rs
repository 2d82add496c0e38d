//! Whether the next block may contain a transaction, by its lock times. Only after a reorganisation may the answer be
//! no for a transaction of the mempool.

use crate::chain::Height;
use crate::chain::raw::RawTransaction;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{Entry, PrevoutRef, PrevoutSource};

/// Lock times below this are heights, from it on seconds since 1970 (`LOCKTIME_THRESHOLD` of Core's `script/script.h`).
const THRESHOLD: u32 = 500_000_000;
/// The sequence number that disables the lock time.
const FINAL: u32 = u32::MAX;
/// The bit of a sequence number that disables its relative lock, and the bit that makes the lock a time (BIP68).
const NO_LOCK: u32 = 1 << 31;
const IS_TIME: u32 = 1 << 22;
/// The bits of the lock; a time counts in units of 512 seconds.
const LOCK: u32 = 0xffff;
const UNIT: u32 = 9;

/// Whether the next block of this chain may contain the transaction, by its lock time and those of its inputs (BIP68,
/// BIP113; `CheckFinalTxAtTip` and `CheckSequenceLocksAtTip` of Core's `validation.cpp`). True for an empty chain.
pub(super) fn is_final(entry: &Entry, chain: &Snapshot) -> Result<bool, IndexError> {
    let (Some(transaction), Some(tip)) = (entry.transaction(), chain.tip()) else { return Ok(true) };
    let next = tip.height.next().to_u32();
    let now = median_time(chain, tip.height)?;
    Ok(lock_time_is_over(&transaction, next, now) && relative_locks_are_over(entry, &transaction, chain, next, now)?)
}

fn lock_time_is_over(transaction: &RawTransaction<'_>, next: u32, now: u32) -> bool {
    let lock = transaction.lock_time();
    let is_over = if lock < THRESHOLD { lock < next } else { lock < now };
    is_over || transaction.inputs().all(|input| input.sequence == FINAL)
}

fn relative_locks_are_over(
    entry: &Entry,
    transaction: &RawTransaction<'_>,
    chain: &Snapshot,
    next: u32,
    now: u32,
) -> Result<bool, IndexError> {
    if transaction.version() < 2 {
        return Ok(true);
    }
    for (input, PrevoutRef { source, .. }) in transaction.inputs().zip(&entry.prevouts) {
        if input.sequence & NO_LOCK != 0 {
            continue;
        }
        let created = match source {
            PrevoutSource::Confirmed { height, .. } => height.to_u32(),
            // as if the next block contained it
            PrevoutSource::Unconfirmed => next,
        };
        let lock = input.sequence & LOCK;
        let is_over = if input.sequence & IS_TIME == 0 {
            created.saturating_add(lock) <= next
        } else {
            let since = median_time(chain, created.saturating_sub(1).into())?;
            since.saturating_add(lock << UNIT) <= now
        };
        if !is_over {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The median time past of a block of the chain; 0 above its tip.
fn median_time(chain: &Snapshot, height: Height) -> Result<u32, IndexError> {
    Ok(chain.block(height)?.map_or(0, |block| block.median_time))
}
