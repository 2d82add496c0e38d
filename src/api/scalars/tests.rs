//! What every scalar must hold.

use async_graphql::{Name, ScalarType, Value};

use super::integer::{MAX_EXACT, int, int_of};
use super::*;

/// What every scalar must hold: `is_valid` and `parse` agree on every input.
pub(crate) fn accepts<T: ScalarType>(value: &Value) -> bool {
    let (valid, parsed) = (T::is_valid(value), T::parse(value.clone()).is_ok());
    assert_eq!(valid, parsed, "is_valid and parse disagree on {value}");
    valid
}

#[test]
fn numbers_are_exact_integers_and_strings_are_canonical() {
    for good in [Value::from(0), Value::from(MAX_EXACT), Value::from("0"), Value::from("9007199254740991")] {
        assert!(accepts::<Sats>(&good), "{good}");
    }
    for bad in [
        Value::Null,
        Value::from(-1),
        Value::from(1.5),
        Value::from(MAX_EXACT + 1),
        Value::from("9007199254740992"),
        Value::from(""),
        Value::from("-1"),
        Value::from("+1"),
        Value::from("01"),
        Value::from("1.0"),
        Value::from(" 1"),
        Value::from(true),
        Value::from(vec![1]),
        Value::Enum(Name::new("ONE")),
    ] {
        assert!(!accepts::<Sats>(&bad) && !accepts::<UInt53>(&bad), "{bad}");
    }
    assert!(!accepts::<UInt53>(&Value::from("1")), "a counter is a number");
}

#[test]
fn int_takes_what_fits_and_nothing_else() {
    assert_eq!(int(2_147_483_647), Ok(i32::MAX));
    assert_eq!(int(2_147_483_648).unwrap_err().code(), "INTERNAL_SERVER_ERROR");
    assert_eq!(int_of(7_u64), Ok(7));
    assert_eq!(int_of(1_u64 << 32).unwrap_err().code(), "INTERNAL_SERVER_ERROR");
}
