use std::sync::Arc;

use async_graphql::{ID, Object};
use bitcoin::OutPoint;

use super::enums::{ScriptType, SpendStatus, UnspendableReason};
use super::error::ApiError;
use super::input::Input;
use super::node::output_id;
use super::scalars::{Hex, Sats, int};
use super::transaction::Transaction;
use crate::chain;
use crate::chain::address_of;
use crate::view::{self, View};

/// An output, by its number in a transaction.
#[derive(Clone)]
pub(super) struct Output {
    view: Arc<View>,
    transaction: Arc<view::Transaction>,
    vout: u32,
}

impl Output {
    pub(super) fn new(view: &Arc<View>, transaction: &Arc<view::Transaction>, vout: u32) -> Self {
        Self { view: view.clone(), transaction: transaction.clone(), vout }
    }

    fn outpoint_of(&self) -> OutPoint {
        OutPoint { txid: self.transaction.txid, vout: self.vout }
    }

    fn part(&self) -> Result<&bitcoin::TxOut, ApiError> {
        let part = usize::try_from(self.vout).ok().and_then(|vout| self.transaction.parts.output.get(vout));
        part.ok_or_else(|| ApiError::internal(&format!("there is no output {}", self.outpoint_of())))
    }

    fn spender(&self) -> Result<Option<view::Spender>, ApiError> {
        Ok(self.view.spender(&self.transaction, self.vout)?)
    }

    fn reason(&self) -> Result<Option<UnspendableReason>, ApiError> {
        Ok(self.view.unspendable(&self.transaction, self.vout)?.map(UnspendableReason::from))
    }

    fn status(&self) -> Result<Option<SpendStatus>, ApiError> {
        if self.transaction.place.is_none() {
            return Ok(None);
        }
        if self.reason()?.is_some() {
            return Ok(Some(SpendStatus::Unspendable));
        }
        let spent = self.spender()?.is_some();
        Ok(Some(if spent { SpendStatus::Spent } else { SpendStatus::Unspent }))
    }
}

/// An output of a transaction: an amount, the script that guards it, and what became of it.
#[Object]
impl Output {
    /// `Output:`, the txid, a colon and the number.
    pub(super) async fn id(&self) -> ID {
        output_id(self.outpoint_of()).into()
    }

    /// The txid, a colon and the number.
    async fn outpoint(&self) -> String {
        self.outpoint_of().to_string()
    }

    /// Its number in the transaction, from 0.
    async fn vout(&self) -> Result<i32, ApiError> {
        int(self.vout)
    }

    /// The transaction it is part of.
    async fn transaction(&self) -> Transaction {
        Transaction::new(&self.view, self.transaction.clone())
    }

    /// Its amount in satoshis.
    async fn value(&self) -> Result<Sats, ApiError> {
        Sats::of(self.part()?.value)
    }

    /// The script that a spend must satisfy.
    async fn script_pub_key(&self) -> Result<Hex, ApiError> {
        let script = &self.part()?.script_pubkey;
        self.view.count(script.len())?;
        Ok(Hex::new(script.to_bytes()))
    }

    /// That script as opcodes and pushes, to read.
    async fn asm(&self) -> Result<String, ApiError> {
        let script = &self.part()?.script_pubkey;
        self.view.count(script.len())?;
        Ok(script.to_asm_string())
    }

    /// The form of that script.
    async fn script_type(&self) -> Result<ScriptType, ApiError> {
        Ok(chain::ScriptType::of(&self.part()?.script_pubkey).into())
    }

    /// The address that stands for that script; null for forms that have none (P2PK, bare multisig, OP_RETURN, ...).
    async fn address(&self) -> Option<Result<String, ApiError>> {
        match self.part() {
            Ok(part) => address_of(&part.script_pubkey, self.view.network()).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether a coinbase created it, so that it must mature before it can be spent.
    async fn is_coinbase(&self) -> bool {
        self.transaction.parts.is_coinbase()
    }

    /// The lowest height of a block that may spend it: 100 above its own. Null unless it is the output of a coinbase
    /// on the main chain.
    async fn mature_at_height(&self) -> Option<Result<i32, ApiError>> {
        Some(int(self.transaction.mature_at()?.to_u32()))
    }

    /// Whether it is mature: true for all but coinbase outputs, and for these once the next block may spend them.
    async fn is_mature(&self) -> bool {
        self.view.is_mature(&self.transaction)
    }

    /// What became of it; null while no block of the main chain holds it.
    async fn spend_status(&self) -> Option<Result<SpendStatus, ApiError>> {
        self.status().transpose()
    }

    /// Why it can never be spent; null if it can, or was.
    async fn unspendable_reason(&self) -> Option<Result<UnspendableReason, ApiError>> {
        self.reason().transpose()
    }

    /// The input on the main chain that spends it; null while there is none.
    async fn spent_by(&self) -> Option<Result<Input, ApiError>> {
        let spender = self.spender().transpose()?;
        Some(spender.and_then(|spender| Input::spending(&self.view, spender)))
    }

    /// The height of the block that spends it; null while there is none.
    async fn spent_height(&self) -> Option<Result<i32, ApiError>> {
        Some(self.spender().transpose()?.and_then(|spender| int(spender.height.to_u32())))
    }
}
