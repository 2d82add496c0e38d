use std::sync::Arc;

use async_graphql::Object;

use super::outpoint::OutPointObject;
use super::output::Output;
use super::transaction::Transaction;
use crate::api::allowance::{ITEM_BYTES, read_transaction};
use crate::api::error::ApiError;
use crate::api::scalars::{Hex, UInt53, int};
use crate::view::{self, View};

/// An input, by its number in a transaction.
#[derive(Clone)]
pub(crate) struct Input {
    view: Arc<View>,
    transaction: Arc<view::Transaction>,
    vin: u32,
}

impl Input {
    pub(crate) fn new(view: &Arc<View>, transaction: &Arc<view::Transaction>, vin: u32) -> Self {
        view.note_transaction(transaction);
        Self { view: view.clone(), transaction: transaction.clone(), vin }
    }

    /// The spend of an output, as an input.
    pub(crate) fn spending(view: &Arc<View>, spender: view::Spender) -> Result<Self, ApiError> {
        let transaction = read_transaction(view, |view| view.spending_transaction(spender))?;
        Ok(Self::new(view, &Arc::new(transaction), spender.vin))
    }

    fn part(&self) -> Result<&bitcoin::TxIn, ApiError> {
        let part = usize::try_from(self.vin).ok().and_then(|vin| self.transaction.parts.input.get(vin));
        part.ok_or_else(|| {
            ApiError::internal(&format!("transaction {} has no input {}", self.transaction.txid, self.vin))
        })
    }

    fn spent_outpoint(&self) -> Result<Option<bitcoin::OutPoint>, ApiError> {
        Ok((!self.transaction.parts.is_coinbase()).then_some(self.part()?.previous_output))
    }

    async fn find_prevout(&self) -> Result<Option<Output>, ApiError> {
        let Some(outpoint) = self.spent_outpoint()? else { return Ok(None) };
        match Output::find_together(&self.view, outpoint).await? {
            Some(prevout) => Ok(Some(prevout)),
            // what a transaction of the main chain spends is on the main chain
            None if self.transaction.place.is_some() => {
                Err(ApiError::internal(&format!("{outpoint} is spent on the main chain, but not in the index")))
            }
            None => Ok(None),
        }
    }
}

/// A transaction input: the output that it spends, and the data that authorises the spend.
#[Object]
impl Input {
    /// The index in the transaction, from 0.
    async fn index(&self) -> Result<i32, ApiError> {
        int(self.vin)
    }

    /// The transaction that contains it.
    async fn transaction(&self) -> Transaction {
        Transaction::new(&self.view, self.transaction.clone())
    }

    /// The outpoint of the output that the input spends. Null in a coinbase.
    async fn outpoint(&self) -> Option<Result<OutPointObject, ApiError>> {
        Some(self.spent_outpoint().transpose()?.and_then(OutPointObject::new))
    }

    /// The output that the input spends. Null in a coinbase.
    async fn prevout(&self) -> Option<Result<Output, ApiError>> {
        self.find_prevout().await.transpose()
    }

    /// The sequence number. 4294967295 opts out of the lock time; values below 2147483648 are relative lock times
    /// (BIP68).
    async fn sequence(&self) -> Result<UInt53, ApiError> {
        Ok(self.part()?.sequence.0.into())
    }

    /// Whether this is a coinbase input, which spends no output.
    async fn is_coinbase(&self) -> bool {
        self.transaction.parts.is_coinbase()
    }

    /// The scriptSig, which runs before the script of the spent output. In a coinbase, arbitrary data of the miner.
    async fn script_sig_hex(&self) -> Result<Hex, ApiError> {
        let script = &self.part()?.script_sig;
        self.view.count(script.len())?;
        Ok(Hex::new(script.to_bytes()))
    }

    /// The items of the witness stack, bottom first (BIP141). Empty if there is no witness.
    async fn witness(&self) -> Result<Vec<Hex>, ApiError> {
        let witness = &self.part()?.witness;
        // an item without bytes is an item all the same, and a witness can have millions of them
        self.view.count(witness.size().saturating_add(witness.len().saturating_mul(ITEM_BYTES)))?;
        Ok(witness.iter().map(Hex::new).collect())
    }
}
