//! The table `miner_blocks`: its totals and lists equal a naive count through random histories of blocks, reorganisations,
//! freezes, restarts and changes of the table of pools; until it is complete it is not read.

use std::collections::HashMap;
use std::error::Error;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bitcoin::consensus::serialize;
use bitcoin::{Block, BlockHash, Network};
use btcgraph::chain::Height;
use btcgraph::chain::pools::{PoolId, Pools};
use btcgraph::index::{Index, IndexError, MinerTotals, RawBlocks, Snapshot, Tip};
use btcgraph::sim::{Hostile, Rng, SimChain};
use redb::{Database, ReadableTable, TableDefinition};
use serde_json::json;

use crate::support::frozen::part;
use crate::support::indexed::{Indexed, in_memory, options};
use crate::support::model::Model;

/// Tables of pools: the tag of the first pool, and that of the second.
const TABLES: [[&str; 2]; 4] =
    [["/hostile/", "/none/"], ["/nothing/", "/hostile/"], ["/hos", "tile/"], ["/another/", "/none/"]];

pub(crate) fn pools(tags: [&str; 2]) -> Arc<Pools> {
    let entry = |name: &str, tag: &str| json!({ "name": name, "addresses": [], "tags": [tag] });
    let file = json!([entry("First", tags[0]), entry("Second", tags[1])]);
    Arc::new(Pools::with_file(Network::Regtest, &file.to_string()).unwrap())
}

/// All blocks that ever were in the chain.
#[derive(Default)]
struct AllBlocks(Mutex<HashMap<BlockHash, Vec<u8>>>);

impl RawBlocks for AllBlocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        part(self.0.lock().unwrap().get(&block.hash).ok_or("the block is not there")?, offset, length)
    }
}

struct History {
    chain: SimChain,
    hostile: Hostile,
    raw: Arc<AllBlocks>,
    indexed: Indexed,
    blocks: Vec<Arc<Block>>,
    tags: [&'static str; 2],
}

impl History {
    fn new(seed: u64) -> Self {
        let (raw, indexed, tags) = (Arc::default(), Indexed::within(in_memory()), TABLES[0]);
        let (chain, hostile) = (SimChain::new(seed), Hostile::new(seed));
        let mut history = Self { chain, hostile, raw, indexed, blocks: Vec::new(), tags };
        history.begin();
        history
    }

    /// What every start does.
    fn begin(&mut self) {
        self.indexed.index.set_raw_blocks(self.raw.clone());
        self.indexed.index.set_pools(pools(self.tags));
    }

    fn restart(&mut self) {
        let indexed = std::mem::replace(&mut self.indexed, Indexed::within(in_memory()));
        drop(indexed.index);
        self.indexed = Indexed::within(indexed.directory);
        self.begin();
    }

    fn mine(&mut self, blocks: u64) {
        for _ in 0..blocks {
            self.hostile.mine(&mut self.chain).unwrap();
        }
        self.follow(7);
    }

    /// Disconnects and connects blocks up to those of the chain.
    fn follow(&mut self, run: usize) {
        let blocks: Vec<_> = self.chain.active_blocks().cloned().collect();
        let common = self.blocks.iter().zip(&blocks).take_while(|(one, other)| one == other).count();
        for block in &blocks {
            self.raw.0.lock().unwrap().insert(block.block_hash(), serialize(&**block));
        }
        self.indexed.disconnect_to(u32::try_from(common).unwrap());
        self.indexed.connect(blocks[common..].iter().map(Arc::as_ref), run);
        self.blocks = blocks;
    }

    fn freeze(&mut self, depth: u32) {
        let snapshot = self.snapshot();
        let first = snapshot.frozen().map_or(Height::GENESIS, |frozen| frozen.height.next());
        let Some(last) = snapshot.tip().unwrap().height.to_u32().checked_sub(depth).map(Height::from) else { return };
        if first <= last {
            let path = self.indexed.directory.path().join("generation");
            snapshot.pack(first..=last, &path).unwrap();
            self.indexed.index.adopt(&path).unwrap();
        }
    }

    fn complete(&mut self) {
        while self.indexed.index.tend_tables(13).unwrap() {}
        assert!(!self.indexed.index.lacks_miners().unwrap());
    }

    fn snapshot(&self) -> Snapshot {
        self.indexed.index.snapshot().unwrap()
    }

    /// The place of the pool that mined each block, in the simplest way: no tag of these tables is a part of another.
    fn miners(&self) -> Vec<Option<PoolId>> {
        let miner = |block: &Arc<Block>| {
            let script = block.txdata[0].input[0].script_sig.as_bytes();
            let has = |tag: &str| script.windows(tag.len()).any(|window| window == tag.as_bytes());
            let found = self.tags.iter().enumerate().filter(|(_, tag)| has(tag));
            // the longer tag counts
            let found = found.max_by_key(|(_, tag)| tag.len());
            found.map(|(place, _)| PoolId(u16::try_from(place).unwrap()))
        };
        self.blocks.iter().map(miner).collect()
    }

    /// Compares totals and lists with a count, if they are answered. Returns whether they are.
    fn agrees(&self, rng: &mut Rng) -> bool {
        let snapshot = self.snapshot();
        let all = 0..u32::try_from(self.blocks.len()).unwrap();
        if let Err(error) = snapshot.miner_totals(None, Height::GENESIS) {
            let IndexError::MinersNotReady { built, blocks } = error else { panic!("{error}") };
            assert!(built < blocks && blocks == all.end, "{built} of {blocks}, and {} are there", all.end);
            assert!(self.indexed.index.lacks_miners().unwrap());
            return false;
        }
        let (model, miners) = (Model::of(self.blocks.iter().map(Arc::as_ref)), self.miners());
        let some = |rng: &mut Rng| u32::try_from(rng.below(u64::from(all.end) + 3)).unwrap();
        let (one, other) = (some(rng), some(rng));
        for range in [all.clone(), one.min(other)..one.max(other), one..one] {
            for miner in [None, Some(PoolId(0)), Some(PoolId(1)), Some(PoolId(7))] {
                let heights: Vec<u32> = range
                    .clone()
                    .filter(|height| miners.get(usize::try_from(*height).unwrap()) == Some(&miner))
                    .collect();
                let mut expected = MinerTotals::default();
                for height in &heights {
                    let block = &model.blocks[usize::try_from(*height).unwrap()];
                    expected.blocks += 1;
                    expected.empty_blocks += u32::from(block.transactions == 1);
                    expected.fees += block.fees;
                    expected.reward += block.coinbase_value;
                }
                let range = Height::from(range.start)..Height::from(range.end);
                assert_eq!(snapshot.miner_totals_within(miner, &range).unwrap(), expected, "{miner:?} in {range:?}");
                assert_eq!(list(&snapshot, miner, &range), heights, "{miner:?} in {range:?}");
            }
        }
        true
    }
}

fn list(snapshot: &Snapshot, miner: Option<PoolId>, heights: &Range<Height>) -> Vec<u32> {
    snapshot.miner_blocks(miner, heights).unwrap().map(|height| height.unwrap().to_u32()).collect()
}

#[test]
fn miners_equal_the_model_through_random_histories() {
    let (mut answered, mut unanswered) = (0, 0);
    for seed in 80..83 {
        let (mut history, mut rng) = (History::new(seed), Rng::new(seed));
        history.mine(115);
        assert!(history.agrees(&mut rng), "blocks that are connected to an empty index have their rows");
        for _ in 0..50 {
            match rng.below(14) {
                0 | 1 => history.mine(1 + rng.below(9)),
                2 => history.freeze(u32::try_from(rng.below(12)).unwrap()),
                3 => {
                    let most = if rng.chance(20) { 60 } else { 12 };
                    let depth = 1 + u32::try_from(rng.below(most)).unwrap();
                    history.hostile.branch(&mut history.chain, depth, depth + 1).unwrap();
                    history.follow(3);
                }
                4 => history.restart(),
                5 | 10 | 11 => {
                    history.tags = TABLES[usize::try_from(rng.below(4)).unwrap()];
                    history.restart();
                }
                6 | 7 | 12 => drop(history.indexed.index.tend_tables(u32::try_from(rng.below(60)).unwrap()).unwrap()),
                8 => drop(history.indexed.index.sweep(usize::try_from(rng.below(3_000)).unwrap()).unwrap()),
                _ => history.complete(),
            }
            if history.agrees(&mut rng) {
                answered += 1;
            } else {
                unanswered += 1;
            }
            history.indexed.verified();
        }
        history.complete();
        assert!(history.agrees(&mut rng) && history.snapshot().frozen().is_some());
    }
    assert!(answered > 20 && unanswered > 20, "{answered} answered, {unanswered} not");
}

#[test]
fn an_index_without_the_table_builds_it() {
    let mut history = History::new(84);
    history.mine(130);
    let Indexed { index, directory } = std::mem::replace(&mut history.indexed, Indexed::within(in_memory()));
    drop(index);
    let database = Database::open(options(directory.path()).path).unwrap();
    let transaction = database.begin_write().unwrap();
    let table: TableDefinition<'_, &[u8; 6], &[u8; 24]> = TableDefinition::new("miner_blocks");
    assert!(transaction.delete_table(table).unwrap());
    let meta: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
    assert!(transaction.open_table(meta).unwrap().remove("miners").unwrap().is_some());
    transaction.commit().unwrap();
    drop(database);
    history.indexed = Indexed { index: Index::open(&options(directory.path())).unwrap(), directory };
    history.begin();
    let mut rng = Rng::new(84);
    assert!(!history.agrees(&mut rng));
    // blocks that arrive meanwhile are left to the builder
    history.mine(2);
    assert!(!history.agrees(&mut rng));
    history.indexed.verified();
    history.complete();
    assert!(history.agrees(&mut rng));
    history.indexed.verified();
    history.mine(2);
    assert!(history.agrees(&mut rng));
}

#[test]
fn damaged_rows_are_reported() {
    type Damage = fn(&mut redb::Table<'_, &[u8; 6], &[u8; 24]>);
    let mut history = History::new(85);
    history.mine(40);
    let damages: [(&str, Damage); 3] = [
        ("differs from what it must be", |table| {
            let (key, mut value) = table.first().unwrap().map(|(key, value)| (*key.value(), *value.value())).unwrap();
            value[23] ^= 1;
            table.insert(&key, &value).unwrap();
        }),
        ("is missing", |table| drop(table.pop_last().unwrap().unwrap())),
        ("rows, but 41 blocks must have one", |table| drop(table.insert(&[0, 9, 0, 0, 0, 1], &[0; 24]).unwrap())),
    ];
    for (difference, damage) in damages {
        history.indexed = Indexed::within(in_memory());
        history.begin();
        history.blocks.clear();
        history.follow(10);
        let Indexed { index, directory } = std::mem::replace(&mut history.indexed, Indexed::within(in_memory()));
        drop(index);
        let database = Database::open(options(directory.path()).path).unwrap();
        let transaction = database.begin_write().unwrap();
        damage(&mut transaction.open_table(TableDefinition::new("miner_blocks")).unwrap());
        transaction.commit().unwrap();
        drop(database);
        history.indexed = Indexed::within(directory);
        history.begin();
        let differences = history.indexed.report().differences;
        assert!(
            differences.iter().any(|found| found.starts_with("miner_blocks: ") && found.contains(difference)),
            "{differences:?}"
        );
    }
}
