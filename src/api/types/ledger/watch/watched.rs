//! What a subscription follows: the same set in every view that its events are answered from.

use std::sync::Arc;

use super::descriptor_match::DescriptorMatch;
use crate::api::accounts::WatchedBranch;
use crate::api::error::ApiError;
use crate::api::types::ledger::derived_address::DerivedAddress;
use crate::api::types::ledger::holdings::Holdings;
use crate::view::{self, ScriptKey, View};

/// A ledger that is no view's. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(super) ledger: Arc<view::Ledger>,
    pub(super) names: Arc<[(ScriptKey, String)]>,
    pub(super) owner: String,
    /// The scripts that are given, whether a descriptor derives them or not. Sorted.
    pub(super) given: Arc<[ScriptKey]>,
    /// The scripts of descriptors: which branch, by its place among `branches`, and which index. Sorted.
    pub(super) derived: Arc<[(ScriptKey, usize, u32)]>,
    /// The branches of all watched descriptors.
    pub(super) branches: Arc<[WatchedBranch]>,
}

impl Watched {
    /// The scripts.
    pub(crate) fn ledger(&self) -> &view::Ledger {
        &self.ledger
    }

    /// What it holds in a view.
    pub(crate) fn in_view(&self, view: &Arc<View>) -> Holdings {
        let (ledger, names) = (Arc::clone(&self.ledger), Arc::clone(&self.names));
        Holdings { view: Arc::clone(view), ledger, names, owner: self.owner.clone() }
    }

    /// Whether a script is given, and so was watched from the beginning.
    pub(crate) fn is_given(&self, script: ScriptKey) -> bool {
        self.given.binary_search(&script).is_ok()
    }

    /// The branches and indexes at which a script is derived.
    pub(crate) fn derivations(&self, script: ScriptKey) -> impl Iterator<Item = (usize, u32)> + use<'_> {
        let first = self.derived.partition_point(|(key, ..)| *key < script);
        let found = self.derived[first..].iter().take_while(move |(key, ..)| *key == script);
        found.map(|(_, branch, index)| (*branch, *index))
    }

    /// Those among some scripts that a descriptor derives, by descriptor, branch and index.
    pub(crate) fn matches(&self, view: &Arc<View>, scripts: &[ScriptKey]) -> Result<Vec<DescriptorMatch>, ApiError> {
        let mut places: Vec<_> = scripts.iter().flat_map(|script| self.derivations(*script)).collect();
        places.sort_unstable();
        let found = places.into_iter().map(|(number, index)| {
            let lost = || ApiError::internal("a derived script is missing");
            let branch = self.branches.get(number).ok_or_else(lost)?;
            let derived = branch.script(index).ok_or_else(lost)?;
            let place = (branch.number, index);
            let derived = DerivedAddress::new(view, derived, branch.path.as_deref(), place);
            DescriptorMatch::new(branch.position, derived)
        });
        found.collect()
    }
}
