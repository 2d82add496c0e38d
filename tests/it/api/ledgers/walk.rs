//! Walking through a connection page by page, as a client does.

use serde_json::Value;

use crate::support::api::Api;

/// A connection: where it is, its arguments but for those of the page, and what is asked of a row.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) owner: String,
    pub(super) field: &'static str,
    pub(super) arguments: String,
    pub(super) row: &'static str,
}

/// A page: its rows, and what is around it.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) rows: Vec<Value>,
    pub(super) has_next: bool,
    pub(super) has_previous: bool,
    pub(super) start: Value,
    pub(super) end: Value,
}

impl List {
    pub(super) fn new(owner: impl Into<String>, field: &'static str, arguments: &str, row: &'static str) -> Self {
        Self { owner: owner.into(), field, arguments: arguments.to_owned(), row }
    }

    /// The document that asks for one page.
    pub(super) fn document(&self, page: &str) -> String {
        let Self { owner, field, arguments, row } = self;
        let inner = format!(
            "{field}({arguments} {page}) {{ edges {{ cursor }} nodes {{ {row} }}
                pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} }}"
        );
        if owner.is_empty() { format!("{{ {inner} }}") } else { format!("{{ owner: {owner} {{ {inner} }} }}") }
    }

    /// One page, which must be there.
    #[track_caller]
    pub(super) fn page(&self, api: &Api, page: &str) -> Page {
        let mut data = api.data(&self.document(page));
        let mut found = if self.owner.is_empty() { data[self.field].take() } else { data["owner"][self.field].take() };
        let Value::Array(rows) = found["nodes"].take() else { panic!("no page: {found}") };
        let info = &found["pageInfo"];
        assert_eq!(rows.len(), found["edges"].as_array().unwrap().len());
        let flag = |name: &str| info[name].as_bool().unwrap();
        let (has_next, has_previous) = (flag("hasNextPage"), flag("hasPreviousPage"));
        Page { rows, has_next, has_previous, start: info["startCursor"].clone(), end: info["endCursor"].clone() }
    }

    /// All rows, `size` at a time from the front; `between` runs between the pages.
    #[track_caller]
    pub(super) fn forwards(&self, api: &mut Api, size: usize, mut between: impl FnMut(&mut Api)) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), Value::Null);
        for pages in 0.. {
            assert!(pages < 5_000, "{self:?} has no end");
            let page = self.page(api, &format!("first: {size}, after: {cursor}"));
            assert!(page.rows.len() <= size);
            assert_eq!(page.has_previous, !cursor.is_null(), "{self:?}");
            rows.extend(page.rows);
            if !page.has_next {
                break;
            }
            assert!(page.end.is_string(), "{self:?}: a page that is not the last leads on");
            cursor = page.end;
            between(api);
        }
        rows
    }

    /// All rows, `size` at a time from the end; `between` runs between the pages.
    #[track_caller]
    pub(super) fn backwards(&self, api: &mut Api, size: usize, mut between: impl FnMut(&mut Api)) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), Value::Null);
        for pages in 0.. {
            assert!(pages < 5_000, "{self:?} has no end");
            let page = self.page(api, &format!("last: {size}, before: {cursor}"));
            assert!(page.rows.len() <= size);
            assert_eq!(page.has_next, !cursor.is_null(), "{self:?}");
            rows.splice(0..0, page.rows);
            if !page.has_previous {
                break;
            }
            assert!(page.start.is_string(), "{self:?}: a page that is not the first leads on");
            cursor = page.start;
            between(api);
        }
        rows
    }

    /// All rows as they are now.
    #[track_caller]
    pub(super) fn all(&self, api: &mut Api) -> Vec<Value> {
        self.forwards(api, 100, |_| ())
    }
}
