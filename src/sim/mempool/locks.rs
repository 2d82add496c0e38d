//! Lock times and relative locks (BIP68, BIP113).

use bitcoin::{Sequence, Transaction, absolute};

use super::super::{SimChain, SimCoin};
use crate::chain::Height;

/// A relative lock in units of time counts units of 512 seconds (BIP68).
const TIME_GRANULARITY: u32 = 9;

/// Whether the lock time of a transaction allows it in the next block of the active chain (Core's `CheckFinalTxAtTip`).
pub(super) fn is_final(chain: &SimChain, tx: &Transaction) -> bool {
    let locked = match tx.lock_time {
        absolute::LockTime::Blocks(height) => height.to_consensus_u32() >= chain.height().next().to_u32(),
        absolute::LockTime::Seconds(time) => time.to_consensus_u32() >= median_time_past(chain, chain.height()),
    };
    !locked || tx.input.iter().all(|input| input.sequence == Sequence::MAX)
}

/// Whether the relative locks of a transaction allow it in the next block of the active chain (Core's
/// `CheckSequenceLocksAtTip`). `coins` are those of its inputs, in order; coins of the mempool count as of the next
/// block.
pub(super) fn relative_locks_are_over<'a>(
    chain: &SimChain,
    tx: &Transaction,
    coins: impl IntoIterator<Item = &'a SimCoin>,
) -> bool {
    // Core compares the version as an unsigned number.
    if matches!(tx.version.0, 0 | 1) {
        return true;
    }
    let next = chain.height().next().to_u32();
    tx.input.iter().zip(coins).all(|(input, coin)| {
        let sequence = input.sequence.to_consensus_u32();
        let created = coin.height.to_u32();
        let lock = sequence & 0xffff;
        if sequence & (1 << 31) != 0 {
            true
        } else if sequence & (1 << 22) != 0 {
            let since = median_time_past(chain, Height::from(created.saturating_sub(1)));
            since.saturating_add(lock << TIME_GRANULARITY) <= median_time_past(chain, chain.height())
        } else {
            created.saturating_add(lock) <= next
        }
    })
}

/// The median time past of a block of the active chain; of the tip for a height above it.
fn median_time_past(chain: &SimChain, height: Height) -> u32 {
    let hash = chain.hash_at(height).unwrap_or_else(|| chain.tip());
    chain.median_time_past(&hash).unwrap_or_default()
}
