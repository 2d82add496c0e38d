//! What a client may keep of answers, and what contradicts it.

use std::collections::HashMap;

use btcgraph::api::{Freshness, Schema};
use serde_json::Value;

/// The answers so far that may be kept, by their questions.
#[derive(Default)]
pub(super) struct Kept(HashMap<String, Vec<(Freshness, Value)>>);

impl Kept {
    /// Keeps an answer as long as its headers allow. Errors: a client that kept an earlier one would not get this one,
    /// because it does not ask again, or is answered that nothing has changed.
    pub(super) fn keep(
        &mut self,
        schema: &Schema,
        question: &str,
        lasting: Freshness,
        reported: &Value,
    ) -> Result<(), String> {
        let kept = self.0.entry(question.to_owned()).or_default();
        // checked first: most are no longer current, and comparing answers takes longer
        let wrong =
            kept.iter().find(|(lasting, kept)| schema.tip_if_current(lasting).is_some() && kept != reported).cloned();
        if lasting != Freshness::NoStore && !kept.iter().any(|(known, _)| *known == lasting) {
            kept.push((lasting, reported.clone()));
        }
        wrong.map_or(Ok(()), |(lasting, kept)| Err(format!("{question} is {reported}, and {lasting:?} was {kept}")))
    }
}
