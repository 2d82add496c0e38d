//! What all parts of the root of queries share.

use std::sync::Arc;

use async_graphql::Context;

use crate::api::context::{Pinned, limits, pinned};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::view::{Published, View};

/// What was found for each item of a list, in its order: nothing where there is none.
pub(crate) type LookedUp<T> = Vec<Option<Result<T, ApiError>>>;

/// What every part of the root stands on.
#[derive(Clone)]
pub(crate) struct QueryRoot {
    pub(crate) published: Published,
}

impl QueryRoot {
    /// The view that this request is answered from. Errors: NOT_READY while the index is not ready.
    pub(crate) fn view(&self, ctx: &Context<'_>) -> Result<Arc<View>, ApiError> {
        self.pinned(ctx)?.view()
    }

    /// What this request is answered from, also while the index is not ready.
    pub(crate) fn pinned(&self, ctx: &Context<'_>) -> Result<Pinned, ApiError> {
        pinned(ctx, &self.published)
    }

    /// The same for a field whose argument of this name lists so many ids, hashes or outpoints. Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn view_of_list(&self, ctx: &Context<'_>, name: &str, count: usize) -> Result<Arc<View>, ApiError> {
        limits(ctx)?.check_ids(name, count)?;
        costs::spend(ctx, count)?;
        self.view(ctx)
    }
}
