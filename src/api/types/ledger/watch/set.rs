//! What a subscription is to watch: addresses and scripts, which stay the same, and the scripts of descriptors, of which there
//! are more whenever one near the end is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_graphql::Context;
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, HashEngine, sha256};

use super::watched::Watched;
use crate::api::accounts::{DESCRIPTORS, HistoryEnd, WatchedBranches, batch_cost};
use crate::api::context::{ServingContext, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::account::StreamBudget;
use crate::api::types::ledger::address::Address;
use crate::api::types::ledger::descriptor_error::refuse_listed;
use crate::api::types::ledger::holdings::{Holdings, script_hash};
use crate::api::types::ledger::ledger_input::LedgerInput;
use crate::api::types::ledger::set::content_id;
use crate::view::{ScriptKey, View};

/// The scripts that a subscription watches.
pub(crate) struct WatchSet {
    /// The SHA-256 of each script that is given, and how it is written.
    given: Vec<(sha256::Hash, String)>,
    id: String,
    branches: WatchedBranches,
    serving: Arc<ServingContext>,
    cost: DerivationCost,
}

/// What was derived for one stream, as it began and since: it costs at most as much as an answer may, and the client pays for it
/// before it is derived.
struct DerivationCost {
    spent: AtomicUsize,
    limit: usize,
    budget: StreamBudget,
}

impl DerivationCost {
    /// Errors: QUERY_LIMIT_EXCEEDED; RESOURCE_EXHAUSTED if the budget of the client has less.
    fn spend(&self, cost: usize) -> Result<(), ApiError> {
        let spent = self.spent.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        if spent > self.limit {
            return Err(ApiError::too_costly(number(self.limit), number(spent), "watch"));
        }
        self.budget.take(number(cost))
    }
}

impl WatchSet {
    /// What is given, before it is known where the scripts of the descriptors end.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for too many; RESOURCE_EXHAUSTED if the client cannot pay for deriving them; BAD_USER_INPUT if
    /// there is none, and for an address or a descriptor that is none.
    pub(crate) async fn read(
        ctx: &Context<'_>,
        view: &Arc<View>,
        input: LedgerInput,
        serving: &Arc<ServingContext>,
    ) -> Result<Self, ApiError> {
        let limits = limits(ctx)?;
        limits.check_watched_items("watch", input.script_count())?;
        let LedgerInput { addresses, scripts, descriptors } = input;
        let descriptors = descriptors.unwrap_or_default();
        limits.check_watched_descriptors(DESCRIPTORS, descriptors.len())?;
        let mut given = Vec::new();
        for (place, text) in addresses.into_iter().flatten().enumerate() {
            let address = Address::parse(view, &format!("watch.addresses[{place}]"), &text)?;
            given.push((script_hash(address.script_pubkey()), address.text().to_owned()));
        }
        for script in scripts.into_iter().flatten() {
            let script = ScriptBuf::from_bytes(script.into_bytes());
            let address = Address::of(view, script.clone());
            let name = address.map_or_else(|| script.to_hex_string(), |address| address.text().to_owned());
            given.push((script_hash(&script), name));
        }
        if given.is_empty() && descriptors.is_empty() {
            let fault = "has no address, script or descriptor: give at least one";
            return Err(ApiError::bad_argument("watch", fault));
        }
        let budget = ctx.data_opt::<StreamBudget>().cloned().unwrap_or_default();
        let cost = DerivationCost { spent: AtomicUsize::new(0), limit: limits.complexity, budget };
        let mut id = content_id(given.iter().map(|(hash, _)| *hash));
        let (mut read, mut engine) = (Vec::with_capacity(descriptors.len()), sha256::Hash::engine());
        for (place, given) in descriptors.into_iter().enumerate() {
            cost.spend(costs::descriptor(&given.text))?;
            let gap_limit = limits.check_gap_limit(&format!("{DESCRIPTORS}[{place}].gapLimit"), given.gap_limit())?;
            let parsed = serving.derivation.parse(given.text, view.network()).await?;
            let descriptor = parsed.map_err(|error| refuse_listed("watch", place, &error))?;
            engine.input(&gap_limit.to_be_bytes());
            // it ends with a checksum of fixed length, so that no two lists read the same
            engine.input(descriptor.text().as_bytes());
            read.push((descriptor, gap_limit));
        }
        if !read.is_empty() {
            id = format!("{id} {}", sha256::Hash::from_engine(engine));
        }
        let branches = WatchedBranches::new(read, limits, &serving.watched_scripts)?;
        Ok(Self { given, id, branches, serving: Arc::clone(serving), cost })
    }

    /// What names the set in cursors: the same for the same scripts, in whatever order and form they are given, and the same
    /// descriptors in the same order. It stays the same when scripts are added.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The number of branches of all descriptors.
    pub(crate) fn branch_count(&self) -> usize {
        self.branches.branches().len()
    }

    /// The index behind the last watched script of each branch.
    pub(crate) fn ends(&self) -> Vec<u32> {
        self.branches.ends()
    }

    /// The scripts as they are watched now. Their keys are the same in every view of one index.
    pub(crate) fn watched(&self, view: &Arc<View>) -> Watched {
        let mut scripts = self.given.clone();
        let mut derived = Vec::new();
        for (number, branch) in self.branches.branches().iter().enumerate() {
            for (index, script) in (0..branch.end()).filter_map(|index| Some((index, branch.script(index)?))) {
                derived.push((view.script_hash_key(&script.hash), number, index));
                scripts.push((script.hash, script.name()));
            }
        }
        derived.sort_unstable();
        let mut given: Vec<_> = self.given.iter().map(|(hash, _)| view.script_hash_key(hash)).collect();
        given.sort_unstable();
        let Holdings { ledger, names, owner, .. } = Holdings::new(view, self.id.clone(), scripts);
        Watched {
            ledger,
            names,
            owner,
            given: given.into(),
            derived: derived.into(),
            branches: self.branches.branches().into(),
        }
    }

    /// Begins with the ends of a cursor.
    ///
    /// Errors: BAD_USER_INPUT for ends that no stream has; QUERY_LIMIT_EXCEEDED and RESOURCE_EXHAUSTED for too many scripts.
    pub(crate) async fn begin_at(&mut self, view: &View, ends: &[u32]) -> Result<(), ApiError> {
        let Self { branches, serving, cost, .. } = self;
        branches.begin_at(&serving.derivation, view, ends, &|descriptor| cost.spend(batch_cost(descriptor))).await
    }

    /// Watches as many scripts behind those that are used in front of a position of a view as the gap limits say. Whether there
    /// are more than before.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED and RESOURCE_EXHAUSTED for too many scripts; those of the index.
    pub(crate) async fn extend(&mut self, view: &View, history: HistoryEnd) -> Result<bool, ApiError> {
        let Self { branches, serving, cost, .. } = self;
        branches.extend(&serving.derivation, view, history, &|descriptor| cost.spend(batch_cost(descriptor))).await
    }

    /// Goes back to ends that it had before.
    pub(crate) fn return_to(&mut self, ends: &[u32]) {
        self.branches.return_to(ends);
    }

    /// Notes that scripts are used. Whether there must be scripts more for that.
    pub(crate) fn note_used(&mut self, watched: &Watched, scripts: &[ScriptKey]) -> bool {
        let mut is_short = false;
        for (branch, index) in scripts.iter().flat_map(|script| watched.derivations(*script)) {
            is_short |= self.branches.note_used(branch, index);
        }
        is_short
    }
}
