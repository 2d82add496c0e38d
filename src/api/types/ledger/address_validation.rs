use std::sync::Arc;

use async_graphql::Object;
use bitcoin::{Network, ScriptBuf};

use super::address_error::AddressErrorObject;
use super::script::Script;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Hex;
use crate::api::types::enums::{NetworkEnum, ScriptTypeEnum};
use crate::chain::script::witness_program;
use crate::chain::{AddressError, ScriptType, address_of, parse_any_address};
use crate::view::View;

/// What a text is as an address.
pub(crate) struct AddressValidation {
    view: Arc<View>,
    text: String,
    /// The script and the networks of the address, `None` if the text is not an address of any network.
    found: Option<(ScriptBuf, &'static [Network])>,
    error: Option<AddressError>,
}

impl AddressValidation {
    /// What a text is, seen from the network of a view.
    pub(crate) fn of(view: &Arc<View>, text: String) -> Self {
        let asked = view.network();
        let (found, error) = match parse_any_address(&text) {
            Ok((script, belongs_to)) if belongs_to.contains(&asked) => (Some((script, belongs_to)), None),
            Ok((script, belongs_to)) => (Some((script, belongs_to)), Some(AddressError::Network { asked, belongs_to })),
            Err(error) => (None, Some(error)),
        };
        // only what is wrong is quoted
        let text = if error.is_some() { text } else { String::new() };
        Self { view: view.clone(), text, found, error }
    }

    fn script_pubkey(&self) -> Option<&ScriptBuf> {
        self.found.as_ref().map(|(script, _)| script)
    }
}

impl FieldCacheability for AddressValidation {
    const IMMUTABLE: &'static str =
        "isValid error networks isThisNetwork address scriptType witnessVersion witnessProgram script";
}

/// What a text is as an address.
#[Object]
impl AddressValidation {
    /// Whether the text is an address of this server's network, which `address` accepts.
    async fn is_valid(&self) -> bool {
        self.error.is_none()
    }

    /// Why it is not. Null if it is valid.
    async fn error(&self) -> Option<Result<AddressErrorObject, ApiError>> {
        self.error.as_ref().map(|error| AddressErrorObject::new(error, &self.text))
    }

    /// The networks that the address is for. The testnets and signet share all their addresses, and their base58 addresses
    /// also with regtest. Empty if the text is not an address of any network.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn networks(&self) -> Vec<NetworkEnum> {
        let networks = self.found.as_ref().map(|(_, networks)| *networks).unwrap_or_default();
        networks.iter().copied().map(NetworkEnum::from).collect()
    }

    /// Whether one of `networks` is this server's. Null if the text is not an address of any network.
    async fn is_this_network(&self) -> Option<bool> {
        self.found.as_ref().map(|(_, networks)| networks.contains(&self.view.network()))
    }

    /// The address in its canonical form: bech32 in lower case. Null if the text is not an address of any network.
    async fn address(&self) -> Option<String> {
        let (script, networks) = self.found.as_ref()?;
        address_of(script, *networks.first()?)
    }

    /// The type of the script. Null if the text is not an address of any network.
    async fn script_type(&self) -> Option<ScriptTypeEnum> {
        self.script_pubkey().map(|script| ScriptType::of(script).into())
    }

    /// The witness version, 0 to 16 (BIP141). Null for base58 addresses, and if the text is not an address of any network.
    async fn witness_version(&self) -> Option<i32> {
        self.script_pubkey().and_then(|script| witness_program(script)).map(|(version, _)| version.into())
    }

    /// The witness program, 2 to 40 bytes (BIP141). Null where `witnessVersion` is.
    async fn witness_program(&self) -> Option<Hex> {
        self.script_pubkey().and_then(|script| witness_program(script)).map(|(_, program)| Hex::new(program))
    }

    /// The scriptPubKey that the address encodes, with its history on this server's network: a script is the same on all
    /// networks. Null if the text is not an address of any network.
    async fn script(&self) -> Option<Script> {
        self.script_pubkey().map(|script| Script::of(&self.view, script.clone()))
    }
}
