use std::sync::Arc;

use async_graphql::{ID, Object};

use crate::api::error::ApiError;
use crate::api::pagination::global_id::miner_id;
use crate::chain::pools::{Pool, PoolId};
use crate::view::View;

/// A mining pool of the server's table, and the view that it was found in.
#[derive(Clone)]
pub(crate) struct Miner {
    view: Arc<View>,
    pool: PoolId,
}

impl Miner {
    /// The pool with this slug.
    pub(crate) fn find(view: &Arc<View>, slug: &str) -> Option<Self> {
        view.pools().find(slug).map(|pool| Self { view: view.clone(), pool })
    }

    /// The pool that a block with this coinbase is ascribed to.
    pub(crate) fn of_coinbase(view: &Arc<View>, raw: &[u8]) -> Result<Option<Self>, ApiError> {
        let found = view.miner_of(raw)?;
        Ok(found.map(|(pool, _)| Self { view: view.clone(), pool }))
    }

    fn row(&self) -> Result<&Pool, ApiError> {
        self.view.pools().get(self.pool).ok_or_else(|| ApiError::internal("a pool is not in its table"))
    }
}

/// A mining pool. The server recognises the pools of its table, which the setting `index.pools_file` extends, by the
/// coinbases of their blocks.
#[Object]
impl Miner {
    /// `Miner:` followed by the slug.
    pub(crate) async fn id(&self) -> Result<ID, ApiError> {
        Ok(miner_id(&self.row()?.slug).into())
    }

    /// The name in lower case, with letters and digits only, as it stands in the id.
    async fn slug(&self) -> Result<&str, ApiError> {
        Ok(&self.row()?.slug)
    }

    /// The name of the pool.
    async fn name(&self) -> Result<&str, ApiError> {
        Ok(&self.row()?.name)
    }

    /// The web page of the pool, as the table of pools has it. Null if it has none.
    async fn link(&self) -> Result<Option<&str>, ApiError> {
        Ok(self.row()?.link.as_deref())
    }
}
