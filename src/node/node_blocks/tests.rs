//! Parts of blocks from nodes that serve them, and from nodes that do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::*;
use crate::node::block_files::BlockPositions;
use crate::node::error::NodeError;
use crate::node::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
use crate::node::node::Node;

const BLOCK: [u8; 200] = [9; 200];

/// How a fake node answers a request for a part.
type PartAnswer = fn(offset: usize, size: usize) -> FakeResponse;

/// A node that has one block, a counter of requests for parts, and one of requests for the whole block.
fn node_with(part: PartAnswer) -> (FakeNode, Node, Arc<[AtomicUsize; 2]>) {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let counted = Arc::clone(&counts);
    let fake = FakeNode::start(move |asked| match asked {
        FakeRequest::Rest(path) if path.starts_with("blockpart/") => {
            counted[0].fetch_add(1, Ordering::Relaxed);
            let query = path.strip_prefix(&format!("blockpart/{}.bin?offset=", hash())).unwrap();
            let (offset, size) = query.split_once("&size=").unwrap();
            part(offset.parse().unwrap(), size.parse().unwrap())
        }
        FakeRequest::Rest(path) if *path == format!("block/{}.bin", hash()) => {
            counted[1].fetch_add(1, Ordering::Relaxed);
            FakeResponse::Bytes(BLOCK.to_vec())
        }
        _ => regtest(asked),
    });
    let node = Node::connect(fake.options()).unwrap();
    (fake, node, counts)
}

fn hash() -> BlockHash {
    BlockHash::hash(&BLOCK[..80])
}

fn read(blocks: &NodeBlocks, offset: u32, length: u32) -> Result<Vec<u8>, NodeError> {
    blocks.read(1.into(), &hash(), offset, length)
}

#[test]
fn a_node_that_serves_parts_is_asked_for_no_whole_block() {
    let served = |offset: usize, size: usize| {
        FakeResponse::Bytes((offset..offset + size).map(|at| u8::try_from(at).unwrap()).collect())
    };
    let (_fake, node, counts) = node_with(served);
    let blocks = NodeBlocks::new(&node, None, BlockPositions::default(), 1 << 20);
    assert_eq!(read(&blocks, 100, 3).unwrap(), [100, 101, 102]);
    assert_eq!(read(&blocks, 0, 1).unwrap(), [0]);
    assert_eq!(counts.each_ref().map(|count| count.load(Ordering::Relaxed)), [2, 0]);
}

#[test]
fn a_node_without_parts_is_asked_for_one_only_once() {
    let (_fake, node, counts) = node_with(|_, _| FakeResponse::Status(404, ""));
    let blocks = NodeBlocks::new(&node, None, BlockPositions::default(), 0);
    (0..3).for_each(|_| assert_eq!(read(&blocks, 100, 3).unwrap(), [9; 3]));
    assert_eq!(counts.each_ref().map(|count| count.load(Ordering::Relaxed)), [1, 3]);
    assert!(node.supports_rest());
}

#[test]
fn a_part_of_another_length_is_an_error() {
    let (_fake, node, _) = node_with(|_, _| FakeResponse::Bytes(vec![9; 2]));
    let blocks = NodeBlocks::new(&node, None, BlockPositions::default(), 0);
    let error = read(&blocks, 100, 3).unwrap_err().to_string();
    assert!(error.contains("2 bytes are not the 3"), "{error}");
}
