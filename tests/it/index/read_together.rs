//! Transactions that are read together, by one call of the index or by the fields of one answer.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use async_graphql::{Executor, Response};
use bitcoin::hashes::Hash;
use bitcoin::{Block, Txid};
use btcgraph::api::{self, Features};
use btcgraph::index::{Index, Occurrence, RawBlocks, Snapshot, StoredTransaction, Tip, TxNum, WantedTransaction};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::view::{Head, Published};

use crate::support::cut::IndexForm;
use crate::support::frozen::{BlockBytes, frozen};
use crate::support::hostile::repeated_coinbases;
use crate::support::indexed::{Indexed, options};

/// A node on a slow disk, and the threads that read from it.
struct SlowNode {
    bytes: BlockBytes,
    threads: Reads,
}

/// The thread of each read.
type Reads = Arc<Mutex<Vec<thread::ThreadId>>>;

/// How many threads have read.
fn threads(reads: &Reads) -> usize {
    reads.lock().unwrap().iter().collect::<HashSet<_>>().len()
}

impl RawBlocks for SlowNode {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        self.threads.lock().unwrap().push(thread::current().id());
        thread::sleep(Duration::from_micros(100));
        self.bytes.read(block, offset, length)
    }
}

/// An index of which these blocks are frozen up to a height, whose node is slow.
fn slow(blocks: &[&Block], cut: u32) -> (Indexed, Reads) {
    slow_with(blocks, &[cut / 2, cut])
}

/// An index of these blocks with generations that end at these heights, whose node is slow.
fn slow_with(blocks: &[&Block], ends: &[u32]) -> (Indexed, Reads) {
    let Indexed { index, directory } = frozen(blocks, ends);
    drop(index);
    let index = Index::open(&options(directory.path())).unwrap();
    let reads = Reads::default();
    let bytes = BlockBytes::of(blocks.iter().copied());
    index.set_raw_blocks(Arc::new(SlowNode { bytes, threads: Arc::clone(&reads) }));
    let mut indexed = Indexed { index, directory };
    let behind = ends.last().map_or(0, |end| usize::try_from(*end).unwrap() + 1);
    indexed.connect(blocks[behind..].iter().copied(), 10);
    reads.lock().unwrap().clear();
    (indexed, reads)
}

#[test]
fn several_transactions_are_those_that_are_read_one_by_one() {
    let blocks = repeated_coinbases(61, 20);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    for cut in [tip, tip - 45, tip / 2] {
        let (indexed, reads) = slow(&blocks, cut);
        compare_with_one_by_one(&indexed, &blocks);
        assert!(threads(&reads) > 1);
        // pages that were read lately are not read again, but for repeated transactions
        let snapshot = indexed.index.snapshot().unwrap();
        let height = cut / 2;
        let transactions =
            |blocks: &[&Block]| blocks.iter().map(|block| u32::try_from(block.txdata.len()).unwrap()).sum();
        let first: u32 = transactions(&blocks[..usize::try_from(height).unwrap()]);
        let at = Occurrence { height: height.into(), index: 0 };
        let read = || snapshot.newest_of_block(TxNum(first), at, 1).unwrap();
        let page = read();
        assert_eq!(page[0].txnum, TxNum(first), "a block whose coinbase is not repeated");
        reads.lock().unwrap().clear();
        assert_eq!(read(), page);
        assert!(reads.lock().unwrap().is_empty());
    }
    compare_with_one_by_one(&Indexed::of(blocks.iter().copied(), 50), &blocks);
}

fn compare_with_one_by_one(indexed: &Indexed, blocks: &[&Block]) {
    let snapshot = indexed.index.snapshot().unwrap();
    let txids: Vec<_> = blocks.iter().flat_map(|block| &block.txdata).map(bitcoin::Transaction::compute_txid).collect();
    let numbers = (0..).map(TxNum).take(txids.len());
    let unknown = Txid::from_byte_array([9; 32]);
    let newest = txids.iter().copied().chain([unknown]).map(WantedTransaction::Newest);
    // one after the other in no order, and some twice
    let mut wanted: Vec<_> = newest.chain(numbers.map(WantedTransaction::At)).collect();
    wanted.extend(wanted.clone().into_iter().step_by(7));
    wanted.reverse();
    wanted.push(WantedTransaction::At(TxNum(u32::MAX)));
    let alone = |wanted: &WantedTransaction| -> Option<StoredTransaction> {
        let found = match wanted {
            WantedTransaction::Newest(txid) => snapshot.newest(txid).unwrap()?,
            WantedTransaction::At(txnum) => snapshot.transaction(*txnum).unwrap()?,
        };
        let is_newest = snapshot.positions(&found.txid).unwrap().last() == Some(&found.txnum);
        is_newest.then_some(found)
    };
    let together = snapshot.read_several(&wanted, usize::MAX, |stored| stored).unwrap();
    assert!(together.iter().flatten().count() > 100 && together.iter().any(Option::is_none));
    for (wanted, together) in wanted.iter().zip(&together) {
        assert_eq!(together, &alone(wanted), "{wanted:?}");
    }
    compare_pages(&snapshot, blocks);
    // now that they were read lately
    compare_pages(&snapshot, blocks);
    assert_eq!(snapshot.read_several(&wanted, usize::MAX, |stored| stored).unwrap(), together);
}

/// Compares each page of three transactions of the blocks with what is read one by one.
fn compare_pages(snapshot: &Snapshot, blocks: &[&Block]) {
    let mut first = 0;
    for (height, block) in (0_u32..).zip(blocks) {
        let count = u32::try_from(block.txdata.len()).unwrap();
        for index in 0..count {
            let at = Occurrence { height: height.into(), index };
            let page = snapshot.newest_of_block(TxNum(first + index), at, 3.min(count - index)).unwrap();
            assert_eq!(page.len(), 3.min(block.txdata.len() - usize::try_from(index).unwrap()));
            for (stored, own) in page.iter().zip(first + index..) {
                let txid = snapshot.txid(TxNum(own)).unwrap().unwrap();
                let newest = *snapshot.positions(&txid).unwrap().last().unwrap();
                assert_eq!(Some(stored), snapshot.transaction(newest).unwrap().as_ref(), "{txid} of {own}");
                assert_eq!(stored.at, snapshot.occurrence(newest).unwrap());
            }
        }
        first += count;
    }
}

/// Compares the newest copies of these transactions with their positions. Returns them.
fn newest_copies(snapshot: &Snapshot, txids: &[Txid]) -> Vec<Option<TxNum>> {
    let newest = |txid: &Txid| {
        let newest = snapshot.newest(txid).unwrap().map(|stored| stored.txnum);
        assert_eq!(newest, snapshot.positions(txid).unwrap().last().copied(), "{txid}");
        newest
    };
    txids.iter().map(newest).collect()
}

#[test]
fn what_was_read_lately_is_that_of_the_chain_as_it_is() {
    const STEP: u32 = 12;
    let blocks = repeated_coinbases(66, 20);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let mut indexed = frozen(&blocks, &[STEP]);
    let txids: Vec<_> = blocks.iter().flat_map(|block| &block.txdata).map(bitcoin::Transaction::compute_txid).collect();
    let upto = |height: u32| &blocks[..=usize::try_from(height).unwrap()];
    let mut changed = BTreeSet::new();
    // readers of each chain, which go on with that
    let mut readers: Vec<(Snapshot, Vec<Option<TxNum>>)> = Vec::new();
    let mut read = |indexed: &Indexed, height: u32| {
        let snapshot = indexed.index.snapshot().unwrap();
        compare_pages(&snapshot, upto(height));
        let newest = newest_copies(&snapshot, &txids);
        compare_pages(&snapshot, upto(height));
        if let Some((reader, before)) = readers.last() {
            assert_eq!(&newest_copies(reader, &txids), before);
            let both = txids.iter().zip(before.iter().zip(&newest));
            changed.extend(
                both.filter(|(_, (one, other))| one.is_some() && other.is_some() && one != other)
                    .map(|(txid, _)| *txid),
            );
        }
        readers.push((snapshot, newest));
    };
    let mut height = STEP;
    // blocks are connected, and frozen a step later
    while height < tip {
        let next = tip.min(height + STEP);
        indexed.connect(
            blocks[usize::try_from(height + 1).unwrap()..]
                .iter()
                .copied()
                .take(usize::try_from(next - height).unwrap()),
            10,
        );
        read(&indexed, next);
        IndexForm::Cut.freeze_to(&mut indexed.index, height);
        read(&indexed, next);
        height = next;
    }
    let frozen = indexed.index.snapshot().unwrap().frozen().unwrap();
    assert!(frozen.height.to_u32() + 2 * STEP > tip, "{frozen:?}");
    while height > STEP {
        height -= STEP;
        indexed.disconnect_to(height + 1);
        read(&indexed, height);
    }
    assert!(changed.len() > 3, "{}", changed.len());
}

#[test]
fn no_more_bytes_are_read_than_an_answer_may_have() {
    let blocks = repeated_coinbases(62, 40);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let frozen = slow(&blocks, u32::try_from(blocks.len()).unwrap() - 1).0;
    for indexed in [frozen, Indexed::of(blocks.iter().copied(), 50)] {
        let snapshot = indexed.index.snapshot().unwrap();
        let wanted: Vec<_> = (0..100).map(TxNum).map(WantedTransaction::At).collect();
        let read = |bytes: usize| {
            let found = snapshot.read_several(&wanted, bytes, |stored| stored).unwrap();
            found.into_iter().flatten().map(|stored| stored.parts.raw().len()).collect::<Vec<_>>()
        };
        let all = read(usize::MAX);
        let sum: usize = all.iter().sum();
        let half = read(sum / 2);
        let largest = all.iter().max().unwrap();
        // the one that exceeds them is read, and none after it
        assert!(!half.is_empty() && half.iter().sum::<usize>() <= sum / 2 + largest, "{} of {}", half.len(), all.len());
        assert!(half.len() < all.len());
    }
}

/// A node that has no blocks, and counts what it is asked for.
#[derive(Default)]
struct EmptyNode(AtomicUsize);

impl RawBlocks for EmptyNode {
    fn read(&self, _: Tip, _: u32, _: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err("it has no blocks".into())
    }
}

#[test]
fn a_node_that_fails_is_not_asked_for_all() {
    let blocks = repeated_coinbases(65, 40);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let directory = frozen(&blocks, &[60]).directory;
    let index = Index::open(&options(directory.path())).unwrap();
    let node = Arc::new(EmptyNode::default());
    index.set_raw_blocks(node.clone());
    let wanted: Vec<_> = (0..60).map(TxNum).map(WantedTransaction::At).collect();
    let found = index.snapshot().unwrap().read_several(&wanted, usize::MAX, |stored| stored).unwrap();
    assert!(found.iter().all(Option::is_none));
    // each thread may have begun one when the first failed
    let asked = node.0.load(Ordering::Relaxed);
    assert!((1..=20).contains(&asked), "{asked}");
}

/// `transaction_bytes` bounds the bytes of the answer, if not the default does.
async fn execute(indexed: &Indexed, query: &str, transaction_bytes: Option<usize>) -> Response {
    let default = Limits::default();
    let limits = Limits { transaction_bytes: transaction_bytes.unwrap_or(default.transaction_bytes), ..default };
    let head = Head::after(None, Arc::new(indexed.index.snapshot().unwrap()), MempoolSnapshot::default());
    let published = Published::default();
    published.publish(Arc::new(head.unwrap()));
    api::schema(published, Live::default(), limits, Features::default()).execute(query.into()).await
}

#[tokio::test]
async fn nothing_is_read_after_an_answer_has_exceeded_its_bytes() {
    let blocks = repeated_coinbases(64, 40);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let (indexed, reads) = slow(&blocks, tip);
    let query =
        "{ transactions(first: 100, order: DESC) { nodes { txid inputs(first: 2) { nodes { prevout { value } } } } } }";
    let answer = execute(&indexed, query, Some(25_000)).await;
    let refused = |code: &str| format!("{:?}", answer.errors).contains(code);
    assert!(refused("QUERY_LIMIT_EXCEEDED"), "{:?}", answer.errors);
    let all = reads.lock().unwrap().len();
    reads.lock().unwrap().clear();
    let (indexed, reads) = slow(&blocks, tip);
    let answer = execute(&indexed, query, None).await;
    assert!(answer.errors.is_empty(), "{:?}", answer.errors);
    let unlimited = reads.lock().unwrap().len();
    // those within the limit, and one that each of the threads has begun by then
    assert!(all + 20 < unlimited, "{all} of {unlimited}");
}

#[tokio::test]
async fn fields_of_one_answer_read_transactions_together() {
    let blocks = repeated_coinbases(63, 40);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let busiest = (0..).zip(&blocks).max_by_key(|(_, block)| block.txdata.len()).unwrap().0;
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let live = Indexed::of(blocks.iter().copied(), 50);
    let (indexed, reads) = slow(&blocks, tip);
    let query = format!(
        "{{ block(height: {busiest}) {{ transactions(first: 40) {{ nodes {{ txid inputs(first: 10) {{ nodes {{
            prevout {{ outpoint {{ text }} value address transaction {{ txid inputs(first: 3) {{ nodes {{ prevout {{ value }} }} }} }} }}
        }} }} }} }} }} }}"
    );
    let answer = async |indexed: &Indexed| {
        let answer = execute(indexed, &query, None).await;
        assert!(answer.errors.is_empty(), "{:?}", answer.errors);
        answer.data.into_json().unwrap()
    };
    let expected = answer(&live).await;
    let transactions = expected["block"]["transactions"]["nodes"].as_array().unwrap();
    let prevouts: BTreeSet<_> = transactions
        .iter()
        .flat_map(|transaction| transaction["inputs"]["nodes"].as_array().unwrap())
        .filter_map(|input| input["prevout"]["outpoint"]["text"].as_str())
        .collect();
    assert!(prevouts.len() > 10, "{}", prevouts.len());
    assert_eq!(answer(&indexed).await, expected);
    assert!(threads(&reads) > 1);
}
