//! Looks up the cacheability of a field, as each field of an answer does.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Cacheability, field_cacheability};

/// The cacheability of the fields of one type.
#[derive(Clone, Copy)]
pub(crate) struct TypeCacheability(&'static [MarkedFields]);

/// Fields whose names have the same length: few, so that each field of an answer is found with a few comparisons.
type MarkedFields = Vec<(&'static str, Cacheability)>;

impl TypeCacheability {
    /// By the name of the type.
    pub(crate) fn of(type_name: &str) -> Self {
        static MARKED: LazyLock<HashMap<&str, Vec<MarkedFields>>> = LazyLock::new(|| {
            let mut types: HashMap<&str, Vec<MarkedFields>> = HashMap::new();
            for (type_name, mark, fields) in field_cacheability() {
                let lengths = types.entry(type_name).or_default();
                for field in fields.split_ascii_whitespace() {
                    lengths.resize_with(lengths.len().max(field.len() + 1), Vec::new);
                    lengths[field.len()].push((field, mark));
                }
            }
            types
        });
        Self(MARKED.get(type_name).map_or(&[], Vec::as_slice))
    }

    /// That of one field.
    pub(crate) fn field(self, name: &str) -> Cacheability {
        let found = self.0.get(name.len()).and_then(|fields| fields.iter().find(|(field, _)| *field == name));
        found.map_or(Cacheability::Never, |(_, mark)| *mark)
    }
}
