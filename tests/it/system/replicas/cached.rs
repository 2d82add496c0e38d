//! The cache of nginx in front of HAProxy.

use serde_json::Value;

use super::proxies::{haproxy, nginx};
use super::{Fleet, PATIENCE, agent};
use crate::support::bitcoind::wait_for;

const IMMUTABLE: &str = "{block(height:1){hash}}";
const OF_TIP: &str = "{tip{height}}";
const OF_MOMENT: &str = "{sync{phase}}";

/// A response through the cache.
#[derive(Debug)]
struct Cached {
    /// What the cache did.
    cache: String,
    control: String,
    tip: Option<String>,
    body: Value,
}

fn get(address: &str, query: &str, headers: &[(&str, &str)]) -> Cached {
    let query = query.replace('{', "%7B").replace('}', "%7D");
    let mut request = agent().get(format!("http://{address}/graphql?query={query}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = request.call().unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(response.status(), 200);
    let (cache, control) = (header("x-cache-status").unwrap_or_default(), header("cache-control").unwrap_or_default());
    assert_eq!(header("x-accel-expires"), None, "it is between the proxies");
    let tip = header("x-btcgraph-tip");
    let body = serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap();
    Cached { cache, control, tip, body }
}

#[test]
fn a_cache_keeps_immutable_answers_and_revalidates_others() {
    let mut fleet = Fleet::start(&["1", "1"]);
    let Some(balancer) = haproxy(&fleet.addresses()) else { return };
    let Some(proxy) = nginx(&balancer.address) else { return };
    let executed = |fleet: &Fleet| fleet.executed().iter().sum::<u64>();

    let first = get(&proxy.address, IMMUTABLE, &[]);
    assert_eq!((first.cache.as_str(), first.tip.as_deref()), ("MISS", None));
    let before = executed(&fleet);
    let again = get(&proxy.address, IMMUTABLE, &[]);
    assert_eq!((again.cache.as_str(), &again.body), ("HIT", &first.body));
    assert_eq!(again.control, "public, max-age=31536000, immutable");

    let moving = get(&proxy.address, OF_TIP, &[]);
    assert_eq!((moving.cache.as_str(), moving.control.as_str()), ("MISS", "public, no-cache"));
    // whichever replica is asked: the ETag names the tip
    for _ in 0..4 {
        let again = get(&proxy.address, OF_TIP, &[]);
        assert_eq!((again.cache.as_str(), &again.body, &again.tip), ("REVALIDATED", &moving.body, &moving.tip));
    }
    assert_eq!(executed(&fleet), before + 1, "revalidating executes nothing");

    for _ in 0..2 {
        assert_eq!(get(&proxy.address, OF_MOMENT, &[]).cache, "MISS", "it is not stored");
    }
    let other = get(&proxy.address, OF_TIP, &[("accept", "application/graphql-response+json")]);
    assert_eq!(other.cache, "MISS", "another media type is another answer");
    let own = get(&proxy.address, OF_TIP, &[("cookie", "a=b")]);
    assert_eq!((own.cache.as_str(), own.control.as_str()), ("BYPASS", "private, no-cache"));

    // a block, which one replica has before the cache is asked
    let mined = u64::from(fleet.mine());
    fleet.replicas[0].wait_for_height(u32::try_from(mined).unwrap());
    let tip = get(&fleet.replicas[0].address, OF_TIP, &[]).tip.unwrap();
    for _ in 0..4 {
        let newer = get(&proxy.address, OF_TIP, &[("x-btcgraph-tip", &tip)]);
        assert_eq!(newer.body["data"]["tip"]["height"], mined, "{newer:?}");
        assert_eq!(newer.tip.as_deref(), Some(tip.as_str()));
    }
    wait_for("the newer answer to be revalidated", PATIENCE, || {
        (get(&proxy.address, OF_TIP, &[]).cache == "REVALIDATED").then_some(())
    });

    fleet.replicas.iter_mut().for_each(|replica| assert!(replica.stop().success()));
    assert_eq!(get(&proxy.address, IMMUTABLE, &[]).cache, "HIT", "also without any replica");
}
