//! What does not end the loop.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bitcoin::Network;
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;

use super::super::mempool::tests::empty;
use super::super::wake::Wake;
use super::*;
use crate::chain::Height;
use crate::live::Live;
use crate::node::Node;
use crate::node::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
use crate::view::Published;

#[test]
fn a_block_that_the_server_fails_to_answer_does_not_end_the_loop() {
    let requests = AtomicUsize::new(0);
    let fake = FakeNode::start(move |asked| match asked {
        FakeRequest::Rest(path) if path.starts_with("block/") => match requests.fetch_add(1, Ordering::Relaxed) {
            0 => FakeResponse::Status(502, "Bad Gateway"),
            _ => FakeResponse::Bytes(serialize(&genesis_block(Network::Regtest))),
        },
        _ => regtest(asked),
    });
    // a request is not repeated, so that the loop itself meets the failure
    let node = Node::connect(fake.impatient_options()).unwrap();
    let (_directory, mut index) = empty();
    let (published, live, wake) = (Published::default(), Live::default(), Wake::default());
    let ended = thread::scope(|scope| {
        let following = scope.spawn(|| {
            run(Follow {
                node: &node,
                index: &mut index,
                published: &published,
                live: &live,
                mempool: None,
                withheld: None,
                signals: None,
                until: Until::Stopped,
                poll: Duration::from_secs(1),
                wake: &wake,
                connections: NonZeroUsize::MIN,
                buffer_bytes: 1 << 20,
                freezing: None,
            })
        });
        while published.head().is_none() && !following.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        node.stop().raise();
        following.join().unwrap()
    });
    ended.unwrap();
    assert_eq!(published.head().map(|head| head.tip.height), Some(Height::GENESIS));
}
