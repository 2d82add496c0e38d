//! Reading figures out of an answer, and saying which do not fit.

use std::fmt::Debug;

use serde_json::Value;

/// What does not fit.
pub(super) type Checked = Result<(), String>;

#[track_caller]
// most of what is compared is worked out on the spot
#[allow(clippy::needless_pass_by_value)]
pub(super) fn same<T: PartialEq + Debug>(what: &str, left: T, right: T) -> Checked {
    if left == right { Ok(()) } else { Err(format!("{what}: {left:?} is not {right:?}")) }
}

pub(super) fn holds(what: &str, holds: bool) -> Checked {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// What is found on a path of fields, parted by dots.
#[track_caller]
pub(super) fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, field| {
        value.get(field).unwrap_or_else(|| panic!("there is no {field} of {path} in {value}"))
    })
}

/// An exact number, which may be written as a string of digits.
#[track_caller]
pub(super) fn int(value: &Value, path: &str) -> i128 {
    let found = at(value, path);
    let number = found.as_i64().map(i128::from).or_else(|| found.as_str()?.parse().ok());
    number.unwrap_or_else(|| panic!("{path} is no number: {found}"))
}

#[track_caller]
pub(super) fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    let found = at(value, path);
    found.as_str().unwrap_or_else(|| panic!("{path} is no text: {found}"))
}

#[track_caller]
pub(super) fn flag(value: &Value, path: &str) -> bool {
    let found = at(value, path);
    found.as_bool().unwrap_or_else(|| panic!("{path} is neither true nor false: {found}"))
}

#[track_caller]
pub(super) fn list<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    let found = at(value, path);
    found.as_array().unwrap_or_else(|| panic!("{path} is no list: {found}"))
}

/// The rows of a connection's page.
#[track_caller]
pub(super) fn rows<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    list(at(value, path), "nodes")
}

/// The rows of a connection, if the page holds all of them.
#[track_caller]
pub(super) fn whole<'v>(value: &'v Value, path: &str) -> Option<&'v [Value]> {
    (!flag(value, &format!("{path}.pageInfo.hasNextPage"))).then(|| rows(value, path))
}

/// The sum of one figure over rows.
#[track_caller]
pub(super) fn sum<'v>(rows: impl IntoIterator<Item = &'v Value>, path: &str) -> i128 {
    rows.into_iter().map(|row| int(row, path)).sum()
}

#[track_caller]
pub(super) fn count(rows: impl IntoIterator) -> i128 {
    i128::try_from(rows.into_iter().count()).unwrap()
}
