use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use jiff::Timestamp;

/// A moment, to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTime(u32);

impl DateTime {
    /// This many seconds after 1970 began, UTC.
    pub(crate) fn from_unix(seconds: u32) -> Self {
        Self(seconds)
    }

    /// The same for seconds of a wider type, as far as the calendar of block headers goes.
    pub(crate) fn from_seconds(seconds: u64) -> Self {
        Self(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// This moment, as far as the calendar of block headers goes: from 1970 to 2106.
    pub(crate) fn from_system(moment: SystemTime) -> Self {
        Self::from_seconds(moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// Seconds after 1970 began, UTC.
    pub(crate) fn to_unix(self) -> u32 {
        self.0
    }
}

/// A UTC time with a resolution of one second in RFC 3339 format: 2009-01-03T18:15:05Z. Input must also be UTC, between
/// 1970 and 2106, the range of block timestamps.
#[Scalar(specified_by_url = "https://www.rfc-editor.org/rfc/rfc3339")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<Self> {
        match moment(&value) {
            Some(seconds) => Ok(Self(seconds)),
            None => Err(InputValueError::expected_type(value)),
        }
    }

    fn is_valid(value: &Value) -> bool {
        moment(value).is_some()
    }

    fn to_value(&self) -> Value {
        text(self.0).map_or(Value::Null, Value::from)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.0).unwrap_or_default())
    }
}

/// `None` never: every 32-bit second lies within the years that the calendar knows.
fn text(seconds: u32) -> Option<String> {
    Timestamp::from_second(seconds.into()).ok().map(|moment| moment.to_string())
}

fn moment(value: &Value) -> Option<u32> {
    let Value::String(input) = value else { return None };
    let moment: Timestamp = input.parse().ok()?;
    let seconds = u32::try_from(moment.as_second()).ok()?;
    // the parser takes more than RFC 3339; what we would write ourselves is the form we take
    (text(seconds).as_ref() == Some(input)).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scalars::tests::accepts;

    #[test]
    fn a_moment_is_written_and_read_in_one_form() {
        for (seconds, text) in
            [(0, "1970-01-01T00:00:00Z"), (1_231_006_505, "2009-01-03T18:15:05Z"), (u32::MAX, "2106-02-07T06:28:15Z")]
        {
            assert_eq!(DateTime::from_unix(seconds).to_value(), Value::from(text));
            assert_eq!(DateTime::parse(Value::from(text)).unwrap(), DateTime(seconds));
        }
        for bad in [
            "2009-01-03",
            "2009-01-03 18:15:05Z",
            "2009-01-03T18:15:05",
            "2009-01-03T18:15:05+00:00",
            "2009-01-03T18:15:05.5Z",
            "2009-02-30T18:15:05Z",
            "1969-12-31T23:59:59Z",
            "2106-02-07T06:28:16Z",
            "now",
        ] {
            assert!(!accepts::<DateTime>(&Value::from(bad)), "{bad}");
        }
        assert!(!accepts::<DateTime>(&Value::from(1_231_006_505)));
    }
}
