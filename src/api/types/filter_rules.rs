//! Conditions of a filter that no row can meet: they are refused, because an empty list would look like an answer.

use std::fmt::Display;

use crate::api::error::ApiError;

/// A lower bound of a filter and its upper bound, each with its name. Errors: BAD_USER_INPUT if the upper is below the lower.
pub(crate) fn check_bounds<T: PartialOrd + Display>(
    (lower_name, lower): (&str, Option<T>),
    (upper_name, upper): (&str, Option<T>),
) -> Result<(), ApiError> {
    match (lower, upper) {
        (Some(lower), Some(upper)) if upper < lower => {
            let fault = format!("is {lower}, and filter.{upper_name} is {upper}, which is below it");
            Err(ApiError::bad_argument(format!("filter.{lower_name}"), fault))
        }
        _ => Ok(()),
    }
}

/// A bound of a figure that is never negative. Errors: BAD_USER_INPUT below 0.
pub(crate) fn check_not_negative(name: &str, what: &str, bound: Option<f64>) -> Result<(), ApiError> {
    match bound.filter(|bound| *bound < 0.0) {
        Some(bound) => {
            let fault = format!("is {bound}, and {what} cannot be negative");
            Err(ApiError::bad_argument(format!("filter.{name}"), fault))
        }
        None => Ok(()),
    }
}

/// A list of which a row must have one or all. Errors: BAD_USER_INPUT if it is empty.
pub(crate) fn check_not_empty<T>(name: &str, list: Option<&[T]>) -> Result<(), ApiError> {
    match list {
        Some([]) => {
            let fault = "is an empty list: give at least one, or leave the condition out";
            Err(ApiError::bad_argument(format!("filter.{name}"), fault))
        }
        _ => Ok(()),
    }
}

/// Two conditions, each with its name and its value, that exclude each other, and why. Errors: BAD_USER_INPUT if both are
/// given.
pub(crate) fn check_not_both(
    are_given: bool,
    (one, one_value): (&str, impl Display),
    (other, other_value): (&str, impl Display),
    why: &str,
) -> Result<(), ApiError> {
    if are_given {
        let fault = format!("is {one_value}, and filter.{other} is {other_value}, which exclude each other: {why}");
        return Err(ApiError::bad_argument(format!("filter.{one}"), fault));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<(), ApiError>) -> Option<String> {
        result.err().map(|error| async_graphql::Error::from(error).message)
    }

    #[test]
    fn conditions_that_no_row_can_meet_are_refused() {
        assert_eq!(check_bounds(("minValue", Some(2)), ("maxValue", Some(2))), Ok(()));
        assert_eq!(check_bounds(("minValue", Some(2)), ("maxValue", None)), Ok(()));
        assert_eq!(
            message(check_bounds(("minFeeRate", Some(2.5)), ("maxFeeRate", Some(2.0)))).unwrap(),
            "filter.minFeeRate is 2.5, and filter.maxFeeRate is 2, which is below it"
        );
        assert_eq!(check_not_negative("minFeeRate", "a feerate", Some(0.0)), Ok(()));
        assert_eq!(
            message(check_not_negative("minFeeRate", "a feerate", Some(-1.0))).unwrap(),
            "filter.minFeeRate is -1, and a feerate cannot be negative"
        );
        assert_eq!(
            (check_not_empty("features", Some(&[1])), check_not_empty::<i32>("features", None)),
            (Ok(()), Ok(()))
        );
        assert_eq!(
            message(check_not_empty::<i32>("features", Some(&[]))).unwrap(),
            "filter.features is an empty list: give at least one, or leave the condition out"
        );
        assert_eq!(
            message(check_not_both(true, ("isEmpty", true), ("minTxCount", 2), "one has the coinbase alone")).unwrap(),
            "filter.isEmpty is true, and filter.minTxCount is 2, which exclude each other: one has the coinbase alone"
        );
    }
}
