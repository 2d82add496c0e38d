//! The addresses and scripts that a subscription follows: the same set in every view that its events are answered from.

use std::sync::Arc;

use bitcoin::ScriptBuf;

use super::address::Address;
use super::holdings::{Holdings, script_hash};
use super::set::{WatchInput, content_id};
use crate::api::error::ApiError;
use crate::limits::Limits;
use crate::view::{self, ScriptKey, View};

/// A ledger that is no view's. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Watched {
    ledger: Arc<view::Ledger>,
    names: Arc<[(ScriptKey, String)]>,
    owner: String,
}

impl Watched {
    /// What is to be watched. The keys of its scripts are the same in every view of one index.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for too many; BAD_USER_INPUT if there is none, and for an address that is none.
    pub(crate) fn of(view: &Arc<View>, input: WatchInput, limits: &Limits) -> Result<Self, ApiError> {
        limits.check_watch(input.len())?;
        if input.len() == 0 {
            return Err(ApiError::bad_user_input("there is nothing to watch: give addresses, scripts, or both"));
        }
        let mut scripts = Vec::with_capacity(input.len());
        for text in input.addresses.into_iter().flatten() {
            let address = Address::parse(view, &text)?;
            scripts.push((script_hash(address.script_pubkey()), address.text().to_owned()));
        }
        for script in input.scripts.into_iter().flatten() {
            let script = ScriptBuf::from_bytes(script.into_bytes());
            let address = Address::of(view, script.clone());
            let name = address.map_or_else(|| script.to_hex_string(), |address| address.text().to_owned());
            scripts.push((script_hash(&script), name));
        }
        let owner = content_id(scripts.iter().map(|(hash, _)| *hash));
        let Holdings { ledger, names, owner, .. } = Holdings::new(view, owner, scripts);
        Ok(Self { ledger, names, owner })
    }

    /// The scripts.
    pub(crate) fn ledger(&self) -> &view::Ledger {
        &self.ledger
    }

    /// What names the set in cursors: the same for the same scripts, in whatever order and form they are given.
    pub(crate) fn id(&self) -> &str {
        &self.owner
    }

    /// What it holds in a view.
    pub(crate) fn in_view(&self, view: &Arc<View>) -> Holdings {
        let Self { ledger, names, owner } = self.clone();
        Holdings { view: view.clone(), ledger, names, owner }
    }
}
