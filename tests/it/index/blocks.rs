//! The index with hostile chains: one chain gives one set of rows, by whatever changes it was reached.

use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::{Amount, Block};
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexError, VerifyOptions, verify};
use btcgraph::sim::{Hostile, LoadGenerator, LoadProfile, SimChain};

use crate::support::indexed::{Indexed, SALT, options};

fn hostile_chain(seed: u64, blocks: u32) -> (SimChain, Hostile) {
    let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
    for _ in 0..blocks {
        hostile.mine(&mut chain).unwrap();
    }
    (chain, hostile)
}

fn blocks(chain: &SimChain) -> Vec<Arc<Block>> {
    chain.active_blocks().cloned().collect()
}

fn refs(blocks: &[Arc<Block>]) -> impl Iterator<Item = &Block> {
    blocks.iter().map(Arc::as_ref)
}

#[test]
fn batches_of_any_size_give_the_same_rows() {
    let (chain, _) = hostile_chain(1, 220);
    let blocks = blocks(&chain);
    let one_by_one = Indexed::of(refs(&blocks), 1).rows();
    for run in [2, 7, 50, 1_000] {
        assert_eq!(Indexed::of(refs(&blocks), run).rows(), one_by_one, "{run} blocks at a time");
    }
}

#[test]
fn the_unspent_outputs_are_those_of_the_chain() {
    let (chain, _) = hostile_chain(2, 200);
    let utxos = Indexed::of(refs(&blocks(&chain)), 10).verified().utxo_set;
    assert_eq!(utxos.outputs, u64::try_from(chain.unspent().len()).unwrap());
    assert_eq!(utxos.total_amount, chain.unspent().values().map(|coin| coin.output.value).sum::<Amount>());
}

#[test]
fn the_room_for_blocks_covers_what_they_change_when_connected() {
    let mut chain = SimChain::new(7);
    let mut load = LoadGenerator::new(LoadProfile { transactions: 8_000, blocks: 104, seed: 7 });
    while load.next_block(&mut chain).unwrap().is_some() {}
    let directory = tempfile::tempdir().unwrap();
    let mut index = Index::open(&options(directory.path())).unwrap();
    let parser = index.parser();
    let parse = |block: &Arc<Block>| parser.parse(block.block_hash(), serialize(block.as_ref())).unwrap();
    let blocks: Vec<_> = blocks(&chain).iter().map(parse).collect();
    let least = index.required_space().bytes();
    let mut update = index.update().unwrap();
    assert_eq!(update.required_space_for(&[]).unwrap().bytes(), least);
    assert_eq!(update.required_space_for(&blocks[..1]).unwrap().bytes(), least);
    let asked = update.required_space_for(&blocks).unwrap().bytes();
    update.connect(&blocks).unwrap();
    let counted = update.required_space_for(&[]).unwrap().bytes();
    assert!(least < counted && counted <= asked, "{least} {counted} {asked}");
    let bytes: usize = blocks.iter().map(btcgraph::index::ParsedBlock::size).sum();
    assert!(u64::try_from(bytes).unwrap() < counted);
}

#[test]
fn after_a_reorganisation_the_rows_are_those_of_a_fresh_index() {
    for (seed, depth) in [(3, 1), (4, 6), (5, 100), (6, 160)] {
        let (mut chain, mut hostile) = hostile_chain(seed, 160);
        let old = blocks(&chain);
        let mut indexed = Indexed::of(refs(&old), 20);
        let branch = hostile.branch(&mut chain, depth, depth + 2).unwrap();
        let taken = indexed.disconnect_to(161 - depth);
        assert_eq!(taken.len(), usize::try_from(depth).unwrap());
        indexed.connect(refs(&branch), 3);
        let fresh = Indexed::of(refs(&blocks(&chain)), 20);
        assert_eq!(indexed.rows(), fresh.rows(), "{depth} blocks deep");

        let snapshot = indexed.index.snapshot().unwrap();
        for (tip, block) in taken.iter().zip(old.iter().rev()) {
            let stale = snapshot.stale_block(tip.height, tip.hash).unwrap().unwrap();
            assert_eq!(stale.raw, bitcoin::consensus::serialize(block.as_ref()));
            assert_eq!(snapshot.stale_occurrences(&block.txdata[0].compute_txid()).unwrap(), [(tip.hash, 0)]);
        }
    }
}

#[test]
fn disconnecting_and_connecting_the_same_blocks_changes_nothing() {
    let (chain, _) = hostile_chain(7, 150);
    let blocks = blocks(&chain);
    let mut indexed = Indexed::of(refs(&blocks), 20);
    let before = (indexed.rows(), indexed.verified().tables);
    indexed.disconnect_to(30);
    indexed.connect(refs(&blocks[30..]), 9);
    // also equal: block_hashes and stale_transactions, since no block is stale any more
    assert_eq!((indexed.rows(), indexed.verified().tables), before);
}

#[test]
fn disconnecting_every_block_empties_every_table() {
    let (chain, _) = hostile_chain(8, 130);
    let mut indexed = Indexed::of(refs(&blocks(&chain)), 20);
    indexed.disconnect_to(0);
    assert_eq!(indexed.index.snapshot().unwrap().tip(), None);
    assert!(indexed.rows().iter().all(|(_, rows, _)| *rows == 0));
}

#[test]
fn many_reorganisations_give_the_rows_of_a_fresh_index() {
    let (mut chain, mut hostile) = hostile_chain(9, 110);
    let mut indexed = Indexed::of(refs(&blocks(&chain)), 50);
    for depth in [1, 2, 3, 5, 8, 13, 21, 1, 34, 1, 1] {
        let height = chain.height().to_u32();
        let branch = hostile.branch(&mut chain, depth, depth + 1).unwrap();
        let mut update = indexed.index.update().unwrap();
        for _ in 0..depth {
            update.disconnect().unwrap().unwrap();
        }
        let parser = update.parser();
        let parse = |block: &Arc<Block>| {
            parser.parse(block.block_hash(), bitcoin::consensus::serialize(block.as_ref())).unwrap()
        };
        update.connect(&branch.iter().map(parse).collect::<Vec<_>>()).unwrap();
        update.commit().unwrap();
        assert_eq!(chain.height().to_u32(), height + 1);
        assert_eq!(indexed.rows(), Indexed::of(refs(&blocks(&chain)), 40).rows());
    }
}

#[test]
fn a_dropped_update_changes_nothing() {
    let (chain, _) = hostile_chain(10, 120);
    let blocks = blocks(&chain);
    let mut indexed = Indexed::of(refs(&blocks[..100]), 20);
    let before = indexed.rows();
    {
        let mut update = indexed.index.update().unwrap();
        update.disconnect().unwrap();
        update.disconnect().unwrap();
    }
    assert_eq!(indexed.rows(), before);
    indexed.connect(refs(&blocks[100..]), 20);
    assert_eq!(indexed.rows(), Indexed::of(refs(&blocks), 1).rows());
}

#[test]
fn a_reopened_index_continues_at_its_tip() {
    let (chain, _) = hostile_chain(11, 120);
    let blocks = blocks(&chain);
    let Indexed { index, directory } = Indexed::of(refs(&blocks[..100]), 20);
    drop(index);
    let index = btcgraph::index::Index::open(&options(directory.path())).unwrap();
    let mut indexed = Indexed { index, directory };
    indexed.connect(refs(&blocks[100..]), 20);
    assert_eq!(indexed.rows(), Indexed::of(refs(&blocks), 1).rows());
}

#[test]
fn only_the_highest_stale_blocks_are_kept() {
    let (chain, _) = hostile_chain(12, 120);
    let directory = tempfile::tempdir().unwrap();
    let few = btcgraph::index::IndexOptions { stale_blocks_kept: 5, ..options(directory.path()) };
    let mut indexed = Indexed { index: btcgraph::index::Index::open(&few).unwrap(), directory };
    indexed.connect(refs(&blocks(&chain)), 20);
    let taken = indexed.disconnect_to(101);
    let kept: Vec<_> = indexed.index.snapshot().unwrap().stale_block_hashes().unwrap();
    let expected: Vec<_> = taken.iter().take(5).rev().map(|tip| (tip.height, tip.hash)).collect();
    assert_eq!(kept, expected);
    let snapshot = indexed.index.snapshot().unwrap();
    assert_eq!(snapshot.block_place(taken[5].hash).unwrap(), None);
    indexed.verified();
}

#[test]
fn a_block_that_does_not_extend_the_tip_is_refused() {
    let (chain, _) = hostile_chain(13, 120);
    let blocks = blocks(&chain);
    let mut indexed = Indexed::of(refs(&blocks[..110]), 20);
    let before = indexed.rows();
    let parser = indexed.index.parser();
    let block = &blocks[115];
    let parsed = parser.parse(block.block_hash(), bitcoin::consensus::serialize(block.as_ref())).unwrap();
    let error = indexed.index.update().unwrap().connect(&[parsed]).unwrap_err();
    assert!(matches!(error, IndexError::NotOnTip { .. }), "{error}");
    assert_eq!(indexed.rows(), before);
    assert_eq!(SALT.script_key(b""), indexed.index.snapshot().unwrap().script_key(b""));
}

#[test]
fn an_update_with_a_failed_step_cannot_be_committed() {
    let (chain, _) = hostile_chain(14, 120);
    let blocks = blocks(&chain);
    let mut indexed = Indexed::of(refs(&blocks[..110]), 20);
    let before = indexed.rows();
    let parser = indexed.index.parser();
    let parse = |block: &Block| parser.parse(block.block_hash(), bitcoin::consensus::serialize(block)).unwrap();
    let mut update = indexed.index.update().unwrap();
    update.connect(&[parse(&blocks[110])]).unwrap();
    // the second does not extend the first
    update.connect(&[parse(&blocks[111]), parse(&blocks[113])]).unwrap_err();
    assert!(matches!(update.disconnect(), Err(IndexError::Broken)));
    assert!(matches!(update.commit(), Err(IndexError::Broken)));
    assert_eq!(indexed.rows(), before);
    indexed.connect(refs(&blocks[110..]), 20);
    assert_eq!(indexed.rows(), Indexed::of(refs(&blocks), 1).rows());
}

#[test]
fn a_snapshot_is_unaffected_by_later_commits() {
    let (mut chain, mut hostile) = hostile_chain(15, 120);
    let mut indexed = Indexed::of(refs(&blocks(&chain)), 20);
    let (snapshot, before) = (indexed.index.snapshot().unwrap(), indexed.report());
    let branch = hostile.branch(&mut chain, 60, 62).unwrap();
    indexed.disconnect_to(61);
    indexed.connect(refs(&branch), 1);
    let options = VerifyOptions { memory: 1 << 20, directory: indexed.directory.path().into() };
    assert_eq!(verify(&snapshot, &options, &mut |_| ControlFlow::Continue(())).unwrap(), before);
    assert_ne!(indexed.report(), before);
}

#[test]
fn stale_blocks_of_one_height_are_kept_side_by_side() {
    let (mut chain, mut hostile) = hostile_chain(16, 110);
    let old = blocks(&chain);
    let mut indexed = Indexed::of(refs(&old), 20);
    let branches: Vec<_> = (0..3).map(|_| hostile.branch(&mut chain, 3, 3).unwrap()).collect();
    let own: Vec<_> = old[108..].to_vec();
    for _ in 0..2 {
        for branch in branches.iter().chain([&own]) {
            indexed.disconnect_to(108);
            indexed.connect(refs(branch), 2);
        }
    }
    assert_eq!(indexed.rows(), Indexed::of(refs(&old), 20).rows());
    let snapshot = indexed.index.snapshot().unwrap();
    let mut expected: Vec<_> = branches.iter().flat_map(|branch| (108..).map(Height::from).zip(branch)).collect();
    expected.sort_by_key(|(height, block)| (*height, bitcoin::hashes::Hash::to_byte_array(block.block_hash())));
    let expected: Vec<_> = expected.into_iter().map(|(height, block)| (height, block.block_hash())).collect();
    assert_eq!(snapshot.stale_block_hashes().unwrap(), expected);
}

#[test]
fn warming_the_cache_reads_up_to_its_limit_and_can_be_stopped() {
    let (chain, _) = hostile_chain(30, 200);
    let snapshot = Indexed::of(refs(&blocks(&chain)), 50).index.snapshot().unwrap();
    let all = snapshot.warm_up(u64::MAX, || true).unwrap();
    let raw: usize = blocks(&chain).iter().map(|block| block.total_size()).sum();
    assert!(all > u64::try_from(raw).unwrap(), "{all} bytes of rows of blocks of {raw}");
    // pages are not full, so fewer bytes of rows are read
    let half = snapshot.warm_up(all / 2, || true).unwrap();
    assert!((all / 4..=all / 2).contains(&half), "{half} of {all}");
    assert_eq!(snapshot.warm_up(u64::MAX, || false).unwrap(), 0);
}
