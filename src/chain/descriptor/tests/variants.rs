//! The forms that the library does not have, and the descriptors of scripts.

use bitcoin::Network;

use super::super::inferred_descriptor;
use super::{A, B, C, D, KEY, UNCOMPRESSED, parse, script};

#[test]
fn keys_of_a_sorted_multisig_are_sorted_at_each_index() {
    // the scripts of BIP383's vector of a bare sortedmulti, one level further in
    let descriptor = parse(&format!("wsh(sortedmulti(2,{A}/*,{B}/0/0/*))"));
    let bare = parse(&format!("sortedmulti(2,{A}/*,{B}/0/0/*)"));
    assert!(bare.text().starts_with(&format!("sortedmulti(2,{A}/*,{B}/0/0/*)#")), "{}", bare.text());
    assert_eq!((bare.keys(), bare.is_ranged(), bare.branches()), (2, true, 1));
    for (index, keys) in (0..).zip([
        "5221025d5fc65ebb8d44a5274b53bac21ff8307fec2334a32df05553459f8b1f7fe1b62102fbd47cc8034098f0e6a94c6aeee8528abf0a2153a5d8e46d325b7284c046784652ae",
        "52210264fd4d1f5dea8ded94c61e9641309349b62f27fbffe807291f664e286bfbe6472103f4ece6dfccfa37b211eb3d0af4d0c61dba9ef698622dc17eecdf764beeb005a652ae",
        "5221022ccabda84c30bad578b13c89eb3b9544ce149787e5b538175b1d1ba259cbb83321024d902e1a2fc7a8755ab5b694c575fce742c48d9ff192e63df5193e4c7afe1f9c52ae",
    ]) {
        let script = bitcoin::ScriptBuf::from_hex(keys).unwrap();
        let expected = bitcoin::ScriptBuf::new_p2wsh(&script.wscript_hash());
        assert_eq!(descriptor.branch(0).unwrap().script(index).unwrap(), expected);
        assert_eq!(bare.branch(0).unwrap().script(index).unwrap(), script);
    }
}

/// The internal key of BIP341 whose private key is not known.
const UNSPENDABLE: &str = "50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0";

#[test]
fn keys_of_sorted_leaves_are_sorted_at_each_index_as_bip387_says() {
    for (text, scripts) in [
        (
            format!("tr({UNSPENDABLE},sortedmulti_a(2,[00000000/111'/222]{A},{B}/0))"),
            vec!["512016fa6a6ba7e98c54b5bf43b3144912b78a61b60b02f6a74172b8dcb35b12bc30"],
        ),
        (
            format!("tr({UNSPENDABLE},sortedmulti_a(2,{A}/*,{B}/0/0/*))"),
            vec![
                "5120abd47468515223f58a1a18edfde709a7a2aab2b696d59ecf8c34f0ba274ef772",
                "5120fe62e7ed20705bd1d3678e072bc999acb014f07795fa02cb8f25a7aa787e8cbd",
                "51201311093750f459039adaa2a5ed23b0f7a8ae2c2ffb07c5390ea37e2fb1050b41",
            ],
        ),
    ] {
        let descriptor = parse(&text);
        for (index, expected) in (0..).zip(&scripts) {
            assert_eq!(script(&descriptor, 0, index), *expected, "{text} at {index}");
        }
        assert_eq!(descriptor.text().split_once('#').unwrap().0, text.replace('\'', "h"));
        assert_eq!(parse(descriptor.text()).text(), descriptor.text());
        assert_eq!((descriptor.branches(), descriptor.is_solvable()), (1, true));
    }
}

#[test]
fn each_leaf_of_a_tree_is_sorted_or_not_as_it_says() {
    let sorted = |leaf: &str| script(&parse(&format!("tr({UNSPENDABLE},{{pk({C}),{{{leaf},pk({D})}}}})")), 0, 0);
    let [above, below] = [format!("{A}/7"), format!("{B}/7")];
    let [one, other] = [format!("multi_a(1,{above},{below})"), format!("multi_a(1,{below},{above})")];
    let either = [sorted(&format!("sorted{one}")), sorted(&format!("sorted{other}"))];
    assert_eq!(either[0], either[1], "the order of the text does not count");
    // one of the two orders is that of the keys' bytes
    let unsorted = [sorted(&one), sorted(&other)];
    assert!(unsorted[0] != unsorted[1] && unsorted.contains(&either[0]), "{unsorted:?} {either:?}");
    // leaves stay in their places
    let two = format!("tr({C},{{sorted{one},{{sorted{other},{other}}}}})");
    assert_eq!(parse(&two).text().split_once('#').unwrap().0, two);
}

#[test]
fn a_combo_is_the_descriptors_of_bip384() {
    let scripts = |text: &str, index| {
        let descriptor = parse(text);
        (0..descriptor.branches()).map(|branch| script(&descriptor, branch, index)).collect::<Vec<_>>()
    };
    assert_eq!(
        scripts(&format!("combo({KEY})"), 0),
        [
            format!("21{KEY}ac"),
            "76a9149a1c78a507689f6f54b847ad1cef1e614ee23f1e88ac".to_owned(),
            "00149a1c78a507689f6f54b847ad1cef1e614ee23f1e".to_owned(),
            "a91484ab21b1b2fd065d4504ff693d832434b6108d7b87".to_owned(),
        ]
    );
    assert_eq!(
        scripts(&format!("combo({UNCOMPRESSED})"), 0),
        [format!("41{UNCOMPRESSED}ac"), "76a914b5bd079c4d57cc7fc28ecf8213a6b791625b818388ac".to_owned()]
    );
    let uncompressed = parse(&format!("combo({UNCOMPRESSED})"));
    assert!(!uncompressed.is_change(1) && !uncompressed.is_multipath() && !uncompressed.has_one_script_type());

    let text = format!("combo([d34db33f/44h/0h/0h]{A}/<0;1>/*)");
    let descriptor = parse(&text);
    assert_eq!(descriptor.text().split_once('#').unwrap().0, text);
    assert_eq!((descriptor.branches(), descriptor.keys(), descriptor.is_ranged()), (8, 1, true));
    assert!(descriptor.is_multipath() && descriptor.is_solvable());
    let forms = ["pk(", "pkh(", "wpkh(", "sh(wpkh("];
    for (branch, (form, path)) in forms.iter().flat_map(|form| [(form, 0), (form, 1)]).enumerate() {
        let close = ")".repeat(form.matches('(').count());
        let single = parse(&format!("{form}[d34db33f/44h/0h/0h]{A}/{path}/*{close}"));
        assert_eq!(script(&descriptor, branch, 5), script(&single, 0, 5), "{form}");
        assert_eq!(descriptor.path(branch), single.path(0));
        assert_eq!(descriptor.is_change(branch), path == 1);
    }
    assert!(descriptor.branch(8).is_err() && descriptor.path(8).is_none());
}

#[test]
fn a_raw_taproot_key_is_not_tweaked() {
    // the keys of BIP386's and BIP32's vectors, as output keys
    let x_only = "a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd";
    for text in [format!("rawtr({x_only})"), format!("rawtr([d34db33f/86'/0'/0']03{x_only})")] {
        let descriptor = parse(&text);
        assert_eq!(script(&descriptor, 0, 0), format!("5120{x_only}"), "{text}");
        assert_eq!((descriptor.is_ranged(), descriptor.is_solvable(), descriptor.keys()), (false, true, 1));
        assert_eq!(parse(descriptor.text()).text(), descriptor.text());
        assert!(descriptor.text().starts_with("rawtr("), "{}", descriptor.text());
    }
    let ranged = parse(&format!("rawtr({A}/<0;1>/*)"));
    assert_eq!((ranged.branches(), ranged.is_ranged()), (2, true));
    let key = parse(&format!("pk({A}/1/7)"));
    // without the length, the parity and OP_CHECKSIG
    assert_eq!(script(&ranged, 1, 7), format!("5120{}", &script(&key, 0, 0)[4..68]));
}

#[test]
fn a_script_alone_has_a_descriptor() {
    let inferred = |hex: &str| inferred_descriptor(&bitcoin::ScriptBuf::from_hex(hex).unwrap(), Network::Bitcoin);
    let body = |hex: &str| inferred(hex).split_once('#').unwrap().0.to_owned();
    let x_only = "a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd";
    for (hex, expected) in [
        (format!("2103{x_only}ac"), format!("pk(03{x_only})")),
        // a hybrid key
        (format!("4106{x_only}{x_only}ac"), format!("raw(4106{x_only}{x_only}ac)")),
        (format!("512103{x_only}2102{x_only}52ae"), format!("multi(1,03{x_only},02{x_only})")),
        (format!("5120{x_only}"), format!("rawtr({x_only})")),
        (
            "0014751e76e8199196d454941c45d1b3a323f1433bd6".to_owned(),
            "addr(bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4)".to_owned(),
        ),
        ("6a00".to_owned(), "raw(6a00)".to_owned()),
        (String::new(), "raw()".to_owned()),
    ] {
        assert_eq!(body(&hex), expected);
    }
    // not on the curve
    assert!(body(&format!("5120{}", "ff".repeat(32))).starts_with("addr(bc1p"));
    // what is inferred derives the script
    for hex in
        [format!("2103{x_only}ac"), format!("5120{x_only}"), "0014751e76e8199196d454941c45d1b3a323f1433bd6".into()]
    {
        assert_eq!(script(&parse(&inferred(&hex)), 0, 0), hex);
    }
}
