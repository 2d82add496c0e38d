//! Unconfirmed transactions of the shape of mainnet's, always the same.

use std::sync::Arc;

use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid};
use btcgraph::chain::Height;
use btcgraph::chain::raw::RawTransaction;
use btcgraph::mempool::{Arrival, Cause, Prevout, PrevoutSource};

/// Makes transactions: 2.25 inputs and 2.53 outputs each on average, spent by keys with witnesses, one input in ten of
/// an earlier transaction, one output in ten to one of 2,000 scripts that are used again and again.
pub(crate) struct Maker {
    state: u64,
    unspent: Vec<OutPoint>,
}

impl Maker {
    pub(crate) fn new() -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15, unspent: Vec::new() }
    }

    /// A number below `end`, by xorshift.
    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % end
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(8) {
            let random = self.below(u64::MAX).to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
        bytes
    }

    pub(crate) fn confirmed(&mut self) -> (OutPoint, PrevoutSource) {
        let txid = Txid::from_byte_array(self.bytes());
        (OutPoint { txid, vout: 0 }, PrevoutSource::Confirmed { height: Height::from(800_000), coinbase: false })
    }

    /// A witness program of version 0: two thirds of 20 bytes, the others of 32.
    fn script(&mut self) -> Vec<u8> {
        let mut key: [u8; 32] = self.bytes();
        if self.below(10) == 0 {
            key = [0; 32];
            key[..8].copy_from_slice(&self.below(2_000).to_le_bytes());
        }
        let length = if self.below(3) == 0 { 32 } else { 20 };
        [&[0, length], &key[..length.into()]].concat()
    }

    pub(crate) fn arrival(&mut self) -> Arrival {
        // (1 × 55 + 2 × 25 + 5 × 15 + 9 × 5) % = 2.25
        let inputs = [1, 2, 5, 9][usize::try_from(self.percentile(&[55, 80, 95])).unwrap_or(0)];
        // (1 × 20 + 2 × 65 + 5 × 10 + 10 × 5) % = 2.5
        let outputs = [1, 2, 5, 10][usize::try_from(self.percentile(&[20, 85, 95])).unwrap_or(0)];
        let mut spends = Vec::new();
        for _ in 0..inputs {
            let earlier = (self.below(10) == 0).then(|| self.unspent.pop()).flatten();
            spends.push(earlier.map_or_else(|| self.confirmed(), |outpoint| (outpoint, PrevoutSource::Unconfirmed)));
        }
        let arrival = self.paying(&spends, outputs);
        self.unspent.push(OutPoint { txid: arrival.txid, vout: 0 });
        if self.unspent.len() > 5_000 {
            let at = self.below(5_000);
            self.unspent.swap_remove(usize::try_from(at).unwrap_or(0));
        }
        arrival
    }

    fn percentile(&mut self, bounds: &[u64]) -> u64 {
        let percent = self.below(100);
        bounds.iter().map(|bound| u64::from(percent >= *bound)).sum()
    }

    pub(crate) fn paying(&mut self, spends: &[(OutPoint, PrevoutSource)], outputs: usize) -> Arrival {
        const VALUE: u64 = 1_000_000_000_000;
        let mut raw = vec![2, 0, 0, 0, 0, 1];
        compact_size(&mut raw, spends.len());
        for (outpoint, _) in spends {
            raw.extend(outpoint.txid.to_byte_array());
            raw.extend(outpoint.vout.to_le_bytes());
            raw.extend([0, 0xfd, 0xff, 0xff, 0xff]);
        }
        compact_size(&mut raw, outputs);
        let paid = VALUE * u64::try_from(spends.len()).unwrap_or(1);
        let fee = 141 + ((self.below(1 << 10) * self.below(1 << 10)) >> 6);
        let each = (paid - fee) / u64::try_from(outputs).unwrap_or(1);
        for _ in 0..outputs {
            raw.extend(each.to_le_bytes());
            let script = self.script();
            compact_size(&mut raw, script.len());
            raw.extend(script);
        }
        for _ in spends {
            raw.extend([2, 71]);
            raw.extend(self.bytes::<71>());
            raw.push(33);
            raw.extend(self.bytes::<33>());
        }
        raw.extend([0; 4]);
        let (txid, wtxid) = match RawTransaction::parse_whole(&raw) {
            Ok(transaction) => (transaction.txid(), transaction.wtxid()),
            Err(error) => unreachable!("what was made is a transaction: {error}"),
        };
        let prevouts = spends
            .iter()
            .map(|(_, source)| Prevout { value: VALUE, script_pubkey: self.script().into(), source: *source })
            .collect();
        let (first_seen, height) = (1_700_000_000, Height::from(900_000));
        Arrival { txid, wtxid, raw: Arc::from(raw), prevouts, first_seen, height, cause: Cause::New }
    }
}

fn compact_size(raw: &mut Vec<u8>, size: usize) {
    match (u8::try_from(size), u16::try_from(size)) {
        (Ok(small @ ..0xfd), _) => raw.push(small),
        (_, Ok(size)) => {
            raw.push(0xfd);
            raw.extend(size.to_le_bytes());
        }
        _ => unreachable!("no list here is so long"),
    }
}
