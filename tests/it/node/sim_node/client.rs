//! The results of [`btcgraph::node`] are equal over both nodes.

use std::num::NonZeroUsize;
use std::time::Duration;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use btcgraph::chain::Height;
use btcgraph::node::{Answer, BlockFetcher, ChainTip, Node, NodeError, Question, TxOutSetHash};

use super::pair::Pair;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Compares all requests about blocks, tips and unspent outputs, for every block of the active chain and a stale one.
#[test]
fn the_client_gets_equal_answers_from_both() {
    let Some(pair) = Pair::start() else { return };
    let (sim, real) = pair.clients();
    let lacks_spent_outputs = pair.real_lacks_spent_outputs();
    assert_eq!((sim.supports_rest(), sim.supports_spent_outputs()), (true, true));
    assert_eq!((real.supports_rest(), real.supports_spent_outputs()), (true, !lacks_spent_outputs));
    assert_eq!(sim.chain_info().unwrap(), real.chain_info().unwrap());
    for hash in [TxOutSetHash::HashSerialized3, TxOutSetHash::Muhash, TxOutSetHash::None] {
        assert_eq!(sim.txout_set_info(hash).unwrap(), real.txout_set_info(hash).unwrap());
    }
    let tips = |node: &Node| node.chain_tips().unwrap();
    assert_eq!(sorted(tips(&sim)), sorted(tips(&real)));

    let genesis = sim.block_hash(Height::GENESIS).unwrap().unwrap();
    let headers = sim.headers(&genesis, 2_000).unwrap();
    assert_eq!(headers, real.headers(&genesis, 2_000).unwrap());
    assert_eq!(headers.len(), 163);
    let hashes: Vec<BlockHash> = headers.iter().map(|(hash, _)| *hash).chain([pair.stale]).collect();
    for hash in &hashes {
        assert_eq!(sim.header(hash).unwrap(), real.header(hash).unwrap());
        assert!(sim.block(hash).unwrap() == real.block(hash).unwrap(), "{hash}");
        if !lacks_spent_outputs {
            assert_eq!(sim.spent_outputs(hash).unwrap(), real.spent_outputs(hash).unwrap());
        }
        let verbose = sim.block_verbose(hash).unwrap();
        assert_eq!(verbose, real.block_verbose(hash).unwrap());
        let ids = verbose.transactions.iter().map(|tx| &tx.txid);
        // a node does not return the coinbase of genesis
        for txid in ids.filter(|_| *hash != genesis).take(3) {
            let found = sim.raw_transaction(txid, Some(hash)).unwrap();
            assert!(found.is_some() && found == real.raw_transaction(txid, Some(hash)).unwrap());
            assert_eq!(
                (sim.raw_transaction(txid, None).unwrap(), real.raw_transaction(txid, None).unwrap()),
                (None, None)
            );
        }
    }
    let fetch = |node: &Node| {
        let blocks = BlockFetcher::new(node, hashes.clone(), NonZeroUsize::new(4).unwrap(), 16 << 20).unwrap();
        blocks.collect::<Result<Vec<_>, _>>().unwrap()
    };
    assert!(fetch(&sim) == fetch(&real));
}

#[test]
fn the_client_gets_none_for_unknown_hashes_from_both() {
    let Some(pair) = Pair::start() else { return };
    let unknown = BlockHash::all_zeros();
    for node in <[Node; 2]>::from(pair.clients()) {
        assert_eq!(node.block_hash(Height::from(163)).unwrap(), None);
        assert_eq!(node.header(&unknown).unwrap(), None);
        assert_eq!(node.headers(&unknown, 5).unwrap(), []);
        assert_eq!(node.headers(&pair.stale, 5).unwrap(), []);
        assert_eq!(node.spent_outputs(&unknown).unwrap(), None);
        assert_eq!(node.raw_transaction(&Txid::all_zeros(), Some(&unknown)).unwrap(), None);
        assert!(matches!(node.block(&unknown), Err(NodeError::BlockNotFound { hash }) if hash == unknown));
        assert!(matches!(node.block_verbose(&unknown), Err(NodeError::BlockNotFound { hash }) if hash == unknown));
    }
}

#[test]
fn the_client_gets_equal_answers_to_a_batch() {
    let Some(pair) = Pair::start() else { return };
    let (sim, real) = pair.clients();
    let ask = |node: &Node| {
        let questions = [Question::ChainTips, Question::ChainInfo, Question::NetworkInfo];
        let answers = node.ask_once(&questions, TIMEOUT).unwrap().into_iter().map(Result::unwrap).collect::<Vec<_>>();
        let [Answer::ChainTips(tips), Answer::ChainInfo(chain), Answer::NetworkInfo(network)] = &answers[..] else {
            panic!("{answers:?}")
        };
        (sorted(tips.to_vec()), chain.clone(), network.connections, network.warnings.clone())
    };
    assert_eq!(ask(&sim), ask(&real));
}

fn sorted(mut tips: Vec<ChainTip>) -> Vec<ChainTip> {
    tips.sort_by_key(|tip| (tip.height, tip.hash));
    tips
}
