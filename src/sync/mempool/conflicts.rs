//! Transactions of the chain that spend the same outputs as unconfirmed ones.

use bitcoin::OutPoint;

use crate::index::{IndexError, Snapshot, SpendingInput};
use crate::mempool::{ConnectedBlock, Departure, Mempool};

/// The input of the chain that spends an output; `None` if no block spends it, or none contains it.
pub(super) fn spending_input(chain: &Snapshot, outpoint: &OutPoint) -> Result<Option<SpendingInput>, IndexError> {
    let Some(funding) = chain.positions(&outpoint.txid)?.last().copied() else { return Ok(None) };
    chain.spender(funding, outpoint.vout)
}

/// Corrects the departures of unknown reason that conflict with a transaction of the chain, and those of their
/// descendants. The mempool does this for each block that it connects; this function does it for the blocks that were
/// connected while no mempool existed, as by an import. Returns the number of conflicting inputs.
///
/// Conflicts are applied in the order of the chain, so that the result is that of connecting block by block.
pub(super) fn correct_departures(mempool: &mut Mempool, chain: &Snapshot, now: u64) -> Result<usize, IndexError> {
    let mut conflicts = Vec::new();
    for departed in mempool.snapshot().newest_departed(u64::MAX) {
        if departed.departure != Departure::Unknown {
            continue;
        }
        for outpoint in departed.entry.iter().flat_map(|entry| entry.outpoints()) {
            if let Some(SpendingInput { txnum, vin }) = spending_input(chain, &outpoint)? {
                conflicts.push((txnum, vin, outpoint));
            }
        }
    }
    conflicts.sort_unstable();
    conflicts.dedup();
    for (txnum, _, outpoint) in &conflicts {
        let Some(by) = chain.txid(*txnum)? else { continue };
        let height = chain.occurrence(*txnum)?.height;
        let hash = chain.block_hash(height)?;
        // only what the block spends matters: none of its transactions is in the mempool
        mempool.connect_block(&ConnectedBlock { hash, height, txids: &[], spends: &[(*outpoint, by)], at: now });
    }
    Ok(conflicts.len())
}
