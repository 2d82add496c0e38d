//! The worst case of a document where the engine counts another: it adds up all operations of the document, counts what
//! `@skip` and `@include` leave out, and takes 1 for each field of an interface, and of a fragment that is spread in a union or
//! an interface.
//!
//! Such a document is counted once more, as its own operation alone, without what is left out, and with fields of an interface
//! as those of a type that implements it: they cost as much in each.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextValidation};
use async_graphql::parser::types::{
    Directive, DocumentOperations, ExecutableDocument, InlineFragment, Selection, SelectionSet, TypeCondition,
};
use async_graphql::registry::{MetaType, MetaTypeName, Registry};
use async_graphql::{Positioned, Request, ServerError, ValidationResult, Variables};
use async_graphql_value::{ConstValue, Name};

use super::operation::{operation, root_type};

/// What an operation costs at most, and its levels of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorstCase {
    pub(crate) complexity: usize,
    pub(crate) depth: usize,
}

/// Finds the worst case of a request as the engine counts it.
pub(crate) type CountWorstCase = fn(Request) -> Option<WorstCase>;

/// A document as its fields count.
pub(crate) struct CountedDocument {
    document: ExecutableDocument,
    variables: Variables,
}

impl CountedDocument {
    /// The document of a request where the engine would count another; else `None`.
    pub(crate) fn of(
        document: &ExecutableDocument,
        name: Option<&str>,
        variables: &Variables,
        registry: &Registry,
    ) -> Option<Self> {
        let own = operation(document, name)?;
        if document.operations.iter().count() == 1 && !Survey::of(document, registry).counts_differently {
            return None;
        }
        let own = ExecutableDocument {
            operations: DocumentOperations::Single(own.clone()),
            fragments: document.fragments.clone(),
        };
        Some(Self { document: Rewriting { registry, variables }.apply(own), variables: variables.clone() })
    }

    pub(crate) fn document(&self) -> &ExecutableDocument {
        &self.document
    }

    /// What it costs at most.
    pub(crate) fn worst_case(&self, count: CountWorstCase) -> Option<WorstCase> {
        let mut request = Request::new("").variables(self.variables.clone());
        request.set_parsed_query(self.document.clone());
        count(request)
    }
}

fn is_conditional(directives: &[Positioned<Directive>]) -> bool {
    directives.iter().any(|directive| matches!(directive.node.name.node.as_str(), "skip" | "include"))
}

fn directives(selection: &Selection) -> &[Positioned<Directive>] {
    match selection {
        Selection::Field(field) => &field.node.directives,
        Selection::InlineFragment(inline) => &inline.node.directives,
        Selection::FragmentSpread(spread) => &spread.node.directives,
    }
}

/// Finds out whether the engine would count another document.
struct Survey<'r> {
    document: &'r ExecutableDocument,
    registry: &'r Registry,
    counts_differently: bool,
}

impl<'r> Survey<'r> {
    fn of(document: &'r ExecutableDocument, registry: &'r Registry) -> Self {
        let mut survey = Self { document, registry, counts_differently: false };
        for (_, operation) in document.operations.iter() {
            survey.look_at(root_type(registry, operation.node.ty), &operation.node.selection_set.node);
        }
        for fragment in document.fragments.values() {
            let of = registry.types.get(&*fragment.node.type_condition.node.on.node);
            survey.look_at(of, &fragment.node.selection_set.node);
        }
        survey
    }

    fn look_at(&mut self, parent: Option<&'r MetaType>, set: &SelectionSet) {
        for selection in &set.items {
            if is_conditional(directives(&selection.node)) {
                self.counts_differently = true;
            }
            match &selection.node {
                Selection::Field(field) => {
                    let name = &field.node.name.node;
                    if let Some(MetaType::Interface { possible_types, .. }) = parent {
                        let kind = possible_types.first().and_then(|kind| self.registry.types.get(kind));
                        let known = kind.and_then(|kind| kind.field_by_name(name));
                        self.counts_differently |= known.is_some_and(|known| known.compute_complexity.is_some());
                    }
                    let known = parent.and_then(|parent| parent.field_by_name(name));
                    let of =
                        known.and_then(|known| self.registry.types.get(MetaTypeName::concrete_typename(&known.ty)));
                    self.look_at(of, &field.node.selection_set.node);
                }
                Selection::InlineFragment(inline) => {
                    let narrowed = inline.node.type_condition.as_ref().map(|condition| &*condition.node.on.node);
                    let of = narrowed.map_or(parent, |name| self.registry.types.get(name));
                    self.look_at(of, &inline.node.selection_set.node);
                }
                Selection::FragmentSpread(spread) => {
                    let fragment = self.document.fragments.get(&spread.node.fragment_name.node);
                    let of = fragment.map(|fragment| fragment.node.type_condition.node.on.node.as_str());
                    self.counts_differently |= of != parent.map(MetaType::name);
                }
            }
        }
    }
}

/// The same selections, of a type.
fn narrowed_to(condition: Positioned<TypeCondition>, items: Vec<Positioned<Selection>>) -> Positioned<Selection> {
    let pos = condition.pos;
    let selection_set = Positioned::new(SelectionSet { items }, pos);
    let inline = InlineFragment { type_condition: Some(condition), directives: Vec::new(), selection_set };
    Positioned::new(Selection::InlineFragment(Positioned::new(inline, pos)), pos)
}

/// Says of each fragment that is spread of which type it is: the engine takes its fields as those of the type around it.
fn narrow_spreads(set: &mut SelectionSet, conditions: &HashMap<Name, Positioned<TypeCondition>>) {
    for selection in &mut set.items {
        match &mut selection.node {
            Selection::Field(field) => narrow_spreads(&mut field.node.selection_set.node, conditions),
            Selection::InlineFragment(inline) => narrow_spreads(&mut inline.node.selection_set.node, conditions),
            Selection::FragmentSpread(spread) => {
                if let Some(condition) = conditions.get(&spread.node.fragment_name.node) {
                    *selection = narrowed_to(condition.clone(), vec![selection.clone()]);
                }
            }
        }
    }
}

/// Makes the document that is counted.
struct Rewriting<'a> {
    registry: &'a Registry,
    variables: &'a Variables,
}

impl<'a> Rewriting<'a> {
    fn apply(&self, mut document: ExecutableDocument) -> ExecutableDocument {
        let mut conditions = HashMap::new();
        for (name, fragment) in &mut document.fragments {
            let fragment = &mut fragment.node;
            let of = self.chosen(&mut fragment.type_condition.node);
            conditions.insert(name.clone(), fragment.type_condition.clone());
            self.rewrite(of, &mut fragment.selection_set.node);
        }
        for fragment in document.fragments.values_mut() {
            narrow_spreads(&mut fragment.node.selection_set.node, &conditions);
        }
        if let DocumentOperations::Single(operation) = &mut document.operations {
            let root = root_type(self.registry, operation.node.ty);
            self.rewrite(root, &mut operation.node.selection_set.node);
            narrow_spreads(&mut operation.node.selection_set.node, &conditions);
        }
        document
    }

    fn rewrite(&self, parent: Option<&'a MetaType>, set: &mut SelectionSet) {
        set.items.retain(|selection| !self.leaves_out(directives(&selection.node)));
        for selection in &mut set.items {
            match &mut selection.node {
                Selection::Field(field) => {
                    let known = parent.and_then(|parent| parent.field_by_name(&field.node.name.node));
                    let Some(kind) = known.map(|known| MetaTypeName::concrete_typename(&known.ty)) else { continue };
                    let mut condition = TypeCondition { on: Positioned::new(Name::new(kind), field.pos) };
                    let of = self.chosen(&mut condition);
                    let selected = &mut field.node.selection_set.node;
                    self.rewrite(of, selected);
                    if condition.on.node != kind {
                        let items = std::mem::take(&mut selected.items);
                        selected.items = vec![narrowed_to(Positioned::new(condition, field.pos), items)];
                    }
                }
                Selection::InlineFragment(inline) => {
                    let condition = inline.node.type_condition.as_mut();
                    let of = condition.map_or(parent, |condition| self.chosen(&mut condition.node));
                    self.rewrite(of, &mut inline.node.selection_set.node);
                }
                Selection::FragmentSpread(_) => {}
            }
        }
    }

    /// The type of a condition, which becomes the first of those that implement it if it is an interface.
    fn chosen(&self, condition: &mut TypeCondition) -> Option<&'a MetaType> {
        let found = self.registry.types.get(condition.on.node.as_str())?;
        let MetaType::Interface { possible_types, .. } = found else { return Some(found) };
        let chosen = possible_types.first()?;
        condition.on.node = Name::new(chosen);
        self.registry.types.get(chosen)
    }

    fn leaves_out(&self, directives: &[Positioned<Directive>]) -> bool {
        directives.iter().any(|directive| {
            let given = directive.node.get_argument("if").cloned();
            let given = given
                .and_then(|value| value.node.into_const_with(|name| self.variables.get(&name).cloned().ok_or(())).ok());
            match directive.node.name.node.as_str() {
                "skip" => given == Some(ConstValue::Boolean(true)),
                "include" => given == Some(ConstValue::Boolean(false)),
                _ => false,
            }
        })
    }
}

/// Where [`Counting`] puts what it found.
#[derive(Default)]
pub(crate) struct FoundWorstCase(OnceLock<WorstCase>);

impl FoundWorstCase {
    pub(crate) fn get(&self) -> Option<WorstCase> {
        self.0.get().copied()
    }
}

/// The extension of an engine that counts requests and executes none.
pub(crate) struct Counting;

impl ExtensionFactory for Counting {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_graphql::async_trait::async_trait]
impl Extension for Counting {
    async fn validation(
        &self,
        ctx: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let ValidationResult { complexity, depth, .. } = next.run(ctx).await?;
        if let Some(found) = ctx.data_opt::<Arc<FoundWorstCase>>() {
            found.0.get_or_init(|| WorstCase { complexity, depth });
        }
        Err(vec![ServerError::new("counted, and not executed", None)])
    }
}
