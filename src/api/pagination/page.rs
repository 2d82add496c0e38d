//! Which rows a page holds: pure arithmetic over positions.
//!
//! A connection is a list of rows, each at a position (a `u64` that orders them, or, where rows move, whatever finds a row
//! again), sent upwards or downwards. `first` and `after` walk forwards through that list, `last` and `before` backwards, as in the Relay cursor connections
//! specification; both directions at once are refused, because that specification warns of what they would mean
//! together.
//!
//! ```text
//!   PageArgs ── read ──► PageRequest ── walk(order) ──► Walk: which positions, from which end
//!                             └── page(rows in the order of the walk) ──► Page
//! ```

use std::ops::Range;

use super::cursor::{GivenCursor, RowPlace, Scope};
use crate::api::error::ApiError;
use crate::api::types::enums::SortOrder;
use crate::chain::Height;
use crate::limits::Limits;
use crate::view::{TxNum, View};

/// Rows of a page if neither `first` nor `last` is given.
pub(crate) const DEFAULT_SIZE: u32 = 25;
/// The same of the inputs or outputs of a transaction: most transactions are shown whole.
pub(crate) const DEFAULT_PARTS: u32 = 100;

/// The paging arguments of a connection as given.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageArgs {
    pub(crate) first: Option<i32>,
    pub(crate) after: Option<String>,
    pub(crate) last: Option<i32>,
    pub(crate) before: Option<String>,
}

/// How many rows, from which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    First(u32),
    Last(u32),
}

/// Paging arguments that make sense: what cursors say instead of cursors, which is an `F`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRequest<F = RowPlace> {
    take: Take,
    /// The row to go on from, in the direction of `take`.
    from: Option<F>,
}

/// The positions that a page may come from, and the end where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Positions of the list that lie beyond the cursor.
    pub(crate) positions: Range<u64>,
    /// Whether to read the lowest first.
    pub(crate) ascending: bool,
}

/// The rows of a page, in the order of the list. `P` is what orders them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page<R, P = u64> {
    /// Rows with their positions.
    pub(crate) rows: Vec<(P, R)>,
    pub(crate) has_previous: bool,
    pub(crate) has_next: bool,
    /// Where reading ended, if it ended at the limit and not at a row of the page.
    pub(crate) cut: Option<Cut<P>>,
}

/// The position of the last row that was read, and the end of the page that it lies at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut<P = u64> {
    Front(P),
    Back(P),
}

impl PageArgs {
    /// With this size if neither `first` nor `last` is given, or the largest that the limits allow.
    pub(crate) fn or_size(mut self, size: u32, limits: &Limits) -> Self {
        if self.first.is_none() && self.last.is_none() {
            // `before` alone asks for the page in front of it
            let wanted = if self.before.is_some() { &mut self.last } else { &mut self.first };
            *wanted = i32::try_from(size.min(limits.page_size)).ok();
        }
        self
    }

    /// What is asked for.
    ///
    /// Errors: BAD_USER_INPUT for both directions at once, a negative count and cursors from elsewhere;
    /// QUERY_LIMIT_EXCEEDED for more rows than the limits allow; CURSOR_ORPHANED as [`Scope::place`] says.
    pub(crate) fn read(&self, scope: &Scope, view: &View, limits: &Limits) -> Result<PageRequest, ApiError> {
        self.read_by(limits, |given| scope.place(given, view))
    }

    /// The same for a list with cursors of its own, which `find` reads.
    ///
    /// Errors: those of `find` in the place of those about cursors.
    pub(crate) fn read_by<F>(
        &self,
        limits: &Limits,
        find: impl FnOnce(GivenCursor<'_>) -> Result<F, ApiError>,
    ) -> Result<PageRequest<F>, ApiError> {
        let take = take(self.first, self.last, limits.page_size)?;
        let (take, from) = match (take, &self.after, &self.before) {
            (_, Some(_), Some(_)) => return Err(mixed("after", "before")),
            (Take::First(_), None, Some(_)) if self.first.is_some() => return Err(mixed("first", "before")),
            (Take::Last(_), Some(_), None) => return Err(mixed("last", "after")),
            // `before` alone asks for the page in front of it
            (Take::First(size) | Take::Last(size), None, Some(text)) => {
                (Take::Last(size), Some(GivenCursor { argument: "before", text }))
            }
            (take, after, None) => (take, after.as_ref().map(|text| GivenCursor { argument: "after", text })),
        };
        let from = from.map(find).transpose()?;
        Ok(PageRequest { take, from })
    }
}

fn mixed(one: &str, other: &str) -> ApiError {
    let message = format!("{one} and {other} cannot be combined: give first and after, or last and before");
    ApiError::bad_user_input(message).with("argument", other)
}

pub(crate) fn take(first: Option<i32>, last: Option<i32>, limit: u32) -> Result<Take, ApiError> {
    match (first, last) {
        (Some(_), Some(_)) => Err(mixed("first", "last")),
        (None, None) => Ok(Take::First(DEFAULT_SIZE.min(limit))),
        (Some(count), None) => size("first", count, limit).map(Take::First),
        (None, Some(count)) => size("last", count, limit).map(Take::Last),
    }
}

/// A count as it was given under this name. Errors: BAD_USER_INPUT below 0.
pub(crate) fn count_of(name: &str, count: i32) -> Result<u32, ApiError> {
    u32::try_from(count)
        .map_err(|_| ApiError::bad_argument(name, format!("is {count}, and a count cannot be negative")))
}

/// How many items of a list without pages to tell. Errors: BAD_USER_INPUT below 0, QUERY_LIMIT_EXCEEDED beyond a page.
pub(crate) fn list_size(limits: &Limits, first: i32) -> Result<usize, ApiError> {
    let count = size("first", first, limits.page_size)?;
    usize::try_from(count).map_err(|_| ApiError::internal("a page size exceeds the address space"))
}

fn size(name: &'static str, count: i32, limit: u32) -> Result<u32, ApiError> {
    let size = count_of(name, count)?;
    if size > limit {
        return Err(ApiError::argument_above(name, "pageSize", limit.into(), size.into()));
    }
    Ok(size)
}

impl<F: Copy> PageRequest<F> {
    /// Where the page continues, by its cursor, if there is one.
    pub(crate) fn from(&self) -> Option<F> {
        self.from
    }

    /// The same page from somewhere else on.
    pub(crate) fn going_on<G>(&self, from: Option<G>) -> PageRequest<G> {
        PageRequest { take: self.take, from }
    }

    /// Whether the page is read from the lowest position up, in a list of this order.
    pub(crate) fn is_ascending(&self, order: SortOrder) -> bool {
        self.is_forwards() == (order == SortOrder::Asc)
    }

    /// Whether the page is read from the front of the list, as it is sent, to its back.
    pub(crate) fn is_forwards(&self) -> bool {
        matches!(self.take, Take::First(_))
    }

    /// The page of a list whose rows come in the order of the [`Walk`], a row that a filter leaves out as `None`. `enough`
    /// is asked before each row, with how many were read: if it ends the page, the page says where.
    ///
    /// Errors: the first of the rows.
    pub(crate) fn page<R, E, P: Copy + PartialEq>(
        &self,
        enough: impl Fn(u32) -> bool,
        rows: impl IntoIterator<Item = Result<(P, Option<R>), E>>,
    ) -> Result<Page<R, P>, E> {
        let (Take::First(size) | Take::Last(size)) = self.take;
        let (mut found, mut wanted) = (Vec::new(), size);
        let (mut read, mut last_read, mut more) = (0, None, false);
        for row in rows {
            let (position, row) = row?;
            if wanted == 0 || enough(read) {
                more = true;
                break;
            }
            read += 1;
            last_read = Some(position);
            if let Some(row) = row {
                wanted -= 1;
                found.push((position, row));
            }
        }
        let cut = last_read.filter(|last| more && found.last().is_none_or(|(position, _)| position != last));
        Ok(match self.take {
            Take::First(_) => {
                Page { rows: found, has_previous: self.from.is_some(), has_next: more, cut: cut.map(Cut::Back) }
            }
            Take::Last(_) => {
                found.reverse();
                Page { rows: found, has_previous: more, has_next: self.from.is_some(), cut: cut.map(Cut::Front) }
            }
        })
    }
}

impl PageRequest {
    /// Which positions of a list that lies within `list` to read, from which end.
    pub(crate) fn walk(&self, list: Range<u64>, order: SortOrder) -> Walk {
        let ascending = self.is_ascending(order);
        let positions = match self.from {
            Some(RowPlace { position, .. }) if ascending => {
                position.saturating_add(1).clamp(list.start, list.end.max(list.start))..list.end
            }
            Some(RowPlace { position, .. }) => list.start..position.clamp(list.start, list.end.max(list.start)),
            None => list,
        };
        Walk { positions, ascending }
    }

    /// The page of a list in which every position of `list` is a row.
    pub(crate) fn of(&self, list: Range<u64>, order: SortOrder) -> Page<()> {
        let Walk { positions, ascending } = self.walk(list, order);
        let row = |position| Ok::<_, std::convert::Infallible>((position, Some(())));
        let page = if ascending {
            self.page(|_| false, positions.map(row))
        } else {
            self.page(|_| false, positions.rev().map(row))
        };
        match page {
            Ok(page) => page,
        }
    }
}

/// The transaction at a position of a list of transactions of the main chain.
pub(crate) fn txnum_at(position: u64) -> Result<TxNum, ApiError> {
    u32::try_from(position).map(TxNum).map_err(|_| ApiError::internal("a position beyond all transactions"))
}

/// The height at a position of a list of blocks of the main chain.
pub(crate) fn height_at(position: u64) -> Result<Height, ApiError> {
    u32::try_from(position).map(Height::from).map_err(|_| ApiError::internal("a position beyond all heights"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::costs::{list as list_cost, page as cost};

    fn place(position: u64) -> RowPlace {
        RowPlace { position, block: None }
    }

    fn forwards(size: u32, after: Option<u64>) -> PageRequest {
        PageRequest { take: Take::First(size), from: after.map(place) }
    }

    fn backwards(size: u32, before: Option<u64>) -> PageRequest {
        PageRequest { take: Take::Last(size), from: before.map(place) }
    }

    fn positions<R>(page: &Page<R>) -> Vec<u64> {
        page.rows.iter().map(|(position, _)| *position).collect()
    }

    #[test]
    fn a_page_knows_what_is_around_it() {
        for (request, count, rows, has_previous, has_next) in [
            (forwards(3, None), 0, 0..0, false, false),
            (forwards(3, None), 3, 0..3, false, false),
            (forwards(3, None), 4, 0..3, false, true),
            (forwards(3, Some(2)), 4, 3..4, true, false),
            (forwards(3, Some(3)), 4, 4..4, true, false),
            (forwards(3, Some(u64::MAX)), 4, 4..4, true, false),
            (forwards(0, None), 4, 0..0, false, true),
            (backwards(3, None), 4, 1..4, true, false),
            (backwards(3, Some(1)), 4, 0..1, false, true),
            (backwards(3, Some(0)), 4, 0..0, false, true),
            (backwards(0, None), 4, 4..4, true, false),
        ] {
            let page = request.of(0..count, SortOrder::Asc);
            assert_eq!(positions(&page), rows.collect::<Vec<_>>(), "{request:?} of {count}");
            assert_eq!((page.has_previous, page.has_next), (has_previous, has_next), "{request:?} of {count}");
            assert_eq!(page.cut, None);
        }
    }

    #[test]
    fn a_descending_list_begins_at_its_highest_row() {
        let order = SortOrder::Desc;
        assert_eq!(positions(&forwards(2, None).of(5..10, order)), [9, 8]);
        assert_eq!(positions(&forwards(2, Some(8)).of(5..10, order)), [7, 6]);
        assert_eq!(positions(&backwards(2, None).of(5..10, order)), [6, 5]);
        assert_eq!(positions(&backwards(2, Some(6)).of(5..10, order)), [8, 7]);
        assert!(positions(&backwards(2, Some(99)).of(5..10, order)).is_empty());
    }

    #[test]
    fn a_page_ends_at_the_last_row_that_may_be_read_and_says_so() {
        let every_fourth = |position: u64| Ok::<_, ()>((position, position.is_multiple_of(4).then_some(())));
        let read = |request: PageRequest, most| {
            let walk = request.walk(0..100, SortOrder::Asc);
            let rows: Vec<_> = if walk.ascending { walk.positions.collect() } else { walk.positions.rev().collect() };
            request.page(|read| read >= most, rows.into_iter().map(every_fourth)).unwrap()
        };
        let page = read(forwards(10, Some(0)), 3);
        assert_eq!((positions(&page), page.cut, page.has_next), (vec![], Some(Cut::Back(3)), true));
        let page = read(forwards(10, Some(3)), 3);
        assert_eq!((positions(&page), page.cut, page.has_next), (vec![4], Some(Cut::Back(6)), true));
        let page = read(forwards(1, Some(3)), 50);
        assert_eq!((positions(&page), page.cut, page.has_next), (vec![4], None, true));
        let page = read(backwards(10, None), 2);
        assert_eq!((positions(&page), page.cut, page.has_previous), (vec![], Some(Cut::Front(98)), true));
        let page = read(forwards(100, Some(90)), 50);
        assert_eq!((positions(&page), page.cut, page.has_next), (vec![92, 96], None, false));
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
            assert_eq!(cost(first, last, 7), 3 + 7, "no rows, and what is asked of the page");
        }
        assert_eq!(take(Some(101), None, 100).unwrap_err().code(), "QUERY_LIMIT_EXCEEDED");
        assert_eq!(take(None, None, 100), Ok(Take::First(25)));
        assert_eq!(take(None, None, 10), Ok(Take::First(10)));
        assert_eq!(take(Some(0), None, 100), Ok(Take::First(0)));
        assert_eq!(take(None, Some(100), 100), Ok(Take::Last(100)));
        assert_eq!(cost(Some(10), None, 7), 73);
        assert_eq!(cost(None, None, usize::MAX), usize::MAX);
        assert_eq!((list_cost(10_i32, 7), list_cost(-1_i32, 7), list_cost(2, usize::MAX)), (81, 1, usize::MAX));
    }

    fn order() -> impl Strategy<Value = SortOrder> {
        prop_oneof![Just(SortOrder::Asc), Just(SortOrder::Desc)]
    }

    proptest! {
        #[test]
        fn pages_put_together_are_the_list_in_both_directions(
            start in 0_u64..50, count in 0_u64..300, size in 1_u32..=100, order in order(), most in 1_u32..400,
        ) {
            let list = start..start + count;
            let kept = |position: &u64| !position.is_multiple_of(3);
            let mut whole: Vec<u64> = list.clone().filter(kept).collect();
            if order == SortOrder::Desc { whole.reverse() }
            let read = |request: PageRequest| {
                let walk = request.walk(list.clone(), order);
                let rows: Vec<_> = if walk.ascending { walk.positions.collect() } else { walk.positions.rev().collect() };
                let rows = rows.into_iter().map(|position| Ok::<_, ()>((position, kept(&position).then_some(()))));
                request.page(|read| read >= most, rows).unwrap()
            };

            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let page = read(forwards(size, after));
                prop_assert!(page.rows.len() <= usize::try_from(size).unwrap());
                all.extend(positions(&page));
                if !page.has_next { break }
                let Some(Cut::Back(end)) = page.cut.or(page.rows.last().map(|row| Cut::Back(row.0))) else { unreachable!() };
                after = Some(end);
            }
            prop_assert_eq!(&all, &whole);

            let (mut all, mut before) = (Vec::new(), None);
            loop {
                let page = read(backwards(size, before));
                all.splice(0..0, positions(&page));
                if !page.has_previous { break }
                let Some(Cut::Front(start)) = page.cut.or(page.rows.first().map(|row| Cut::Front(row.0))) else { unreachable!() };
                before = Some(start);
            }
            prop_assert_eq!(&all, &whole);
        }

        #[test]
        fn no_page_leaves_the_list_or_its_size(size in 0_u32..200, from: Option<u64>, forward: bool, start: u64, count in 0_u64..500, order in order()) {
            let request = if forward { forwards(size, from) } else { backwards(size, from) };
            let list = start..start.saturating_add(count);
            let page = request.of(list.clone(), order);
            prop_assert!(positions(&page).iter().all(|position| list.contains(position)));
            prop_assert!(page.rows.len() <= usize::try_from(size).unwrap());
        }
    }
}
