use async_graphql::InputObject;
use bitcoin::OutPoint;

use crate::api::error::ApiError;
use crate::api::scalars::Txid;

/// An outpoint: an output identified by its transaction and index.
#[derive(Clone, Copy, Debug, InputObject)]
pub(crate) struct OutPointInput {
    /// The txid of the transaction.
    pub(crate) txid: Txid,
    /// The index of the output in its transaction, from 0.
    pub(crate) vout: i32,
}

impl OutPointInput {
    /// The outpoint, whose index an argument gives. Errors: BAD_USER_INPUT for a negative number.
    pub(crate) fn outpoint(&self, argument: impl Into<String>) -> Result<OutPoint, ApiError> {
        let Self { txid, vout } = *self;
        let vout = u32::try_from(vout).map_err(|_| {
            ApiError::bad_argument(argument, format!("is {vout}, and the first output of a transaction has index 0"))
        })?;
        Ok(OutPoint { txid: txid.0, vout })
    }
}
