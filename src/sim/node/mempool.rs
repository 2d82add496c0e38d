//! Methods about the mempool: `getrawmempool`, `getmempoolentry`, `getmempoolinfo` (Core's `src/rpc/mempool.cpp`). The
//! fields of unbroadcast transactions are left out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bitcoin::hashes::Hash;
use bitcoin::{Amount, Txid, Wtxid};
use serde::Serialize;

use super::super::{SimMempool, SimMempoolEntry};
use super::backend::Backend;
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::amounts::Btc;
use super::rpc::params::Params;
use crate::chain::Feerate;

/// Sequence numbers up to this one signal replaceability (BIP125).
const HIGHEST_REPLACEABLE: u32 = 0xffff_fffd;

/// The approximate bytes of memory that a node uses for each virtual byte of its mempool.
const BYTES_OF_MEMORY: u64 = 5;
/// The most memory of a node's mempool in bytes (`DEFAULT_MAX_MEMPOOL_SIZE_MB` of Core's `kernel/mempool_options.h`).
/// Here it is only reported: the policy limits the number of transactions.
const MAX_MEMORY: u64 = 300_000_000;

#[derive(Serialize)]
struct MempoolEntryJson {
    vsize: u64,
    weight: u64,
    time: u32,
    height: u32,
    descendantcount: u64,
    descendantsize: u64,
    ancestorcount: u64,
    ancestorsize: u64,
    wtxid: Wtxid,
    fees: EntryFeesJson,
    depends: BTreeSet<String>,
    spentby: BTreeSet<String>,
    #[serde(rename = "bip125-replaceable")]
    replaceable: bool,
}

#[derive(Serialize)]
struct EntryFeesJson {
    base: Btc,
    modified: Btc,
    ancestor: Btc,
    descendant: Btc,
}

impl MempoolEntryJson {
    fn of(mempool: &SimMempool, entry: &SimMempoolEntry) -> MempoolEntryJson {
        let texts = |txids: &BTreeSet<Txid>| txids.iter().map(Txid::to_string).collect();
        let notifier = |entry: &SimMempoolEntry| {
            entry.tx.input.iter().any(|input| input.sequence.to_consensus_u32() <= HIGHEST_REPLACEABLE)
        };
        let mut ancestors = mempool.ancestors(&entry.txid).into_iter();
        MempoolEntryJson {
            vsize: entry.vsize,
            weight: entry.weight.to_wu(),
            time: entry.time,
            height: entry.height.to_u32(),
            descendantcount: entry.descendants.count,
            descendantsize: entry.descendants.vsize,
            ancestorcount: entry.ancestors.count,
            ancestorsize: entry.ancestors.vsize,
            wtxid: entry.wtxid,
            fees: EntryFeesJson {
                base: Btc(entry.fee),
                modified: Btc(entry.fee),
                ancestor: Btc(entry.ancestors.fee),
                descendant: Btc(entry.descendants.fee),
            },
            depends: texts(&entry.parents),
            spentby: texts(&entry.children),
            replaceable: notifier(entry) || ancestors.any(|txid| mempool.get(&txid).is_some_and(notifier)),
        }
    }
}

#[derive(Serialize)]
struct MempoolInfoJson {
    loaded: bool,
    size: usize,
    bytes: u64,
    usage: u64,
    total_fee: Btc,
    maxmempool: u64,
    mempoolminfee: Btc,
    minrelaytxfee: Btc,
    incrementalrelayfee: Btc,
    fullrbf: bool,
}

#[derive(Serialize)]
struct SequencedTxidsJson {
    txids: Vec<Txid>,
    mempool_sequence: u64,
}

pub(super) fn getmempoolinfo(node: &Backend, _: &Params) -> RpcResult {
    json(info(node)?)
}

/// The answer of `getmempoolinfo`, for RPC and REST.
pub(super) fn info(node: &Backend) -> Result<impl Serialize + use<>, RpcFailure> {
    let locked = node.lock_world()?;
    let mempool = locked.world.mempool();
    let per_kvb = |rate: Feerate| Btc(Amount::from_sat(rate.to_sat_per_kvb()));
    let policy = mempool.policy();
    let switches = node.switches();
    Ok(MempoolInfoJson {
        loaded: switches.loaded.is_none(),
        size: mempool.len(),
        bytes: mempool.vsize(),
        usage: mempool.vsize().saturating_mul(BYTES_OF_MEMORY),
        total_fee: Btc(mempool.fees()),
        maxmempool: MAX_MEMORY,
        // the mempool is never full unless a test says so, which then sets the minimum
        mempoolminfee: per_kvb(switches.min_fee.unwrap_or(policy.min_relay)),
        minrelaytxfee: per_kvb(policy.min_relay),
        incrementalrelayfee: per_kvb(policy.incremental),
        fullrbf: true,
    })
}

pub(super) fn getmempoolentry(node: &Backend, params: &Params) -> RpcResult {
    let txid: Txid = params.hash(0, "parameter 1")?;
    let locked = node.lock_world()?;
    let mempool = locked.world.mempool();
    let missing = || RpcFailure::new(code::INVALID_ADDRESS_OR_KEY, "Transaction not in mempool");
    json(MempoolEntryJson::of(mempool, mempool.get(&txid).ok_or_else(missing)?))
}

pub(super) fn getrawmempool(node: &Backend, params: &Params) -> RpcResult {
    contents(node, params.flag(0, false), params.flag(1, false))
}

/// The answer of `getrawmempool`, for RPC and REST.
pub(super) fn contents(node: &Backend, verbose: bool, sequence: bool) -> RpcResult {
    if verbose && sequence {
        let message = "Verbose results cannot contain mempool sequence values.";
        return Err(RpcFailure::new(code::INVALID_PARAMETER, message));
    }
    let locked = node.lock_world()?;
    let mempool = locked.world.mempool();
    if verbose {
        let entries = mempool.entries().map(|entry| (entry.txid, MempoolEntryJson::of(mempool, entry)));
        return json(entries.collect::<BTreeMap<_, _>>());
    }
    let mut txids = sorted(mempool);
    txids.truncate(node.switches().loaded.unwrap_or(usize::MAX));
    if sequence {
        return json(SequencedTxidsJson { txids, mempool_sequence: locked.world.mempool_sequence() });
    }
    json(txids)
}

/// The txids by number of ancestors, then by descending feerate (`CompareDepthAndScore` of Core's `txmempool.cpp`).
fn sorted(mempool: &SimMempool) -> Vec<Txid> {
    let mut entries: Vec<&SimMempoolEntry> = mempool.entries().collect();
    entries.sort_by(|left, right| {
        // feerates, compared without division
        let pays =
            |one: &SimMempoolEntry, other: &SimMempoolEntry| u128::from(one.fee.to_sat()) * u128::from(other.vsize);
        let by_fee = pays(right, left).cmp(&pays(left, right));
        let id = |entry: &SimMempoolEntry| Reverse(entry.txid.to_byte_array());
        left.ancestors.count.cmp(&right.ancestors.count).then(by_fee).then_with(|| id(left).cmp(&id(right)))
    });
    entries.into_iter().map(|entry| entry.txid).collect()
}
