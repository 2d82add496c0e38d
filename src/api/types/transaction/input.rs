use std::sync::Arc;

use async_graphql::Object;

use super::outpoint::OutPointObject;
use super::output::Output;
use super::transaction::Transaction;
use crate::api::allowance::{ITEM_BYTES, read_transaction};
use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hex, UInt53, int};
use crate::api::types::ledger::Script;
use crate::api::types::spend::{RelativeLockObject, SighashType, TapLeafObject};
use crate::chain::script_sig_asm;
use crate::chain::spend::InputSpend;
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

    /// What the input reveals of the output that it spends, `None` in a coinbase and if the output is not known. Its bytes
    /// count as returned.
    async fn spend(&self) -> Result<Option<InputSpend>, ApiError> {
        let Some(prevout) = self.find_prevout().await? else { return Ok(None) };
        let part = self.part()?;
        // each script may be returned in several forms, which count themselves
        self.view.count(part.script_sig.len().saturating_add(part.witness.size()))?;
        Ok(Some(InputSpend::of(prevout.part()?.script_pubkey, part)))
    }

    fn script_object(&self, script: bitcoin::ScriptBuf) -> Script {
        Script::of(&self.view, script)
    }

    async fn find_relative_lock(&self) -> Result<Option<RelativeLockObject>, ApiError> {
        let prevout = self.find_prevout().await?;
        let vin = usize::try_from(self.vin).unwrap_or(usize::MAX);
        let funding = prevout.as_ref().map(Output::funding);
        Ok(self.view.relative_lock(&self.transaction, vin, funding)?.map(RelativeLockObject))
    }
}

impl FieldCacheability for Input {
    const IMMUTABLE: &'static str = "index transaction outpoint prevout sequence isCoinbase scriptSigHex witness \
        scriptSigAsm redeemScript witnessScript tapLeaf annex sighashTypes relativeLock";
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

    /// The items of the witness stack, bottom first (BIP141). Empty if there is no witness. As many as the input has.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn witness(&self) -> Result<List<Hex>, ApiError> {
        let witness = &self.part()?.witness;
        // an item without bytes is an item all the same, and a witness can have millions of them
        self.view.count(witness.size().saturating_add(witness.len().saturating_mul(ITEM_BYTES)))?;
        Ok(List(witness.iter().map(Hex::new).collect()))
    }

    /// The scriptSig in human-readable form, as Bitcoin Core writes it: as `asm` of a script, and of each push that is an ECDSA
    /// signature the hash type as a word, as in `3044…[ALL]`. Null in a coinbase, whose scriptSig is not executed.
    async fn script_sig_asm(&self) -> Option<Result<String, ApiError>> {
        let part = self.part();
        let script = match part {
            Ok(_) if self.transaction.parts.is_coinbase() => return None,
            Ok(part) => &part.script_sig,
            Err(error) => return Some(Err(error)),
        };
        // names are longer than opcodes
        let text = script_sig_asm(script);
        Some(self.view.count(text.len()).map(|()| text).map_err(ApiError::from))
    }

    /// The redeem script that the input reveals (BIP16). Null unless the spent output is P2SH, and if it is not known.
    async fn redeem_script(&self) -> Result<Option<Script>, ApiError> {
        Ok(self.spend().await?.and_then(|spend| spend.redeem_script).map(|script| self.script_object(script)))
    }

    /// The witness script that the input reveals (BIP141). Null unless the spent output is P2WSH, or P2WSH nested in P2SH, and
    /// if it is not known.
    async fn witness_script(&self) -> Result<Option<Script>, ApiError> {
        Ok(self.spend().await?.and_then(|spend| spend.witness_script).map(|script| self.script_object(script)))
    }

    /// The leaf of the script tree by which the input spends a P2TR output (BIP341). Null if it is spent by its key, for all
    /// other outputs, and if the output is not known.
    async fn tap_leaf(&self) -> Result<Option<TapLeafObject>, ApiError> {
        let leaf = self.spend().await?.and_then(|spend| spend.tap_leaf);
        Ok(leaf.map(|leaf| TapLeafObject::new(&self.view, leaf)))
    }

    /// The annex of the spend of a P2TR output, its first byte 0x50 included (BIP341). Null if there is none, for all other
    /// outputs, and if the output is not known.
    async fn annex(&self) -> Result<Option<Hex>, ApiError> {
        Ok(self.spend().await?.and_then(|spend| spend.annex).map(Hex::new))
    }

    /// What the signatures of the input commit to, in the order of scriptSig and witness. Signatures are recognised by their
    /// form: ECDSA signatures by strict DER (BIP66), so older ones in other forms are left out; in a tapscript each witness
    /// item of 64 bytes, or of 65 with a valid hash type, counts as one. Empty in a coinbase, and if the spent output is not
    /// known.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn sighash_types(&self) -> Result<Vec<SighashType>, ApiError> {
        let signatures = self.spend().await?.map(|spend| spend.signatures).unwrap_or_default();
        self.view.count(signatures.len().saturating_mul(ITEM_BYTES))?;
        Ok(signatures.into_iter().map(SighashType::from).collect())
    }

    /// The relative lock time (BIP68). Null if there is none: in a coinbase, in transactions of version 0 and 1, and for
    /// sequence numbers from 2147483648 on.
    async fn relative_lock(&self) -> Option<Result<RelativeLockObject, ApiError>> {
        self.find_relative_lock().await.transpose()
    }
}
