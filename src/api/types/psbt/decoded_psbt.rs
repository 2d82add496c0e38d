use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::{Context, Object, OutputType};
use bitcoin::bip32::Fingerprint;
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Amount, Psbt, TxOut, Weight};

use super::psbt_entry::{PsbtProprietaryEntry, PsbtUnknownEntry, PsbtXpub};
use super::psbt_input::PsbtInput;
use super::psbt_key::KEY_BYTES;
use super::psbt_output::PsbtOutput;
use super::psbt_role::PsbtRoleEnum;
use crate::api::allowance::find_transaction;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::{Connection, Edge};
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::{DEFAULT_PARTS, PageArgs};
use crate::api::scalars::{Sats, UInt53, int_of};
use crate::api::types::enums::SortOrder;
use crate::api::types::transaction::{Output, Transaction};
use crate::chain::float::to_f64;
use crate::chain::psbt::{PsbtInputState, PsbtRole, contradicts_itself, input_state, signed_size, utxo_of};
use crate::chain::vsize;
use crate::view::{self, OutputPart, View};

/// A PSBT that a client submitted, with what the index knows of what it spends.
pub(crate) struct DecodedPsbt {
    view: Arc<View>,
    content: Arc<PsbtContent>,
    /// SHA-256 of its bytes, which tells its cursors from those of others.
    hash: sha256::Hash,
    unsigned: Arc<view::Transaction>,
    /// The fee, `None` if a spent output is not known, and if the outputs exceed the inputs.
    fee: Option<Amount>,
    /// The weight of the signed transaction, `None` if it cannot be estimated.
    signed_weight: Option<Weight>,
}

/// What all parts of a PSBT share.
pub(super) struct PsbtContent {
    pub(super) psbt: Psbt,
    /// What is known of each input, in order.
    pub(super) inputs: Vec<KnownInput>,
    /// The fingerprints of the master keys of all inputs.
    pub(super) fingerprints: HashSet<Fingerprint>,
}

/// What is known of an input.
pub(super) struct KnownInput {
    /// The output that it spends, on the main chain or in the mempool.
    pub(super) prevout: Option<Output>,
    /// The same, as the chain has it or, if it does not, as the PSBT has it.
    pub(super) utxo: Option<TxOut>,
    /// Whether the PSBT has it.
    pub(super) has_utxo: bool,
    /// Whether the PSBT has the output that the chain has, without a contradiction; `None` if either does not have it.
    pub(super) is_consistent: Option<bool>,
    pub(super) state: PsbtInputState,
}

impl KnownInput {
    fn find(view: &Arc<View>, psbt: &Psbt, index: usize) -> Result<Option<Self>, ApiError> {
        let (Some(input), Some(txin)) = (psbt.inputs.get(index), psbt.unsigned_tx.input.get(index)) else {
            return Ok(None);
        };
        let prevout = Output::find(view, txin.previous_output)?;
        let on_chain = prevout.as_ref().map(Output::part).transpose()?;
        // an amount that there cannot be is none
        let in_psbt = utxo_of(input, txin.previous_output).filter(|utxo| utxo.value <= Amount::MAX_MONEY);
        let in_psbt = in_psbt.map(OutputPart::from);
        let is_consistent = if contradicts_itself(input, txin.previous_output) {
            Some(false)
        } else {
            on_chain.zip(in_psbt).map(|(ours, theirs)| ours == theirs)
        };
        let has_utxo = in_psbt.is_some();
        // what the chain has cannot be forged
        let utxo = on_chain.or(in_psbt).map(|utxo| utxo.to_tx_out());
        let Some(state) = input_state(psbt, index, utxo.as_ref(), has_utxo) else { return Ok(None) };
        Ok(Some(Self { prevout, utxo, has_utxo, is_consistent, state }))
    }
}

impl DecodedPsbt {
    /// A PSBT with these bytes.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED, if what it spends has more bytes than an answer may read.
    pub(crate) fn new(view: &Arc<View>, psbt: Psbt, bytes: &[u8]) -> Result<Self, ApiError> {
        let (parts, raw) = (psbt.unsigned_tx.clone(), unsigned_bytes(&psbt.unsigned_tx));
        view.count(raw.len())?;
        let unsigned = find_transaction(view, |view| view.submitted(parts, raw).map(Some))?;
        let unsigned = unsigned.ok_or_else(|| ApiError::internal("the unsigned transaction is missing"))?;
        let mut inputs = Vec::with_capacity(psbt.inputs.len());
        for index in 0..psbt.inputs.len() {
            inputs.extend(KnownInput::find(view, &psbt, index)?);
        }
        let received = inputs.iter().try_fold(Amount::ZERO, |sum, input| {
            sum.checked_add(input.utxo.as_ref()?.value).filter(|sum| *sum <= Amount::MAX_MONEY)
        });
        // the sum of the outputs was checked when they were parsed
        let paid: Amount = psbt.unsigned_tx.output.iter().map(|output| output.value).sum();
        let fee = received.and_then(|received| received.checked_sub(paid));
        let utxos: Vec<_> = inputs.iter().map(|input| input.utxo.clone()).collect();
        let signed_weight = signed_size(&psbt, &utxos);
        let fingerprints = psbt.inputs.iter().flat_map(|input| {
            let taproot = input.tap_key_origins.values().map(|(_, source)| source);
            input.bip32_derivation.values().chain(taproot).map(|(fingerprint, _)| *fingerprint)
        });
        let fingerprints = fingerprints.collect();
        let content = Arc::new(PsbtContent { psbt, inputs, fingerprints });
        let hash = sha256::Hash::hash(bytes);
        Ok(Self { view: view.clone(), content, hash, unsigned: Arc::new(unsigned), fee, signed_weight })
    }

    /// Whether every signature is in its place. A transaction without inputs is none yet.
    fn is_complete(&self) -> bool {
        !self.content.inputs.is_empty() && self.content.inputs.iter().all(|input| input.state.is_finalized)
    }

    fn page<N: OutputType + Clone>(
        &self,
        ctx: &Context<'_>,
        args: PageArgs,
        (connection, count): (&'static str, usize),
        part: impl Fn(usize) -> N,
    ) -> Result<Connection<N>, ApiError>
    where
        Edge<N>: OutputType,
    {
        let (limits, count) = (limits(ctx)?, UInt53::count(count)?);
        let scope = Scope::new(connection, format!("DecodedPsbt:{}", self.hash));
        let page = args.or_size(DEFAULT_PARTS, limits).read(&scope, &self.view, limits)?;
        let page = page.of(0..count.to_u64(), SortOrder::Asc);
        Connection::new(
            &scope,
            page,
            Some(count),
            |_| Ok(None),
            |index, ()| {
                let index = usize::try_from(index).map_err(|_| ApiError::internal("a PSBT has too many parts"))?;
                Ok(part(index))
            },
        )
    }
}

/// A transaction without witnesses as BIP174 has it: without the marker of witnesses also if it has no inputs, where the library
/// writes one.
fn unsigned_bytes(transaction: &bitcoin::Transaction) -> Vec<u8> {
    let bitcoin::Transaction { version, input, output, lock_time } = transaction;
    [serialize(version), serialize(input), serialize(output), serialize(lock_time)].concat()
}

impl FieldCacheability for DecodedPsbt {
    const NEVER: &'static str = "version unsignedTransaction finalTransaction globalXpubs unknownEntries \
        proprietaryEntries inputs outputs fee estimatedVsize estimatedFeeRate isFinalized nextRole";
}

/// A partially signed transaction (PSBT, BIP174) decoded from the given text, in the context of this server's chain and mempool.
/// Signatures are shown and not verified. Nothing is stored or submitted.
#[Object]
impl DecodedPsbt {
    /// The version of the format: 0.
    async fn version(&self) -> UInt53 {
        self.content.psbt.version.into()
    }

    /// The transaction without signatures. If the server knows a transaction with its txid, `state`, `block` and related fields
    /// describe that one; otherwise `state` is UNKNOWN.
    async fn unsigned_transaction(&self) -> Transaction {
        Transaction::new(&self.view, self.unsigned.clone())
    }

    /// The complete transaction, to be broadcast by its `hex`. Null until there are inputs, and all are finalized. The server does not check
    /// whether the node would accept it; `testTransactions` does.
    async fn final_transaction(&self) -> Option<Result<Transaction, ApiError>> {
        if !self.is_complete() {
            return None;
        }
        let build = || {
            let mut parts = self.content.psbt.unsigned_tx.clone();
            for (txin, input) in parts.input.iter_mut().zip(&self.content.psbt.inputs) {
                txin.script_sig = input.final_script_sig.clone().unwrap_or_default();
                txin.witness = input.final_script_witness.clone().unwrap_or_default();
            }
            let raw = serialize(&parts);
            self.view.count(raw.len())?;
            let found = find_transaction(&self.view, |view| view.submitted(parts, raw).map(Some))?;
            let found = found.ok_or_else(|| ApiError::internal("the final transaction is missing"))?;
            Ok(Transaction::new(&self.view, Arc::new(found)))
        };
        Some(build())
    }

    /// The extended public keys of which keys of the inputs and outputs are derived, by their bytes. As many as the PSBT has.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn global_xpubs(&self) -> Result<Vec<PsbtXpub>, ApiError> {
        self.view.count(self.content.psbt.xpub.len().saturating_mul(KEY_BYTES))?;
        Ok(PsbtXpub::all(&self.content.psbt.xpub))
    }

    /// The global entries of types that this server does not know, by their keys. As many as the PSBT has.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn unknown_entries(&self) -> Result<Vec<PsbtUnknownEntry>, ApiError> {
        PsbtUnknownEntry::all(&self.view, &self.content.psbt.unknown)
    }

    /// The global proprietary entries, by their keys. As many as the PSBT has.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn proprietary_entries(&self) -> Result<Vec<PsbtProprietaryEntry>, ApiError> {
        PsbtProprietaryEntry::all(&self.view, &self.content.psbt.proprietary)
    }

    /// The inputs, in order.
    #[graphql(complexity = "costs::parts(first, last, child_complexity)")]
    async fn inputs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 100 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<PsbtInput>, ApiError>> {
        let (args, count) = (PageArgs { first, after, last, before }, self.content.inputs.len());
        let input = |index| PsbtInput { view: self.view.clone(), content: self.content.clone(), index };
        Some(self.page(ctx, args, ("inputs", count), input))
    }

    /// The outputs, in order.
    #[graphql(complexity = "costs::parts(first, last, child_complexity)")]
    async fn outputs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 100 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<PsbtOutput>, ApiError>> {
        let (args, count) = (PageArgs { first, after, last, before }, self.content.psbt.outputs.len());
        let output = |index| PsbtOutput { view: self.view.clone(), content: self.content.clone(), index };
        Some(self.page(ctx, args, ("outputs", count), output))
    }

    /// What the inputs have more than the outputs, in satoshis, by the amounts on the chain where they are known, otherwise by
    /// those of the PSBT. Null if the amount of an input is not known, and if the outputs exceed the inputs.
    async fn fee(&self) -> Option<Result<Sats, ApiError>> {
        self.fee.map(Sats::of)
    }

    /// The virtual size of the signed transaction, in vbytes: exact if all inputs are finalized, otherwise with ECDSA signatures
    /// of 71 bytes in the place of those that are missing. Null if the output, a key or a script of an input is not known, or
    /// its script has an unknown form, and while there are no inputs.
    async fn estimated_vsize(&self) -> Option<Result<i32, ApiError>> {
        let vsize = self.signed_weight.map(vsize)?;
        Some(int_of(usize::try_from(vsize).unwrap_or(usize::MAX)))
    }

    /// The fee divided by a quarter of the estimated weight, in sat/vB, not rounded. Null if `fee` or `estimatedVsize` is null.
    async fn estimated_fee_rate(&self) -> Option<f64> {
        Some(to_f64(self.fee?.to_sat()) * 4.0 / to_f64(self.signed_weight?.to_wu()))
    }

    /// Whether there are inputs, and all are finalized.
    async fn is_finalized(&self) -> bool {
        self.is_complete()
    }

    /// Who has to act next: the first role that an input needs; UPDATER while there are no inputs.
    async fn next_role(&self) -> PsbtRoleEnum {
        let roles = self.content.inputs.iter().map(|input| input.state.next_role);
        roles.min().unwrap_or(PsbtRole::Updater).into()
    }
}
