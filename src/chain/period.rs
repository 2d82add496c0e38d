//! Periods: how the blocks of a chain are put together to the points of a series.
//!
//! Times are in UTC, and those of blocks are their medians of past times, which never fall (BIP113): so the blocks of a period
//! of the calendar follow each other, and each block is in one.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const HOUR: u32 = 3_600;
const DAY: u32 = 24 * HOUR;

/// What a point of a series stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeriesGroup {
    /// One block.
    Block,
    /// The blocks of an hour, a day, a week or a month.
    Calendar(CalendarUnit),
    /// The blocks of a difficulty epoch.
    Epoch,
    /// The blocks from one halving to the next.
    Halving,
}

/// A unit of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// 3,600 seconds.
    Hour,
    /// From midnight to midnight.
    Day,
    /// Seven days from Monday on (ISO 8601).
    Week,
    /// A month of the Gregorian calendar.
    Month,
}

impl CalendarUnit {
    /// The number of the period that contains a second since 1970. The first is that of the beginning of 1970.
    #[must_use]
    pub fn index(self, second: u32) -> u32 {
        match self {
            Self::Hour => second / HOUR,
            Self::Day => second / DAY,
            // 1970 begins on a Thursday
            Self::Week => (second / DAY + 3) / 7,
            Self::Month => month(second),
        }
    }

    /// The first second of the period with this number, and the last. Neither is before 1970, nor after the last second of 32
    /// bits, in 2106.
    #[must_use]
    pub fn seconds(self, index: u32) -> (u32, u32) {
        let (start, next) = (self.start(index), self.start(index.saturating_add(1)));
        let second = |second: u64| u32::try_from(second).unwrap_or(u32::MAX);
        (second(start), second(next.saturating_sub(1)))
    }

    fn start(self, index: u32) -> u64 {
        let index = u64::from(index);
        match self {
            Self::Hour => index * u64::from(HOUR),
            Self::Day => index * u64::from(DAY),
            Self::Week => (index * 7).saturating_sub(3) * u64::from(DAY),
            Self::Month => month_start(index).unwrap_or(u64::MAX),
        }
    }
}

/// Months from January 1970 to that of a second.
fn month(second: u32) -> u32 {
    // every 32-bit second lies within the years that the calendar knows
    let date = Timestamp::from_second(second.into()).unwrap_or_default().to_zoned(TimeZone::UTC).date();
    let (year, month) = (i32::from(date.year()), i32::from(date.month()));
    u32::try_from((year - 1_970) * 12 + month - 1).unwrap_or_default()
}

/// `None` beyond the years that the calendar knows.
fn month_start(index: u64) -> Option<u64> {
    let year = i16::try_from(1_970 + index / 12).ok()?;
    let date = Date::new(year, i8::try_from(index % 12 + 1).ok()?, 1).ok()?;
    u64::try_from(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::CalendarUnit::{Day, Hour, Month, Week};
    use super::*;

    fn second(text: &str) -> u32 {
        text.parse::<Timestamp>().unwrap().as_second().try_into().unwrap()
    }

    #[test]
    fn a_period_is_that_of_the_calendar_in_utc() {
        for (unit, within, first, last) in [
            (Hour, "2026-03-01T13:59:59Z", "2026-03-01T13:00:00Z", "2026-03-01T13:59:59Z"),
            (Day, "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-01T23:59:59Z"),
            (Week, "2026-03-01T12:00:00Z", "2026-02-23T00:00:00Z", "2026-03-01T23:59:59Z"),
            (Week, "2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-08T23:59:59Z"),
            (Week, "1970-01-02T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-04T23:59:59Z"),
            (Month, "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-02-29T23:59:59Z"),
            (Month, "2100-02-28T23:59:59Z", "2100-02-01T00:00:00Z", "2100-02-28T23:59:59Z"),
            (Month, "2025-12-31T23:59:59Z", "2025-12-01T00:00:00Z", "2025-12-31T23:59:59Z"),
        ] {
            assert_eq!(unit.seconds(unit.index(second(within))), (second(first), second(last)), "{within}");
        }
    }

    proptest! {
        #[test]
        fn every_second_is_in_its_period_and_no_other(second: u32) {
            for unit in [Hour, Day, Week, Month] {
                let index = unit.index(second);
                let (first, last) = unit.seconds(index);
                prop_assert!((first..=last).contains(&second), "{:?} {}", unit, second);
                if let Some(next) = last.checked_add(1) {
                    prop_assert_eq!((unit.index(next), unit.seconds(index + 1).0), (index + 1, next));
                }
                prop_assert_eq!(unit.index(first), index);
            }
        }
    }
}
