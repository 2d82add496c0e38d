use async_graphql::SimpleObject;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Txid, int};

/// An outpoint: an output identified by its transaction and index.
#[derive(Clone, Debug, SimpleObject)]
#[graphql(name = "OutPoint")]
pub(crate) struct OutPointObject {
    /// The txid of the transaction.
    txid: Txid,
    /// The index of the output in the transaction, from 0.
    vout: i32,
    /// The txid, a colon and the output index.
    text: String,
}

impl FieldCacheability for OutPointObject {
    const IMMUTABLE: &'static str = "txid vout text";
}

impl OutPointObject {
    pub(crate) fn new(outpoint: bitcoin::OutPoint) -> Result<Self, ApiError> {
        Ok(Self { txid: Txid(outpoint.txid), vout: int(outpoint.vout)?, text: outpoint.to_string() })
    }

    /// Those of a list, in its order.
    pub(crate) fn all<'a>(outpoints: impl IntoIterator<Item = &'a bitcoin::OutPoint>) -> Result<Vec<Self>, ApiError> {
        outpoints.into_iter().copied().map(Self::new).collect()
    }
}
