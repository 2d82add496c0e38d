//! The vectors of the BIPs, and what is refused.

use bitcoin::Network;
use bitcoin::bip32::{DerivationPath, Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use proptest::prelude::*;

use super::{DescriptorError, LONGEST_DESCRIPTOR, MOST_BRANCHES, OutputDescriptor};
use crate::chain::address::address_of;

mod faults;
mod safety;
mod variants;

const KEY: &str = "03a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd";
const UNCOMPRESSED: &str = "04a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd5b8dec5235a0fa8722476c7709c02559e3aa73aa03918ba2d492eea75abea235";
/// Extended keys of the vectors of BIPs 380 to 389.
const A: &str =
    "xpub6ERApfZwUNrhLCkDtcHTcxd75RbzS1ed54G1LkBUHQVHQKqhMkhgbmJbZRkrgZw4koxb5JaHWkY4ALHY2grBGRjaDMzQLcgJvLJuZZvRcEL";
const B: &str =
    "xpub68NZiKmJWnxxS6aaHmn81bvJeTESw724CRDs6HbuccFQN9Ku14VQrADWgqbhhTHBaohPX4CjNLf9fq9MYo6oDaPPLPxSb7gwQN3ih19Zm4Y";
const C: &str =
    "xpub661MyMwAqRbcGDZQUKLqmWodYLcoBQnQH33yYkkF3jjxeLvY8qr2wWGEWkiKFaaQfJCoi3HeEq3Dc5DptfbCyjD38fNhSqtKc1UHaP4ba3t";
const D: &str =
    "xpub69H7F5d8KSRgmmdJg2KhpAK8SR3DjMwAdkxj3ZuxV27CprR9LgpeyGmXUbC6wb7ERfvrnKZjXoUmmDznezpbZb7ap6r1D3tgFxHmwMkQTPH";
/// The seed of the words "abandon" eleven times and "about", which BIPs 49, 84 and 86 use.
const SEED: &str = "5eb00bbddcf069084889a8ab9155568165f5c453ccb85e70811aaed6f6da5fc19a5ac40b389cd370d086206dec8aa6c43daea6690f20ad3d8d48b2d2ce9e38e4";
const XPRV: &str =
    "xprvA1RpRA33e1JQ7ifknakTFpgNXPmW2YvmhqLQYMmrj4xJXXWYpDPS3xz7iAxn8L39njGVyuoseXzU6rcxFLJ8HFsTjSyQbLYnMpCqE2VbFWc";

fn parse(text: &str) -> OutputDescriptor {
    OutputDescriptor::parse(text, Network::Bitcoin).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> DescriptorError {
    OutputDescriptor::parse(text, Network::Bitcoin).map(|found| found.text().to_owned()).unwrap_err()
}

fn script(descriptor: &OutputDescriptor, branch: usize, index: u32) -> String {
    descriptor.branch(branch).unwrap().script(index).unwrap().to_hex_string()
}

fn address(descriptor: &OutputDescriptor, branch: usize, index: u32, network: Network) -> String {
    address_of(&descriptor.branch(branch).unwrap().script(index).unwrap(), network).unwrap()
}

/// The account key at a path below the master key of [`SEED`].
fn account(path: &str, network: Network) -> Xpub {
    let (secp, seed) = (Secp256k1::new(), bitcoin::hex::FromHex::from_hex(SEED).unwrap());
    let seed: Vec<u8> = seed;
    let path: DerivationPath = path.parse().unwrap();
    Xpub::from_priv(&secp, &Xpriv::new_master(network, &seed).unwrap().derive_priv(&secp, &path).unwrap())
}

/// The key with the version bytes of SLIP-132.
fn with_version(key: &Xpub, version: [u8; 4]) -> String {
    let bytes = key.encode();
    bitcoin::base58::encode_check(&[&version[..], &bytes[4..]].concat())
}

#[test]
fn scripts_are_those_of_bips_381_to_387() {
    let x_only = &KEY[2..];
    for (text, scripts) in [
        (format!("pk({KEY})"), vec![format!("21{KEY}ac")]),
        (format!("pk({UNCOMPRESSED})"), vec![format!("41{UNCOMPRESSED}ac")]),
        (
            format!("pkh([deadbeef/1/2'/3/4h]{KEY})"),
            vec!["76a9149a1c78a507689f6f54b847ad1cef1e614ee23f1e88ac".to_owned()],
        ),
        (format!("pkh({UNCOMPRESSED})"), vec!["76a914b5bd079c4d57cc7fc28ecf8213a6b791625b818388ac".to_owned()]),
        (format!("sh(pk({KEY}))"), vec!["a9141857af51a5e516552b3086430fd8ce55f7c1a52487".to_owned()]),
        (format!("sh(pkh({KEY}))"), vec!["a9141a31ad23bf49c247dd531a623c2ef57da3c400c587".to_owned()]),
        (
            format!("pk({B}/0)"),
            vec!["210379e45b3cf75f9c5f9befd8e9506fb962f6a9d185ac87001ec44a8d3df8d4a9e3ac".to_owned()],
        ),
        (format!("wpkh({KEY})"), vec!["00149a1c78a507689f6f54b847ad1cef1e614ee23f1e".to_owned()]),
        (
            format!("wpkh([ffffffff/13']{D}/1/2/*)"),
            vec![
                "0014326b2249e3a25d5dc60935f044ee835d090ba859".to_owned(),
                "0014af0bd98abc2f2cae66e36896a39ffe2d32984fb7".to_owned(),
                "00141fa798efd1cbf95cebf912c031b8a4a6e9fb9f27".to_owned(),
            ],
        ),
        (
            format!("wsh(pkh({KEY}))"),
            vec!["0020338e023079b91c58571b20e602d7805fb808c22473cbc391a41b1bd3a192e75b".to_owned()],
        ),
        (
            format!("wsh(pk({KEY}))"),
            vec!["00202e271faa2325c199d25d22e1ead982e45b64eeb4f31e73dbdf41bd4b5fec23fa".to_owned()],
        ),
        (format!("sh(wsh(pkh({KEY})))"), vec!["a914b61b92e2ca21bac1e72a3ab859a742982bea960a87".to_owned()]),
        (format!("multi(1,{KEY},{UNCOMPRESSED})"), vec![format!("5121{KEY}41{UNCOMPRESSED}52ae")]),
        (
            format!("tr({x_only})"),
            vec!["512077aab6e066f8a7419c5ab714c12c67d25007ed55a43cadcacb4d7a970a093f11".to_owned()],
        ),
        (
            format!("tr({A}/0/*,pk({A}/1/*))"),
            vec![
                "512078bc707124daa551b65af74de2ec128b7525e10f374dc67b64e00ce0ab8b3e12".to_owned(),
                "512001f0a02a17808c20134b78faab80ef93ffba82261ccef0a2314f5d62b6438f11".to_owned(),
                "512021024954fcec88237a9386fce80ef2ced5f1e91b422b26c59ccfc174c8d1ad25".to_owned(),
            ],
        ),
        (
            format!("tr({x_only},pk(669b8afcec803a0d323e9a17f3ea8e68e8abe5a278020a929adbec52421adbd0))"),
            vec!["512017cf18db381d836d8923b1bdb246cfcd818da1a9f0e6e7907f187f0b2f937754".to_owned()],
        ),
        (
            format!("tr({x_only},multi_a(1,669b8afcec803a0d323e9a17f3ea8e68e8abe5a278020a929adbec52421adbd0))"),
            vec!["5120eb5bd3894327d75093891cc3a62506df7d58ec137fcd104cdd285d67816074f3".to_owned()],
        ),
        (
            format!(
                "tr(50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0,multi_a(2,[00000000/111'/222]{A},{B}/0))"
            ),
            vec!["51202eea93581594a43c0c8423b70dc112e5651df63984d108d4fc8ccd3b63b4eafa".to_owned()],
        ),
    ] {
        let descriptor = parse(&text);
        for (index, expected) in (0..).zip(&scripts) {
            assert_eq!(script(&descriptor, 0, index), *expected, "{text} at {index}");
        }
        assert_eq!(descriptor.is_ranged(), text.contains('*'));
        assert_eq!((descriptor.branches(), descriptor.is_solvable()), (1, true));
        assert_eq!(parse(descriptor.text()).text(), descriptor.text(), "the canonical form is its own");
    }
}

#[test]
fn public_children_are_those_of_the_vectors_of_bip32() {
    for (parent, step, child) in [
        // vector 1: m/0H/1/2H/2 and its child, and m/0H/1/2H
        (
            "xpub6FHa3pjLCk84BayeJxFW2SP4XRrFd1JYnxeLeU8EqN3vDfZmbqBqaGJAyiLjTAwm6ZLRQUMv1ZACTj37sR62cfN7fe5JnJ7dh8zL4fiyLHV",
            1_000_000_000,
            "xpub6H1LXWLaKsWFhvm6RVpEL9P4KfRZSW7abD2ttkWP3SSQvnyA8FSVqNTEcYFgJS2UaFcxupHiYkro49S8yGasTvXEYBVPamhGW6cFJodrTHy",
        ),
        (
            "xpub6D4BDPcP2GT577Vvch3R8wDkScZWzQzMMUm3PWbmWvVJrZwQY4VUNgqFJPMM3No2dFDFGTsxxpG5uJh7n7epu4trkrX7x7DogT5Uv6fcLW5",
            2,
            "xpub6FHa3pjLCk84BayeJxFW2SP4XRrFd1JYnxeLeU8EqN3vDfZmbqBqaGJAyiLjTAwm6ZLRQUMv1ZACTj37sR62cfN7fe5JnJ7dh8zL4fiyLHV",
        ),
        // vector 2: m and m/0
        (
            "xpub661MyMwAqRbcFW31YEwpkMuc5THy2PSt5bDMsktWQcFF8syAmRUapSCGu8ED9W6oDMSgv6Zz8idoc4a6mr8BDzTJY47LJhkJ8UB7WEGuduB",
            0,
            D,
        ),
    ] {
        let (key, child) = (parse(&format!("pk({parent}/*)")), parse(&format!("pk({child})")));
        assert_eq!(script(&key, 0, step), script(&child, 0, 0), "{parent}/{step}");
    }
}

#[test]
fn children_are_those_of_bip32() {
    // m/0H and m/0H/1 of the first vector
    let parent = "xpub68Gmy5EdvgibQVfPdqkBBCHxA5htiqg55crXYuXoQRKfDBFA1WEjWgP6LHhwBZeNK1VTsfTFUHCdrfp1bgwQ9xv5ski8PX9rL2dZXvgGDnw";
    let child = "xpub6ASuArnXKPbfEwhqN6e3mwBcDTgzisQN1wXN9BJcM47sSikHjJf3UFHKkNAWbWMiGj7Wf5uMash7SyYq527Hqck2AxYysAA7xmALppuCkwQ";
    let expected = parse(&format!("pk({child})"));
    assert_eq!(script(&parse(&format!("pk({parent}/1)")), 0, 0), script(&expected, 0, 0));
    assert_eq!(script(&parse(&format!("pk({parent}/*)")), 0, 1), script(&expected, 0, 0));
}

#[test]
fn account_keys_are_those_of_bips_44_49_84_and_86() {
    let main = Network::Bitcoin;
    let zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";
    let key = account("m/84h/0h/0h", main);
    assert_eq!(with_version(&key, [0x04, 0xb2, 0x47, 0x46]), zpub);
    let descriptor = parse(zpub);
    assert_eq!(descriptor.text().split_once('#').unwrap().0, format!("wpkh({key}/<0;1>/*)"));
    assert_eq!((descriptor.branches(), descriptor.is_ranged()), (2, true));
    assert_eq!(address(&descriptor, 0, 0, main), "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu");
    assert_eq!(address(&descriptor, 0, 1, main), "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g");
    assert_eq!(address(&descriptor, 1, 0, main), "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el");

    let upub = with_version(&account("m/49h/1h/0h", Network::Testnet), [0x04, 0x4a, 0x52, 0x62]);
    assert!(upub.starts_with("upub"));
    let descriptor = OutputDescriptor::parse(&upub, Network::Testnet).unwrap();
    assert_eq!(address(&descriptor, 0, 0, Network::Testnet), "2Mww8dCYPUpKHofjgcXcBCEGmniw9CoaiD2");

    // the first address of these words in every wallet with BIP44
    let descriptor = parse(&format!("[73c5da0a/44'/0'/0']{}", account("m/44h/0h/0h", main)));
    assert_eq!(address(&descriptor, 0, 0, main), "1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA");
    assert_eq!(descriptor.path(1).as_deref(), Some("m/44h/0h/0h/1/*"));

    let key = account("m/86h/0h/0h", main);
    let descriptor = parse(&format!("tr({key}/<0;1>/*)"));
    assert_eq!(address(&descriptor, 0, 0, main), "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr");
    assert_eq!(address(&descriptor, 0, 1, main), "bc1p4qhjn9zdvkux4e44uhx8tc55attvtyu358kutcqkudyccelu0was9fqzwh");
    assert_eq!(address(&descriptor, 1, 0, main), "bc1p3qkhfews2uk44qtvauqyr2ttdsw7svhkl9nkm9s9c3x4ax5h60wqwruhk7");
    assert_eq!(descriptor.path(0).as_deref(), Some("0/*"));
}

#[test]
fn a_multipath_descriptor_is_the_descriptors_that_bip389_expands_it_to() {
    for (text, expanded) in [
        (format!("pk({B}/<0;1>)"), vec![format!("pk({B}/0)"), format!("pk({B}/1)")]),
        (
            format!("wpkh([ffffffff/13h]{D}/<1;3>/2/*)"),
            vec![format!("wpkh([ffffffff/13h]{D}/1/2/*)"), format!("wpkh([ffffffff/13h]{D}/3/2/*)")],
        ),
        (
            format!("multi(2,{A}/<1;2>/*,{B}/<3;4>/0/*)"),
            vec![format!("multi(2,{A}/1/*,{B}/3/0/*)"), format!("multi(2,{A}/2/*,{B}/4/0/*)")],
        ),
        (format!("pkh({C}/<0;1;2>)"), vec![format!("pkh({C}/0)"), format!("pkh({C}/1)"), format!("pkh({C}/2)")]),
        (
            format!("sh(multi(2,{A}/<1;2;3>/0/*,{B}/0/*,{C}/0/0/<3;4;5>/*))"),
            (1..=3).map(|at| format!("sh(multi(2,{A}/{at}/0/*,{B}/0/*,{C}/0/0/{}/*))", at + 2)).collect(),
        ),
    ] {
        let descriptor = parse(&text);
        assert_eq!(descriptor.branches(), expanded.len(), "{text}");
        for (branch, single) in expanded.iter().map(|single| parse(single)).enumerate() {
            for index in [0, 7, (1 << 31) - 1] {
                assert_eq!(script(&descriptor, branch, index), script(&single, 0, index), "{text}");
            }
            assert_eq!(descriptor.path(branch), single.path(0));
        }
        assert!(descriptor.branch(expanded.len()).is_err());
        assert!(descriptor.branch(0).unwrap().script(1 << 31).is_err() || !descriptor.is_ranged());
    }
}

#[test]
fn scripts_without_keys_are_those_of_bip385() {
    let descriptor = parse("raw(deadbeef)#89f8spxm");
    assert_eq!(script(&descriptor, 0, 5), "deadbeef");
    assert_eq!((descriptor.is_solvable(), descriptor.is_ranged(), descriptor.checksum()), (false, false, "89f8spxm"));
    let descriptor = parse("addr(3PUNyaW7M55oKWJ3kDukwk9bsKvryra15j)");
    assert_eq!(address(&descriptor, 0, 0, Network::Bitcoin), "3PUNyaW7M55oKWJ3kDukwk9bsKvryra15j");
}

#[test]
fn a_checksum_must_be_right_as_bip380_says() {
    let right = "89f8spxm".to_owned();
    for (text, error) in [
        ("raw(deadbeef)#", DescriptorError::ChecksumLength { length: 0, right: right.clone(), position: 14 }),
        ("raw(deadbeef)#89f8spxmx", DescriptorError::ChecksumLength { length: 9, right: right.clone(), position: 14 }),
        ("raw(deadbeef)#89f8spx", DescriptorError::ChecksumLength { length: 7, right: right.clone(), position: 14 }),
        ("raw(deadbeef)#89f8spxq", DescriptorError::Checksum { given: "89f8spxq".to_owned(), right, position: 14 }),
        ("raw(Ü)#00000000", DescriptorError::Character { character: 'Ü', position: 4 }),
        ("raw(é\u{7})", DescriptorError::Character { character: 'é', position: 4 }),
    ] {
        assert_eq!(refusal(text), error, "{text}");
        assert!(error.position().is_some());
    }
    // one wrong letter before the checksum, and the checksum that the error names
    let DescriptorError::Checksum { right, .. } = refusal("raw(deedbeef)#89f8spxm") else { panic!("it is accepted") };
    assert_eq!(parse(&format!("raw(deedbeef)#{right}")).checksum(), right);
    assert!(matches!(refusal("raw(deedbeef)##9f8spxm"), DescriptorError::ChecksumLength { length: 7, .. }));
}

#[test]
fn private_keys_are_refused_first_and_never_repeated() {
    for text in [
        XPRV.to_owned(),
        format!("wpkh({XPRV}/0/*)"),
        format!("wpkh([deadbeef/84h]{XPRV}/0/*)#00000000"),
        format!("wsh(multi(2,{A}/*,{XPRV}/*))"),
        "pk(L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1)".to_owned(),
        "pkh(5KYZdUEo39z3FPrtuX2QbbwGnNP5zTd7yyr2SC1j299sBCnWjss)".to_owned(),
        format!("nonsense({XPRV}"),
        format!("{XPRV}é"),
    ] {
        let error = refusal(&text);
        assert_eq!(error, DescriptorError::PrivateKey, "{text}");
        assert!(error.to_string().contains("only public keys are accepted"));
        assert!(!error.to_string().contains("xprv"));
    }
}

#[test]
fn hostile_texts_are_refused_or_have_few_keys() {
    let steps = format!("wpkh({C}{})", "/0".repeat(200));
    let keys = |count| vec![format!("{C}/0/0/*"); count].join(",");
    for text in [
        "(".repeat(9_999),
        "pk(".repeat(3_333),
        format!("wsh({}", "and_v(".repeat(1_600)),
        format!("wsh({}pk({KEY}){}", "or_i(0,".repeat(380), ")".repeat(381)),
        format!("wsh({}:pk({KEY}))", "a".repeat(9_000)),
        format!("wsh(multi(1,{}))", keys(80)),
        format!("tr({KEY},multi_a(1,{}))", keys(80)),
        format!("tr({KEY},{}pk({KEY}){})", "{".repeat(120), format!(",pk({KEY})}}").repeat(120)),
        steps,
        format!("wpkh({C}/<{}>/*)", (0..1_500).map(|at| at.to_string()).collect::<Vec<_>>().join(";")),
        "[".repeat(9_000),
        "#".repeat(9_000),
        ",".repeat(9_000),
    ] {
        // each key of each branch is parsed and derived once for a script: that is the work, whatever the machine
        if let Ok(descriptor) = OutputDescriptor::parse(&text, Network::Bitcoin) {
            let most = LONGEST_DESCRIPTOR / KEY.len();
            assert!(descriptor.keys() <= most && descriptor.branches() <= MOST_BRANCHES, "{}…", &text[..40]);
            descriptor.branch(0).unwrap().script(0).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(wpkh|sh|wsh|tr|multi|sortedmulti_a|combo|pk|raw|addr|x)?[(]?[ -~]{0,120}", cut in any::<prop::sample::Index>()) {
        let _ = OutputDescriptor::parse(&text, Network::Bitcoin);
        let valid = format!("sh(wsh(sortedmulti(1,[deadbeef/1h]{A}/<0;1>/*,{B}/*)))");
        let at = cut.index(valid.len());
        let _ = OutputDescriptor::parse(&valid[..at], Network::Bitcoin);
        let _ = OutputDescriptor::parse(&format!("{}{text}{}", &valid[..at], &valid[at..]), Network::Bitcoin);
        let tree = format!("tr({A}/*,{{sortedmulti_a(1,{A}/*,{B}/*),{{pk({C}),sortedmulti_a(1,{D}/*)}}}})");
        let at = cut.index(tree.len());
        let _ = OutputDescriptor::parse(&tree[..at], Network::Bitcoin);
        let _ = OutputDescriptor::parse(&format!("{}{text}{}", &tree[..at], &tree[at..]), Network::Bitcoin);
        let _ = OutputDescriptor::parse(&format!("combo({text})"), Network::Bitcoin);
    }
}
