use std::sync::Arc;

use async_graphql::Object;
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, hash160};

use super::address::Address;
use super::script::Script;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hex, int_of};
use crate::chain::descriptor::inferred_descriptor;
use crate::chain::script::{WrappedScripts, multisig, never_spendable, p2pk_key, witness_program, wrapped_scripts};
use crate::view::View;

/// What bytes are as a script.
pub(crate) struct ScriptInfo {
    view: Arc<View>,
    script: ScriptBuf,
    /// The required signatures and the keys that may give them.
    signers: Option<(usize, Vec<Vec<u8>>)>,
    wrapped: WrappedScripts,
}

impl ScriptInfo {
    /// What these bytes are. Errors: QUERY_LIMIT_EXCEEDED for more than an answer may read.
    pub(crate) fn of(view: &Arc<View>, script: ScriptBuf) -> Result<Self, ApiError> {
        view.count(script.len())?;
        let signers = match p2pk_key(&script) {
            Some(key) => Some((1, vec![key.to_vec()])),
            None => multisig(&script)
                .map(|(required, keys)| (usize::from(required), keys.into_iter().map(<[u8]>::to_vec).collect())),
        };
        let wrapped = wrapped_scripts(&script);
        Ok(Self { view: view.clone(), script, signers, wrapped })
    }

    fn address_of(&self, script: Option<&ScriptBuf>) -> Option<Address> {
        Address::of(&self.view, script?.clone())
    }
}

impl FieldCacheability for ScriptInfo {
    const IMMUTABLE: &'static str = "script descriptor hash160 publicKeys requiredSignatureCount witnessVersion \
        witnessProgram isUnspendable p2sh segwit p2shSegwit";
}

/// What bytes are as a script: a scriptPubKey, or a redeem or witness script.
#[Object]
impl ScriptInfo {
    /// The script, with its type, asm, address, hashes and history.
    async fn script(&self) -> Script {
        Script::of(&self.view, self.script.clone())
    }

    /// The descriptor of the script with its checksum, as far as the script alone says (BIP380): `pk` or `multi` of the keys that
    /// it contains, `rawtr` of a taproot output, otherwise `addr`, or `raw` without an address. Example: `{ decodeScript(hex:
    /// "0014…") { descriptor } }`.
    async fn descriptor(&self) -> Result<String, ApiError> {
        // as hexadecimal digits
        self.view.count(self.script.len().saturating_mul(2))?;
        Ok(inferred_descriptor(&self.script, self.view.network()))
    }

    /// The RIPEMD-160 of the SHA-256 of the script, which a P2SH output commits to. `script.scriptHash` is the SHA-256.
    async fn hash160(&self) -> Hex {
        Hex::new(hash160::Hash::hash(self.script.as_bytes()).to_byte_array())
    }

    /// The public keys that the script contains, in its order: one of P2PK, up to 20 of bare multisig, otherwise none.
    /// Whether they are points on the curve is not checked.
    #[graphql(complexity = "costs::list(costs::MULTISIG_KEYS, 0)")]
    async fn public_keys(&self) -> Vec<Hex> {
        let keys = self.signers.as_ref().map(|(_, keys)| keys.as_slice()).unwrap_or_default();
        keys.iter().map(|key| Hex::new(key.as_slice())).collect()
    }

    /// How many of `publicKeys` must sign. Null if there are none.
    async fn required_signature_count(&self) -> Option<Result<i32, ApiError>> {
        self.signers.as_ref().map(|(required, _)| int_of(*required))
    }

    /// The witness version, 0 to 16 (BIP141). Null if the script is not a witness program.
    async fn witness_version(&self) -> Option<i32> {
        witness_program(&self.script).map(|(version, _)| version.into())
    }

    /// The witness program, 2 to 40 bytes (BIP141). Null if the script is not one.
    async fn witness_program(&self) -> Option<Hex> {
        witness_program(&self.script).map(|(_, program)| Hex::new(program))
    }

    /// Whether no transaction can ever spend an output with this script: it starts with OP_RETURN, or is longer than 10,000
    /// bytes. Other scripts that nobody can fulfil are not recognised.
    async fn is_unspendable(&self) -> bool {
        never_spendable(&self.script)
    }

    /// The P2SH address of the script. Null for scripts that are not meant to be wrapped (P2SH, P2TR, P2A, OP_RETURN), that
    /// cannot be executed, or that are longer than the 520 bytes which a spend can reveal.
    #[graphql(name = "p2sh")]
    async fn p2sh(&self) -> Option<Address> {
        self.address_of(self.wrapped.p2sh.as_ref())
    }

    /// The segwit address of the script: P2WPKH of a script with one compressed key (P2PK, P2PKH), otherwise P2WSH. Null where
    /// `p2sh` is, and for witness programs and scripts with uncompressed keys; but not for scripts longer than 520 bytes.
    /// Whether the key of a P2PKH is compressed does not follow from its hash: if it is not, coins of this address are lost.
    async fn segwit(&self) -> Option<Address> {
        self.address_of(self.wrapped.segwit.as_ref())
    }

    /// The P2SH address of the script of `segwit`. Null where `segwit` is.
    #[graphql(name = "p2shSegwit")]
    async fn p2sh_segwit(&self) -> Option<Address> {
        self.address_of(self.wrapped.p2sh_segwit.as_ref())
    }
}
