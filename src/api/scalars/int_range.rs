//! The range of the built-in `Int`: the engine's validation lets 64 bits through, and the resolver's parser then refuses what does
//! not fit 32, without the name of the argument.

use std::borrow::Cow;
use std::sync::Arc;

use async_graphql::parser::types::Field;
use async_graphql::registry::{MetaType, Registry};
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};

/// No type of the schema: registering it has validation refuse an `Int` beyond 32 bits. It must be registered when `Int` is.
pub(crate) enum IntRange {}

fn is_int(value: &Value) -> bool {
    matches!(value, Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()))
}

impl OutputType for IntRange {
    fn type_name() -> Cow<'static, str> {
        "IntRange".into()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        if let Some(MetaType::Scalar { is_valid, .. }) = registry.types.get_mut("Int") {
            *is_valid = Some(Arc::new(is_int));
        }
        Self::type_name().into_owned()
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        match *self {}
    }
}
