//! What a document must fulfil before the engine sees it. Pure: text in, parsed document or refusal out.
//!
//! ```text
//!   text ── scan ──► bytes, tokens, bracket nesting       no parser has run: brackets nested some thousand deep
//!        ── parse ─► document                             overflow the stack of the engine's, which aborts the process
//!        ── check ─► fragments expanded, with a memo      fragments that spread the next one twice double with each
//!        ── unknown_fields.rs                             for each unknown field the engine searches a suggestion
//!        ──────────► handed on, so that it is not parsed again
//! ```
//!
//! The engine's own walks are not memoised: these bounds are theirs, too.

use std::collections::HashMap;

use async_graphql::parser::parse_query;
use async_graphql::parser::types::{ExecutableDocument, OperationType, Selection, SelectionSet};
use async_graphql::{Request, ServerError, Value};

pub use super::refusal::RequestRefusal;
use super::unknown_fields::Types;
use crate::api::hide_secrets;
use crate::limits::Limits;

/// Lists of the introspection schema that lead from type to type, and how many may be within each other: each
/// multiplies the answer (the rule and its number are those of `MaxIntrospectionDepthRule` in graphql-js).
const INTROSPECTION_LISTS: [&str; 4] = ["fields", "interfaces", "possibleTypes", "inputFields"];
const NESTED_INTROSPECTION_LISTS: usize = 2;
/// How often these and `types` may be mentioned, with fragments expanded: each mention is a good part of the schema once
/// more in the answer. Full introspection by common clients mentions five, and looking up one type four.
const INTROSPECTION_LISTS_MENTIONED: usize = 16;

/// The document, if it may be executed.
///
/// Errors: why it may not.
pub fn admit(query: &str, limits: &Limits) -> Result<ExecutableDocument, RequestRefusal> {
    scan(query, limits)?;
    let document = parse_query(query).map_err(|error| {
        let mut error = ServerError::from(error);
        // its message includes the line
        hide_secrets(&mut error);
        RequestRefusal::Syntax(error)
    })?;
    check(&document, limits)?;
    Types::served().check(&document)?;
    Ok(document)
}

/// Bounds what comes beside the document. Traverses it without recursion: what nests too deep is yet to be refused.
///
/// Errors: which limit they exceed.
pub fn admit_values(request: &Request, limits: &Limits) -> Result<(), RequestRefusal> {
    let variables = request.variables.values();
    let mut waiting: Vec<(&Value, usize)> =
        variables.chain(request.extensions.values()).map(|value| (value, 0)).collect();
    let mut count = waiting.len();
    while let Some((value, depth)) = waiting.pop() {
        within("variableValues", "values in variables and extensions", limits.values, count)?;
        let depth = depth + 1;
        let before = waiting.len();
        match value {
            Value::List(items) => waiting.extend(items.iter().map(|item| (item, depth))),
            Value::Object(fields) => waiting.extend(fields.values().map(|field| (field, depth))),
            _ => continue,
        }
        within("nestingLevels", "levels of variables and extensions", limits.nesting, depth)?;
        count = count.saturating_add(waiting.len() - before);
    }
    within("variableValues", "values in variables and extensions", limits.values, count)
}

/// Whether there are at most as many of what `which` limits, in words `what`, as a request may have.
fn within(which: &'static str, what: &'static str, limit: usize, actual: usize) -> Result<(), RequestRefusal> {
    if actual > limit { Err(RequestRefusal::TooLarge { which, what, limit, actual }) } else { Ok(()) }
}

/// Bounds the text without parsing it. Strings and comments are skipped by the rules of the GraphQL grammar, so that
/// what is skipped here is a string or a comment for the parser, too.
fn scan(query: &str, limits: &Limits) -> Result<(), RequestRefusal> {
    within("queryBytes", "bytes in its document (values go into variables)", limits.query_bytes, query.len())?;
    let bytes = query.as_bytes();
    let (mut at, mut tokens, mut nesting) = (0, 0_usize, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' => {
                at += 1;
                continue;
            }
            b'#' => {
                at += bytes[at..].iter().take_while(|byte| !matches!(byte, b'\n' | b'\r')).count();
                continue;
            }
            b'"' => at = end_of_string(bytes, at).ok_or(RequestRefusal::OpenString { at })?,
            b'{' | b'[' | b'(' => {
                nesting += 1;
                within("nestingLevels", "levels of brackets", limits.nesting, nesting)?;
                at += 1;
            }
            b'}' | b']' | b')' => {
                nesting = nesting.saturating_sub(1);
                at += 1;
            }
            byte if is_word(*byte) => at += bytes[at..].iter().take_while(|byte| is_word(**byte)).count(),
            _ => at += 1,
        }
        tokens += 1;
        within("documentTokens", "tokens", limits.tokens, tokens)?;
    }
    Ok(())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The place behind the string that begins at `start`. `None` if it does not end: a block string without its end must
/// be refused here, because the parser would try again and read it as an empty string and something behind it.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at;
    if bytes[start..].starts_with(br#"""""#) {
        at = start + 3;
        loop {
            match &bytes[at..] {
                [b'\\', b'"', b'"', b'"', ..] => at += 4,
                [b'"', b'"', b'"', ..] => return Some(at + 3),
                [_, ..] => at += 1,
                [] => return None,
            }
        }
    }
    at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\n' | b'\r' => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// What a selection set comes to with its fragments expanded. Saturates.
#[derive(Clone, Copy, Default)]
struct Size {
    selections: usize,
    aliases: usize,
    directives: usize,
    depth: usize,
    root_fields: usize,
    /// Selections below `__schema` and `__type`.
    introspection: usize,
    /// Lists of [`INTROSPECTION_LISTS`] within each other.
    lists: usize,
    /// Mentions of these and of `types`, whatever they are of.
    mentions: usize,
    /// The same below `__schema` and `__type`.
    introspection_lists: usize,
}

impl Size {
    fn add(&mut self, other: Size) {
        self.selections = self.selections.saturating_add(other.selections);
        self.aliases = self.aliases.saturating_add(other.aliases);
        self.directives = self.directives.saturating_add(other.directives);
        self.introspection = self.introspection.saturating_add(other.introspection);
        self.lists = self.lists.max(other.lists);
        self.mentions = self.mentions.saturating_add(other.mentions);
        self.introspection_lists = self.introspection_lists.saturating_add(other.introspection_lists);
    }
}

enum Memo {
    /// Being measured: to meet it again is a cycle.
    Open,
    Done(Size),
}

struct Measure<'d> {
    document: &'d ExecutableDocument,
    limits: &'d Limits,
    fragments: HashMap<&'d str, Memo>,
}

/// Bounds what the document comes to when its fragments are expanded.
fn check(document: &ExecutableDocument, limits: &Limits) -> Result<(), RequestRefusal> {
    let mut measure = Measure { document, limits, fragments: HashMap::new() };
    let mut total = Size::default();
    for (_, operation) in document.operations.iter() {
        let operation = &operation.node;
        let mut size = measure.selection_set(&operation.selection_set.node, 0)?;
        size.directives = size.directives.saturating_add(operation.directives.len());
        within("rootFields", "root fields", limits.root_fields, size.root_fields)?;
        if operation.ty == OperationType::Subscription && !is_one_field(&operation.selection_set.node) {
            return Err(RequestRefusal::SubscriptionRoot);
        }
        total.add(size);
    }
    // those that no operation spreads are validated all the same
    for name in document.fragments.keys() {
        total.add(measure.fragment(name, 0)?);
    }
    within("selections", "selections with fragments expanded", limits.selections, total.selections)?;
    within("aliases", "aliases", limits.aliases, total.aliases)?;
    within("introspectionSelections", "selections of introspection", limits.introspection, total.introspection)?;
    within("introspectionLists", "introspection lists", INTROSPECTION_LISTS_MENTIONED, total.introspection_lists)?;
    within("directives", "directives", limits.directives, total.directives)
}

/// The engine looks for the field of a subscription outside of fragments only, and would merge two into one stream.
fn is_one_field(root: &SelectionSet) -> bool {
    matches!(root.items.as_slice(), [only] if matches!(only.node, Selection::Field(_)))
}

impl<'d> Measure<'d> {
    fn selection_set(&mut self, set: &'d SelectionSet, depth: usize) -> Result<Size, RequestRefusal> {
        within("nestingLevels", "levels with fragments expanded", self.limits.nesting, depth)?;
        let mut size = Size::default();
        for selection in &set.items {
            // a spread counts, too: one of an unknown fragment has no fields, and still doubles with those around it
            size.selections = size.selections.saturating_add(1);
            size.directives = size.directives.saturating_add(selection.node.directives().len());
            let inner = match &selection.node {
                Selection::Field(field) => {
                    size.root_fields = size.root_fields.saturating_add(1);
                    size.aliases = size.aliases.saturating_add(usize::from(field.node.alias.is_some()));
                    let mut inner = self.selection_set(&field.node.selection_set.node, depth + 1)?;
                    match field.node.name.node.as_str() {
                        "__schema" | "__type" => {
                            within(
                                "introspectionLists",
                                "introspection lists within each other",
                                NESTED_INTROSPECTION_LISTS,
                                inner.lists,
                            )?;
                            inner.introspection = inner.selections;
                            inner.introspection_lists = inner.mentions;
                        }
                        "types" => inner.mentions = inner.mentions.saturating_add(1),
                        name if INTROSPECTION_LISTS.contains(&name) => {
                            inner.lists = inner.lists.saturating_add(1);
                            inner.mentions = inner.mentions.saturating_add(1);
                        }
                        _ => {}
                    }
                    inner
                }
                Selection::InlineFragment(fragment) => {
                    let inner = self.selection_set(&fragment.node.selection_set.node, depth + 1)?;
                    size.root_fields = size.root_fields.saturating_add(inner.root_fields);
                    inner
                }
                Selection::FragmentSpread(spread) => {
                    let inner = self.fragment(&spread.node.fragment_name.node, depth + 1)?;
                    size.root_fields = size.root_fields.saturating_add(inner.root_fields);
                    inner
                }
            };
            size.depth = size.depth.max(inner.depth + 1);
            size.add(inner);
        }
        Ok(size)
    }

    fn fragment(&mut self, name: &'d str, depth: usize) -> Result<Size, RequestRefusal> {
        // validation says that an unknown fragment is unknown
        let Some((name, fragment)) = self.document.fragments.get_key_value(name) else { return Ok(Size::default()) };
        match self.fragments.get(name.as_str()) {
            Some(Memo::Open) => return Err(RequestRefusal::Cycle { name: name.to_string() }),
            Some(Memo::Done(size)) => {
                within(
                    "nestingLevels",
                    "levels with fragments expanded",
                    self.limits.nesting,
                    depth.saturating_add(size.depth),
                )?;
                return Ok(*size);
            }
            None => {}
        }
        self.fragments.insert(name, Memo::Open);
        let size = self.selection_set(&fragment.node.selection_set.node, depth)?;
        self.fragments.insert(name, Memo::Done(size));
        Ok(size)
    }
}

#[cfg(test)]
mod tests;
