//! The scripts of descriptors that a stream watches: each branch up to its gap limit, which moves on as scripts are used.
//!
//! The scripts of a branch are those at the indexes below its end. An end never moves back while a stream runs, and a cursor
//! holds the ends, so that a stream that resumes watches the scripts that it watched before.

use std::sync::Arc;

use bitcoin::BlockHash;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::derivation::{DerivationCache, DerivedScript};
use crate::api::error::ApiError;
use crate::chain::descriptor::{INDEX_END, OutputDescriptor};
use crate::limits::{DERIVED_TOGETHER, Limits};
use crate::view::{TxNum, View};

/// Where a client gives the descriptors that a stream watches.
pub(crate) const DESCRIPTORS: &str = "watch.descriptors";
/// After so many look-ups others have their turn.
const LOOKUPS: u32 = 256;

/// Of all streams of the process, how many scripts of descriptors they may watch.
#[derive(Clone)]
pub(crate) struct WatchedScriptSlots {
    free: Arc<Semaphore>,
    most: usize,
}

impl WatchedScriptSlots {
    pub(crate) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), most }
    }

    /// Slots for so many scripts more. Errors: RESOURCE_EXHAUSTED.
    fn take(&self, count: u32) -> Result<OwnedSemaphorePermit, ApiError> {
        let free = Arc::clone(&self.free).try_acquire_many_owned(count);
        free.map_err(|_| ApiError::too_many_watched(self.most))
    }
}

/// What counts as used: what stands in front of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryEnd {
    /// Transactions of the main chain in front of this one.
    pub(crate) txnum: TxNum,
    /// Transactions of the mempool whose number of arrival is below.
    pub(crate) arrival: u64,
}

impl HistoryEnd {
    /// All of a view.
    pub(crate) const ALL: Self = Self { txnum: TxNum(u32::MAX), arrival: u64::MAX };
}

/// One branch of a watched descriptor.
#[derive(Clone)]
pub(crate) struct WatchedBranch {
    descriptor: Arc<OutputDescriptor>,
    gap_limit: u32,
    /// The position of the descriptor in the list of those that are watched.
    pub(crate) position: usize,
    /// The number of the branch within the descriptor.
    pub(crate) number: usize,
    /// As `m/84h/0h/0h/0/*`, `None` without an extended key.
    pub(crate) path: Option<String>,
    batches: Vec<Arc<[DerivedScript]>>,
    /// The index behind the last watched script.
    end: u32,
    /// The index behind the last used script.
    used_end: u32,
    /// The index behind the last script that was looked for on the main chain up to the tip of [`WatchedBranches`].
    searched: u32,
}

impl WatchedBranch {
    /// The index behind the last watched script.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// The script at an index that is derived.
    pub(crate) fn script(&self, index: u32) -> Option<&DerivedScript> {
        let (batch, place) =
            (usize::try_from(index / DERIVED_TOGETHER).ok()?, usize::try_from(index % DERIVED_TOGETHER).ok()?);
        self.batches.get(batch)?.get(place)
    }

    /// Where it must end for what is known to be used.
    fn required_end(&self) -> u32 {
        if self.descriptor.is_ranged() { self.used_end.saturating_add(self.gap_limit).min(INDEX_END) } else { 1 }
    }

    /// Derives the scripts below an index. `spend` is called before each batch.
    async fn derive(
        &mut self,
        cache: &DerivationCache,
        view: &View,
        end: u32,
        spend: &impl Fn(&OutputDescriptor) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        while let batch = u32::try_from(self.batches.len()).unwrap_or(u32::MAX)
            && batch.saturating_mul(DERIVED_TOGETHER) < end
        {
            spend(&self.descriptor)?;
            let scripts = cache.batch(&self.descriptor, self.number, batch, view.network()).await?;
            self.batches.push(scripts);
        }
        Ok(())
    }

    /// Finds the last used script between the last one known to be used and the end. Those that were looked for on the main
    /// chain are looked for in the mempool only.
    async fn find_used(&mut self, view: &View, history: HistoryEnd) -> Result<(), ApiError> {
        let mut looked = 0_u32;
        for index in (self.used_end..self.end).rev() {
            let Some(DerivedScript { hash, .. }) = self.script(index) else { continue };
            let is_used = if index < self.searched {
                view.is_pending(hash)
            } else {
                view.has_history_before(hash, history.txnum, history.arrival)?
            };
            if is_used {
                // all behind it were looked for, and those in front of it do not matter
                self.used_end = index.saturating_add(1);
                break;
            }
            looked = looked.saturating_add(1);
            if looked.is_multiple_of(LOOKUPS) {
                tokio::task::yield_now().await;
            }
        }
        if history == HistoryEnd::ALL {
            self.searched = self.end;
        }
        Ok(())
    }
}

/// The branches of all descriptors that a stream watches.
pub(crate) struct WatchedBranches {
    branches: Vec<WatchedBranch>,
    /// The tip of the view that was searched last.
    tip: Option<BlockHash>,
    limits: Limits,
    slots: WatchedScriptSlots,
    /// Slots for all scripts up to the ends.
    taken: Option<OwnedSemaphorePermit>,
}

impl WatchedBranches {
    /// The branches of descriptors, each with its gap limit, none of whose scripts is watched yet.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for too many branches.
    pub(crate) fn new(
        descriptors: Vec<(OutputDescriptor, u32)>,
        limits: &Limits,
        slots: &WatchedScriptSlots,
    ) -> Result<Self, ApiError> {
        let mut branches = Vec::new();
        for (position, (descriptor, gap_limit)) in descriptors.into_iter().enumerate() {
            let descriptor = Arc::new(descriptor);
            branches.extend((0..descriptor.branches()).map(|number| WatchedBranch {
                path: descriptor.path(number),
                descriptor: Arc::clone(&descriptor),
                gap_limit,
                position,
                number,
                batches: Vec::new(),
                end: 0,
                used_end: 0,
                searched: 0,
            }));
        }
        limits.check_watched_branches(DESCRIPTORS, branches.len())?;
        Ok(Self { branches, tip: None, limits: *limits, slots: slots.clone(), taken: None })
    }

    pub(crate) fn branches(&self) -> &[WatchedBranch] {
        &self.branches
    }

    /// The index behind the last watched script of each branch.
    pub(crate) fn ends(&self) -> Vec<u32> {
        self.branches.iter().map(WatchedBranch::end).collect()
    }

    /// Watches the scripts below these indexes, one for each branch, which a cursor names.
    ///
    /// Errors: BAD_USER_INPUT for ends that no stream has; QUERY_LIMIT_EXCEEDED and RESOURCE_EXHAUSTED for too many scripts.
    pub(crate) async fn begin_at(
        &mut self,
        cache: &DerivationCache,
        view: &View,
        ends: &[u32],
        spend: &impl Fn(&OutputDescriptor) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let is_end = |(branch, end): (&WatchedBranch, &u32)| {
            if branch.descriptor.is_ranged() { (1..=INDEX_END).contains(end) } else { *end == 1 }
        };
        if ends.len() != self.branches.len() || !self.branches.iter().zip(ends).all(is_end) {
            return Err(ApiError::bad_argument("after", "is a cursor that does not fit the watched descriptors"));
        }
        self.reserve(ends)?;
        for (branch, end) in self.branches.iter_mut().zip(ends) {
            branch.derive(cache, view, *end, spend).await?;
            (branch.end, branch.used_end) = (*end, end.saturating_sub(branch.gap_limit));
        }
        Ok(())
    }

    /// Returns to ends that the stream had before, to send the rest of what it sent a part of with these. The scripts stay
    /// derived, and what was used is not forgotten.
    pub(crate) fn return_to(&mut self, ends: &[u32]) {
        for (branch, end) in self.branches.iter_mut().zip(ends) {
            branch.end = branch.end.min(*end);
        }
    }

    /// Moves the ends on until behind the last used script of each branch there are as many more as its gap limit says. Whether
    /// any moved.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED and RESOURCE_EXHAUSTED for too many scripts; those of the index and of `spend`.
    pub(crate) async fn extend(
        &mut self,
        cache: &DerivationCache,
        view: &View,
        history: HistoryEnd,
        spend: &impl Fn(&OutputDescriptor) -> Result<(), ApiError>,
    ) -> Result<bool, ApiError> {
        let mut has_moved = false;
        let tip = Some(view.tip().hash);
        if std::mem::replace(&mut self.tip, tip) != tip {
            self.branches.iter_mut().for_each(|branch| branch.searched = 0);
        }
        for number in 0..self.branches.len() {
            while let Some(branch) = self.branches.get_mut(number) {
                branch.find_used(view, history).await?;
                let end = branch.required_end();
                if end <= branch.end {
                    break;
                }
                let mut ends = self.ends();
                ends.iter_mut().skip(number).take(1).for_each(|moved| *moved = end);
                self.reserve(&ends)?;
                let Some(branch) = self.branches.get_mut(number) else { break };
                branch.derive(cache, view, end, spend).await?;
                (branch.end, has_moved) = (end, true);
            }
        }
        Ok(has_moved)
    }

    /// Notes that the script at an index was used. Whether the end of its branch must move on for that.
    pub(crate) fn note_used(&mut self, branch: usize, index: u32) -> bool {
        let Some(branch) = self.branches.get_mut(branch) else { return false };
        branch.used_end = branch.used_end.max(index.saturating_add(1));
        branch.required_end() > branch.end
    }

    /// Slots for the scripts below these ends, which are not released before the stream ends.
    fn reserve(&mut self, ends: &[u32]) -> Result<(), ApiError> {
        let scripts = ends.iter().map(|end| usize::try_from(*end).unwrap_or(usize::MAX));
        let total = scripts.fold(0, usize::saturating_add);
        self.limits.check_derived_scripts(DESCRIPTORS, total)?;
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(more) = total.checked_sub(taken).filter(|more| *more > 0) else { return Ok(()) };
        let more = self.slots.take(u32::try_from(more).unwrap_or(u32::MAX))?;
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        Ok(())
    }
}
