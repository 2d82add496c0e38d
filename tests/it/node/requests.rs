//! `btcgraph::node` against a real node: its answers equal those of the node's own interface, by REST and by RPC, and
//! each kind of failure has its own error.

use std::num::NonZeroUsize;
use std::time::Duration;

use bitcoin::hashes::Hash;
use bitcoin::{Amount, Block, BlockHash, Network, TxOut, Txid, consensus, constants};
use btcgraph::chain::Height;
use btcgraph::node::{Auth, BlockFetcher, ChainTipStatus, Node, NodeError, NodeOptions, RetryPolicy, TxOutSetHash};
use serde_json::json;

use crate::support::bitcoind::{RealNode, rpcauth, wait_for};

fn settings(real: &RealNode) -> NodeOptions {
    let retry = RetryPolicy { patience: Duration::from_secs(20), ..RetryPolicy::default() };
    let auth = Auth::Cookie(real.cookie_path());
    NodeOptions { retry, connect_retry: retry, ..NodeOptions::new(Network::Regtest, real.rpc_url(), auth) }
}

fn impatient(settings: NodeOptions) -> NodeOptions {
    let retry = RetryPolicy { patience: Duration::ZERO, ..RetryPolicy::default() };
    NodeOptions { retry, connect_retry: retry, ..settings }
}

fn connect(real: &RealNode) -> Node {
    Node::connect(settings(real)).unwrap()
}

fn genesis() -> BlockHash {
    constants::genesis_block(Network::Regtest).block_hash()
}

/// Mines spendable coins and spends them, chained within one block, so that blocks have spent outputs of several kinds.
fn mine_spends(real: &RealNode) -> Vec<BlockHash> {
    let mut blocks = real.mine_to(&real.wallet_address("bech32"), 2);
    blocks.extend(real.mine(100));
    for kind in ["legacy", "p2sh-segwit", "bech32", "bech32m"] {
        real.must("sendtoaddress", &[json!(real.wallet_address(kind)), json!(1.5)]);
    }
    blocks.extend(real.mine(1));
    real.must("sendtoaddress", &[json!(real.wallet_address("bech32m")), json!(50)]);
    blocks.extend(real.mine(1));
    blocks
}

#[test]
fn connecting_reads_chain_software_and_features() {
    let Some(real) = RealNode::start(&["-disablewallet"]) else { return };
    let tip = *real.mine(3).last().unwrap();
    let node = connect(&real);
    assert!(node.supports_rest());

    let chain = node.chain_info().unwrap();
    assert_eq!((chain.chain.as_str(), chain.blocks, chain.headers), ("regtest", Height::from(3), Height::from(3)));
    assert_eq!((chain.best_block_hash, chain.pruned, chain.prune_height), (tip, false, None));
    assert!(chain.size_on_disk > 0);

    let network = node.network_info().unwrap();
    let expected = real.must("getnetworkinfo", &[]);
    assert_eq!(json!(network.version), expected["version"]);
    assert_eq!(json!(network.subversion), expected["subversion"]);
    assert_eq!(network.connections, 0);
}

#[test]
fn mainnet_and_signet_nodes_are_identified_by_genesis_block() {
    for (chain, network) in [("main", Network::Bitcoin), ("signet", Network::Signet)] {
        let Some(real) = RealNode::with_chain(chain, &[]) else { return };
        let node = Node::connect(NodeOptions { network, ..settings(&real) }).unwrap();
        let hash = node.block_hash(Height::GENESIS).unwrap().unwrap();
        let block: Block = consensus::deserialize(&node.block(&hash).unwrap()).unwrap();
        assert_eq!(block, constants::genesis_block(network));
    }
}

#[test]
fn a_node_of_another_network_is_refused_and_named() {
    let Some(real) = RealNode::start(&[]) else { return };
    let error = Node::connect(NodeOptions { network: Network::Signet, ..settings(&real) }).unwrap_err();
    assert!(matches!(&error, NodeError::WrongNetwork { expected: Network::Signet, .. }));
    assert!(error.to_string().contains("regtest"), "{error}");
}

#[test]
fn a_wrong_login_is_refused_without_retry_or_disclosure() {
    let Some(real) = RealNode::start(&[]) else { return };
    let password = Auth::UserPassword { user: "alice".into(), password: "hunter2".into() };
    let error = Node::connect(NodeOptions { auth: password, ..settings(&real) }).unwrap_err();
    assert!(matches!(&error, NodeError::Unauthorized { login, .. } if login.contains("alice")));
    assert!(!format!("{error} {error:?}").contains("hunter2"));

    let folder = tempfile::tempdir().unwrap();
    let cookie = folder.path().join(".cookie");
    std::fs::write(&cookie, "__cookie__:0000").unwrap();
    let error = Node::connect(NodeOptions { auth: Auth::Cookie(cookie), ..settings(&real) }).unwrap_err();
    assert!(matches!(&error, NodeError::Unauthorized { login, .. } if login.contains(".cookie")));
}

#[test]
fn a_user_and_password_of_the_node_are_accepted() {
    let Some(real) = RealNode::start(&[&rpcauth("alice", "hunter2")]) else { return };
    let auth = Auth::UserPassword { user: "alice".into(), password: "hunter2".into() };
    Node::connect(NodeOptions { auth, ..settings(&real) }).unwrap();
}

#[test]
fn a_stopped_node_is_unreachable_and_has_no_cookie() {
    let Some(mut real) = RealNode::start(&[]) else { return };
    let node = Node::connect(impatient(settings(&real))).unwrap();
    let password = Auth::UserPassword { user: "alice".into(), password: "hunter2".into() };
    let by_password = NodeOptions { auth: password, ..impatient(settings(&real)) };
    let by_cookie = impatient(settings(&real));
    real.stop();

    let error = node.chain_info().unwrap_err();
    assert!(matches!(error, NodeError::Unreachable { .. }) && error.is_transient());
    assert!(error.to_string().contains(&real.rpc_url()), "{error}");
    assert!(matches!(Node::connect(by_password), Err(NodeError::Unreachable { .. })));
    assert!(matches!(Node::connect(by_cookie), Err(NodeError::NoCookie { .. })));
}

#[test]
fn a_restarted_node_is_called_with_its_new_cookie() {
    let Some(mut real) = RealNode::start(&[]) else { return };
    let node = connect(&real);
    let old_cookie = std::fs::read_to_string(real.cookie_path()).unwrap();
    real.restart();
    assert_ne!(std::fs::read_to_string(real.cookie_path()).unwrap(), old_cookie);
    assert_eq!(node.chain_info().unwrap().blocks, Height::GENESIS);
    assert_eq!(node.block(&genesis()).unwrap().len(), 285);
}

#[test]
fn a_request_during_a_restart_is_answered_after_it() {
    let Some(mut real) = RealNode::start(&[]) else { return };
    let tip = *real.mine(2).last().unwrap();
    let node = connect(&real);
    real.stop();
    let (about_to_ask, asking) = std::sync::mpsc::channel();
    let asker = std::thread::spawn(move || {
        about_to_ask.send(()).unwrap();
        node.chain_info()
    });
    asking.recv().unwrap();
    real.start_again();
    assert_eq!(asker.join().unwrap().unwrap().best_block_hash, tip);
}

#[test]
fn rest_and_rpc_give_the_same_blocks_headers_and_errors() {
    let Some(mut real) = RealNode::start(&[]) else { return };
    let blocks = mine_spends(&real);
    let hashes: Vec<_> = std::iter::once(genesis()).chain(blocks).collect();

    let blocks_and_headers = |node: &Node| {
        let whole: Vec<_> = hashes.iter().map(|hash| node.block(hash).unwrap()).collect();
        let headers = node.headers(&genesis(), 2000).unwrap();
        let some = node.headers(&hashes[40], 7).unwrap();
        let unknown = BlockHash::all_zeros();
        assert!(matches!(node.block(&unknown), Err(NodeError::BlockNotFound { hash }) if hash == unknown));
        assert_eq!(node.headers(&unknown, 10).unwrap(), []);
        assert_eq!(node.headers(&genesis(), 0).unwrap(), []);
        (whole, headers, some)
    };
    let with_rest = connect(&real);
    assert!(with_rest.supports_rest());
    let by_rest = blocks_and_headers(&with_rest);
    real.restart_with(&["-rest=0"]);
    let without_rest = connect(&real);
    assert!(!without_rest.supports_rest());
    assert_eq!(blocks_and_headers(&without_rest), by_rest);
    assert_eq!(without_rest.spent_outputs(&hashes[1]).unwrap(), None);

    let (whole, headers, some) = by_rest;
    assert_eq!(headers.iter().map(|(hash, _)| *hash).collect::<Vec<_>>(), hashes);
    assert_eq!(some, headers[40..47]);
    for ((bytes, (_, header)), hash) in whole.iter().zip(&headers).zip(&hashes) {
        let block: Block = consensus::deserialize(bytes).unwrap();
        assert_eq!((block.block_hash(), &block.header), (*hash, header));
    }

    // the client that connected while REST was on continues as well
    assert_eq!(blocks_and_headers(&with_rest).1, headers);
    assert!(!with_rest.supports_rest() && !with_rest.supports_spent_outputs());
}

#[test]
fn headers_and_tips_distinguish_the_active_chain_from_a_branch() {
    let Some(real) = RealNode::start(&[]) else { return };
    let stale = real.mine(3);
    let node = connect(&real);
    real.must("invalidateblock", &[json!(stale[1])]);
    let active = real.mine(4);
    real.must("reconsiderblock", &[json!(stale[1])]);
    wait_for("the longer branch to be active", Duration::from_secs(20), || {
        (node.chain_info().unwrap().best_block_hash == active[3]).then_some(())
    });

    let tip = node.header(&active[3]).unwrap().unwrap();
    assert_eq!((tip.hash, tip.height, tip.previous), (active[3], Height::from(5), Some(active[2])));
    assert_eq!((tip.confirmations, tip.is_active()), (1, true));
    assert!(tip.time >= tip.median_time && tip.median_time > 0);
    let branch = node.header(&stale[2]).unwrap().unwrap();
    assert_eq!((branch.height, branch.confirmations, branch.is_active()), (Height::from(3), -1, false));
    assert!(tip.chain_work > branch.chain_work);
    assert_eq!(node.header(&genesis()).unwrap().unwrap().previous, None);
    assert_eq!(node.header(&BlockHash::all_zeros()).unwrap(), None);

    assert_eq!(node.headers(&stale[1], 10).unwrap(), []);
    assert_eq!(node.block_hash(Height::from(2)).unwrap(), Some(active[0]));
    assert_eq!(node.block_hash(Height::from(6)).unwrap(), None);
    assert!(!node.block(&stale[2]).unwrap().is_empty());

    let mut tips = node.chain_tips().unwrap();
    tips.sort_by_key(|tip| tip.height);
    let seen: Vec<_> = tips.iter().map(|tip| (tip.height.to_u32(), tip.hash, tip.branch_length, tip.status)).collect();
    let expected = [(3, stale[2], 2, ChainTipStatus::ValidFork), (5, active[3], 0, ChainTipStatus::Active)];
    assert_eq!(seen, expected);
}

#[test]
fn spent_outputs_are_the_prevouts_and_fees_of_the_verbose_block() {
    let Some(real) = RealNode::start(&[]) else { return };
    let hashes = mine_spends(&real);
    let node = connect(&real);
    let has_spent_outputs = node.supports_spent_outputs();
    let mut inputs = 0;
    for hash in std::iter::once(genesis()).chain(hashes) {
        let block: Block = consensus::deserialize(&node.block(&hash).unwrap()).unwrap();
        let verbose = node.block_verbose(&hash).unwrap();
        assert_eq!(verbose.hash, hash);
        assert_eq!(verbose.transactions.len(), block.txdata.len());
        let spent: Vec<Vec<TxOut>> = verbose
            .transactions
            .iter()
            .map(|tx| tx.inputs.iter().filter_map(|input| Some(input.spent.as_ref()?.output.clone())).collect())
            .collect();
        for ((tx, verbose), spent) in block.txdata.iter().zip(&verbose.transactions).zip(&spent) {
            assert_eq!((tx.compute_txid(), &tx.output), (verbose.txid, &verbose.outputs));
            if tx.is_coinbase() {
                assert_eq!((verbose.inputs[0].outpoint, verbose.fee), (None, None));
                continue;
            }
            let outpoints: Vec<_> = verbose.inputs.iter().filter_map(|input| input.outpoint).collect();
            assert_eq!(outpoints, tx.input.iter().map(|input| input.previous_output).collect::<Vec<_>>());
            let value_in: Amount = spent.iter().map(|output| output.value).sum();
            let value_out: Amount = tx.output.iter().map(|output| output.value).sum();
            assert_eq!(verbose.fee, value_in.checked_sub(value_out));
            inputs += spent.len();
        }
        if has_spent_outputs {
            assert_eq!(node.spent_outputs(&hash).unwrap(), Some(spent));
        }
    }
    assert!(inputs >= 6, "the chain spends too little to prove anything: {inputs} inputs");
    if has_spent_outputs {
        assert_eq!(node.spent_outputs(&BlockHash::all_zeros()).unwrap(), None);
    }
}

#[test]
fn raw_transactions_are_found_by_block_index_and_mempool() {
    let Some(mut real) = RealNode::start(&["-txindex=0"]) else { return };
    let address = real.wallet_address("bech32");
    let coinbase_block = real.mine_to(&address, 1)[0];
    real.mine(100);
    let sent = real.must("sendtoaddress", &[json!(address), json!(1)]);
    let sent: Txid = sent.as_str().unwrap().parse().unwrap();
    let node = connect(&real);
    let block: Block = consensus::deserialize(&node.block(&coinbase_block).unwrap()).unwrap();
    let coinbase = &block.txdata[0];
    let txid = coinbase.compute_txid();
    let expected = Some(consensus::serialize(coinbase));

    let unconfirmed = node.raw_transaction(&sent, None).unwrap().unwrap();
    assert_eq!(consensus::deserialize::<bitcoin::Transaction>(&unconfirmed).unwrap().compute_txid(), sent);
    assert_eq!(node.raw_transaction(&txid, None).unwrap(), None);
    assert_eq!(node.raw_transaction(&txid, Some(&coinbase_block)).unwrap(), expected);
    assert_eq!(node.raw_transaction(&txid, Some(&genesis())).unwrap(), None);

    real.restart_with(&["-txindex=1"]);
    wait_for("the transaction index", Duration::from_mins(1), || {
        real.must("getindexinfo", &[])["txindex"]["synced"].as_bool().filter(|&synced| synced)
    });
    assert_eq!(node.raw_transaction(&txid, None).unwrap(), expected);
}

#[test]
fn utxo_set_statistics_are_exact() {
    let Some(real) = RealNode::start(&[]) else { return };
    let tip = *mine_spends(&real).last().unwrap();
    let node = connect(&real);
    let info = node.txout_set_info(TxOutSetHash::HashSerialized3).unwrap();
    let expected = real.must("gettxoutsetinfo", &[json!("hash_serialized_3")]);
    assert_eq!((info.height, info.best_block), (Height::from(104), tip));
    assert_eq!(json!(info.outputs), expected["txouts"]);
    assert_eq!(info.bogosize, expected["bogosize"].as_u64());
    // 104 blocks of 50 BTC; coinbases collect the fees
    assert_eq!(info.total_amount, Amount::from_sat(104 * 5_000_000_000));
    assert_eq!(json!(info.hash_serialized_3.unwrap().to_string()), expected["hash_serialized_3"]);
    assert_eq!(info.muhash, None);

    let muhash = node.txout_set_info(TxOutSetHash::Muhash).unwrap();
    assert_eq!(json!(muhash.muhash), real.must("gettxoutsetinfo", &[json!("muhash")])["muhash"]);
    let plain = node.txout_set_info(TxOutSetHash::None).unwrap();
    assert_eq!((plain.outputs, plain.hash_serialized_3, plain.muhash), (info.outputs, None, None));
}

#[test]
fn a_pruned_block_is_an_error_with_the_lowest_kept_height() {
    for rest in ["-rest=1", "-rest=0"] {
        let Some(real) = RealNode::start(&["-txindex=0", "-prune=1", "-fastprune=1", rest]) else { return };
        let hashes = real.mine(1000);
        real.must("pruneblockchain", &[json!(600)]);
        let node = connect(&real);
        let chain = node.chain_info().unwrap();
        let kept_from = chain.prune_height.unwrap();
        assert!(chain.pruned && kept_from > Height::GENESIS);

        for error in [node.block(&hashes[0]).unwrap_err(), node.block_verbose(&hashes[0]).unwrap_err()] {
            let is_pruned = matches!(&error, NodeError::Pruned { hash, kept_from: Some(height) }
                if *hash == hashes[0] && *height == kept_from);
            assert!(is_pruned && !error.is_transient(), "{error}");
        }
        assert!(!node.block(hashes.last().unwrap()).unwrap().is_empty());
        assert_eq!(node.spent_outputs(&hashes[0]).unwrap(), None);
        assert!(node.header(&hashes[0]).unwrap().is_some());
        assert_eq!(node.supports_rest(), rest == "-rest=1", "a pruned block does not mean that REST is off");
    }
}

#[test]
fn a_fetcher_returns_the_whole_chain_in_order() {
    let Some(real) = RealNode::start(&[]) else { return };
    let hashes = real.mine(300);
    let node = connect(&real);
    let fetcher = BlockFetcher::new(&node, hashes.clone(), NonZeroUsize::new(4).unwrap(), 64_000_000).unwrap();
    let blocks: Vec<_> = fetcher.map(Result::unwrap).collect();
    assert_eq!(blocks.iter().map(|block| block.hash).collect::<Vec<_>>(), hashes);
    for block in &blocks {
        assert_eq!(consensus::deserialize::<Block>(&block.bytes).unwrap().block_hash(), block.hash);
    }
}
