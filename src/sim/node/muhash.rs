//! MuHash3072: the hash of a set, here of the unspent outputs, which does not depend on their order. Each element
//! becomes a number of 3072 bits; the hash of the set is that of their product modulo the prime 2^3072 - 1103717
//! (Core's `src/crypto/muhash.h`).

use bitcoin::hashes::{Hash, sha256};

/// Limbs of 64 bits, the lowest first.
const LIMBS: usize = 48;
const BYTES: usize = 8 * LIMBS;
/// The difference of 2^3072 and the modulus.
const BELOW: u64 = 1_103_717;
/// The words that the state of ChaCha20 begins with (RFC 8439, section 2.3).
const CHACHA_CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// A product of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MuHash([u64; LIMBS]);

impl MuHash {
    /// The hash of the empty set.
    pub(super) fn new() -> MuHash {
        let mut one = [0; LIMBS];
        one[0] = 1;
        MuHash(one)
    }

    /// Adds an element.
    pub(super) fn insert(&mut self, element: &[u8]) {
        self.multiply(&number(element));
    }

    /// The hash as Core displays it: its bytes reversed.
    pub(super) fn finish(mut self) -> String {
        // the product is below 2^3072, which may be above the modulus
        if self.0[1..].iter().all(|limb| *limb == u64::MAX) && self.0[0] >= u64::MAX - (BELOW - 1) {
            add(&mut self.0, BELOW);
        }
        let mut bytes = [0; BYTES];
        for (bytes, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&limb.to_le_bytes());
        }
        let mut hash = sha256::Hash::hash(&bytes).to_byte_array();
        hash.reverse();
        sha256::Hash::from_byte_array(hash).to_string()
    }

    fn multiply(&mut self, factor: &[u64; LIMBS]) {
        let mut product = [0_u64; 2 * LIMBS];
        for (index, limb) in self.0.iter().enumerate() {
            let mut carry = 0;
            for (place, other) in product[index..].iter_mut().zip(factor) {
                (*place, carry) = limb.carrying_mul_add(*other, *place, carry);
            }
            product[index + LIMBS] = carry;
        }
        // 2^3072 is congruent to BELOW, so the upper half is multiplied by it
        let (low, high) = product.split_at(LIMBS);
        let mut carry = 0;
        for ((place, low), high) in self.0.iter_mut().zip(low).zip(high) {
            (*place, carry) = high.carrying_mul_add(BELOW, *low, carry);
        }
        // the carry is about as small as BELOW, so one more round reduces it, or two
        let mut over = u128::from(carry) * u128::from(BELOW);
        while over > 0 {
            // both are far below 2^32, so their product fits
            let small = u64::try_from(over).unwrap_or(u64::MAX);
            over = if add(&mut self.0, small) { u128::from(BELOW) } else { 0 };
        }
    }
}

/// Adds a small number; true when the sum reached 2^3072 and wrapped.
fn add(limbs: &mut [u64; LIMBS], small: u64) -> bool {
    let mut carry = small;
    for limb in limbs {
        let (sum, wrapped) = limb.overflowing_add(carry);
        *limb = sum;
        carry = u64::from(wrapped);
        if carry == 0 {
            return false;
        }
    }
    true
}

/// The number of an element: the key stream of ChaCha20 under its hash.
fn number(element: &[u8]) -> [u64; LIMBS] {
    let key = sha256::Hash::hash(element).to_byte_array();
    let mut limbs = [0; LIMBS];
    for (block, limbs) in (0..).zip(limbs.chunks_exact_mut(8)) {
        let words = chacha20_block(&key, block);
        for (limb, pair) in limbs.iter_mut().zip(words.chunks_exact(2)) {
            *limb = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        }
    }
    limbs
}

/// A block of ChaCha20's key stream with a nonce of zeros (RFC 8439, section 2.3).
fn chacha20_block(key: &[u8; 32], counter: u32) -> [u32; 16] {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&CHACHA_CONSTANTS);
    for (word, bytes) in start[4..12].iter_mut().zip(key.chunks_exact(4)) {
        *word = u32::from_le_bytes(std::array::from_fn(|index| bytes[index]));
    }
    start[12] = counter;
    let mut state = start;
    for _ in 0..10 {
        for column in 0..4 {
            quarter_round(&mut state, [column, column + 4, column + 8, column + 12]);
        }
        for diagonal in 0..4 {
            let places = [diagonal, 4 + (diagonal + 1) % 4, 8 + (diagonal + 2) % 4, 12 + (diagonal + 3) % 4];
            quarter_round(&mut state, places);
        }
    }
    std::array::from_fn(|index| state[index].wrapping_add(start[index]))
}

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (first, second, third, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[first] = state[first].wrapping_add(state[second]);
        state[third] = (state[third] ^ state[first]).rotate_left(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_the_key_stream_is_the_one_of_the_rfc() {
        // RFC 8439, appendix A.1, test vectors 1 and 2: a key and a nonce of zeros
        assert_eq!(chacha20_block(&[0; 32], 0)[..4], [0xade0_b876, 0x903d_f1a0, 0xe56a_5d40, 0x28bd_8653]);
        assert_eq!(chacha20_block(&[0; 32], 1)[..4], [0xbee7_079f, 0x7a38_5155, 0x7c97_ba98, 0x0d08_2d73]);
    }

    #[test]
    fn products_are_taken_modulo_the_prime() {
        let minus_one = {
            let mut limbs = [u64::MAX; LIMBS];
            limbs[0] = u64::MAX - BELOW;
            MuHash(limbs)
        };
        let mut square = minus_one.clone();
        square.multiply(&minus_one.0);
        assert_eq!(square.finish(), MuHash::new().finish());
        // the modulus itself is zero
        let mut modulus = minus_one;
        add(&mut modulus.0, 1);
        assert_eq!(modulus.finish(), MuHash([0; LIMBS]).finish());
    }

    #[test]
    fn the_hash_ignores_the_order_of_elements_but_counts_each() {
        let hash = |elements: &[&[u8]]| {
            let mut hash = MuHash::new();
            for element in elements {
                hash.insert(element);
            }
            hash.finish()
        };
        assert_eq!(hash(&[b"a", b"b", b"c"]), hash(&[b"c", b"a", b"b"]));
        assert_ne!(hash(&[b"a"]), hash(&[b"a", b"a"]));
    }
}
