//! The outputs that the inputs of an unconfirmed transaction spend, from the chain or the mempool.

use bitcoin::OutPoint;

use crate::chain::OutputPart;
use crate::chain::raw::RawTransaction;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{Mempool, Prevout, PrevoutSource};

/// The prevouts in the order of the inputs, or the first outpoint that is unknown or spent by a block.
pub(super) fn prevouts(
    transaction: &RawTransaction<'_>,
    mempool: &Mempool,
    chain: &Snapshot,
) -> Result<Result<Vec<Prevout>, OutPoint>, IndexError> {
    let mut prevouts = Vec::with_capacity(transaction.input_count());
    for input in transaction.inputs() {
        let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
        match prevout(&outpoint, mempool, chain)? {
            Some(prevout) => prevouts.push(prevout),
            None => return Ok(Err(outpoint)),
        }
    }
    Ok(Ok(prevouts))
}

fn prevout(outpoint: &OutPoint, mempool: &Mempool, chain: &Snapshot) -> Result<Option<Prevout>, IndexError> {
    if let Some(parent) = mempool.get(&outpoint.txid) {
        let output = parent.transaction().and_then(|parent| parent.output(outpoint.vout));
        return Ok(output.map(|output| with(output.into(), PrevoutSource::Unconfirmed)));
    }
    let Some(stored) = chain.newest(&outpoint.txid)? else { return Ok(None) };
    if chain.spender(stored.txnum, outpoint.vout)?.is_some() {
        return Ok(None);
    }
    let source = PrevoutSource::Confirmed { height: stored.at.height, coinbase: stored.fee.is_none() };
    Ok(stored.parts.output(outpoint.vout).map(|output| with(output, source)))
}

fn with(output: OutputPart<'_>, source: PrevoutSource) -> Prevout {
    Prevout { value: output.value.to_sat(), script_pubkey: output.script_pubkey.as_bytes().into(), source }
}
