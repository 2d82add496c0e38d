//! A mempool beside the index of an [`Api`], kept as that of a simulated world, and published with it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::{Block, Transaction, TxOut, Txid};
use btcgraph::mempool::{
    Arrival, Cause, ConnectedBlock, Departure, Entry, Mempool, MempoolLimits, Prevout, PrevoutSource,
};
use btcgraph::sim::World;

use super::api::Api;

/// The mempool of a world as this program keeps it.
pub(crate) struct Pool {
    mempool: Mempool,
    /// The blocks of the index.
    fed: Vec<Arc<Block>>,
    /// The outputs of everything that was ever seen.
    outputs: HashMap<Txid, Vec<TxOut>>,
    /// The height of each transaction of the fed blocks, and whether it is a coinbase.
    places: HashMap<Txid, (u32, bool)>,
}

impl Pool {
    /// An empty one, and an empty index.
    pub(crate) fn new() -> Self {
        Self {
            mempool: Mempool::new(MempoolLimits::default()),
            fed: Vec::new(),
            outputs: HashMap::new(),
            places: HashMap::new(),
        }
    }

    /// The transactions in the order of their arrival.
    pub(crate) fn entries(&mut self) -> Vec<Arc<Entry>> {
        self.mempool.snapshot().by_arrival(..).cloned().collect()
    }

    /// Makes index and mempool those of the world, in one Head.
    pub(crate) fn follow(&mut self, api: &mut Api, world: &World) {
        let active: Vec<_> = world.chain().active_blocks().cloned().collect();
        let fed = std::mem::take(&mut self.fed);
        let shared = fed.iter().zip(&active).take_while(|(one, other)| one.block_hash() == other.block_hash()).count();
        let (gone, come) = (&fed[shared..], &active[shared..]);
        let mined: HashSet<Txid> = come.iter().flat_map(|block| &block.txdata).map(Transaction::compute_txid).collect();
        for txid in self.entries().iter().map(|entry| entry.txid) {
            if !world.mempool().contains(&txid) && !mined.contains(&txid) {
                self.mempool.remove(&txid, Departure::Evicted, 0);
            }
        }
        for transaction in gone.iter().flat_map(|block| &block.txdata) {
            self.places.remove(&transaction.compute_txid());
        }
        for block in gone {
            for transaction in block.txdata.iter().skip(1) {
                let txid = transaction.compute_txid();
                if world.mempool().contains(&txid) || mined.contains(&txid) {
                    self.add(transaction, Cause::Returned { block: block.block_hash() });
                }
            }
        }
        for (height, block) in (u32::try_from(shared).unwrap()..).zip(come) {
            let txids: Vec<Txid> = block.txdata.iter().map(Transaction::compute_txid).collect();
            let pairs = block.txdata.iter().zip(&txids).skip(1);
            let spends =
                pairs.flat_map(|(spending, txid)| spending.input.iter().map(|input| (input.previous_output, *txid)));
            let spends: Vec<_> = spends.collect();
            let connected = ConnectedBlock {
                hash: block.block_hash(),
                height: height.into(),
                txids: &txids,
                spends: &spends,
                at: 0,
            };
            self.mempool.connect_block(&connected);
            for (index, (transaction, txid)) in block.txdata.iter().zip(txids).enumerate() {
                self.outputs.insert(txid, transaction.output.clone());
                self.places.insert(txid, (height, index == 0));
            }
        }
        let mut missing: VecDeque<_> =
            world.mempool().entries().filter(|entry| self.mempool.get(&entry.txid).is_none()).collect();
        while let Some(entry) = missing.pop_front() {
            // what returned from a block comes after what spends its outputs
            let is_there = |txid: &Txid| self.places.contains_key(txid) || self.mempool.get(txid).is_some();
            if entry.spends().all(|spent| is_there(&spent.txid)) {
                self.add(&entry.tx, Cause::New);
            } else {
                missing.push_back(entry);
            }
        }
        assert_eq!(self.mempool.len(), world.mempool().len());
        api.set_mempool(self.mempool.snapshot());
        api.change(u32::try_from(gone.len()).unwrap(), come.iter().map(Arc::as_ref));
        self.fed = active;
    }

    fn add(&mut self, transaction: &Transaction, cause: Cause) {
        let txid = transaction.compute_txid();
        self.outputs.insert(txid, transaction.output.clone());
        let prevouts = transaction.input.iter().map(|input| {
            let spent = input.previous_output;
            let output = &self.outputs[&spent.txid][usize::try_from(spent.vout).unwrap()];
            let source = match self.places.get(&spent.txid) {
                Some((height, coinbase)) => PrevoutSource::Confirmed { height: (*height).into(), coinbase: *coinbase },
                None => PrevoutSource::Unconfirmed,
            };
            Prevout { value: output.value.to_sat(), script_pubkey: output.script_pubkey.as_bytes().into(), source }
        });
        let arrival = Arrival {
            txid,
            wtxid: transaction.compute_wtxid(),
            raw: serialize(transaction).into(),
            prevouts: prevouts.collect(),
            first_seen: 0,
            height: 0.into(),
            cause,
        };
        self.mempool.add(arrival).unwrap();
    }
}
