//! An index whose lower blocks are frozen: it gives the answers of the model on either side of the cut, and blocks are
//! connected on top of it and disconnected through it.

use std::collections::HashMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::{Block, Network, Transaction, TxIn, Txid};
use btcgraph::chain::Height;
use btcgraph::index::{
    Generation, Index, IndexError, Known, KnownOutput, RawBlocks, Snapshot, Tip, TxNum, VerifyOptions, verify,
};
use btcgraph::sim::SimChain;

use crate::support::agree::assert_agrees;
use crate::support::frozen::{BlockBytes, frozen};
use crate::support::hostile::repeated_coinbases;
use crate::support::indexed::{Indexed, SALT, options};
use crate::support::model::Model;

fn blocks(seed: u64) -> Vec<Arc<Block>> {
    repeated_coinbases(seed, 40)
}

fn agrees(indexed: &Indexed, blocks: &[&Block]) {
    agrees_with(&mut Model::default(), indexed, blocks);
}

/// As [`agrees`], with the model of other blocks of the same chain.
fn agrees_with(model: &mut Model, indexed: &Indexed, blocks: &[&Block]) {
    model.follow(blocks.iter().copied());
    assert_agrees(&indexed.index.snapshot().unwrap(), model);
}

#[test]
fn blocks_are_connected_above_a_cut_and_disconnected_through_it() {
    for seed in [41, 42] {
        let blocks = blocks(seed);
        let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
        let tip = u32::try_from(blocks.len()).unwrap() - 1;
        let mut model = Model::default();
        let mut agrees = |indexed: &Indexed, blocks: &[&Block]| agrees_with(&mut model, indexed, blocks);
        // repeated coinbases lie below, above and across these cuts
        for (ends, run) in [(vec![tip], 1), (vec![tip - 45], 7), (vec![0, 101, tip - 47], 1), (vec![tip / 2], 1_000)] {
            let cut = *ends.last().unwrap();
            let mut indexed = frozen(&blocks, &ends);
            let index_of = |height: u32| usize::try_from(height).unwrap();
            agrees(&indexed, &blocks[..=index_of(cut)]);
            indexed.connect(blocks[index_of(cut) + 1..].iter().copied(), run);
            agrees(&indexed, &blocks);
            indexed.verified();
            let mut lefts = [tip, tip - 20, cut + 1, cut, cut - 3, cut - 30];
            lefts.sort_unstable_by_key(|left| std::cmp::Reverse(*left));
            for left in lefts.into_iter().filter(|left| *left <= tip) {
                indexed.disconnect_to(left);
                agrees(&indexed, &blocks[..index_of(left)]);
            }
            indexed.verified();
            // the same blocks again, which generations have beyond their ends
            indexed.connect(blocks[index_of(cut - 30)..].iter().copied(), run);
            agrees(&indexed, &blocks);
            indexed.verified();
            indexed.disconnect_to(cut - 35);
            agrees(&indexed, &blocks[..index_of(cut - 35)]);
            indexed.verified();
        }
    }
}

#[test]
fn outputs_that_are_known_are_not_read_from_frozen_blocks() {
    let blocks = blocks(47);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let transactions = || blocks.iter().flat_map(|block| &block.txdata);
    let by_txid: HashMap<Txid, &Transaction> = transactions().map(|tx| (tx.compute_txid(), tx)).collect();
    let known = |txid: &Txid| -> Vec<KnownOutput<'_>> {
        let inputs = by_txid[txid].input.iter().filter(|input| !input.previous_output.is_null());
        let output = |input: &TxIn| {
            let funding = by_txid[&input.previous_output.txid];
            let output = &funding.output[usize::try_from(input.previous_output.vout).unwrap()];
            let (value, script_pubkey) = (output.value.to_sat(), output.script_pubkey.as_bytes());
            KnownOutput { value, script_pubkey, is_coinbase: funding.is_coinbase() }
        };
        inputs.map(output).collect()
    };
    let (frozen_blocks, above) = blocks.split_at(blocks.len() - 20);
    let directory = frozen(&blocks, &[tip - 20]).directory;
    let mut index = Index::open(&options(directory.path())).unwrap();
    let parser = index.parser();
    let run: Vec<_> = above.iter().map(|block| parser.parse(block.block_hash(), serialize(*block)).unwrap()).collect();
    // there is nothing to read them from
    let error = index.update().unwrap().connect(&run).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { .. } | IndexError::NoRawBlocks { .. }), "{error}");
    let mut update = index.update().unwrap();
    update.connect_with(&run, Known { outputs: &known, prefetched: None }).unwrap();
    update.commit().unwrap();
    index.set_raw_blocks(Arc::new(BlockBytes::of(frozen_blocks.iter().copied())));
    let indexed = Indexed { index, directory };
    agrees(&indexed, &blocks);
    indexed.verified();
}

#[test]
fn verify_reports_a_frozen_index_as_a_live_one() {
    let blocks = blocks(49);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let live = Indexed::of(blocks.iter().copied(), 50);
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    for ends in [vec![tip], vec![tip - 45], vec![0, 101, tip - 47], vec![tip / 2, tip / 2 + 1]] {
        let mut indexed = frozen(&blocks, &ends);
        let index_of = |height: u32| usize::try_from(height).unwrap();
        indexed.connect(blocks[index_of(ends.last().unwrap() + 1)..].iter().copied(), 7);
        // the miners of the blocks of generations are assigned in the background
        while indexed.index.tend_tables(1_000).unwrap() {}
        assert_eq!(indexed.verified(), live.verified());
        // rows of generations lie beyond their ends, and live rows take their place
        indexed.disconnect_to(tip - 60);
        indexed.verified();
        indexed.connect(blocks[index_of(tip - 60)..].iter().copied(), 7);
        assert_eq!(indexed.verified(), live.verified());
    }
}

#[test]
fn verify_needs_the_bytes_of_frozen_blocks() {
    let blocks = blocks(50);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let directory = frozen(&blocks, &[40, 60]).directory;
    let verify_with = |blocks: Option<&[&Block]>| {
        let index = Index::open(&options(directory.path())).unwrap();
        if let Some(blocks) = blocks {
            index.set_raw_blocks(Arc::new(BlockBytes::of(blocks.iter().copied())));
        }
        let options = VerifyOptions { memory: 64 << 20, directory: directory.path().into() };
        verify(&index.snapshot().unwrap(), &options, &mut |_| ControlFlow::Continue(()))
    };
    let error = verify_with(None).unwrap_err();
    assert!(matches!(error, IndexError::NoRawBlocks { height } if height == Height::from(60)), "{error}");
    assert!(error.to_string().contains("connect a node"), "{error}");
    // a node that has some of them, and one that has a damaged one
    let error = verify_with(Some(&blocks[..30])).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { height, .. } if height == Height::from(30)), "{error}");
    let mut wrong = Block::clone(blocks[20]);
    wrong.txdata[0].lock_time = bitcoin::absolute::LockTime::from_consensus(77);
    let mut others = blocks.clone();
    others[20] = &wrong;
    let error = verify_with(Some(&others)).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { height, .. } if height == Height::from(20)), "{error}");
    assert!(verify_with(Some(&blocks)).unwrap().is_clean());
}

fn ranges(snapshot: &Snapshot, end: u32) -> Vec<(Vec<bitcoin::Txid>, Vec<u8>)> {
    let read = |from: u32| {
        let mut bytes = Vec::new();
        let count = (end - from).min(40);
        snapshot.append_raw_transactions(TxNum(from), count, &mut bytes).unwrap();
        (snapshot.txids(TxNum(from), count).unwrap(), bytes)
    };
    (0..end).step_by(17).map(read).collect()
}

#[test]
fn ranges_across_a_cut_are_those_of_a_live_index() {
    let blocks = blocks(43);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let live = Indexed::of(blocks.iter().copied(), 50);
    let mut indexed = frozen(&blocks, &[60, 120]);
    indexed.connect(blocks[121..].iter().copied(), 3);
    let (one, other) = (live.index.snapshot().unwrap(), indexed.index.snapshot().unwrap());
    let end = one.block(one.tip().unwrap().height).unwrap().unwrap().running.transactions;
    let end = u32::try_from(end).unwrap();
    assert_eq!(ranges(&one, end), ranges(&other, end));
    let coinbases = |snapshot: &Snapshot| {
        snapshot.coinbases(TxNum(5)..TxNum(end - 1)).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(coinbases(&one), coinbases(&other));
    assert!(coinbases(&one).len() > 100);
    assert!(other.file_bytes().unwrap() > std::fs::metadata(options(indexed.directory.path()).path).unwrap().len());
}

#[test]
fn generations_are_named_durably_and_only_on_top_of_the_tip() {
    let blocks = blocks(44);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let live = Indexed::of(blocks.iter().copied(), 50);
    let snapshot = live.index.snapshot().unwrap();
    let mut indexed = frozen(&blocks, &[30]);
    let path = indexed.directory.path().join("next");
    for heights in [0..=40, 30..=40, 32..=40] {
        snapshot.pack(Height::from(*heights.start())..=Height::from(*heights.end()), &path).unwrap();
        let error = indexed.index.adopt(&path).unwrap_err();
        assert!(matches!(error, IndexError::NotNext { .. }), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
    agrees(&indexed, &blocks[..=30]);
    // live blocks would lie under it
    indexed.connect(blocks[31..33].iter().copied(), 1);
    snapshot.pack(Height::from(33)..=Height::from(40), &path).unwrap();
    assert!(matches!(indexed.index.adopt(&path).unwrap_err(), IndexError::NotNext { .. }));
    std::fs::remove_file(&path).unwrap();
    indexed.disconnect_to(31);
    snapshot.pack(Height::from(31)..=Height::from(40), &path).unwrap();
    assert_eq!(indexed.index.adopt(&path).unwrap().height, Height::from(40));

    let Indexed { index, directory } = indexed;
    drop(index);
    let index = Index::open(&options(directory.path())).unwrap();
    // without the bytes everything else is answered
    let reopened = index.snapshot().unwrap();
    let block = reopened.block(Height::from(35)).unwrap().unwrap();
    assert_eq!(block.hash, blocks[35].block_hash());
    let txid = blocks[35].txdata[0].compute_txid();
    let position = *reopened.positions(&txid).unwrap().last().unwrap();
    assert!(matches!(reopened.transaction(position), Err(IndexError::RawUnavailable { .. })));
    drop(reopened);
    index.set_raw_blocks(Arc::new(BlockBytes::of(blocks.iter().copied())));
    let indexed = Indexed { index, directory };
    agrees(&indexed, &blocks[..=40]);
    assert_eq!(indexed.index.snapshot().unwrap().stale_block_hashes().unwrap(), []);
}

#[test]
fn bytes_of_another_transaction_are_refused() {
    let blocks = blocks(45);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let directory = frozen(&blocks, &[50]).directory;
    let index = Index::open(&options(directory.path())).unwrap();
    let change = |block: &&Block| {
        let mut block = Block::clone(block);
        block.txdata[0].lock_time = bitcoin::absolute::LockTime::from_consensus(77);
        block
    };
    let wrong: Vec<_> = blocks.iter().map(change).collect();
    index.set_raw_blocks(Arc::new(BlockBytes::of(wrong.iter())));
    let snapshot = index.snapshot().unwrap();
    let error = snapshot.transaction(TxNum(20)).unwrap_err();
    assert!(error.to_string().contains("are not transaction"), "{error}");
    assert!(snapshot.append_raw_transactions(TxNum(20), 2, &mut Vec::new()).is_err());
}

/// Damaged files, and a node that has the blocks.
struct DamagedFiles {
    files: BlockBytes,
    node: BlockBytes,
}

impl RawBlocks for DamagedFiles {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let mut bytes = self.files.read(block, offset, length)?;
        for byte in &mut bytes {
            *byte ^= 1;
        }
        Ok(bytes)
    }

    fn read_elsewhere(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        self.node.read(block, offset, length)
    }
}

#[test]
fn bytes_that_are_damaged_in_one_place_are_read_from_another() {
    let blocks = blocks(53);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let directory = frozen(&blocks, &[50]).directory;
    let index = Index::open(&options(directory.path())).unwrap();
    let bytes = || BlockBytes::of(blocks.iter().copied());
    index.set_raw_blocks(Arc::new(DamagedFiles { files: bytes(), node: bytes() }));
    let snapshot = index.snapshot().unwrap();
    let stored = snapshot.transaction(TxNum(20)).unwrap().unwrap();
    let mut two = Vec::new();
    snapshot.append_raw_transactions(TxNum(20), 2, &mut two).unwrap();
    assert!(two.starts_with(stored.parts.raw()) && two.len() > stored.parts.raw().len());
}

#[test]
fn live_blocks_above_a_cut_are_packed_as_those_of_a_live_index() {
    for (seed, ends) in [(46, vec![100]), (47, vec![20, 108]), (48, vec![60])] {
        let blocks = blocks(seed);
        let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
        let live = Indexed::of(blocks.iter().copied(), 50);
        let mut indexed = frozen(&blocks, &ends);
        let first = ends.last().unwrap() + 1;
        indexed.connect(blocks[usize::try_from(first).unwrap()..].iter().copied(), 5);
        let tip = u32::try_from(blocks.len()).unwrap() - 1;
        for last in [first, first + 9, tip - 10, tip] {
            let heights = Height::from(first)..=Height::from(last);
            let checksums = |indexed: &Indexed, name: &str| {
                let path = indexed.directory.path().join(name);
                indexed.index.snapshot().unwrap().pack(heights.clone(), &path).unwrap();
                Generation::open(&path, Network::Regtest, SALT, 1 << 20).unwrap().checksums().unwrap()
            };
            let name = format!("to-{last}");
            assert_eq!(checksums(&indexed, &name), checksums(&live, &name), "heights {first} to {last}");
        }
        // what is frozen has no live rows to pack
        let below = Height::from(first - 1)..=Height::from(tip);
        let path = indexed.directory.path().join("below");
        assert!(indexed.index.snapshot().unwrap().pack(below, &path).is_err());
    }
}

#[test]
fn a_generation_is_adopted_again_after_its_blocks_were_disconnected() {
    let blocks = blocks(49);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let live = Indexed::of(blocks.iter().copied(), 50);
    for (ends, left) in [(vec![tip], tip - 30), (vec![90, tip], 95), (vec![90, tip - 3], 60)] {
        let mut indexed = frozen(&blocks, &ends);
        indexed.disconnect_to(left);
        agrees(&indexed, &blocks[..usize::try_from(left).unwrap()]);
        let path = indexed.directory.path().join("again");
        live.index.snapshot().unwrap().pack(Height::from(left)..=Height::from(tip), &path).unwrap();
        indexed.index.adopt(&path).unwrap();
        agrees(&indexed, &blocks);
    }
}

#[test]
fn a_generation_of_another_branch_is_refused_and_stays_where_it_is() {
    let (mut chain, mut other) = (SimChain::new(50), SimChain::new(51));
    chain.mine_empty(9).unwrap();
    other.mine_empty(9).unwrap();
    let (chain, other): (Vec<_>, Vec<_>) = (chain.active_blocks().collect(), other.active_blocks().collect());
    let chain: Vec<_> = chain.into_iter().map(Arc::as_ref).collect();
    let mut indexed = frozen(&chain, &[5]);
    let path = indexed.directory.path().join("other");
    let live = Indexed::of(other.into_iter().map(Arc::as_ref), 50);
    live.index.snapshot().unwrap().pack(Height::from(6)..=Height::from(8), &path).unwrap();
    assert!(matches!(indexed.index.adopt(&path).unwrap_err(), IndexError::NotNext { .. }));
    assert!(path.exists());
    agrees(&indexed, &chain[..=5]);
}

#[test]
fn a_missing_generation_is_named() {
    let blocks = blocks(52);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let Indexed { index, directory } = frozen(&blocks, &[30, 60]);
    drop(index);
    let options = options(directory.path());
    let generations = std::fs::read_dir(options.path.with_extension("frozen")).unwrap();
    let mut paths: Vec<_> = generations.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let open = || Index::open(&options).map(drop).unwrap_err().to_string();
    let (first, second) = (&paths[0], &paths[1]);
    let (bytes, aside) = (std::fs::read(second).unwrap(), directory.path().join("aside"));
    std::fs::rename(second, &aside).unwrap();
    let error = open();
    assert!(error.contains(&second.display().to_string()) && error.contains("Put the file back"), "{error}");
    // the other one in its place
    std::fs::copy(first, second).unwrap();
    let error = open();
    assert!(error.contains("does not have"), "{error}");
    std::fs::write(second, bytes).unwrap();
    Index::open(&options).unwrap();
}
