use std::sync::Arc;

use async_graphql::Object;

use super::address::Address;
use super::holdings::Ledger;
use super::script::Script;
use crate::api::accounts::DerivedScript;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hex, int, int_of};
use crate::view::View;

/// A script at an index of a branch of a descriptor.
#[derive(Clone)]
pub(crate) struct DerivedAddress {
    view: Arc<View>,
    derived: DerivedScript,
    /// Of the branch, with `*` for the index.
    path: Option<String>,
    branch: usize,
    index: u32,
}

impl DerivedAddress {
    pub(crate) fn new(
        view: &Arc<View>,
        derived: &DerivedScript,
        path: Option<&str>,
        (branch, index): (usize, u32),
    ) -> Self {
        Self { view: view.clone(), derived: derived.clone(), path: path.map(ToOwned::to_owned), branch, index }
    }
}

impl FieldCacheability for DerivedAddress {
    const IMMUTABLE: &'static str = "path branch index address scriptPubKey ledger";
    const UNTIL_NEXT_HEAD: &'static str = "used";
}

/// A script that a descriptor derives, with its address if it has one.
#[Object]
impl DerivedAddress {
    /// The derivation path of the first extended key of the descriptor. From the master key if the key's origin is known,
    /// as in `m/84h/0h/0h/0/7`, otherwise below the extended key, as in `0/7`. Null if the descriptor has no extended key.
    async fn path(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        Some(path.strip_suffix('*').map_or_else(|| path.clone(), |parent| format!("{parent}{}", self.index)))
    }

    /// The number of the branch: the position of its path in the multipath step `<…>`, from 0. 0 without such a step.
    async fn branch(&self) -> Result<i32, ApiError> {
        int_of(self.branch)
    }

    /// The index within the branch, from 0.
    async fn index(&self) -> Result<i32, ApiError> {
        int(self.index)
    }

    /// The address. Null for types without an address (P2PK, bare multisig).
    async fn address(&self) -> Option<String> {
        self.derived.address.clone()
    }

    /// The scriptPubKey.
    async fn script_pub_key(&self) -> Hex {
        Hex::new(self.derived.script.to_bytes())
    }

    /// The address, or the script if it has no address, with its own figures and history.
    async fn ledger(&self) -> Ledger {
        let script = self.derived.script.clone();
        match Address::of(&self.view, script.clone()) {
            Some(address) => Ledger::Address(address),
            None => Ledger::Script(Script::of(&self.view, script)),
        }
    }

    /// Whether a transaction paid or spent the script, on the main chain or in the mempool.
    async fn used(&self) -> Result<bool, ApiError> {
        Ok(self.view.has_history(&self.derived.hash)?)
    }
}
