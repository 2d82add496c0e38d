//! What texts and bytes are, whether the server knows them or not.

use async_graphql::{Context, Object};
use bitcoin::ScriptBuf;

use super::root::QueryRoot;
use crate::api::blocking::BlockingPool;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Hex;
use crate::api::types::ledger::{AddressValidation, ScriptInfo};
use crate::api::types::psbt::DecodedPsbt;
use crate::chain::psbt::{PsbtError, parse_psbt};

/// Decodes what a client submits.
pub(crate) struct DecodeQuery {
    root: QueryRoot,
    pool: BlockingPool,
}

impl DecodeQuery {
    pub(crate) fn new(root: QueryRoot) -> Self {
        Self { root, pool: BlockingPool::default() }
    }

    async fn psbt(&self, ctx: &Context<'_>, text: String) -> Result<DecodedPsbt, ApiError> {
        costs::spend(ctx, costs::psbt(&text))?;
        let view = self.root.view(ctx)?;
        // thousands of keys are parsed, and as many outputs read
        let decode = move || {
            let refused = |error: PsbtError| {
                ApiError::bad_argument("psbt", format!("does not decode: {error}")).at(error.position())
            };
            let (psbt, bytes) = parse_psbt(&text).map_err(refused)?;
            DecodedPsbt::new(&view, psbt, &bytes)
        };
        self.pool.run(decode).await
    }
}

impl FieldCacheability for DecodeQuery {
    const IMMUTABLE: &'static str = "validateAddress decodeScript";
    const NEVER: &'static str = "decodePsbt";
}

#[Object]
impl DecodeQuery {
    /// What a text is as an address: whether it is valid here, on which networks it is, what is wrong with it and where, its
    /// script. Every text returns a result.
    /// Example: `{ validateAddress(address: "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4") { isValid error { code message
    /// positions } networks scriptType } }`.
    async fn validate_address(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Any text.")] address: String,
    ) -> Option<Result<AddressValidation, ApiError>> {
        Some(self.root.view(ctx).map(|view| AddressValidation::of(&view, address)))
    }

    /// What bytes are as a script: a scriptPubKey, or a redeem or witness script with the addresses that pay to it. Any bytes
    /// return a result, whether the script was ever used or not.
    /// Example: `{ decodeScript(hex: "51210279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f8179851ae") { script
    /// { type asm } requiredSignatureCount segwit { address } } }`.
    async fn decode_script(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The script.")] hex: Hex,
    ) -> Option<Result<ScriptInfo, ApiError>> {
        let script = ScriptBuf::from_bytes(hex.into_bytes());
        Some(self.root.view(ctx).and_then(|view| ScriptInfo::of(&view, script)))
    }

    /// Decodes a partially signed transaction (PSBT) of version 0 (BIP174): what it spends, by itself and by this server's chain and
    /// mempool, its fee, what is signed and what is missing. Nothing is stored or submitted, signatures are not verified, and
    /// the node is not asked. BAD_USER_INPUT if the text does not decode, if its outputs exceed the coin supply, for signatures that are none
    /// or have a sighash type that is not defined, which `decodepsbt` of Bitcoin Core shows as they are, and for PSBTs of version 2
    /// (BIP370).
    /// Example: `{ decodePsbt(psbt:
    /// "cHNidP8BAD0CAAAAARaeHoPpMIUzkbxvNfYFxnVM/q1Xz4OHY507QJbFTxj0AAAAAAD/////AQDKmjsAAAAAAVEAAAAAAAAA") { nextRole fee
    /// estimatedFeeRate inputs { nodes { value unsignedKeys } } } }`.
    #[graphql(complexity = "costs::more(costs::psbt(&psbt), child_complexity)")]
    async fn decode_psbt(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The PSBT, in base64 or in hexadecimal digits.")] psbt: String,
    ) -> Option<Result<DecodedPsbt, ApiError>> {
        Some(self.psbt(ctx, psbt).await)
    }
}
