//! What the mempool holds: `getrawmempool`, `getmempoolentry`, `getmempoolinfo` (Core's `src/rpc/mempool.cpp`). Left out
//! is which transactions no peer has asked for yet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bitcoin::hashes::Hash;
use bitcoin::{Amount, Txid, Wtxid};
use serde::Serialize;

use super::super::{Entry, Mempool};
use super::amounts::Btc;
use super::backend::Backend;
use super::failure::{Answer, Failure, code, json};
use super::params::Params;
use crate::chain::Feerate;

/// Sequence numbers up to this one signal that a transaction may be replaced (BIP125).
const HIGHEST_REPLACEABLE: u32 = 0xffff_fffd;

/// About how many bytes of memory a node takes for each virtual byte of its mempool.
const BYTES_OF_MEMORY: u64 = 5;
/// What a node's mempool may take of its memory (`DEFAULT_MAX_MEMPOOL_SIZE_MB` of Core's `kernel/mempool_options.h`).
/// Here it is only told: the policy bounds the number of transactions.
const MAX_MEMORY: u64 = 300_000_000;

#[derive(Serialize)]
struct EntryInfo {
    vsize: u64,
    weight: u64,
    time: u32,
    height: u32,
    descendantcount: u64,
    descendantsize: u64,
    ancestorcount: u64,
    ancestorsize: u64,
    wtxid: Wtxid,
    fees: Fees,
    depends: BTreeSet<String>,
    spentby: BTreeSet<String>,
    #[serde(rename = "bip125-replaceable")]
    replaceable: bool,
}

#[derive(Serialize)]
struct Fees {
    base: Btc,
    modified: Btc,
    ancestor: Btc,
    descendant: Btc,
}

impl EntryInfo {
    fn of(mempool: &Mempool, entry: &Entry) -> EntryInfo {
        let texts = |txids: &BTreeSet<Txid>| txids.iter().map(Txid::to_string).collect();
        let signals =
            |entry: &Entry| entry.tx.input.iter().any(|input| input.sequence.to_consensus_u32() <= HIGHEST_REPLACEABLE);
        let mut ancestors = mempool.ancestors(&entry.txid).into_iter();
        EntryInfo {
            vsize: entry.vsize,
            weight: entry.weight.to_wu(),
            time: entry.time,
            height: entry.height.to_u32(),
            descendantcount: entry.descendants.count,
            descendantsize: entry.descendants.vsize,
            ancestorcount: entry.ancestors.count,
            ancestorsize: entry.ancestors.vsize,
            wtxid: entry.wtxid,
            fees: Fees {
                base: Btc(entry.fee),
                modified: Btc(entry.fee),
                ancestor: Btc(entry.ancestors.fee),
                descendant: Btc(entry.descendants.fee),
            },
            depends: texts(&entry.parents),
            spentby: texts(&entry.children),
            replaceable: signals(entry) || ancestors.any(|txid| mempool.get(&txid).is_some_and(signals)),
        }
    }
}

#[derive(Serialize)]
struct Info {
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
struct Sequenced {
    txids: Vec<Txid>,
    mempool_sequence: u64,
}

pub(super) fn getmempoolinfo(node: &Backend, _: &Params) -> Answer {
    json(info(node)?)
}

/// The answer of `getmempoolinfo`, for REST too.
pub(super) fn info(node: &Backend) -> Result<impl Serialize + use<>, Failure> {
    let moment = node.moment()?;
    let mempool = moment.world.mempool();
    let per_kvb = |rate: Feerate| Btc(Amount::from_sat(rate.to_sat_per_kvb()));
    let policy = mempool.policy();
    let switches = node.switches();
    Ok(Info {
        loaded: switches.read.is_none(),
        size: mempool.len(),
        bytes: mempool.vsize(),
        usage: mempool.vsize().saturating_mul(BYTES_OF_MEMORY),
        total_fee: Btc(mempool.fees()),
        maxmempool: MAX_MEMORY,
        // nothing leaves for want of room unless a test says so, which then says what the minimum is
        mempoolminfee: per_kvb(switches.min_fee.unwrap_or(policy.min_relay)),
        minrelaytxfee: per_kvb(policy.min_relay),
        incrementalrelayfee: per_kvb(policy.incremental),
        fullrbf: true,
    })
}

pub(super) fn getmempoolentry(node: &Backend, params: &Params) -> Answer {
    let txid: Txid = params.hash(0, "parameter 1")?;
    let moment = node.moment()?;
    let mempool = moment.world.mempool();
    let missing = || Failure::new(code::INVALID_ADDRESS_OR_KEY, "Transaction not in mempool");
    json(EntryInfo::of(mempool, mempool.get(&txid).ok_or_else(missing)?))
}

pub(super) fn getrawmempool(node: &Backend, params: &Params) -> Answer {
    contents(node, params.flag(0, false), params.flag(1, false))
}

/// The answer of `getrawmempool`, for REST too.
pub(super) fn contents(node: &Backend, verbose: bool, sequence: bool) -> Answer {
    if verbose && sequence {
        let message = "Verbose results cannot contain mempool sequence values.";
        return Err(Failure::new(code::INVALID_PARAMETER, message));
    }
    let moment = node.moment()?;
    let mempool = moment.world.mempool();
    if verbose {
        let entries = mempool.entries().map(|entry| (entry.txid, EntryInfo::of(mempool, entry)));
        return json(entries.collect::<BTreeMap<_, _>>());
    }
    let mut txids = sorted(mempool);
    txids.truncate(node.switches().read.unwrap_or(usize::MAX));
    if sequence {
        return json(Sequenced { txids, mempool_sequence: moment.world.mempool_sequence() });
    }
    json(txids)
}

/// Those on which fewer stand below first, then the better paying (`CompareDepthAndScore` of Core's `txmempool.cpp`).
fn sorted(mempool: &Mempool) -> Vec<Txid> {
    let mut entries: Vec<&Entry> = mempool.entries().collect();
    entries.sort_by(|left, right| {
        // fee by size, compared without dividing
        let pays = |one: &Entry, other: &Entry| u128::from(one.fee.to_sat()) * u128::from(other.vsize);
        let by_fee = pays(right, left).cmp(&pays(left, right));
        let id = |entry: &Entry| Reverse(entry.txid.to_byte_array());
        left.ancestors.count.cmp(&right.ancestors.count).then(by_fee).then_with(|| id(left).cmp(&id(right)))
    });
    entries.into_iter().map(|entry| entry.txid).collect()
}
