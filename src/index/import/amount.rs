//! Amounts in the records of runs: as many bytes as they need, whose number is in the flags of the record. Amounts are of all
//! sizes, so of varints the processor would mispredict where each ends.

use super::super::codec::{Decoder, low_byte, put_sized, size_of_number};
use super::super::error::IndexError;

/// The flags that are the number of bytes less one. The others are the record's own.
pub(super) const SIZE: u8 = 0b1110_0000;
const SIZE_SHIFT: u32 = SIZE.trailing_zeros();

/// The flags of a record with this amount.
#[inline]
pub(super) fn flags(amount: u64) -> u8 {
    low_byte(size(amount) - 1) << SIZE_SHIFT
}

/// Appends an amount in sat to its record.
#[inline]
pub(super) fn put(record: &mut Vec<u8>, amount: u64) {
    put_sized(record, amount, size(amount));
}

/// Reads the amount of a record with these flags.
#[inline]
pub(super) fn read(record: &mut Decoder<'_>, flags: u8) -> Result<u64, IndexError> {
    record.sized(usize::from(flags >> SIZE_SHIFT) + 1)
}

fn size(amount: u64) -> usize {
    size_of_number(amount).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_amount_survives_whatever_the_other_flags_of_its_record_are(amount: u64, shift in 0_u32..64, others: u8) {
            let (amount, mut record) = (amount >> shift, vec![7]);
            put(&mut record, amount);
            prop_assert_eq!(flags(amount) & !SIZE, 0);
            let mut decoder = Decoder::new("import", &record[1..]);
            prop_assert_eq!(read(&mut decoder, flags(amount) | others & !SIZE).unwrap(), amount);
            decoder.finish().unwrap();
        }
    }
}
