//! Wide integers as doubles, for rates and averages. Rust has no lossless conversion that refuses what does not fit,
//! and none is needed here: a quotient may be off in its last digit.

/// The double nearest to the number: exact below 2^53, and off by no more than the last digit above.
#[must_use]
pub fn to_f64(number: impl Into<u128>) -> f64 {
    from_bytes(&number.into().to_be_bytes())
}

/// The double nearest to a big-endian number of any width.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> f64 {
    const TWO_POW_32: f64 = 4_294_967_296.0;
    let (front, words) = bytes.as_rchunks::<4>();
    let front = front.iter().fold(0.0, |number, byte| number * 256.0 + f64::from(*byte));
    words.iter().fold(front, |number, word| number * TWO_POW_32 + f64::from(u32::from_be_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_of_any_width_are_a_number() {
        for (bytes, number) in [
            (&[][..], 0.0),
            (&[7], 7.0),
            (&[1, 0], 256.0),
            (&[1, 0, 0, 0, 0], 4_294_967_296.0),
            (&[1, 2, 3, 4, 5], 4_328_719_365.0),
        ] {
            assert!((from_bytes(bytes) - number).abs() < f64::EPSILON, "{bytes:?}");
        }
        let mut two_pow_255 = [0; 32];
        two_pow_255[0] = 0x80;
        assert!((from_bytes(&two_pow_255) / 2.0_f64.powi(255) - 1.0).abs() < f64::EPSILON);
    }

    proptest! {
        #[test]
        fn below_2_pow_53_it_is_exact(number in 0_u64..1 << 53) {
            // the shortest decimal form of a whole double is its digits
            prop_assert_eq!(format!("{:.0}", to_f64(number)), number.to_string());
        }

        #[test]
        fn above_it_is_the_nearest_or_next_to_it(number: u128) {
            let nearest: f64 = number.to_string().parse().unwrap();
            prop_assert!((to_f64(number) - nearest).abs() <= nearest * f64::EPSILON);
        }
    }
}
