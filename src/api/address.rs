use std::sync::Arc;

use async_graphql::{ID, Object};
use bitcoin::ScriptBuf;

use super::balance::Balance;
use super::enums::ScriptType;
use super::error::ApiError;
use super::ledger_stats::LedgerStats;
use super::node::address_id;
use crate::chain;
use crate::chain::{address_of, parse_address};
use crate::view::View;

/// An address of the network, whether it was ever used or not.
#[derive(Clone)]
pub(super) struct Address {
    view: Arc<View>,
    text: String,
    script: ScriptBuf,
}

impl Address {
    /// The address that this text stands for.
    ///
    /// Errors: BAD_USER_INPUT, with the position of the fault where there is one.
    pub(super) fn parse(view: &Arc<View>, text: &str) -> Result<Self, ApiError> {
        let network = view.network();
        let script = parse_address(text, network)
            .map_err(|error| ApiError::bad_user_input_at(error.to_string(), error.position()))?;
        // as we would write it: bech32 in lower case
        let text = address_of(&script, network)
            .ok_or_else(|| ApiError::internal("the script of an address has no address"))?;
        Ok(Self { view: view.clone(), text, script })
    }
}

/// An address and the history of its script. Other scripts of the same key are other ledgers: nothing that was paid to
/// the bare key (P2PK) or to another form of address is counted here.
#[Object]
impl Address {
    /// `Address:` and the address.
    pub(super) async fn id(&self) -> ID {
        address_id(&self.text).into()
    }

    /// The address as it is usually written: bech32 in lower case.
    async fn address(&self) -> String {
        self.text.clone()
    }

    /// The form of the script that it stands for.
    #[graphql(name = "type")]
    async fn script_type(&self) -> ScriptType {
        chain::ScriptType::of(&self.script).into()
    }

    /// What it received and spent over all its history. Zeros for an address that was never used.
    async fn stats(&self) -> Result<LedgerStats, ApiError> {
        LedgerStats::of(&self.view, &self.script)
    }

    /// What it holds now. Zeros for an address that was never used.
    async fn balance(&self) -> Result<Balance, ApiError> {
        Balance::of(&self.view, &self.script)
    }
}
