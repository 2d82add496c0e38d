//! How tests have an index follow a node on their own thread.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use btcgraph::index::Index;
use btcgraph::live::Live;
use btcgraph::node::Node;
use btcgraph::sync::{Follow, FreezeBounds, Freezing, SyncError, Until, Wake, read_frozen_blocks, run};
use btcgraph::view::Published;

/// Follows the chain up to the node's tip, without a mempool and with all blocks live. A test replaces the fields that are
/// its subject.
pub(crate) fn follow<'a>(
    node: &'a Node,
    index: &'a mut Index,
    published: &'a Published,
    live: &'a Live,
    wake: &'a Wake,
) -> Follow<'a> {
    Follow {
        node,
        index,
        published,
        live,
        mempool: None,
        withheld: None,
        signals: None,
        until: Until::CaughtUp,
        poll: Duration::from_secs(1),
        wake,
        connections: NonZeroUsize::new(3).unwrap(),
        buffer_bytes: 64 << 20,
        freezing: None,
    }
}

/// Advances the index to the node's tip, and publishes it.
pub(crate) fn catch_up(
    node: &Node,
    index: &mut Index,
    published: &Published,
    live: &Live,
    freezing: Option<Freezing>,
) -> Result<(), SyncError> {
    run(Follow { freezing, ..follow(node, index, published, live, &Wake::default()) })
}

/// Freezes all but so many blocks of an index in `directory`, whose bytes the node has from then on.
pub(crate) fn freezing(index: &Index, node: &Node, directory: &Path, bounds: FreezeBounds) -> Freezing {
    Freezing {
        bounds,
        raw_transactions: None,
        blocks: read_frozen_blocks(index, node, None).unwrap(),
        blocks_dir: None,
        temporary_dir: directory.join("temporary"),
        memory: 16 << 20,
        threads: NonZeroUsize::new(2).unwrap(),
    }
}
