//! `address_prefixes` (optional): the first 16 characters of an address (12) ‖ script key (10) ‖ txnum (4) → (). One row of
//! each address that a transaction pays. Readers compare the full address.
//!
//! A character has 6 bits, 0 behind the end of the text, in the order of ASCII: rows lie in the order of the addresses as
//! far as their first 16 characters say.

use std::collections::BTreeSet;

use bitcoin::Script;
use redb::TableDefinition;

use super::super::super::keys::{ScriptKey, TxNum};
use super::super::super::optional::RowContext;
use super::{join, script_key_and_txnum, split, split_script_key_and_txnum};
use crate::chain::address_of;
use crate::chain::raw::RawTransaction;

pub(in crate::index) const NAME: &str = "address_prefixes";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 26], ()> = TableDefinition::new(NAME);

/// The version of the rows. Rows of another version are deleted and made again.
pub(in crate::index) const VERSION: u32 = 1;

/// Where the transaction stands in a key.
pub(in crate::index) const TXNUM_AT: usize = 22;

pub(in crate::index) type AddressKey = [u8; 26];

/// Characters of an address in a key.
const CHARACTERS: usize = 16;
/// Bits of a character.
const BITS: usize = 6;

/// The beginning of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::index) struct AddressCode(pub(in crate::index) [u8; 12]);

impl AddressCode {
    /// The beginning of a text, `None` if it has a character that no address has.
    pub(in crate::index) fn of(text: &str) -> Option<Self> {
        Self::padded(text, 0)
    }

    /// The lowest and the highest beginning of an address that begins with this text.
    pub(in crate::index) fn range(text: &str) -> Option<(Self, Self)> {
        Some((Self::padded(text, 0)?, Self::padded(text, (1 << BITS) - 1)?))
    }

    fn padded(text: &str, padding: u8) -> Option<Self> {
        let mut code = 0_u128;
        for at in 0..CHARACTERS {
            let value = text.as_bytes().get(at).map_or(Some(padding), |character| value(*character))?;
            code = code << BITS | u128::from(value);
        }
        let mut bytes = [0; 12];
        bytes.copy_from_slice(&code.to_be_bytes()[4..]);
        Some(Self(bytes))
    }

    /// The characters from the seventh on, as a number of 60 bits that sorts as they do.
    pub(in crate::index) fn after_six(self) -> u64 {
        let last = self.0.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        last & ((1 << (10 * BITS)) - 1)
    }
}

/// 1 to 62 in the order of ASCII, for digits and letters.
fn value(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0' + 1),
        b'A'..=b'Z' => Some(character - b'A' + 11),
        b'a'..=b'z' => Some(character - b'a' + 37),
        _ => None,
    }
}

pub(in crate::index) fn key(address: AddressCode, script: ScriptKey, txnum: TxNum) -> AddressKey {
    join(address.0, script_key_and_txnum(script, txnum))
}

pub(in crate::index) fn split_key(key: &AddressKey) -> (AddressCode, ScriptKey, TxNum) {
    let (address, rest) = split(key);
    let (script, txnum) = split_script_key_and_txnum(&rest);
    (AddressCode(address), script, txnum)
}

/// The keys of a transaction, each once.
pub(in crate::index) fn keys_of(
    context: RowContext,
    txnum: TxNum,
    transaction: &RawTransaction<'_>,
) -> BTreeSet<AddressKey> {
    let key_of = |script: &[u8]| {
        let address = AddressCode::of(&address_of(Script::from_bytes(script), context.network)?)?;
        Some(key(address, context.salt.script_key(script), txnum))
    };
    transaction.outputs().filter_map(|output| key_of(output.script_pubkey)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_survives_encoding() {
        let code = AddressCode::of("bcrt1qw508d6qejxtdg4y5r3z").unwrap();
        let parts = (code, ScriptKey([7; 10]), TxNum(142_572));
        assert_eq!(split_key(&key(parts.0, parts.1, parts.2)), parts);
        assert_eq!(AddressCode::of("bcrt1qw508d6qejx").unwrap(), code);
        assert_eq!(AddressCode::of("bc1 q"), None);
    }

    proptest! {
        #[test]
        fn codes_sort_as_texts_and_ranges_have_what_begins_with_a_text(
            one in "[0-9A-Za-z]{1,20}",
            other in "[0-9A-Za-z]{1,20}",
            cut in 1_usize..20,
        ) {
            let (code, other_code) = (AddressCode::of(&one).unwrap(), AddressCode::of(&other).unwrap());
            prop_assert_eq!(code.cmp(&other_code), one[..one.len().min(16)].cmp(&other[..other.len().min(16)]));
            let beginning = &one[..one.len().min(cut)];
            let (low, high) = AddressCode::range(beginning).unwrap();
            prop_assert!(low <= code && code <= high);
            let is_within = low <= other_code && other_code <= high;
            prop_assert_eq!(is_within, other.starts_with(&beginning[..beginning.len().min(16)]));
        }
    }
}
