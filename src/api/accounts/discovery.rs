//! Which scripts of a descriptor were used: each branch is followed until as many scripts in a row as the gap limit says
//! have no history, neither in the chain nor in the mempool.

use std::sync::Arc;

use super::derivation::{DerivationCache, DerivedScript};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::chain::descriptor::{INDEX_END, OutputDescriptor};
use crate::limits::{self, DERIVED_TOGETHER, Limits};
use crate::view::View;

/// The gap limit without one in the document.
pub(crate) const DEFAULT_GAP_LIMIT: i32 = limits::DEFAULT_GAP_LIMIT.cast_signed();

/// What a look-up of one script weighs in what an answer may read.
const LOOKUP_BYTES: usize = 128;

/// A descriptor in one view: its scripts up to the gap limit, and which of them have a history.
pub(crate) struct DiscoveredAccount {
    pub(crate) descriptor: Arc<OutputDescriptor>,
    pub(crate) gap_limit: u32,
    pub(crate) branches: Vec<AccountBranch>,
}

/// One path of the multipath step.
#[derive(Default)]
pub(crate) struct AccountBranch {
    /// As `m/84h/0h/0h/0/*`, `None` without an extended key.
    pub(crate) path: Option<String>,
    batches: Vec<Arc<[DerivedScript]>>,
    /// How many of the scripts in the batches are within the gap limit.
    derived: u32,
    /// The indexes of scripts with a history, ascending.
    used: Vec<u32>,
}

/// What deriving a batch of scripts costs, whether or not it is cached.
pub(crate) fn batch_cost(descriptor: &OutputDescriptor) -> usize {
    let scripts = if descriptor.is_ranged() { usize::try_from(DERIVED_TOGETHER).unwrap_or(usize::MAX) } else { 1 };
    scripts.saturating_mul(descriptor.keys().max(1)).saturating_mul(costs::DERIVED_SCRIPT)
}

impl AccountBranch {
    /// How many scripts are derived: all up to the gap limit.
    pub(crate) fn derived(&self) -> u32 {
        self.derived
    }

    /// The indexes of scripts with a history, ascending.
    pub(crate) fn used(&self) -> &[u32] {
        &self.used
    }

    /// The script at an index below [`derived`](Self::derived).
    pub(crate) fn script(&self, index: u32) -> Option<&DerivedScript> {
        let (batch, place) =
            (usize::try_from(index / DERIVED_TOGETHER).ok()?, usize::try_from(index % DERIVED_TOGETHER).ok()?);
        self.batches.get(batch)?.get(place).filter(|_| index < self.derived)
    }

    /// Whether the script at an index has a history.
    pub(crate) fn is_used(&self, index: u32) -> bool {
        self.used.binary_search(&index).is_ok()
    }

    /// The index behind the last used one; `None` if there is none, because the descriptor is not ranged.
    pub(crate) fn next_unused(&self) -> Option<u32> {
        let next = self.used.last().map_or(0, |last| last.saturating_add(1));
        (next < self.derived).then_some(next)
    }
}

impl DiscoveredAccount {
    /// Follows the branches of a descriptor in a view. `argument` is where it was given. `spend` is called
    /// with the cost of what is about to be done.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for more scripts than the limits allow, and for too much to read; those of the index and
    /// of `spend`.
    pub(crate) async fn discover(
        cache: &DerivationCache,
        view: &View,
        argument: &str,
        (descriptor, gap_limit): (OutputDescriptor, u32),
        limits: &Limits,
        spend: impl Fn(usize) -> Result<(), ApiError>,
    ) -> Result<Self, ApiError> {
        let descriptor = Arc::new(descriptor);
        let (mut branches, mut total) = (Vec::with_capacity(descriptor.branches()), 0_usize);
        for number in 0..descriptor.branches() {
            let mut branch = AccountBranch { path: descriptor.path(number), ..AccountBranch::default() };
            let mut end = if descriptor.is_ranged() { gap_limit } else { 1 };
            while branch.derived < end {
                let place = branch.derived % DERIVED_TOGETHER;
                if place == 0 {
                    spend(batch_cost(&descriptor))?;
                    let scripts =
                        cache.batch(&descriptor, number, branch.derived / DERIVED_TOGETHER, view.network()).await?;
                    branch.batches.push(scripts);
                }
                let scripts = branch.batches.last().map(|scripts| &scripts[..]).unwrap_or_default();
                let script = usize::try_from(place).ok().and_then(|place| scripts.get(place));
                let Some(script) = script else { break };
                limits.check_derived_scripts(argument, total.saturating_add(1))?;
                view.count(LOOKUP_BYTES)?;
                if view.has_history(&script.hash)? {
                    branch.used.push(branch.derived);
                    if descriptor.is_ranged() {
                        end = branch.derived.saturating_add(1).saturating_add(gap_limit).min(INDEX_END);
                    }
                }
                branch.derived += 1;
                total += 1;
            }
            branches.push(branch);
        }
        Ok(Self { descriptor, gap_limit, branches })
    }

    /// All scripts up to the gap limit.
    pub(crate) fn derived_scripts(&self) -> impl Iterator<Item = &DerivedScript> {
        self.branches.iter().flat_map(|branch| (0..branch.derived).filter_map(|index| branch.script(index)))
    }

    /// The scripts with a history.
    pub(crate) fn used_scripts(&self) -> impl Iterator<Item = &DerivedScript> {
        self.branches.iter().flat_map(|branch| branch.used.iter().filter_map(|index| branch.script(*index)))
    }
}
