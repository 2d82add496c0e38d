use std::sync::Arc;

use async_graphql::Object;
use bitcoin::ScriptBuf;
use bitcoin::hashes::Hash;

use super::decoded_psbt::{KnownInput, PsbtContent};
use super::psbt_entry::{PsbtPreimage, PsbtProprietaryEntry, PsbtTapLeaf, PsbtUnknownEntry};
use super::psbt_key::{KEY_BYTES, PsbtDerivation, PsbtSignature};
use super::psbt_role::PsbtRoleEnum;
use crate::api::allowance::ITEM_BYTES;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hex, Sats, int_of};
use crate::api::types::ledger::Script;
use crate::api::types::spend::SighashType;
use crate::api::types::transaction::{OutPointObject, Output};
use crate::view::View;

/// An input of a PSBT, by its number.
#[derive(Clone)]
pub(crate) struct PsbtInput {
    pub(super) view: Arc<View>,
    pub(super) content: Arc<PsbtContent>,
    pub(super) index: usize,
}

impl PsbtInput {
    fn part(&self) -> Result<&bitcoin::psbt::Input, ApiError> {
        self.content.psbt.inputs.get(self.index).ok_or_else(|| ApiError::internal("an input of a PSBT is missing"))
    }

    fn known(&self) -> Result<&KnownInput, ApiError> {
        self.content.inputs.get(self.index).ok_or_else(|| ApiError::internal("an input of a PSBT is missing"))
    }

    fn outpoint_of(&self) -> Result<bitcoin::OutPoint, ApiError> {
        let txin = self.content.psbt.unsigned_tx.input.get(self.index);
        Ok(txin.ok_or_else(|| ApiError::internal("an input of a PSBT is missing"))?.previous_output)
    }

    /// Counts keys or signatures, which an answer may repeat as often as it names the field.
    fn count_items(&self, items: usize) -> Result<(), ApiError> {
        Ok(self.view.count(items.saturating_mul(KEY_BYTES))?)
    }

    fn script_object(&self, script: Option<&ScriptBuf>) -> Option<Script> {
        script.map(|script| Script::of(&self.view, script.clone()))
    }
}

impl FieldCacheability for PsbtInput {
    const NEVER: &'static str = "index outpoint prevout isUtxoKnown isUtxoConsistent value script redeemScript \
        witnessScript sighashType derivations signatures requiredSignatureCount unsignedKeys missingKeyHash \
        missingRedeemScriptHash missingWitnessScriptHash isFinalized finalScriptSig finalWitness preimages \
        taprootInternalKey taprootMerkleRoot taprootScripts unknownEntries proprietaryEntries nextRole";
}

/// An input of a PSBT: what it spends, and what there is of its authorisation.
#[Object]
impl PsbtInput {
    /// The index in the transaction, from 0.
    async fn index(&self) -> Result<i32, ApiError> {
        int_of(self.index)
    }

    /// The outpoint of the output that the input spends.
    async fn outpoint(&self) -> Result<OutPointObject, ApiError> {
        OutPointObject::new(self.outpoint_of()?)
    }

    /// The output that the input spends, on the main chain or in the mempool, spent or not. Null if this server does not know
    /// it.
    async fn prevout(&self) -> Result<Option<Output>, ApiError> {
        Ok(self.known()?.prevout.clone())
    }

    /// Whether the PSBT has the output that the input spends.
    async fn is_utxo_known(&self) -> Result<bool, ApiError> {
        Ok(self.known()?.has_utxo)
    }

    /// Whether the amount and the script of the output in the PSBT are those of the chain or the mempool, and the PSBT says the same
    /// wherever it has the output: alone, and in the whole transaction, which has the txid of the outpoint (BIP174). If not, the
    /// PSBT is forged: do not sign it. Null if the PSBT contradicts nothing, and it or this server does not have the output.
    async fn is_utxo_consistent(&self) -> Result<Option<bool>, ApiError> {
        Ok(self.known()?.is_consistent)
    }

    /// The amount of the spent output, as the chain has it or, if this server does not know it, as the PSBT has it. Null if
    /// neither does.
    async fn value(&self) -> Option<Result<Sats, ApiError>> {
        let known = self.known().map(|known| known.utxo.as_ref().map(|utxo| utxo.value));
        known.transpose().map(|value| value.and_then(Sats::of))
    }

    /// The script of the spent output, from where `value` is. Null if neither has it.
    async fn script(&self) -> Result<Option<Script>, ApiError> {
        Ok(self.script_object(self.known()?.utxo.as_ref().map(|utxo| &utxo.script_pubkey)))
    }

    /// The redeem script (BIP16). Null if the PSBT has none.
    async fn redeem_script(&self) -> Result<Option<Script>, ApiError> {
        Ok(self.script_object(self.part()?.redeem_script.as_ref()))
    }

    /// The witness script (BIP141). Null if the PSBT has none.
    async fn witness_script(&self) -> Result<Option<Script>, ApiError> {
        Ok(self.script_object(self.part()?.witness_script.as_ref()))
    }

    /// The type of signature hash that signatures must have. Null if the PSBT does not say.
    async fn sighash_type(&self) -> Result<Option<SighashType>, ApiError> {
        Ok(self.part()?.sighash_type.map(SighashType::from))
    }

    /// The public keys of the input, and where they come from. As many as the PSBT has for the input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn derivations(&self) -> Result<Vec<PsbtDerivation>, ApiError> {
        let part = self.part()?;
        self.count_items(part.bip32_derivation.len().saturating_add(part.tap_key_origins.len()))?;
        Ok(PsbtDerivation::all(&part.bip32_derivation, &part.tap_key_origins))
    }

    /// The signatures. Usually empty once the input is finalized. As many as the PSBT has for the input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn signatures(&self) -> Result<Vec<PsbtSignature>, ApiError> {
        let part = self.part()?;
        self.count_items(part.partial_sigs.len().saturating_add(part.tap_script_sigs.len()))?;
        Ok(PsbtSignature::all(part))
    }

    /// How many signatures the script of the spent output requires. Null if that is not known: without the output or the
    /// script behind its hash, and for scripts other than single keys and multisig.
    async fn required_signature_count(&self) -> Option<Result<i32, ApiError>> {
        self.known().map(|known| known.state.required_signatures).transpose().map(|count| count.and_then(int_of))
    }

    /// The public keys that can sign and have not: of a multisig script also those that are not needed. Of scripts other than
    /// single keys and multisig, the keys in `derivations`. Empty once the input is finalized. As many as the PSBT has for the
    /// input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn unsigned_keys(&self) -> Result<Vec<Hex>, ApiError> {
        let keys = &self.known()?.state.missing.signatures;
        self.count_items(keys.len())?;
        Ok(keys.iter().map(|key| Hex::new(key.as_slice())).collect())
    }

    /// The HASH160 of a public key that the script asks for and that the PSBT does not have. Null if there is none.
    async fn missing_key_hash(&self) -> Result<Option<Hex>, ApiError> {
        Ok(self.known()?.state.missing.key_hash.map(|hash| Hex::new(hash.to_byte_array())))
    }

    /// The HASH160 of the redeem script that the output asks for and that the PSBT does not have. Null if there is none.
    async fn missing_redeem_script_hash(&self) -> Result<Option<Hex>, ApiError> {
        Ok(self.known()?.state.missing.redeem_script.map(|hash| Hex::new(hash.to_byte_array())))
    }

    /// The SHA-256 of the witness script that the output asks for and that the PSBT does not have. Null if there is none.
    async fn missing_witness_script_hash(&self) -> Result<Option<Hex>, ApiError> {
        Ok(self.known()?.state.missing.witness_script.map(|hash| Hex::new(hash.to_byte_array())))
    }

    /// Whether scriptSig or witness is final.
    async fn is_finalized(&self) -> Result<bool, ApiError> {
        Ok(self.known()?.state.is_finalized)
    }

    /// The final scriptSig. Null if there is none.
    async fn final_script_sig(&self) -> Option<Result<Hex, ApiError>> {
        let script = self.part().map(|part| part.final_script_sig.as_ref()).transpose()?;
        Some(script.and_then(|script| {
            self.view.count(script.len())?;
            Ok(Hex::new(script.to_bytes()))
        }))
    }

    /// The items of the final witness stack, bottom first (BIP141). Null if there is none.
    /// As many as the PSBT has for the input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn final_witness(&self) -> Option<Result<Vec<Hex>, ApiError>> {
        let witness = self.part().map(|part| part.final_script_witness.as_ref()).transpose()?;
        Some(witness.and_then(|witness| {
            self.view.count(witness.size().saturating_add(witness.len().saturating_mul(ITEM_BYTES)))?;
            Ok(witness.iter().map(Hex::new).collect())
        }))
    }

    /// The preimages of hashes in the script, by hash function and hash. As many as the PSBT has for the input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn preimages(&self) -> Result<Vec<PsbtPreimage>, ApiError> {
        PsbtPreimage::all(&self.view, self.part()?)
    }

    /// The internal key of a taproot output (BIP341): 32 bytes. Null if the PSBT has none.
    async fn taproot_internal_key(&self) -> Result<Option<Hex>, ApiError> {
        Ok(self.part()?.tap_internal_key.map(|key| Hex::new(key.serialize())))
    }

    /// The root of the tree of scripts of a taproot output (BIP341). Null if the PSBT has none.
    async fn taproot_merkle_root(&self) -> Result<Option<Hex>, ApiError> {
        Ok(self.part()?.tap_merkle_root.map(|root| Hex::new(root.to_byte_array())))
    }

    /// The taproot scripts by which the output may be spent, by their control blocks. As many as the PSBT has for the input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn taproot_scripts(&self) -> Result<Vec<PsbtTapLeaf>, ApiError> {
        PsbtTapLeaf::of_input(&self.view, self.part()?)
    }

    /// The entries of types that this server does not know, by their keys, and those of taproot (BIP371) whose x-only key is no
    /// point of the curve (BIP340). As many as the PSBT has for the input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn unknown_entries(&self) -> Result<Vec<PsbtUnknownEntry>, ApiError> {
        PsbtUnknownEntry::all(&self.view, &self.part()?.unknown)
    }

    /// The proprietary entries, by their keys. As many as the PSBT has for the input.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn proprietary_entries(&self) -> Result<Vec<PsbtProprietaryEntry>, ApiError> {
        PsbtProprietaryEntry::all(&self.view, &self.part()?.proprietary)
    }

    /// Who has to act next on this input.
    async fn next_role(&self) -> Result<PsbtRoleEnum, ApiError> {
        Ok(self.known()?.state.next_role.into())
    }
}
