//! Which rows a page holds: pure arithmetic over positions.
//!
//! `first` and `after` walk forwards, `last` and `before` backwards, as in the Relay cursor connections specification;
//! both directions at once are refused, because that specification warns of what they would mean together.

use std::ops::Range;

use super::cursor::Scope;
use super::error::ApiError;
use super::limits::Limits;
use crate::view::View;

/// Rows of a page if neither `first` nor `last` is given.
pub(super) const DEFAULT_SIZE: u32 = 25;

/// The paging arguments of a connection as given.
#[derive(Clone, Debug, Default)]
pub(super) struct PageArgs {
    pub(super) first: Option<i32>,
    pub(super) after: Option<String>,
    pub(super) last: Option<i32>,
    pub(super) before: Option<String>,
}

/// How many rows, from which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Take {
    First(u32),
    Last(u32),
}

/// Paging arguments that make sense: positions instead of cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRequest {
    take: Take,
    after: Option<u32>,
    before: Option<u32>,
}

/// The rows of a page, by position, and whether there are others around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) rows: Range<u32>,
    pub(super) has_previous: bool,
    pub(super) has_next: bool,
}

impl PageArgs {
    /// What is asked for.
    ///
    /// Errors: BAD_USER_INPUT for both directions at once, a negative count and cursors from elsewhere;
    /// QUERY_LIMIT_EXCEEDED for more rows than the limits allow; CURSOR_ORPHANED as [`Scope::position`] says.
    pub(super) fn read(&self, scope: &Scope, view: &View, limits: &Limits) -> Result<PageRequest, ApiError> {
        let take = take(self.first, self.last, limits.page_size.min(Limits::MAX_PAGE_SIZE))?;
        let position = |cursor: &Option<String>| cursor.as_deref().map(|cursor| scope.position(cursor, view));
        let (after, before) = (position(&self.after).transpose()?, position(&self.before).transpose()?);
        match take {
            Take::First(_) if before.is_some() && self.first.is_some() => Err(mixed("first", "before")),
            Take::Last(_) if after.is_some() => Err(mixed("last", "after")),
            _ if after.is_some() && before.is_some() => Err(mixed("after", "before")),
            // `before` alone asks for the page in front of it
            Take::First(size) if before.is_some() => Ok(PageRequest { take: Take::Last(size), after, before }),
            take => Ok(PageRequest { take, after, before }),
        }
    }
}

fn mixed(one: &str, other: &str) -> ApiError {
    ApiError::bad_user_input(format!("{one} and {other} do not go together: give first and after, or last and before"))
}

fn take(first: Option<i32>, last: Option<i32>, limit: u32) -> Result<Take, ApiError> {
    match (first, last) {
        (Some(_), Some(_)) => Err(mixed("first", "last")),
        (None, None) => Ok(Take::First(DEFAULT_SIZE.min(limit))),
        (Some(count), None) => size("first", count, limit).map(Take::First),
        (None, Some(count)) => size("last", count, limit).map(Take::Last),
    }
}

fn size(name: &'static str, count: i32, limit: u32) -> Result<u32, ApiError> {
    let size = u32::try_from(count)
        .map_err(|_| ApiError::bad_user_input(format!("{name} is {count}, and a count cannot be negative")))?;
    if size > limit {
        return Err(ApiError::limit_exceeded(name, limit.into(), size.into()));
    }
    Ok(size)
}

impl PageRequest {
    /// The page of a list of `count` rows.
    pub(super) fn of(self, count: u32) -> Window {
        let from = self.after.map_or(0, |after| after.saturating_add(1)).min(count);
        let to = self.before.unwrap_or(count).clamp(from, count);
        let rows = match self.take {
            Take::First(size) => from..to.min(from.saturating_add(size)),
            Take::Last(size) => from.max(to.saturating_sub(size))..to,
        };
        Window { has_previous: rows.start > 0, has_next: rows.end < count, rows }
    }
}

/// What a connection costs before its page is known: one for itself, and its rows times what is asked of each.
pub(super) fn cost(first: Option<i32>, last: Option<i32>, per_row: usize) -> usize {
    let rows = match take(first, last, Limits::MAX_PAGE_SIZE) {
        Ok(Take::First(size) | Take::Last(size)) => size,
        Err(_) => 0, // refused before any row is read
    };
    usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(per_row).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn forwards(size: u32, after: Option<u32>) -> PageRequest {
        PageRequest { take: Take::First(size), after, before: None }
    }

    fn backwards(size: u32, before: Option<u32>) -> PageRequest {
        PageRequest { take: Take::Last(size), after: None, before }
    }

    #[test]
    fn a_page_knows_what_is_around_it() {
        for (request, count, rows, has_previous, has_next) in [
            (forwards(3, None), 0, 0..0, false, false),
            (forwards(3, None), 3, 0..3, false, false),
            (forwards(3, None), 4, 0..3, false, true),
            (forwards(3, Some(2)), 4, 3..4, true, false),
            (forwards(3, Some(3)), 4, 4..4, true, false),
            (forwards(3, Some(u32::MAX)), 4, 4..4, true, false),
            (forwards(0, None), 4, 0..0, false, true),
            (backwards(3, None), 4, 1..4, true, false),
            (backwards(3, Some(1)), 4, 0..1, false, true),
            (backwards(3, Some(0)), 4, 0..0, false, true),
            (backwards(3, Some(9)), 4, 1..4, true, false),
            (backwards(0, None), 4, 4..4, true, false),
        ] {
            assert_eq!(request.of(count), Window { rows, has_previous, has_next }, "{request:?} of {count}");
        }
    }

    #[test]
    fn counts_are_refused_when_they_are_negative_too_large_or_two() {
        for (first, last, code) in [
            (Some(-1), None, "BAD_USER_INPUT"),
            (None, Some(i32::MIN), "BAD_USER_INPUT"),
            (Some(1), Some(1), "BAD_USER_INPUT"),
            (Some(1_001), None, "QUERY_LIMIT_EXCEEDED"),
            (None, Some(i32::MAX), "QUERY_LIMIT_EXCEEDED"),
        ] {
            assert_eq!(take(first, last, 100).unwrap_err().code(), code);
            assert_eq!(cost(first, last, 7), 1);
        }
        assert_eq!(take(Some(101), None, 100).unwrap_err().code(), "QUERY_LIMIT_EXCEEDED");
        assert_eq!(take(None, None, 100), Ok(Take::First(25)));
        assert_eq!(take(None, None, 10), Ok(Take::First(10)));
        assert_eq!(take(Some(0), None, 100), Ok(Take::First(0)));
        assert_eq!(take(None, Some(100), 100), Ok(Take::Last(100)));
        assert_eq!(cost(Some(10), None, 7), 71);
        assert_eq!(cost(None, None, usize::MAX), usize::MAX);
    }

    proptest! {
        #[test]
        fn pages_put_together_are_the_list_in_both_directions(count in 0_u32..300, size in 1_u32..=100) {
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let page = forwards(size, after).of(count);
                prop_assert_eq!(page.has_previous, page.rows.start > 0);
                all.extend(page.rows.clone());
                if !page.has_next { break }
                after = page.rows.last();
            }
            prop_assert_eq!(&all, &(0..count).collect::<Vec<_>>());

            let (mut all, mut before) = (Vec::new(), None);
            loop {
                let mut page = backwards(size, before).of(count);
                all.splice(0..0, page.rows.clone());
                if !page.has_previous { break }
                before = page.rows.next();
            }
            prop_assert_eq!(&all, &(0..count).collect::<Vec<_>>());
        }

        #[test]
        fn no_page_leaves_the_list_or_its_size(take in prop_oneof![any::<u32>().prop_map(Take::First), any::<u32>().prop_map(Take::Last)], after: Option<u32>, before: Option<u32>, count: u32) {
            let (Take::First(size) | Take::Last(size)) = take;
            let page = PageRequest { take, after, before }.of(count);
            prop_assert!(page.rows.start <= page.rows.end && page.rows.end <= count);
            prop_assert!(page.rows.end - page.rows.start <= size);
        }
    }
}
