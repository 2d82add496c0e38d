use bitcoin::consensus::serialize;
use bitcoin::{Network, Script, ScriptBuf};
use serde_json::{Value, json};

use super::*;
use crate::chain::address::parse_address;
use crate::chain::raw::RawTransaction;
use crate::chain::test_data::shared_data;

const P2PKH: &str = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa";
const OTHER: &str = "1BoatSLRHtKNngkdXEeobR76b53LETtpyT";

fn entry(name: &str, addresses: &[&str], tags: &[&str]) -> Value {
    json!({ "id": 1, "name": name, "addresses": addresses, "tags": tags, "link": "https://pool.example" })
}

fn with(entries: &[Value]) -> Pools {
    Pools::with_file(Network::Bitcoin, &json!(entries).to_string()).unwrap()
}

/// The slug of the pool, and what it is recognised by.
fn recognised<'p>(pools: &'p Pools, script_sig: &[u8], paid: &[&str]) -> Option<(&'p str, MinerEvidence)> {
    let scripts: Vec<_> = paid.iter().map(|address| parse_address(address, Network::Bitcoin).unwrap()).collect();
    let scripts = scripts.iter().map(ScriptBuf::as_script);
    let (id, evidence) = pools.by_parts(Script::from_bytes(script_sig), scripts)?;
    Some((&pools.get(id).unwrap().slug, evidence))
}

#[test]
fn real_blocks_belong_to_their_pools() {
    let pools = Pools::known(Network::Bitcoin);
    for (name, expected) in [
        ("full_57042", None),
        ("full_91721", None),
        ("full_209999", Some("Braiins Pool")),
        ("full_757738", Some("F2Pool")),
    ] {
        let Some(block) = shared_data::full_block(name, "real_blocks_belong_to_their_pools") else { return };
        let raw = serialize(&block.transactions[0]);
        let found = pools.identify(&RawTransaction::parse_whole(&raw).unwrap());
        let found = found.map(|(id, evidence)| (pools.get(id).unwrap().name.as_str(), evidence));
        assert_eq!(found, expected.map(|name| (name, MinerEvidence::CoinbaseTag)), "{name}");
    }
}

#[test]
fn each_known_pool_has_a_slug_of_its_own_and_valid_addresses() {
    let pools = Pools::known(Network::Bitcoin);
    for ((id, pool), known) in pools.iter().zip(known::KNOWN) {
        assert_eq!(pools.find(&pool.slug), Some(id), "{}", pool.name);
        assert_eq!(pool.payout_scripts.len(), known.addresses.len(), "{}", pool.name);
        assert!(known.tags.iter().all(|tag| tag.len() >= 4), "{}: a shorter tag is met by chance", pool.name);
        for tag in known.tags {
            let script_sig = [b"\x03\xeb\x8f\x0b", tag.as_bytes(), b"\x00\x01"].concat();
            assert_eq!(recognised(&pools, &script_sig, &[]), Some((pool.slug.as_str(), MinerEvidence::CoinbaseTag)));
        }
        for address in known.addresses {
            assert_eq!(recognised(&pools, b"", &[address]), Some((pool.slug.as_str(), MinerEvidence::PayoutScript)));
        }
    }
    let regtest = Pools::known(Network::Regtest);
    assert!(regtest.iter().all(|(_, pool)| pool.payout_scripts.is_empty()));
}

#[test]
fn the_public_file_agrees_with_the_known_pools() {
    let Some(file) = shared_data::json("vectors/pools-v2.json", "the_public_file_agrees_with_the_known_pools") else {
        return;
    };
    let public = Pools::with_file(Network::Bitcoin, &file.to_string()).unwrap();
    let names = file.as_array().unwrap().iter().map(|entry| slug(entry["name"].as_str().unwrap()));
    let names: std::collections::HashSet<_> = names.collect();
    assert_eq!(public.iter().count(), names.len(), "each known pool is in the public file");
    for known in known::KNOWN {
        let slug = slug(known.name);
        for tag in known.tags {
            let tagged = recognised(&public, tag.as_bytes(), &[]);
            assert_eq!(tagged, Some((slug.as_str(), MinerEvidence::CoinbaseTag)), "{tag}");
        }
        for address in known.addresses {
            let paid = recognised(&public, b"", &[address]);
            assert_eq!(paid, Some((slug.as_str(), MinerEvidence::PayoutScript)), "{address}");
        }
    }
}

#[test]
fn the_longest_tag_counts_then_the_first_paid_script() {
    use MinerEvidence::{CoinbaseTag, PayoutScript};
    let pools = with(&[entry("Short", &[P2PKH], &["pool"]), entry("Long", &[OTHER], &["/pool/", "フ"])]);
    for (script_sig, paid, expected) in [
        (&b"\x01\x02"[..], &[][..], None),
        (b"poo", &[], None),
        (b"xpool", &[], Some(("short", CoinbaseTag))),
        (b"/pool/", &[], Some(("long", CoinbaseTag))),
        (b"pool of /pool/", &[], Some(("long", CoinbaseTag))),
        (b"/pool/ of pool", &[], Some(("long", CoinbaseTag))),
        ("\u{30d5}".as_bytes(), &[], Some(("long", CoinbaseTag))),
        (b"POOL", &[], Some(("short", CoinbaseTag))),
        (b"/Pool/", &[], Some(("long", CoinbaseTag))),
        (b"pool", &[OTHER], Some(("short", CoinbaseTag))),
        (b"", &[OTHER, P2PKH], Some(("long", PayoutScript))),
        (b"", &[P2PKH, OTHER], Some(("short", PayoutScript))),
        (b"", &["1CounterpartyXXXXXXXXXXXXXXXUWLpVr", P2PKH], Some(("short", PayoutScript))),
    ] {
        assert_eq!(recognised(&pools, script_sig, paid), expected, "{script_sig:?} {paid:?}");
    }
}

#[test]
fn pools_of_a_file_replace_known_ones_of_their_slug_and_precede_the_others() {
    let pools = with(&[entry("f2 pool", &[], &["fish"]), entry("New", &[], &["mined by bob"])]);
    assert_eq!(pools.iter().count(), known::KNOWN.len() + 1);
    assert_eq!(recognised(&pools, b"fish", &[]), Some(("f2pool", MinerEvidence::CoinbaseTag)));
    assert_eq!(recognised(&pools, b"F2Pool", &[]), None);
    assert_eq!(recognised(&pools, b"/ViaBTC/", &[]), Some(("viabtc", MinerEvidence::CoinbaseTag)));
    // also before a longer tag of a known pool
    let both = b"Foundry USA Pool, Mined by Bob";
    assert_eq!(recognised(&pools, both, &[]), Some(("new", MinerEvidence::CoinbaseTag)));
    assert_eq!(recognised(&pools, b"/slush/", &[]), Some(("braiinspool", MinerEvidence::CoinbaseTag)));
    let found = pools.get(pools.find("f2pool").unwrap()).unwrap();
    assert_eq!((found.name.as_str(), found.link.as_deref()), ("f2 pool", Some("https://pool.example")));
    assert_eq!((pools.find("nobody"), pools.get(PoolId(10_000))), (None, None));
}

#[test]
fn entries_of_one_name_are_one_pool() {
    let pools =
        with(&[entry("One", &[P2PKH], &["first"]), entry("Two", &[], &["two"]), entry("ONE!", &[OTHER], &["second"])]);
    assert_eq!(pools.iter().count(), known::KNOWN.len() + 2);
    let one = |evidence| Some(("one", evidence));
    for tag in ["first", "second"] {
        assert_eq!(recognised(&pools, tag.as_bytes(), &[]), one(MinerEvidence::CoinbaseTag), "{tag}");
    }
    for paid in [P2PKH, OTHER] {
        assert_eq!(recognised(&pools, b"", &[paid]), one(MinerEvidence::PayoutScript), "{paid}");
    }
    assert_eq!(pools.get(PoolId(0)).unwrap().name, "One");
}

#[test]
fn the_fingerprint_covers_what_decides_and_nothing_else() {
    let print = |entries: &[Value]| with(entries).fingerprint();
    let first = print(&[entry("One", &[P2PKH], &["one"])]);
    let mut renamed = entry("ONE!", &[P2PKH], &["one"]);
    renamed["link"] = json!("");
    assert_eq!(print(&[renamed]), first);
    for other in [
        vec![],
        vec![entry("Two", &[P2PKH], &["one"])],
        vec![entry("One", &[OTHER], &["one"])],
        vec![entry("One", &[], &["one"])],
        vec![entry("One", &[P2PKH], &["ones"])],
        vec![entry("One", &[P2PKH], &["o", "ne"])],
        vec![entry("Two", &[], &[]), entry("One", &[P2PKH], &["one"])],
    ] {
        assert_ne!(print(&other), first, "{other:?}");
    }
    // a file with the first pools as they are built in makes them precede the others
    let known = Pools::known(Network::Bitcoin);
    let (_, first) = known.iter().next().unwrap();
    let script = |script: &bitcoin::ScriptBuf| crate::chain::address_of(script, Network::Bitcoin).unwrap();
    let addresses: Vec<_> = first.payout_scripts.iter().map(script).collect();
    let same = json!({ "name": first.name, "tags": first.tags, "addresses": addresses, "link": first.link });
    let repeated = with(&[same]);
    assert!(repeated.iter().map(|(_, pool)| pool).eq(known.iter().map(|(_, pool)| pool)));
    assert_ne!(repeated.fingerprint(), known.fingerprint());
    let order = [entry("One", &[], &["one"]), entry("Two", &[], &["two"])];
    assert_ne!(print(&order), print(&[order[1].clone(), order[0].clone()]));
}

#[test]
fn an_invalid_file_is_refused_by_entry() {
    let refusal = |file: Value| Pools::with_file(Network::Bitcoin, &file.to_string()).unwrap_err().to_string();
    assert_eq!(Pools::with_file(Network::Bitcoin, "{").unwrap_err().to_string(), "it is not JSON");
    assert_eq!(refusal(json!({})), "it must be a JSON array of at most 50000 pools");
    let good = entry("Good", &[P2PKH], &["good"]);
    for (bad, message) in [
        (json!(7), "entry 2: invalid type: integer `7`, expected struct PoolEntry"),
        (json!({ "name": "X", "tags": [] }), "entry 2 (\"X\"): missing field `addresses`"),
        (entry("七", &[], &[]), "entry 2 (\"七\"): the name has neither a letter nor a digit of ASCII"),
        (entry("X", &[], &[" "]), "entry 2 (\"X\"): the tag \" \" is blank, and would match any coinbase"),
    ] {
        assert_eq!(refusal(json!([good, bad])), message);
    }
    let damaged = refusal(json!([entry("X", &["1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"], &[])]));
    assert!(
        damaged.starts_with("entry 1 (\"X\"): the address \"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb\" is invalid: "),
        "{damaged}"
    );
    // an address of another network is of no use, and no mistake
    let other = with(&[entry("X", &["bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"], &["x x"])]);
    assert_eq!(other.get(PoolId(0)).unwrap().payout_scripts, Vec::<ScriptBuf>::new());
}
