//! The keys of rows: transaction numbers, script keys and txid prefixes, and the salt that keys the latter two.

use std::fmt;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Txid, Wtxid};
use siphasher::sip128::{Hash128, SipHasher24};

/// The position of a transaction in the active chain; the genesis coinbase is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxNum(pub u32);

impl TxNum {
    pub(super) fn to_key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    pub(super) fn from_key(key: [u8; 4]) -> Self {
        Self(u32::from_be_bytes(key))
    }
}

impl fmt::Display for TxNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of an output in the active chain: its transaction's, then its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputPosition {
    /// The position of the transaction.
    pub txnum: TxNum,
    /// The number of the output.
    pub vout: u32,
}

impl OutputPosition {
    /// After every possible output.
    pub const END: Self = Self { txnum: TxNum(u32::MAX), vout: u32::MAX };

    /// Before all outputs of a transaction.
    #[must_use]
    pub fn first_of(txnum: TxNum) -> Self {
        Self { txnum, vout: 0 }
    }

    /// One number for both fields, which sorts as the position does.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        u64::from(self.txnum.0) << 32 | u64::from(self.vout)
    }

    /// The position of a number that [`to_u64`](Self::to_u64) returned.
    #[must_use]
    pub fn from_u64(position: u64) -> Self {
        let (mut txnum, mut vout) = ([0; 4], [0; 4]);
        txnum.copy_from_slice(&position.to_be_bytes()[..4]);
        vout.copy_from_slice(&position.to_be_bytes()[4..]);
        Self { txnum: TxNum(u32::from_be_bytes(txnum)), vout: u32::from_be_bytes(vout) }
    }
}

/// The number of an output or input in its transaction, which rows store in three bytes.
///
/// A block has at most 111,111 outputs (4,000,000 weight units at 36 a piece), so two bytes are not enough and three
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position(u32);

impl Position {
    pub(super) const ZERO: Self = Self(0);

    /// `None` beyond three bytes, where no output of a valid block can be.
    pub(super) fn new(position: u32) -> Option<Self> {
        (position < 1 << 24).then_some(Self(position))
    }

    pub(super) fn to_u32(self) -> u32 {
        self.0
    }

    pub(super) fn to_key(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }

    pub(super) fn from_key([a, b, c]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, a, b, c]))
    }
}

/// The first 10 bytes of a keyed hash of a scriptPubKey, with which rows about a script begin.
///
/// Keyed, because with an unkeyed short hash anybody could create two scripts that collide, and their totals would be
/// mixed. Over SHA-256 of the script, so that a script hash alone finds the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptKey(pub(super) [u8; 10]);

impl ScriptKey {
    /// The key as a number, which sorts as the key does.
    pub(super) fn to_number(self) -> u128 {
        self.0.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    /// The key of a number, `None` if it has more than 80 bits.
    pub(super) fn from_number(number: u128) -> Option<Self> {
        let bytes = number.to_be_bytes();
        let (high, low) = bytes.split_at(6);
        (high == [0; 6]).then(|| low.try_into().ok().map(Self)).flatten()
    }
}

/// The first 6 bytes of a keyed hash of a txid or wtxid. Rows found by it are checked against the full id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TxidPrefix(pub(super) [u8; 6]);

/// The random secret of one database, which keys its short hashes (SipHash-2-4-128).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 16]);

impl Salt {
    /// A new secret from the operating system.
    pub(super) fn random() -> Result<Self, getrandom::Error> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt)?;
        Ok(Self(salt))
    }

    fn hash(&self, bytes: &[u8; 32]) -> [u8; 16] {
        let Hash128 { h1, h2 } = SipHasher24::new_with_key(&self.0).hash(bytes);
        (u128::from(h2) << u64::BITS | u128::from(h1)).to_le_bytes()
    }

    /// The key of a scriptPubKey.
    #[must_use]
    pub fn script_key(&self, script_pubkey: &[u8]) -> ScriptKey {
        self.script_hash_key(&sha256::Hash::hash(script_pubkey))
    }

    /// The key of the scriptPubKey that has this SHA-256.
    #[must_use]
    pub fn script_hash_key(&self, script_hash: &sha256::Hash) -> ScriptKey {
        let hash = self.hash(script_hash.as_byte_array());
        let mut key = [0; 10];
        key.copy_from_slice(&hash[..10]);
        ScriptKey(key)
    }

    pub(super) fn txid_prefix(&self, txid: &Txid) -> TxidPrefix {
        let hash = self.txid_hash(txid.as_byte_array());
        let mut prefix = [0; 6];
        prefix.copy_from_slice(&hash[..6]);
        TxidPrefix(prefix)
    }

    pub(super) fn wtxid_prefix(&self, wtxid: &Wtxid) -> TxidPrefix {
        let hash = self.hash(wtxid.as_byte_array());
        let mut prefix = [0; 6];
        prefix.copy_from_slice(&hash[..6]);
        TxidPrefix(prefix)
    }

    /// The keyed hash of a txid, of which its prefix is the beginning.
    pub(super) fn txid_hash(&self, txid: &[u8; 32]) -> [u8; 16] {
        self.hash(txid)
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SipHash-2-4 with 128 bits of the bytes 0 to 31, with the bytes 0 to 15 as key, computed by the paper
    /// (Aumasson and Bernstein, with the constants of the reference implementation).
    const HASH: [u8; 16] =
        [0x7c, 0x39, 0x56, 0xca, 0x5e, 0xea, 0xfc, 0x3e, 0x36, 0x3e, 0x9d, 0x55, 0x65, 0x46, 0xeb, 0x68];

    #[test]
    fn keys_begin_with_the_bytes_of_a_keyed_hash() {
        let numbers = |count: usize| (0..=u8::MAX).take(count).collect::<Vec<_>>();
        let salt = Salt(numbers(16).try_into().unwrap());
        let hashed: [u8; 32] = numbers(32).try_into().unwrap();
        assert_eq!(salt.txid_hash(&hashed), HASH);
        assert_eq!(salt.txid_prefix(&Txid::from_byte_array(hashed)).0, HASH[..6]);
        assert_eq!(salt.script_hash_key(&sha256::Hash::from_byte_array(hashed)).0, HASH[..10]);
    }

    #[test]
    fn keys_depend_on_the_salt_and_the_script_hash_only() {
        let (one, other) = (Salt([1; 16]), Salt([2; 16]));
        assert_eq!(one.script_key(b"script"), one.script_hash_key(&sha256::Hash::hash(b"script")));
        assert_ne!(one.script_key(b"script"), other.script_key(b"script"));
        assert_ne!(one.script_key(b"script"), one.script_key(b"another"));
        assert_ne!(one.txid_prefix(&Txid::all_zeros()), other.txid_prefix(&Txid::all_zeros()));
    }

    #[test]
    fn a_txnum_displays_as_a_number_and_a_salt_stays_secret() {
        assert_eq!(TxNum(142_572).to_string(), "142572");
        assert_eq!(format!("{:?}", Salt([7; 16])), "Salt(secret)");
    }

    #[test]
    fn output_positions_sort_as_the_numbers_they_become() {
        let position = |txnum, vout| OutputPosition { txnum: TxNum(txnum), vout };
        let sorted = [position(0, 0), position(0, 7), position(1, 0), position(1 << 31, 111_111), OutputPosition::END];
        assert!(sorted.is_sorted() && sorted.map(OutputPosition::to_u64).is_sorted());
        assert_eq!(OutputPosition::first_of(TxNum(3)), position(3, 0));
        assert_eq!(sorted.map(|position| OutputPosition::from_u64(position.to_u64())), sorted);
    }

    #[test]
    fn positions_fit_every_output_of_a_block_and_sort_as_numbers() {
        assert_eq!(Position::new(1 << 24), None);
        let (low, high) = (Position::new(255).unwrap(), Position::new(111_111).unwrap());
        assert!(low.to_key() < high.to_key());
        assert_eq!(Position::from_key(high.to_key()), high);
        assert!(TxNum(255).to_key() < TxNum(256).to_key());
    }
}
