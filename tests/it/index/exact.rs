//! The exact errors for invalid blocks and damaged rows, and the exact size at which an update is full, counted by
//! hand.

use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::{Amount, Block, OutPoint, Transaction, TxOut};
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexError, IndexOptions};
use btcgraph::sim::{Hostile, Owner, ScriptKind, SimChain};
use redb::{Database, ReadableTable, TableDefinition};

use crate::support::cut::{IndexForm, live_and_cut};
use crate::support::indexed::{Indexed, options};

live_and_cut!(
    of_two_inputs_that_spend_one_output_the_later_is_the_error,
    an_input_that_spends_a_spent_output_is_refused_and_named,
    an_input_that_spends_a_missing_output_is_named,
    a_block_with_damaged_rows_is_not_disconnected,
);

/// A chain of 120 hostile blocks.
fn chain() -> (SimChain, Hostile) {
    let (mut chain, mut hostile) = (SimChain::new(90), Hostile::new(90));
    for _ in 0..120 {
        hostile.mine(&mut chain).unwrap();
    }
    (chain, hostile)
}

fn index_of(chain: &SimChain) -> Indexed {
    Indexed::of(chain.active_blocks().map(Arc::as_ref), 1_000)
}

/// The same, whose newest block alone is live if it has generations.
fn index_in(form: IndexForm, chain: &SimChain) -> Indexed {
    let mut indexed = index_of(chain);
    form.freeze_to(&mut indexed.index, chain.height().to_u32() - 1);
    indexed
}

/// A coin of the chain's miner, whom no hostile block pays.
fn mined_coin(chain: &mut SimChain) -> OutPoint {
    let block = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(99).unwrap();
    OutPoint::new(block.txdata[0].compute_txid(), 0)
}

/// Spends an output of the miner to scripts of these kinds, which no other transaction pays.
fn pay(coin: OutPoint, value: u64, kinds: &[ScriptKind]) -> Transaction {
    let output = |kind: &ScriptKind| Owner::new(*kind, 9_999).output(Amount::from_sat(value));
    let mut spending = Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: vec![bitcoin::TxIn { previous_output: coin, ..bitcoin::TxIn::default() }],
        output: kinds.iter().map(output).collect(),
    };
    SimChain::miner().unlock(&mut spending, 0, &[TxOut::NULL]).unwrap();
    spending
}

/// The block with further transactions, which are not validated.
fn with(block: &Block, transactions: impl IntoIterator<Item = Transaction>) -> Block {
    let mut block = block.clone();
    block.txdata.extend(transactions);
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    block
}

fn refusal(indexed: &mut Indexed, blocks: &[&Block]) -> String {
    let parser = indexed.index.parser();
    let parse = |block: &&Block| parser.parse(block.block_hash(), serialize(*block)).unwrap();
    let blocks: Vec<_> = blocks.iter().map(parse).collect();
    indexed.index.update().unwrap().connect(&blocks).unwrap_err().to_string()
}

fn unresolved(height: u32, spending: &Transaction, outpoint: OutPoint, why: &'static str) -> String {
    let (txid, height) = (spending.compute_txid(), Height::from(height));
    IndexError::Unresolved { height, txid, vin: 0, outpoint, why }.to_string()
}

fn of_two_inputs_that_spend_one_output_the_later_is_the_error(form: IndexForm) {
    let (mut chain, _) = chain();
    let coin = mined_coin(&mut chain);
    let mut indexed = index_in(form, &chain);
    let next = chain.mine(Vec::new()).unwrap();
    let height = chain.height().to_u32();
    // other transactions before, between and after them spend other outputs of the same transaction
    let first = pay(coin, 1_000, &[ScriptKind::P2a, ScriptKind::WitnessV2, ScriptKind::P2a]);
    let txid = first.compute_txid();
    let paid = |vout| OutPoint::new(txid, vout);
    let (other, spent) = (pay(paid(1), 900, &[ScriptKind::P2a]), pay(paid(2), 800, &[ScriptKind::P2a]));
    let again = pay(paid(2), 700, &[ScriptKind::P2a]);
    let more = pay(paid(0), 1, &[ScriptKind::P2a]);
    let wrong = with(&next, [first, other, spent, again.clone(), more]);
    let expected = unresolved(height, &again, paid(2), "is spent already, or can never be spent");
    assert_eq!(refusal(&mut indexed, &[&wrong]), expected);
}

fn an_input_that_spends_a_spent_output_is_refused_and_named(form: IndexForm) {
    let (mut chain, _) = chain();
    let coin = mined_coin(&mut chain);
    let first = pay(coin, 1_000, &[ScriptKind::P2a, ScriptKind::P2a]);
    let paid = |vout| OutPoint::new(first.compute_txid(), vout);
    chain.mine(vec![first.clone()]).unwrap();
    chain.mine(vec![pay(paid(0), 900, &[ScriptKind::P2a])]).unwrap();
    let mut indexed = index_in(form, &chain);
    let next = chain.mine(Vec::new()).unwrap();
    let (fine, again) = (pay(paid(1), 800, &[ScriptKind::WitnessV2]), pay(paid(0), 700, &[ScriptKind::P2a]));
    let wrong = with(&next, [fine, again.clone()]);
    let expected = unresolved(chain.height().to_u32(), &again, paid(0), "is spent already, or can never be spent");
    assert_eq!(refusal(&mut indexed, &[&wrong]), expected);
}

fn an_input_that_spends_a_missing_output_is_named(form: IndexForm) {
    let (mut chain, mut hostile) = chain();
    let coin = mined_coin(&mut chain);
    let mut indexed = index_in(form, &chain);
    // a block with inputs in front of it, in the run and in its own block
    let before = hostile.mine(&mut chain).unwrap();
    let next = chain.mine(Vec::new()).unwrap();
    let first = pay(coin, 1_000, &[ScriptKind::P2a]);
    let second = pay(OutPoint::new(first.compute_txid(), 0), 900, &[ScriptKind::P2a]);
    let nothing = OutPoint::new(first.compute_txid(), 1);
    let wrong = pay(nothing, 1, &[ScriptKind::P2a]);
    let block = with(&next, [first, second, wrong.clone()]);
    let expected = unresolved(chain.height().to_u32(), &wrong, nothing, "is not in the index");
    assert_eq!(refusal(&mut indexed, &[&before, &block]), expected);
}

#[test]
fn only_the_genesis_block_can_be_the_first() {
    let (chain, _) = chain();
    let first = chain.active_blocks().nth(1).unwrap();
    let genesis = chain.hash_at(Height::GENESIS).unwrap();
    let (hash, what) = (first.block_hash(), format!("the first block must be {genesis}"));
    assert_eq!(refusal(&mut Indexed::empty(), &[first]), IndexError::InvalidBlock { hash, what }.to_string());
}

#[test]
fn a_parsed_block_has_its_hashes_size_and_transaction_count() {
    let (chain, _) = chain();
    let parser = Indexed::empty().index.parser();
    for block in chain.active_blocks() {
        let parsed = parser.parse(block.block_hash(), serialize(block.as_ref())).unwrap();
        assert_eq!((parsed.hash(), parsed.previous()), (block.block_hash(), block.header.prev_blockhash));
        assert_eq!((parsed.transaction_count(), parsed.size()), (block.txdata.len(), block.total_size()));
    }
}

/// An index of this chain with this much cache, half of which an update may fill.
fn with_cache(chain: &SimChain, cache_bytes: u64) -> Indexed {
    let Indexed { index, directory } = index_of(chain);
    drop(index);
    let cache_bytes = usize::try_from(cache_bytes).unwrap();
    let options = IndexOptions { cache_bytes, ..options(directory.path()) };
    Indexed { index: Index::open(&options).unwrap(), directory }
}

/// An update is full as soon as its changed pages would fill more than half of the cache: it is not full with a cache
/// of twice as many bytes, and is full with one byte less.
fn assert_full_beyond(bytes: u64, chain: &SimChain, change: impl Fn(&mut btcgraph::index::Update<'_>)) {
    for (cache, full) in [(2 * bytes, false), (2 * bytes - 1, true)] {
        let mut indexed = with_cache(chain, cache);
        let mut update = indexed.index.update().unwrap();
        assert!(!update.is_full().unwrap());
        change(&mut update);
        assert_eq!(update.is_full().unwrap(), full, "with a cache of {cache} bytes");
    }
}

#[test]
fn an_update_is_full_at_one_page_per_scattered_row() {
    let (mut chain, _) = chain();
    let coin = mined_coin(&mut chain);
    let before = chain.clone();
    // of the block: two txids, one spend, four scripts, four outputs, of which the coinbase's witness commitment is not
    // one; and one output that is spent
    let spending = pay(coin, 1_000, &[ScriptKind::P2a, ScriptKind::WitnessV2]);
    let block = chain.mine(vec![spending]).unwrap();
    let connect = |update: &mut btcgraph::index::Update<'_>| {
        let parsed = update.parser().parse(block.block_hash(), serialize(block.as_ref())).unwrap();
        update.connect(&[parsed]).unwrap();
    };
    let rows = 2 + 1 + (1 + 3) + 3 + 1;
    assert_full_beyond(rows * 4096, &before, connect);
    assert_full_beyond(rows * 4096, &chain, |update| {
        update.disconnect().unwrap().unwrap();
    });
    // both together
    assert_full_beyond(2 * rows * 4096, &chain, |update| {
        update.disconnect().unwrap().unwrap();
        connect(update);
    });
}

#[test]
fn an_update_is_full_when_all_rows_fill_half_of_the_cache() {
    let (chain, _) = chain();
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let rows = index_of(&chain).index.snapshot().unwrap().tables().unwrap();
    let scattered = ["history", "unspent", "txids", "spends"];
    let rows: u64 = rows.iter().filter(|table| scattered.contains(&table.name.as_str())).map(|table| table.rows).sum();
    let nothing = SimChain::new(90);
    assert_full_beyond(rows * 80, &nothing, |update| {
        let parser = update.parser();
        let parse = |block: &Arc<Block>| parser.parse(block.block_hash(), serialize(block.as_ref())).unwrap();
        update.connect(&blocks[1..].iter().map(parse).collect::<Vec<_>>()).unwrap();
    });
}

fn a_block_with_damaged_rows_is_not_disconnected(form: IndexForm) {
    let (mut chain, _) = chain();
    let coin = mined_coin(&mut chain);
    let paid = pay(coin, 1_000, &[ScriptKind::P2a]);
    let spends_it = pay(OutPoint::new(paid.compute_txid(), 0), 900, &[ScriptKind::P2a]);
    chain.mine(vec![paid]).unwrap();
    chain.mine(vec![spends_it]).unwrap();
    // the last row of each of these tables belongs to the last block
    let damages: [(&str, Damage); 2] = [
        ("spends", |transaction| {
            let mut spends = transaction.open_table(TableDefinition::<&[u8; 7], &[u8; 7]>::new("spends")).unwrap();
            spends.pop_last().unwrap().unwrap();
        }),
        ("blocks", |transaction| {
            let mut blocks = transaction.open_table(TableDefinition::<&[u8; 4], &[u8]>::new("blocks")).unwrap();
            let (key, mut row) = {
                let (key, row) = blocks.last().unwrap().unwrap();
                (*key.value(), row.value().to_vec())
            };
            *row.last_mut().unwrap() ^= 1;
            blocks.insert(&key, row.as_slice()).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let Indexed { mut index, directory } = index_in(form, &chain);
        while index.sweep(10_000).unwrap() {}
        drop(index);
        let transaction = Database::open(options(directory.path()).path).unwrap().begin_write().unwrap();
        damage(&transaction);
        transaction.commit().unwrap();
        let mut index = Index::open(&options(directory.path())).unwrap();
        let error = index.update().unwrap().disconnect().unwrap_err();
        assert!(matches!(&error, IndexError::Corrupt { table, .. } if *table == name), "{name}: {error}");
    }
}

/// Damages a table without the index.
type Damage = fn(&redb::WriteTransaction);
