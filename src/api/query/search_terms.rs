//! What a text in a search field may mean: pure parsing.
//!
//! | text | meaning |
//! |---|---|
//! | at most ten decimal digits | a height |
//! | 64 hexadecimal digits | a hash of a block, a transaction or a script, or the key of a taproot output |
//! | 64 hexadecimal digits, a colon, decimal digits | an outpoint |
//! | an address of the network | that address |
//! | at least six characters with which an address of the network may begin | used addresses that do |
//! | an even number of hexadecimal digits | a script |
//! | what has a bracket, or begins like an extended public key | a descriptor, which is parsed where it is used |
//! | anything else with a letter, and three letters or digits | the beginning of a pool's name |
//!
//! One text may mean several of these. White space counts nowhere, upper case only where base58 and descriptors need it, and
//! a `bitcoin:` URI (BIP21) means its address.

use bitcoin::hashes::Hash;
use bitcoin::{Network, OutPoint, ScriptBuf, Txid};

use crate::chain::pools::slug;
use crate::chain::{Height, address_beginning, parse_address};

/// The longest text: the digits of the longest script that is not unspendable.
pub(crate) const LONGEST_TEXT: usize = 20_000;

/// The fewest letters and digits of a name that is looked for, and the most characters.
const SHORTEST_NAME: usize = 3;
const LONGEST_NAME: usize = 60;

/// The most digits of a height of 32 bits. What is longer is a hash or a script, whatever its digits.
const HEIGHT_DIGITS: usize = 10;

const SCHEME: &str = "bitcoin:";

/// What a text may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SearchTerm {
    Height(Height),
    /// 32 bytes in the order of the text.
    Hash([u8; 32]),
    OutPoint(OutPoint),
    /// The script of an address of the network.
    Address(ScriptBuf),
    /// With which addresses of the network may begin, as they are written.
    AddressPrefix(String),
    Script(ScriptBuf),
    /// What the slug of a pool may begin with.
    Pool(String),
    /// What may be a descriptor or an extended public key.
    Descriptor(String),
}

/// The text without white space, and of a URI only its address.
pub(crate) fn normalised(text: &str) -> String {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let is_uri = text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    if !is_uri {
        return text;
    }
    let path = &text[SCHEME.len()..];
    path.find(['?', '#']).map_or(path, |end| &path[..end]).to_owned()
}

/// Everything that a [`normalised`] text may mean.
pub(crate) fn search_terms(text: &str, network: Network) -> Vec<SearchTerm> {
    let mut terms = Vec::new();
    if (1..=HEIGHT_DIGITS).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit()) {
        terms.extend(text.parse::<u32>().ok().map(|height| SearchTerm::Height(height.into())));
    }
    terms.extend(outpoint(text).map(SearchTerm::OutPoint));
    match parse_address(text, network) {
        Ok(script) => terms.push(SearchTerm::Address(script)),
        Err(_) => terms.extend(address_beginning(text, network).map(SearchTerm::AddressPrefix)),
    }
    if let Some(script) = ScriptBuf::from_hex(text).ok().filter(|script| !script.is_empty()) {
        terms.extend(<[u8; 32]>::try_from(script.as_bytes()).ok().map(SearchTerm::Hash));
        terms.push(SearchTerm::Script(script));
    }
    // an origin may stand before the key
    if text.contains('(') || text.starts_with('[') || text.get(1..4) == Some("pub") {
        terms.push(SearchTerm::Descriptor(text.to_owned()));
    }
    // the beginning of an address may be that of a name
    if terms.iter().all(|term| matches!(term, SearchTerm::AddressPrefix(_))) {
        terms.extend(beginning_of_slug(text).map(SearchTerm::Pool));
    }
    terms
}

/// The slug of a text, if it is the beginning of a name: `F2Pool`, `foundry`.
fn beginning_of_slug(text: &str) -> Option<String> {
    let is_name = (SHORTEST_NAME..=LONGEST_NAME).contains(&text.chars().count());
    let slug = slug(text);
    let says_something = slug.len() >= SHORTEST_NAME && slug.bytes().any(|letter| letter.is_ascii_alphabetic());
    (is_name && says_something).then_some(slug)
}

fn outpoint(text: &str) -> Option<OutPoint> {
    let (txid, vout) = text.split_once(':')?;
    let is_number = vout.bytes().all(|digit| digit.is_ascii_digit());
    let vout = vout.parse().ok().filter(|_| is_number)?;
    Some(OutPoint { txid: txid.parse::<Txid>().ok()?, vout })
}

/// The hash that a text in display order stands for: its bytes reversed.
pub(crate) fn displayed<H: Hash<Bytes = [u8; 32]>>(mut bytes: [u8; 32]) -> H {
    bytes.reverse();
    H::from_byte_array(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    const PROGRAM: &str = "0014751e76e8199196d454941c45d1b3a323f1433bd6";

    fn terms(text: &str) -> Vec<SearchTerm> {
        search_terms(&normalised(text), Network::Regtest)
    }

    fn script(hex: &str) -> ScriptBuf {
        ScriptBuf::from_hex(hex).unwrap()
    }

    #[test]
    fn a_text_means_all_that_it_may_be() {
        let hash = "0123456789abcdef".repeat(4);
        let bytes = <[u8; 32]>::try_from(script(&hash).as_bytes()).unwrap();
        let outpoint = OutPoint { txid: hash.parse().unwrap(), vout: 7 };
        let digits = "12".repeat(32);
        let mut one = [0; 32];
        one[31] = 1;
        for (text, expected) in [
            ("0".to_owned(), vec![SearchTerm::Height(0.into())]),
            ("840".to_owned(), vec![SearchTerm::Height(840.into())]),
            (
                " 840\u{a0}000\n".to_owned(),
                vec![SearchTerm::Height(840_000.into()), SearchTerm::Script(script("840000"))],
            ),
            (format!("{:064}", 1), vec![SearchTerm::Hash(one), SearchTerm::Script(script(&format!("{:064}", 1)))]),
            (hash.clone(), vec![SearchTerm::Hash(bytes), SearchTerm::Script(script(&hash))]),
            (hash.to_uppercase(), vec![SearchTerm::Hash(bytes), SearchTerm::Script(script(&hash))]),
            (format!("{hash}:7"), vec![SearchTerm::OutPoint(outpoint)]),
            (format!("{} : 7", hash.to_uppercase()), vec![SearchTerm::OutPoint(outpoint)]),
            (
                "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt08".to_owned(),
                vec![
                    SearchTerm::AddressPrefix("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt08".to_owned()),
                    SearchTerm::Pool("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt08".to_owned()),
                ],
            ),
            (
                "BCRT1QW508D".to_owned(),
                vec![SearchTerm::AddressPrefix("bcrt1qw508d".to_owned()), SearchTerm::Pool("bcrt1qw508d".to_owned())],
            ),
            (
                "mipcBbFg9gMi".to_owned(),
                vec![SearchTerm::AddressPrefix("mipcBbFg9gMi".to_owned()), SearchTerm::Pool("mipcbbfg9gmi".to_owned())],
            ),
            (digits.clone(), vec![SearchTerm::Hash([0x12; 32]), SearchTerm::Script(script(&digits))]),
            (ADDRESS.to_uppercase(), vec![SearchTerm::Address(script(PROGRAM))]),
            (format!("bitcoin:{ADDRESS}"), vec![SearchTerm::Address(script(PROGRAM))]),
            (
                format!(" BITCOIN:{}?AMOUNT=0.1&label=a%20b#x ", ADDRESS.to_uppercase()),
                vec![SearchTerm::Address(script(PROGRAM))],
            ),
            (
                "bcrt1qw508 d6qejxtd g4y5r3za rvary0c5 xw7kygt0 80".to_owned(),
                vec![SearchTerm::Address(script(PROGRAM))],
            ),
            (PROGRAM.to_owned(), vec![SearchTerm::Script(script(PROGRAM))]),
            ("Foundry USA\n".to_owned(), vec![SearchTerm::Pool("foundryusa".to_owned())]),
            ("f2p".to_owned(), vec![SearchTerm::Pool("f2p".to_owned())]),
            // an address of another network is none of this one, and its letters are those of a name
            ("bc1qw508d6qej".to_owned(), vec![SearchTerm::Pool("bc1qw508d6qej".to_owned())]),
            ("wpkh( x )".to_owned(), vec![SearchTerm::Descriptor("wpkh(x)".to_owned())]),
            ("tpubD6".to_owned(), vec![SearchTerm::Descriptor("tpubD6".to_owned())]),
            ("[d34db33f/84h]vpub5".to_owned(), vec![SearchTerm::Descriptor("[d34db33f/84h]vpub5".to_owned())]),
        ] {
            assert_eq!(terms(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_text_that_means_nothing_has_no_term() {
        let hash = "0123456789abcdef".repeat(4);
        for text in [
            String::new(),
            " \n".to_owned(),
            "bitcoin:".to_owned(),
            "bitcoin:?amount=1".to_owned(),
            "he".to_owned(),
            "«12»34-567".to_owned(),
            "-1".to_owned(),
            "+1".to_owned(),
            "4294967296000".to_owned(),
            "é".repeat(5_000),
            "xyz".repeat(50),
            format!("{hash}:"),
            format!("{hash}:-1"),
            format!("{hash}:+1"),
            format!("{hash}:4294967296"),
            format!("{hash}:1:1"),
        ] {
            assert_eq!(terms(&text), [], "{text:?}");
        }
    }

    #[test]
    fn what_no_address_of_the_network_begins_with_is_no_beginning_of_one() {
        for text in [
            // too short, of mixed case, and with a character that no such address has
            "mipcB",
            "bcrt1Qw508d",
            "bcrt1qb508d",
            "mipc0bFg9gMi",
            "1ipcBbFg9gMi",
            // of another network
            "bc1qw508d6",
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        ] {
            let found = terms(text);
            assert!(matches!(&found[..], [SearchTerm::Pool(_)]), "{text:?}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}", hex in "[0-9a-fA-F:]{0,140}", uri in "(?i)bitcoin:\\PC{0,60}") {
            for text in [text, hex, uri] {
                prop_assert!(terms(&text).len() < 5);
            }
        }
    }
}
