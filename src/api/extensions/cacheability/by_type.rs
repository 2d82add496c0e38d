//! Looks up the cacheability of a field, as each field of an answer does.

use std::collections::HashMap;

use super::mark::Cacheability;

/// The cacheability of the fields of one type.
#[derive(Clone, Copy, Default)]
pub(crate) struct TypeCacheability(&'static [MarkedFields]);

/// Finds that of a type by its name. The schema hands it to what surrounds each field, which the types themselves import.
pub(crate) type FindCacheability = fn(&str) -> TypeCacheability;

/// Fields whose names have the same length: few, so that each field of an answer is found with a few comparisons.
type MarkedFields = Vec<(&'static str, Cacheability)>;

impl TypeCacheability {
    /// That of one field.
    pub(crate) fn field(self, name: &str) -> Cacheability {
        let found = self.0.get(name.len()).and_then(|fields| fields.iter().find(|(field, _)| *field == name));
        found.map_or(Cacheability::Never, |(_, mark)| *mark)
    }
}

/// The cacheability of the fields of all types.
#[derive(Default)]
pub(super) struct ByType(HashMap<&'static str, Vec<MarkedFields>>);

impl ByType {
    /// Adds fields of a type, whose names are separated by spaces.
    pub(super) fn add(&mut self, type_name: &'static str, mark: Cacheability, fields: &'static str) {
        let lengths = self.0.entry(type_name).or_default();
        for field in fields.split_ascii_whitespace() {
            lengths.resize_with(lengths.len().max(field.len() + 1), Vec::new);
            lengths[field.len()].push((field, mark));
        }
    }

    /// The fields of a type by its name.
    pub(super) fn of(&'static self, type_name: &str) -> TypeCacheability {
        TypeCacheability(self.0.get(type_name).map_or(&[], Vec::as_slice))
    }
}
