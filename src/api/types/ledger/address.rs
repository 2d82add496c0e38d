use std::ops::Deref;
use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use bitcoin::ScriptBuf;

use super::address_error::refuse;
use super::holdings::script_hash;
use super::ledger_fields::LedgerFields;
use super::script::Script;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::global_id::address_id;
use crate::api::scalars::Hex;
use crate::api::types::enums::ScriptTypeEnum;
use crate::chain::{self, AddressError, address_of, parse_address};
use crate::view::View;

/// An address of the network, whether it was ever used or not.
#[derive(Clone)]
pub(crate) struct Address {
    view: Arc<View>,
    text: String,
    script: ScriptBuf,
    fields: LedgerFields,
}

impl Address {
    /// The address that the text of an argument stands for.
    ///
    /// Errors: BAD_USER_INPUT, with the position of the fault where there is one.
    pub(crate) fn parse(view: &Arc<View>, argument: &str, text: &str) -> Result<Self, ApiError> {
        Self::read(view, text).unwrap_or_else(|error| Err(refuse(argument, &error, text)))
    }

    /// The address that this text stands for. The inner error is a fault of the server.
    pub(crate) fn read(view: &Arc<View>, text: &str) -> Result<Result<Self, ApiError>, AddressError> {
        let script = parse_address(text, view.network())?;
        Ok(Self::of(view, script).ok_or_else(|| ApiError::internal("the script of an address has no address")))
    }

    /// The address of a script, `None` if it has none.
    pub(crate) fn of(view: &Arc<View>, script: ScriptBuf) -> Option<Self> {
        // as we would write it: bech32 in lower case
        let text = address_of(&script, view.network())?;
        let fields = LedgerFields::new(view, address_id(&text), [(script_hash(&script), text.clone())]);
        Some(Self { view: view.clone(), text, script, fields })
    }

    /// The script that the address stands for.
    pub(crate) fn script_pubkey(&self) -> &ScriptBuf {
        &self.script
    }

    /// The address.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Deref for Address {
    type Target = LedgerFields;

    fn deref(&self) -> &LedgerFields {
        &self.fields
    }
}

impl FieldCacheability for Address {
    const IMMUTABLE: &'static str = "id address type script";
    const BY_ARGUMENT: &'static str = "stats balance balanceHistory utxos";
    const UNTIL_NEXT_HEAD: &'static str = "publicKey p2pkScripts transactions coinbaseBlocks";
}

/// An address and the history of its script. Other scripts of the same key are separate ledgers: payments to the bare
/// key (P2PK) or to another address type of the key are not counted here.
#[Object]
impl Address {
    /// `Address:` followed by the address.
    pub(crate) async fn id(&self) -> ID {
        address_id(&self.text).into()
    }

    /// The address in its canonical form: bech32 in lower case.
    async fn address(&self) -> String {
        self.text.clone()
    }

    /// The type of the address's script.
    #[graphql(name = "type")]
    async fn script_type(&self) -> ScriptTypeEnum {
        chain::ScriptType::of(&self.script).into()
    }

    /// The scriptPubKey that the address encodes.
    async fn script(&self) -> Script {
        Script::of(&self.view, self.script.clone())
    }

    /// The public key whose hash the address encodes (P2PKH, P2WPKH, and P2SH-wrapped P2WPKH), as revealed by the first
    /// spend or by an output to the bare key. Null until it is revealed, and for addresses that do not encode a single
    /// key.
    #[graphql(complexity = "costs::more(costs::BISECTION, 0)")]
    async fn public_key(&self, ctx: &Context<'_>) -> Option<Result<Hex, ApiError>> {
        let find = || {
            costs::spend(ctx, costs::BISECTION)?;
            self.view.public_key::<ApiError>(&self.script).map(|key| key.map(Hex::new))
        };
        find().transpose()
    }

    /// The bare-key scripts (P2PK) that pay the same public key, as far as the key is known. They are separate ledgers
    /// and never part of the figures of this address; query `ledgerSet` for the sum. At most two, of the two forms of a key.
    #[graphql(name = "p2pkScripts", complexity = "costs::list(2, child_complexity).saturating_add(costs::BISECTION)")]
    async fn p2pk_scripts(&self, ctx: &Context<'_>) -> Result<Vec<Script>, ApiError> {
        costs::spend(ctx, costs::BISECTION)?;
        let scripts = self.view.p2pk_scripts::<ApiError>(&self.script)?;
        Ok(scripts.into_iter().map(|script| Script::of(&self.view, script)).collect())
    }

    #[graphql(flatten)]
    async fn fields(&self) -> &LedgerFields {
        &self.fields
    }
}
