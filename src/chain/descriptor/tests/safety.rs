//! A key that occurs twice, which a multisig may have and a Miniscript may not.

use bitcoin::Network;

use super::super::OutputDescriptor;
use super::{A, B, DescriptorError, KEY, UNCOMPRESSED, parse, refusal, script};

#[test]
fn a_multisig_may_have_a_key_several_times() {
    let multisig = format!("5221{KEY}21{KEY}52ae");
    assert_eq!(script(&parse(&format!("multi(2,{KEY},{KEY})")), 0, 0), multisig);
    assert_eq!(script(&parse(&format!("sortedmulti(2,{KEY},{KEY})")), 0, 0), multisig);
    let inner = bitcoin::ScriptBuf::from_hex(&multisig).unwrap();
    let hash = inner.script_hash();
    let witness = bitcoin::ScriptBuf::new_p2wsh(&inner.wscript_hash());
    for name in ["multi", "sortedmulti"] {
        let text = format!("{name}(2,{KEY},{KEY})");
        assert_eq!(script(&parse(&format!("sh({text})")), 0, 0), format!("a914{hash}87"));
        assert_eq!(script(&parse(&format!("wsh({text})")), 0, 0), witness.to_hex_string());
        let nested = witness.script_hash();
        assert_eq!(script(&parse(&format!("sh(wsh({text}))")), 0, 0), format!("a914{nested}87"));
    }
    // an extended key twice, beside another
    let [twice, once] =
        [format!("wsh(multi(2,{A}/*,{B}/*,{A}/*))"), format!("wsh(multi(2,{A}/*,{B}/*))")].map(|text| {
            let descriptor = parse(&text);
            assert_eq!(descriptor.text().split_once('#').unwrap().0, text);
            descriptor
        });
    assert_eq!((twice.keys(), once.keys()), (3, 2));
    assert_ne!(script(&twice, 0, 5), script(&once, 0, 5));
}

#[test]
fn a_multisig_leaf_may_have_a_key_several_times() {
    for name in ["multi_a", "sortedmulti_a"] {
        let descriptor = parse(&format!("tr({KEY},{name}(2,{KEY},{KEY}))"));
        let x_only = &KEY[2..];
        let leaf = bitcoin::ScriptBuf::from_hex(&format!("20{x_only}ac20{x_only}ba529c")).unwrap();
        let secp = bitcoin::secp256k1::Secp256k1::new();
        let tree = bitcoin::taproot::TaprootBuilder::new().add_leaf(0, leaf).unwrap();
        let spend = tree.finalize(&secp, x_only.parse().unwrap()).unwrap();
        assert_eq!(script(&descriptor, 0, 0), format!("5120{}", spend.output_key()), "{name}");
    }
}

#[test]
fn a_miniscript_has_a_key_once_however_it_is_written() {
    let child = parse(&format!("pk({A}/3)")).branch(0).unwrap().script(0).unwrap();
    let child = &child.to_hex_string()[2..68];
    for text in [
        format!("wsh(and_v(v:pk({KEY}),pk({KEY})))"),
        format!("wsh(and_v(v:multi(1,{KEY},{KEY}),older(9)))"),
        format!("wsh(or_d(multi(1,{A}/*,{B}/*),pk({A}/*)))"),
        // the same key, given by its parent and by itself
        format!("wsh(and_v(v:pk({A}/3),pk({child})))"),
        format!("tr({KEY},and_v(v:pk({A}/3),pk({child})))"),
        format!("tr({KEY},and_v(v:multi_a(1,{A}/*,{A}/*),older(9)))"),
    ] {
        assert!(matches!(refusal(&text), DescriptorError::Unsafe { .. }), "{text}: {:?}", refusal(&text));
    }
    // each leaf is a script of its own
    parse(&format!("tr({KEY},{{pk({KEY}),and_v(v:pk({KEY}),older(9))}})"));
}

#[test]
fn a_multisig_is_refused_for_all_else() {
    for text in [
        format!("multi(1,{KEY},{KEY},{KEY},{KEY})"),
        format!("sh(multi(1,{}))", [KEY; 16].join(",")),
        format!("wsh(multi(1,{KEY},{UNCOMPRESSED}))"),
        format!("wsh(sortedmulti(3,{KEY},{KEY}))"),
        format!("tr({KEY},multi_a(0,{KEY},{KEY}))"),
    ] {
        assert!(OutputDescriptor::parse(&text, Network::Bitcoin).is_err(), "{text}");
    }
}
