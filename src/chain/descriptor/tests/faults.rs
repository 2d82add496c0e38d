//! What a descriptor is refused for, each with its own error, and where it is.

use bitcoin::Network;
use bitcoin::bip32::Xpub;

use super::super::{DescriptorError, LONGEST_DESCRIPTOR, OutputDescriptor};
use super::{A, B, C, KEY, UNCOMPRESSED, account, parse, refusal, with_version};

const NOT_A_LEAF: &str = "sortedmulti_a is a whole leaf of the tree of tr, not a part of one";

#[test]
fn every_fault_has_its_own_error() {
    let tpub = account("m/84h/1h/0h", Network::Regtest);
    let zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";
    let multisig = with_version(&account("m/48h", Network::Bitcoin), [0x02, 0xaa, 0x7e, 0xd3]);
    assert!(multisig.starts_with("Zpub"));
    let unsupported = |name: &str| DescriptorError::Unsupported { name: name.to_owned() };
    let no_descriptor = |text: &str| DescriptorError::NotADescriptor { text: text.to_owned() };
    for (text, expected) in [
        (String::new(), DescriptorError::Empty),
        ("x".repeat(10_001), DescriptorError::TooLong { length: 10_001, longest: LONGEST_DESCRIPTOR }),
        (format!("combo({C}/<0;1;2;3;4>/*)"), DescriptorError::TooMany { what: "the branches", count: 20, most: 16 }),
        (
            format!("rawtr({KEY},pk({KEY}))"),
            DescriptorError::Malformed { reason: "rawtr has one key as its argument".to_owned(), position: None },
        ),
        (
            format!("tr({KEY},and_v(v:pk({KEY}),sortedmulti_a(1,{A}/*)))"),
            DescriptorError::Malformed { reason: NOT_A_LEAF.to_owned(), position: Some(149) },
        ),
        (
            format!("wsh(sortedmulti_a(1,{KEY}))"),
            DescriptorError::Malformed { reason: NOT_A_LEAF.to_owned(), position: Some(4) },
        ),
        (format!("multi_a(1,{KEY})"), unsupported("multi_a")),
        (format!("sortedmulti_a(1,{KEY})"), unsupported("sortedmulti_a")),
        (format!("wpkh({tpub}/*)"), DescriptorError::Network { asked: Network::Bitcoin }),
        (tpub.to_string(), DescriptorError::Network { asked: Network::Bitcoin }),
        (format!("wsh(multi(1,{A}/*,{tpub}/*))"), DescriptorError::MixedNetworks),
        (format!("wpkh({A}/0h/*)"), DescriptorError::Hardened),
        (format!("wpkh({A}/0/*')"), DescriptorError::Hardened),
        (format!("wpkh({A}/<0h;1>/*)"), DescriptorError::Hardened),
        (format!("wpkh({A}/<0;0>/*)"), DescriptorError::RepeatedBranch),
        (format!("{A}/0/*"), DescriptorError::PathOfAccountKey),
        (
            "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu".to_owned(),
            no_descriptor("bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"),
        ),
        ("hello".to_owned(), no_descriptor("hello")),
        ("é".repeat(80), DescriptorError::Character { character: 'é', position: 0 }),
        ("e".repeat(80), no_descriptor(&"e".repeat(60))),
        (format!(" wpkh({KEY})"), DescriptorError::Space { character: ' ', position: 0 }),
        (format!("wpkh({KEY})\n"), DescriptorError::Space { character: '\n', position: 72 }),
        (format!("wsh(multi(1, {KEY}))"), DescriptorError::Space { character: ' ', position: 12 }),
        (format!("tr(musig({A},{B})/0/*)"), unsupported("musig")),
        (multisig, DescriptorError::MultisigKey { prefix: "Zpub".to_owned() }),
        (format!("sh(wpkh({zpub}/0/*))"), DescriptorError::AccountKeyInside { prefix: "zpub".to_owned(), position: 8 }),
        ("raw(123)".to_owned(), DescriptorError::RawScript),
        ("raw()".to_owned(), DescriptorError::RawScript),
        (
            format!("wpkh({C}/<{}>/*)", (0..17).map(|at| at.to_string()).collect::<Vec<_>>().join(";")),
            DescriptorError::TooMany { what: "the branches", count: 17, most: 16 },
        ),
    ] {
        let error = refusal(&text);
        assert_eq!(error, expected, "{text}");
        assert!(error.to_string().len() < 250, "{error}");
    }
    assert!(matches!(refusal(&zpub.replace("Q2", "Q3")), DescriptorError::Key { .. }));
    let refused = refusal(&format!("sh(thresh(1,pk({KEY})))"));
    assert_eq!(refused.position(), Some(3));
    assert!(refused.to_string().contains("sh takes pk, pkh, wpkh, wsh, multi, sortedmulti"), "{refused}");
    assert!(matches!(refusal("addr(hello)"), DescriptorError::Address(_)));
    for text in [format!("wpkh({UNCOMPRESSED})"), format!("wsh(pk({UNCOMPRESSED}))"), format!("tr({UNCOMPRESSED})")] {
        let reason = "wpkh, wsh and tr take no uncompressed keys".to_owned();
        assert_eq!(refusal(&text), DescriptorError::Key { reason }, "{text}");
    }
    assert!(matches!(refusal(&format!("wsh(and_v(v:pk({KEY}),pk({KEY})))")), DescriptorError::Unsafe { .. }));
    for (text, reason) in [
        (
            format!("wsh(multi(3,{A}/*,{B}/*))"),
            "invalid threshold 3-of-2; cannot have k > n: in k of n, k is at least 1",
        ),
        (format!("wsh(thresh(0,pk({KEY})))"), "in k of n, k is at least 1 and at most n, and n at most 20 in multi"),
        (format!("wsh(multi({KEY}))"), "the first argument of multi, sortedmulti, multi_a and thresh is a number: "),
    ] {
        let refused = refusal(&text);
        assert!(
            matches!(&refused, DescriptorError::Malformed { reason: found, .. } if found.contains(reason)),
            "{refused}"
        );
    }
}

#[test]
fn what_the_bips_call_invalid_is_refused() {
    for text in [
        format!("pk(pk({KEY}))"),
        format!("sh(combo({KEY}))"),
        format!("combo(pkh({KEY}))"),
        format!("combo({KEY},{KEY})"),
        format!("pkh(pk({KEY}))"),
        format!("sh({KEY})"),
        format!("sh(sh(pkh({KEY})))"),
        format!("wsh(wpkh({KEY}))"),
        format!("wsh(wsh(pkh({KEY})))"),
        format!("wpkh(wsh(pkh({KEY})))"),
        format!("wsh({KEY})"),
        format!("wsh(pk({UNCOMPRESSED}))"),
        format!("multi(a,{KEY},{UNCOMPRESSED})"),
        format!("multi(0,{KEY},{UNCOMPRESSED})"),
        format!("tr({UNCOMPRESSED})"),
        format!("wsh(tr({}))", &KEY[2..]),
        format!("sh(multi_a(1,{KEY}))"),
        format!("sh(and_v(v:pk({KEY}),older(4)))"),
        format!("sh(c:pk_k({KEY}))"),
        format!("pkh({C}/<0;1>/<2;3>)"),
        format!("pkh([deadbeef/<0;1>]{C}/0)"),
        format!("tr({C}/<6;7;8;9>/*,{{pk({A}/<1;2;3>/0/*),pk({B}/0/0/<3;4;5>/*)}})"),
        format!("sh(multi(2,{A}/<1;2;3>/0/*,{B}/0/0/<3;4>/*))"),
        format!("wpkh({C}/<>/*)"),
        format!("wpkh({C}/0>/*)"),
        format!("wpkh({C}/<0/*)"),
        format!("wpkh({C}/<0;>/*)"),
        format!("pk([deadbeef/0h/0h/0h/*]{KEY})"),
        format!("pk([deadbeef/0h/0h/0h/]{KEY})"),
        format!("pk([deadbef/0h/0h/0h]{KEY})"),
        format!("pk([deadbeef]{KEY}"),
        format!("pk([deadbeef{KEY})"),
        format!("pk({KEY})x"),
        "raw(deadbeef".to_owned(),
    ] {
        assert!(OutputDescriptor::parse(&text, Network::Bitcoin).is_err(), "{text}");
    }
}

#[test]
fn the_argument_that_is_wrong_is_named_with_its_place() {
    let malformed =
        |reason: &str, position| DescriptorError::Malformed { reason: reason.to_owned(), position: Some(position) };
    for (text, expected) in [
        (format!("wpkh({KEY},{KEY})"), malformed("wpkh has one argument", 72)),
        (format!("wsh(pk({KEY}),1)"), malformed("wsh has one argument", 75)),
        (format!("tr({KEY},)"), malformed("an argument of tr is empty", 70)),
        (
            format!("wsh(wpkh({KEY}))"),
            malformed("wpkh stands at the beginning or in sh only, and here it is in wsh", 4),
        ),
        (
            format!("tr({KEY},wsh({KEY}))"),
            malformed("wsh stands at the beginning or in sh only, and here it is in tr", 70),
        ),
        (
            format!("wsh(and_v(v:pk({KEY}),sha256(ab)))"),
            malformed("sha256 takes 64 hexadecimal digits, and this is \"ab\"", 90),
        ),
    ] {
        assert_eq!(refusal(&text), expected, "{text}");
    }
    let off_curve = format!("02{}", "ff".repeat(32));
    for (text, key, position, reason) in [
        ("wpkh(abc)".to_owned(), "abc", 5, "key too short"),
        (format!("wsh(multi(2,{KEY},{off_curve}))"), "02ffff", 79, "no point of the curve"),
        (format!("combo({off_curve})"), "02ffff", 6, "no point of the curve"),
        (format!("sortedmulti(1,{KEY},{off_curve})"), "02ffff", 81, "no point of the curve"),
        (format!("wpkh([c2e54a62/84z]{KEY})"), "[c2e54a62", 5, "invalid child number format"),
        (format!("wsh(multi(1,{A}x/*))"), "xpub", 12, ""),
    ] {
        let refused = refusal(&text);
        assert_eq!(refused.position(), Some(position), "{refused}");
        let message = refused.to_string();
        assert!(message.starts_with(&format!("\"{key}")) && message.contains(reason), "{message}");
        assert!(message.len() < 350, "{message}");
    }
    for (text, reason) in [
        (format!("wsh(multi_a(1,{KEY}))"), "multi_a stands in tr only (BIP387)"),
        (format!("tr({KEY},multi(1,{KEY}))"), "multi does not stand in tr, which takes multi_a (BIP387)"),
    ] {
        let expected = DescriptorError::Malformed { reason: reason.to_owned(), position: None };
        assert_eq!(refusal(&text), expected, "{text}");
    }
}

#[test]
fn keys_deeper_than_a_byte_counts_are_refused() {
    // C is a master key; A has a depth of its own
    let depth = usize::from(A.parse::<Xpub>().unwrap().depth);
    assert!(depth > 0);
    for (key, depth) in [(C, 0), (A, depth)] {
        let steps = |count: usize| format!("wpkh({key}{}/*)", "/0".repeat(count));
        let deepest = parse(&steps(254 - depth));
        assert!(deepest.branch(0).unwrap().script(7).is_ok());
        for deeper in [steps(255 - depth), format!("pkh({key}{}/<0;1>)", "/0".repeat(255 - depth))] {
            let refused = refusal(&deeper);
            assert!(matches!(&refused, DescriptorError::KeyAt { reason, .. } if reason.contains("255")), "{refused:?}");
        }
    }
}
