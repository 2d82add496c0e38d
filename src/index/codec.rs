//! Fields of row values, in order: fixed-width and big-endian, or varints (LEB128: seven bits a byte, lowest first, and a
//! high bit in all but the last byte), or big-endian numbers whose size stands elsewhere in the row.

use super::error::IndexError;

/// Bytes of the longest varint of 128 bits.
const VARINT_128: usize = 19;

/// A size within one block as 32 bits. Blocks are far smaller; a larger size saturates, and the checks of its rows
/// refuse it.
pub(super) fn small(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// Appends a varint.
#[inline]
pub(super) fn put_varint(row: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        row.push(low_bits(value));
    } else {
        put_long_varint(row, value);
    }
}

fn put_long_varint(row: &mut Vec<u8>, value: u64) {
    if value > WORD_VARINT {
        row.push(low_bits(value) | 0x80);
        return put_varint(row, value >> 7);
    }
    let size = varint_size(value);
    let bytes = (spread(value) | CONTINUED & !(u64::MAX << (8 * (size - 1)))).to_le_bytes();
    // a copy whose length is unknown at compile time is a call, so the whole word is copied where that does not make the row grow
    if row.capacity() - row.len() >= bytes.len() {
        let end = row.len() + size;
        row.extend_from_slice(&bytes);
        row.truncate(end);
    } else {
        row.extend_from_slice(&bytes[..size]);
    }
}

/// The largest value whose varint fits a word of eight bytes. Such varints are processed a word at a time: their lengths
/// change from value to value, so the processor mispredicts the end of a loop over their bytes.
const WORD_VARINT: u64 = (1 << 56) - 1;
/// The bit of each byte of a word that says that another follows.
const CONTINUED: u64 = 0x8080_8080_8080_8080;

/// Each seven bits of a value up to [`WORD_VARINT`] in a byte of its own, the lowest in the lowest.
fn spread(value: u64) -> u64 {
    let halves = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// The value whose [`spread`] this is.
fn joined(bytes: u64) -> u64 {
    let quarters = bytes & 0x007f_007f_007f_007f | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let halves = quarters & 0x0000_3fff_0000_3fff | (quarters & 0x3fff_0000_3fff_0000) >> 2;
    halves & 0x0fff_ffff | (halves & 0x0fff_ffff_0000_0000) >> 4
}

/// Appends a varint of up to 128 bits.
pub(super) fn put_varint_128(row: &mut Vec<u8>, mut value: u128) {
    while value > u128::from(u64::MAX) {
        row.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    // no more than 64 bits are left
    put_varint(row, u64::try_from(value).unwrap_or(u64::MAX));
}

/// The bytes of a varint.
pub(super) fn varint_size(value: u64) -> usize {
    // 1 for each begun group of seven bits: 9 / 64 is near enough to 1 / 7, and divides in one shift
    let last_bit = usize::try_from((value | 1).ilog2()).unwrap_or(0);
    (last_bit * 9 + 73) / 64
}

fn low_bits(value: u64) -> u8 {
    (value & 0x7f) as u8
}

/// The bytes of a number without leading zeros. That of 0 is 0.
#[inline]
pub(super) fn size_of_number(value: u64) -> usize {
    WORD - (value.leading_zeros() / 8) as usize
}

/// Appends the low bytes of a number that has no others: so many, eight at most, highest first.
#[inline]
pub(super) fn put_sized(row: &mut Vec<u8>, value: u64, size: usize) {
    // the whole word, and then cut: a copy whose length is unknown at compile time is a call
    row.extend_from_slice(&value.wrapping_shl(unused_bits(size)).to_be_bytes());
    row.truncate(row.len() - WORD + size);
}

/// The low eight bits of a number that has no others.
pub(super) fn low_byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

const WORD: usize = size_of::<u64>();

/// The bits of a word behind so many bytes, [`WORD`] at most.
fn unused_bits(size: usize) -> u32 {
    small(WORD - size) * u8::BITS
}

/// Appends fields to a row.
#[derive(Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    /// An empty row with room for so many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn varint(&mut self, value: impl Into<u64>) -> &mut Self {
        put_varint(&mut self.0, value.into());
        self
    }

    pub(super) fn varint_128(&mut self, value: u128) -> &mut Self {
        put_varint_128(&mut self.0, value);
        self
    }

    /// Bytes behind their number.
    pub(super) fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.varint(bytes.len() as u64).bytes(bytes)
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the fields of a row in order. A row that is too short or too long is [`IndexError::Corrupt`].
pub(super) struct Decoder<'a> {
    table: &'static str,
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(table: &'static str, bytes: &'a [u8]) -> Self {
        Self { table, bytes }
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let (field, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.corrupt("is too short"))?;
        self.bytes = rest;
        Ok(*field)
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8, IndexError> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Result<u64, IndexError> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub(super) fn u128(&mut self) -> Result<u128, IndexError> {
        self.array().map(u128::from_be_bytes)
    }

    /// A varint that fits `T`.
    pub(super) fn varint<T: TryFrom<u128>>(&mut self) -> Result<T, IndexError> {
        if let Some(word) = self.bytes.first_chunk().map(|word| u64::from_le_bytes(*word)) {
            let ends = !word & CONTINUED;
            if ends != 0 {
                let last = usize::try_from(ends.trailing_zeros() / 8).unwrap_or(0);
                self.bytes = &self.bytes[last + 1..];
                // up to the byte that ends it, without the bits that say that another follows
                let own = word & !CONTINUED & (ends ^ (ends - 1));
                return T::try_from(joined(own).into()).map_err(|_| self.corrupt("has a number that is too large"));
            }
        }
        let mut value = 0_u64;
        // fewer than eight bytes are left, or the varint has more; nearly all fit 63 bits
        for (byte, shift) in self.bytes.iter().take(9).zip((0..).step_by(7)) {
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[shift / 7 + 1..];
                return T::try_from(value.into()).map_err(|_| self.corrupt("has a number that is too large"));
            }
        }
        self.long_varint()
    }

    #[cold]
    fn long_varint<T: TryFrom<u128>>(&mut self) -> Result<T, IndexError> {
        let mut value = 0_u128;
        for (byte, shift) in self.bytes.iter().take(VARINT_128).zip((0..).step_by(7)) {
            value |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[shift / 7 + 1..];
                return T::try_from(value).map_err(|_| self.corrupt("has a number that is too large"));
            }
        }
        Err(self.corrupt("has a number without an end"))
    }

    /// A varint that fits 32 bits, in less time than [`Decoder::varint`] takes.
    #[inline]
    pub(super) fn varint_32(&mut self) -> Result<u32, IndexError> {
        match self.bytes {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.bytes = rest;
                Ok((*byte).into())
            }
            _ => self.varint(),
        }
    }

    /// A number of so many bytes, which [`put_sized`] has written. More than eight are [`IndexError::Corrupt`].
    #[inline]
    pub(super) fn sized(&mut self, size: usize) -> Result<u64, IndexError> {
        if size > WORD {
            return Err(self.corrupt("has a number that is too large"));
        }
        let word = match self.bytes.first_chunk().copied() {
            Some(word) => {
                self.bytes = &self.bytes[size..];
                word
            }
            None => self.last_word(size)?,
        };
        Ok(u64::from_be_bytes(word).checked_shr(unused_bits(size)).unwrap_or(0))
    }

    /// So many bytes of a row that has fewer than a word, and zeros.
    fn last_word(&mut self, size: usize) -> Result<[u8; WORD], IndexError> {
        let mut word = [0; WORD];
        word[..size].copy_from_slice(self.take(size)?);
        Ok(word)
    }

    /// The next bytes, as many as this.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], IndexError> {
        let (field, rest) = self.bytes.split_at_checked(count).ok_or_else(|| self.corrupt("is too short"))?;
        self.bytes = rest;
        Ok(field)
    }

    /// Bytes behind their number.
    pub(super) fn blob(&mut self) -> Result<&'a [u8], IndexError> {
        let count = self.varint()?;
        self.take(count)
    }

    /// A key behind the number of its bytes, `None` if that is 0.
    pub(super) fn optional_key<const N: usize>(&mut self) -> Result<Option<[u8; N]>, IndexError> {
        match self.blob()? {
            [] => Ok(None),
            key => key.try_into().map(Some).map_err(|_| self.corrupt("has a key of another length")),
        }
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The remaining bytes.
    pub(super) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Ends the row; remaining bytes are an error.
    pub(super) fn finish(self) -> Result<(), IndexError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.corrupt("is too long")) }
    }

    #[cold]
    pub(super) fn corrupt(&self, what: &str) -> IndexError {
        IndexError::corrupt(self.table, format!("a row {what}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_survive_encoding_in_the_computed_size(
            value: u128,
            shift in 0_u32..128,
            other: u64,
            room in 0_usize..30,
        ) {
            let (value, mut row) = (value >> shift, Vec::with_capacity(room));
            put_varint_128(&mut row, value);
            if let Ok(value) = u64::try_from(value) {
                prop_assert_eq!(row.len(), varint_size(value));
            }
            put_varint(&mut row, other);
            let mut decoder = Decoder::new("blocks", &row);
            prop_assert_eq!(decoder.varint::<u128>().unwrap(), value);
            prop_assert_eq!(decoder.varint::<u64>().unwrap(), other);
            decoder.finish().unwrap();
        }

        #[test]
        fn sized_numbers_are_their_low_bytes_whatever_is_behind_them(
            value: u64,
            shift in 0_u32..64,
            zeros in 0_usize..8,
            behind in prop::collection::vec(any::<u8>(), 0..10),
            room in 0_usize..30,
        ) {
            let value = value >> shift;
            let size = size_of_number(value);
            let bytes = value.to_be_bytes();
            prop_assert_eq!(size, bytes.iter().skip_while(|byte| **byte == 0).count());
            let (size, mut row) = ((size + zeros).min(8), Vec::with_capacity(room));
            put_sized(&mut row, value, size);
            prop_assert_eq!(&row, &bytes[8 - size..]);
            prop_assert!(size == 0 || Decoder::new("blocks", &row[1..]).sized(size).is_err(), "a byte is missing");
            row.extend(&behind);
            let mut decoder = Decoder::new("blocks", &row);
            prop_assert_eq!(decoder.sized(size).unwrap(), value);
            prop_assert_eq!(decoder.rest(), behind);
            prop_assert!(Decoder::new("blocks", &[0; 20]).sized(9 + zeros).is_err());
        }

        #[test]
        fn any_bytes_decode_to_a_varint_or_an_error(row in prop::collection::vec(any::<u8>(), 0..40)) {
            let (mut decoder, mut bytes) = (Decoder::new("blocks", &row), row.iter());
            loop {
                // seven bits a byte, whether or not fewer bytes would do, up to the first that is below 128
                let (mut expected, mut shift) = (0_u128, 0);
                let is_ended = bytes.by_ref().take(VARINT_128).any(|byte| {
                    expected |= u128::from(byte & 0x7f) << shift;
                    shift += 7;
                    *byte < 0x80
                });
                let found = decoder.varint::<u128>();
                if !is_ended {
                    prop_assert!(found.is_err());
                    break;
                }
                prop_assert_eq!((found.unwrap(), decoder.left()), (expected, bytes.len()));
            }
        }
    }

    #[test]
    fn varints_are_seven_bits_a_byte_whatever_is_behind_them() {
        for bits in 0..64 {
            for value in [1 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                let (mut expected, mut rest) = (Vec::new(), value);
                while rest > 0x7f {
                    expected.push(0x80 | low_bits(rest));
                    rest >>= 7;
                }
                expected.push(low_bits(rest));
                for room in [0, 30] {
                    let mut row = Vec::with_capacity(room);
                    put_varint(&mut row, value);
                    assert_eq!(row, expected, "{value}");
                }
                for behind in [&[][..], &[0xff; 8]] {
                    let row = [&expected, behind].concat();
                    let mut decoder = Decoder::new("blocks", &row);
                    assert_eq!(decoder.varint::<u64>().unwrap(), value);
                    assert_eq!(decoder.rest(), behind, "{value}");
                }
            }
        }
    }

    #[test]
    fn a_varint_that_does_not_fit_or_does_not_end_is_an_error() {
        let mut row = Vec::new();
        put_varint(&mut row, 1 << 32);
        assert!(Decoder::new("blocks", &row).varint::<u32>().is_err());
        assert!(Decoder::new("blocks", &row[..4]).varint::<u64>().is_err());
        assert!(Decoder::new("blocks", &[0xff; 30]).varint::<u128>().is_err());
    }
}
