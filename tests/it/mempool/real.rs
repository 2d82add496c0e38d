//! The mempool of a real node.

use bitcoin::Txid;
use btcgraph::node::Auth;
use serde_json::{Value, json};

use super::check::is_in;
use super::following::{Following, How};
use crate::support::bitcoind::RealNode;

#[test]
fn the_mempool_of_a_real_node_is_followed_through_any_change() {
    for listening in [true, false] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let publish = format!("-zmqpubsequence=tcp://127.0.0.1:{port}");
        let arguments: &[&str] = if listening { &["-persistmempool=0", &publish] } else { &["-persistmempool=0"] };
        let Some(mut node) = RealNode::start(arguments) else { return };
        let own = node.wallet_address("bech32");
        node.mine_to(&own, 110);
        let following =
            Following::start(node.rpc_url(), Auth::Cookie(node.cookie_path()), How { listening, ..How::default() });
        following.assert_catches_up(&node);
        let pay = |node: &RealNode, amount: f64| -> Txid {
            let (to, nothing) = (node.wallet_address("bech32m"), Value::Null);
            // at 5 sat/vB, replaceable
            let more = [json!(to), json!(amount), json!(""), json!(""), json!(false), json!(true), nothing.clone()];
            let sent = node.must("sendtoaddress", &[&more[..], &[json!("unset"), nothing, json!(5)]].concat());
            serde_json::from_value(sent).unwrap()
        };
        let sent: Vec<_> = (1..=6).map(|number| pay(&node, f64::from(number))).collect();
        let head = following.assert_catches_up(&node);
        assert!(sent.iter().all(|txid| head.mempool.get(txid).is_some()));

        let bumped = node.must("bumpfee", &[json!(sent[0].to_string()), json!({ "fee_rate": 30 })]);
        let by: Txid = serde_json::from_value(bumped["txid"].clone()).unwrap();
        let head = following.assert_catches_up(&node);
        let replaced: Vec<_> = head.mempool.replaces(&by).map(|departed| departed.txid).collect();
        assert_eq!(replaced, [sent[0]]);

        // the ancestors and descendants, as the node counts them
        for txid in [&by, &sent[1]] {
            let reported = node.must("getmempoolentry", &[json!(txid.to_string())]);
            let (up, down) = (head.mempool.ancestors(txid).sums, head.mempool.descendants(txid).sums);
            assert_eq!(reported["ancestorcount"], json!(up.count + 1));
            assert_eq!(reported["descendantcount"], json!(down.count + 1));
        }

        let mined = node.mine_to(&own, 1);
        let head = following.assert_catches_up(&node);
        assert!(head.mempool.is_empty() && is_in(&head.chain, &by));

        // the block is disconnected: its transactions are unconfirmed again
        node.must("invalidateblock", &[json!(mined[0].to_string())]);
        let head = following.assert_catches_up(&node);
        assert!(head.mempool.get(&by).is_some() && head.mempool.get(&sent[5]).is_some());
        assert!(head.mempool.len() >= 6, "{}", head.mempool.len());

        // an empty block replaces it, and then a block confirms all of them
        node.must("generateblock", &[json!(node.wallet_address("bech32")), json!([])]);
        following.assert_catches_up(&node);
        node.mine_to(&own, 1);
        let head = following.assert_catches_up(&node);
        assert!(head.mempool.is_empty() && is_in(&head.chain, &by));

        let lost = pay(&node, 2.5);
        following.assert_catches_up(&node);
        node.restart();
        let head = following.assert_catches_up(&node);
        // the wallet of the node may have sent it again by now
        assert!(head.mempool.get(&lost).is_some() || head.mempool.departed(&lost).is_some());
        following.stop();
    }
}
