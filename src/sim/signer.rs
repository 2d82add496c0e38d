//! Signatures for the outputs whose scripts require one.

use std::sync::OnceLock;

use bitcoin::hashes::Hash;
use bitcoin::key::TapTweak;
use bitcoin::script::PushBytesBuf;
use bitcoin::secp256k1::{All, Keypair, Message, Secp256k1};
use bitcoin::sighash::{Prevouts, SighashCache};
use bitcoin::{
    CompressedPublicKey, EcdsaSighashType, ScriptBuf, TapSighashType, Transaction, TxOut, Witness, ecdsa, taproot,
};

use super::error::UnlockError;

/// Signs one input. Signatures are a function of key and message, without added randomness.
pub(super) struct Signer<'a> {
    pub(super) keypair: Keypair,
    pub(super) input: usize,
    pub(super) prevouts: &'a [TxOut],
}

impl Signer<'_> {
    pub(super) fn legacy(&self, tx: &Transaction) -> Result<PushBytesBuf, UnlockError> {
        let script = &self.prevouts[self.input].script_pubkey;
        let sighash = SighashCache::new(tx)
            .legacy_signature_hash(self.input, script, EcdsaSighashType::All.to_u32())
            .map_err(|_| self.no_such_input(tx))?;
        let signature = self.ecdsa(Message::from_digest(sighash.to_byte_array()));
        PushBytesBuf::try_from(signature.to_vec()).map_err(|_| self.no_such_input(tx))
    }

    pub(super) fn p2wpkh(&self, tx: &Transaction) -> Result<Witness, UnlockError> {
        let value = self.prevouts[self.input].value;
        let sighash = SighashCache::new(tx)
            .p2wpkh_signature_hash(self.input, &p2wpkh_program(&self.keypair), value, EcdsaSighashType::All)
            .map_err(|_| self.no_such_input(tx))?;
        let signature = self.ecdsa(Message::from_digest(sighash.to_byte_array()));
        Ok(Witness::p2wpkh(&signature, &self.keypair.public_key()))
    }

    pub(super) fn taproot(&self, tx: &Transaction) -> Result<Witness, UnlockError> {
        let sighash = SighashCache::new(tx)
            .taproot_key_spend_signature_hash(self.input, &Prevouts::All(self.prevouts), TapSighashType::Default)
            .map_err(|_| self.no_such_input(tx))?;
        let keypair = self.keypair.tap_tweak(secp(), None).to_keypair();
        let message = Message::from_digest(sighash.to_byte_array());
        let signature = secp().sign_schnorr_no_aux_rand(&message, &keypair);
        Ok(Witness::p2tr_key_spend(&taproot::Signature { signature, sighash_type: TapSighashType::Default }))
    }

    fn ecdsa(&self, message: Message) -> ecdsa::Signature {
        let signature = secp().sign_ecdsa(&message, &self.keypair.secret_key());
        ecdsa::Signature { signature, sighash_type: EcdsaSighashType::All }
    }

    fn no_such_input(&self, tx: &Transaction) -> UnlockError {
        UnlockError::NoSuchInput { input: self.input, inputs: tx.input.len(), prevouts: self.prevouts.len() }
    }
}

/// The version 0 witness program that pays a key.
pub(super) fn p2wpkh_program(keypair: &Keypair) -> ScriptBuf {
    ScriptBuf::new_p2wpkh(&CompressedPublicKey(keypair.public_key()).wpubkey_hash())
}

/// The context for point arithmetic, which is slow to build.
pub(super) fn secp() -> &'static Secp256k1<All> {
    static SECP: OnceLock<Secp256k1<All>> = OnceLock::new();
    SECP.get_or_init(Secp256k1::new)
}
