use std::sync::Arc;

use async_graphql::Object;
use bitcoin::ScriptBuf;

use super::decoded_psbt::PsbtContent;
use super::psbt_entry::{PsbtProprietaryEntry, PsbtTapLeaf, PsbtUnknownEntry};
use super::psbt_key::{KEY_BYTES, PsbtDerivation};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hex, Sats, int_of};
use crate::api::types::ledger::Script;
use crate::view::View;

/// An output of a PSBT, by its number.
#[derive(Clone)]
pub(crate) struct PsbtOutput {
    pub(super) view: Arc<View>,
    pub(super) content: Arc<PsbtContent>,
    pub(super) index: usize,
}

impl PsbtOutput {
    fn part(&self) -> Result<&bitcoin::psbt::Output, ApiError> {
        self.content.psbt.outputs.get(self.index).ok_or_else(|| ApiError::internal("an output of a PSBT is missing"))
    }

    fn txout(&self) -> Result<&bitcoin::TxOut, ApiError> {
        let txout = self.content.psbt.unsigned_tx.output.get(self.index);
        txout.ok_or_else(|| ApiError::internal("an output of a PSBT is missing"))
    }

    fn script_object(&self, script: Option<&ScriptBuf>) -> Option<Script> {
        script.map(|script| Script::of(&self.view, script.clone()))
    }
}

impl FieldCacheability for PsbtOutput {
    const IMMUTABLE: &'static str = "index value script redeemScript witnessScript derivations taprootInternalKey \
        taprootTree unknownEntries proprietaryEntries isChange";
}

/// An output of a PSBT: what it pays, and what the PSBT says of its keys.
#[Object]
impl PsbtOutput {
    /// The index in the transaction, from 0.
    async fn index(&self) -> Result<i32, ApiError> {
        int_of(self.index)
    }

    /// The amount.
    async fn value(&self) -> Result<Sats, ApiError> {
        Sats::of(self.txout()?.value)
    }

    /// The script, with its address.
    async fn script(&self) -> Result<Script, ApiError> {
        Ok(Script::of(&self.view, self.txout()?.script_pubkey.clone()))
    }

    /// The redeem script (BIP16). Null if the PSBT has none.
    async fn redeem_script(&self) -> Result<Option<Script>, ApiError> {
        Ok(self.script_object(self.part()?.redeem_script.as_ref()))
    }

    /// The witness script (BIP141). Null if the PSBT has none.
    async fn witness_script(&self) -> Result<Option<Script>, ApiError> {
        Ok(self.script_object(self.part()?.witness_script.as_ref()))
    }

    /// The public keys of the output, and where they come from. As many as the PSBT has for the output.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn derivations(&self) -> Result<Vec<PsbtDerivation>, ApiError> {
        let part = self.part()?;
        let keys = part.bip32_derivation.len().saturating_add(part.tap_key_origins.len());
        self.view.count(keys.saturating_mul(KEY_BYTES))?;
        Ok(PsbtDerivation::all(&part.bip32_derivation, &part.tap_key_origins))
    }

    /// The internal key of a taproot output (BIP341): 32 bytes. Null if the PSBT has none.
    async fn taproot_internal_key(&self) -> Result<Option<Hex>, ApiError> {
        Ok(self.part()?.tap_internal_key.map(|key| Hex::new(key.serialize())))
    }

    /// The scripts of a taproot output, in the order of the tree (BIP341). Null if the PSBT has none.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn taproot_tree(&self) -> Result<Option<Vec<PsbtTapLeaf>>, ApiError> {
        PsbtTapLeaf::of_output(&self.view, self.part()?)
    }

    /// The entries of types that this server does not know, by their keys, and those of taproot (BIP371) whose x-only key is no
    /// point of the curve (BIP340). As many as the PSBT has for the output.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn unknown_entries(&self) -> Result<Vec<PsbtUnknownEntry>, ApiError> {
        PsbtUnknownEntry::all(&self.view, &self.part()?.unknown)
    }

    /// The proprietary entries, by their keys. As many as the PSBT has for the output.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn proprietary_entries(&self) -> Result<Vec<PsbtProprietaryEntry>, ApiError> {
        PsbtProprietaryEntry::all(&self.view, &self.part()?.proprietary)
    }

    /// Whether the output seems to be change: it has keys, and the master key of each is one of those of the inputs, by the
    /// fingerprints in the PSBT. These can be forged: before it signs, a wallet derives the keys itself.
    async fn is_change(&self) -> Result<bool, ApiError> {
        let part = self.part()?;
        let own = part.bip32_derivation.values().chain(part.tap_key_origins.values().map(|(_, source)| source));
        let mut own = own.map(|(fingerprint, _)| self.content.fingerprints.contains(fingerprint)).peekable();
        Ok(own.peek().is_some() && own.all(|is_known| is_known))
    }
}
