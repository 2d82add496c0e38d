//! Connects blocks up to the node's tip, after disconnecting down to the fork point, in few commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::{BlockHash, Txid};
use tracing::info;

use super::background::CATCH_UP_SLICE;
use super::error::SyncError;
use super::fork::{fork_point, refuse_to_shrink, skip_common};
use super::import::check_kept;
use super::mempool::{PreBlockState, now};
use super::pipeline::{Pipeline, PipelineLimits};
use super::prefetch::Prefetcher;
use super::progress::{CatchUpProgress, FEW, are_few, is_shallow};
use super::reorg_record::{Record, ReorgChange, first_seen_above};
use super::sync_loop::{Follow, RoundOutcome, SyncLoop, Until};
use crate::chain::Height;
use crate::chain::network::genesis_hash;
use crate::index::{IndexError, Known, ObservedBlock, ParsedBlock, Patience, PrefetchedRows, Snapshot, Tip, Update};
use crate::live::ChainEvent;
use crate::mempool::Mempool;
use crate::node::ChainInfo;
use crate::view::{SyncPhase, SyncState};

/// The interval between commits, which bounds what an interruption loses.
const COMMIT_INTERVAL: Duration = Duration::from_secs(10);
/// The most hashes per request. A reorganisation of the node meanwhile is noticed at the next request.
const MAX_HASHES: usize = 20_000;

/// The difference between the published chain and the committed chain, or the one about to be committed.
#[derive(Default)]
struct ChainChange {
    /// Disconnected blocks, the highest first.
    disconnected: Vec<Tip>,
    /// How many of them left the chain in earlier commits.
    committed: usize,
    /// Connected blocks, the lowest first.
    connected: Vec<Tip>,
    /// The mempool after those blocks, if they may affect it.
    mempool: Option<Mempool>,
    /// First-seen times of transactions of the disconnected blocks that are in no connected block.
    first_seen: BTreeMap<Txid, u64>,
}

impl ChainChange {
    /// Connects blocks and records them; as observed if they arrive now. If they may affect the mempool, whose state before them
    /// is `pre_state`, its next state is computed on another thread meanwhile. What was `prefetched` for them is used if it is of
    /// this state.
    fn connect(
        &mut self,
        update: &mut Update<'_>,
        batch: &[ParsedBlock],
        pre_state: Option<&PreBlockState<'_>>,
        prefetched: Option<&PrefetchedRows>,
        arrive_at: Option<u64>,
    ) -> Result<(), SyncError> {
        let mut height = update.tip().map_or_else(Default::default, |tip| tip.height.next());
        let earlier = self.mempool.take();
        let post_state = thread::scope(|scope| {
            let patience = Patience::current();
            let compute =
                move |state: &PreBlockState<'_>| patience.scope(|| state.post_block_state(batch, height, earlier));
            let thread = pre_state
                .map(|state| thread::Builder::new().name("mempool".into()).spawn_scoped(scope, move || compute(state)));
            let thread = thread.transpose().map_err(SyncError::Threads)?;
            let outputs = |txid: &Txid| pre_state.map_or_else(Vec::new, |state| state.known_outputs(txid));
            let connected = update.connect_with(batch, Known { outputs: &outputs, prefetched });
            // joined in any case; the panic handler logs a panic of the thread
            let post_state = thread.map(|thread| thread.join().unwrap_or(Err(IndexError::Broken)));
            connected?;
            Ok::<_, SyncError>(post_state.transpose()?)
        })?;
        let (mut first_seen, mut audit) = (Vec::new().into_iter(), None);
        if let Some(state) = post_state {
            (first_seen, audit) = (state.first_seen.into_iter(), state.audit);
            self.mempool = Some(state.mempool);
        }
        for block in batch {
            let tip = Tip { height, hash: block.hash() };
            self.connected.push(tip);
            if let Some(first_seen) = arrive_at {
                let audit = audit.take().map(|audit| audit.encode()).unwrap_or_default();
                update.record_observed_block(tip, &ObservedBlock { first_seen, audit })?;
            }
            if let Some(seen) = first_seen.next() {
                update.record_first_seen(height, seen)?;
            }
            if !self.first_seen.is_empty() {
                for txid in block.txids() {
                    self.first_seen.remove(&txid);
                }
            }
            height = height.next();
        }
        Ok(())
    }

    /// Disconnects blocks down to the fork point, or, if the update may be committed in between, until it is full. `before` is
    /// the chain with these blocks. Returns whether the update is to be committed now.
    fn disconnect(
        &mut self,
        update: &mut Update<'_>,
        fork: Option<Tip>,
        before: Option<&Snapshot>,
        may_commit: bool,
    ) -> Result<bool, SyncError> {
        let mut is_full = false;
        while !is_full && update.tip() != fork {
            let Some(tip) = update.disconnect()? else { break };
            self.disconnected.push(tip);
            is_full = may_commit && update.is_full()?;
        }
        if !self.disconnected.is_empty() {
            self.first_seen = freed_above(before, update.tip())?;
        }
        Ok(is_full)
    }

    /// Whether the chain becomes shorter by it.
    fn is_shorter(&self) -> bool {
        self.connected.len() < self.disconnected.len()
    }

    /// Only what earlier commits contain.
    fn only_committed(mut self) -> Self {
        self.disconnected.truncate(self.committed);
        Self { disconnected: self.disconnected, committed: self.committed, ..Self::default() }
    }

    fn events(&self) -> Vec<ChainEvent> {
        let disconnected = self.disconnected.iter().copied().map(ChainEvent::Disconnected);
        disconnected.chain(self.connected.iter().copied().map(ChainEvent::Connected)).collect()
    }
}

/// Writes the reorganisation record into the commits of a chain change, if the change is a reorganisation.
struct RecordWriter {
    is_enabled: bool,
    /// Whether an earlier commit of the same change wrote the record.
    is_started: bool,
    /// The newest block that stays connected.
    fork: Option<Tip>,
}

impl RecordWriter {
    /// Writes the record of the change into the commit.
    fn write(
        &mut self,
        record: &mut Option<Record>,
        update: &mut Update<'_>,
        change: &ChainChange,
    ) -> Result<(), SyncError> {
        let ChainChange { disconnected, connected, first_seen, .. } = change;
        if !self.is_enabled {
            return Ok(());
        }
        if disconnected.is_empty() {
            return Ok(record.as_mut().map_or(Ok(()), |record| record.grow(update, connected))?);
        }
        Record::write_change(
            record,
            self.is_started,
            update,
            &ReorgChange { fork: self.fork, disconnected, connected, first_seen },
        )?;
        self.is_started = true;
        Ok(())
    }
}

/// The number of these blocks that fit on the disk. For a reorganisation without a commit so far it is all or none, so
/// that the published chain does not become shorter.
fn blocks_that_fit(update: &Update<'_>, batch: &[ParsedBlock], change: &ChainChange) -> Result<usize, IndexError> {
    let mut fitting = batch.len();
    while change.committed == 0 && fitting > 0 && !update.required_space_for(&batch[..fitting])?.is_free() {
        fitting = if change.disconnected.is_empty() { fitting / 2 } else { 0 };
    }
    Ok(fitting)
}

/// The first-seen times of the transactions above a fork.
fn freed_above(before: Option<&Snapshot>, fork: Option<Tip>) -> Result<BTreeMap<Txid, u64>, SyncError> {
    before.zip(fork).map_or_else(|| Ok(BTreeMap::new()), |(before, fork)| first_seen_above(before, fork))
}

impl SyncLoop<'_> {
    /// Requests the node's tip and connects the blocks up to it.
    pub(super) fn sync_chain(&mut self) -> Result<RoundOutcome, SyncError> {
        let info = self.follow.node.chain_info()?;
        self.choose_raw_storage(&info)?;
        self.adopt_left_generations()?;
        let Follow { node, index, published, .. } = &self.follow;
        let chain = index.snapshot()?;
        let tip = chain.tip();
        let in_sync = tip.is_some_and(|tip| tip.hash == info.best_block_hash);
        published.report_node(|state| state_of(&info, tip, state));
        if in_sync {
            self.release_if_invalid(tip)?;
            return Ok(RoundOutcome::InSync);
        }
        if tip.is_none() {
            if let Some(freezing) = self.follow.freezing.clone()
                && let Some(last) = freezing.bounds.last_of_import(info.blocks)
            {
                drop(chain);
                self.import(&freezing, last, &info)?;
                return Ok(RoundOutcome::Progressed);
            }
            check_kept(&info, Height::GENESIS)?;
        }
        let mut fork = fork_point(node, &chain)?;
        let mut hashes = self.hashes_after(fork, &info)?;
        skip_common(&chain, &mut fork, &mut hashes)?;
        if hashes.is_empty() {
            if fork == tip {
                return Ok(RoundOutcome::ChainMoving);
            }
            refuse_to_shrink(node, tip, fork)?;
        }
        drop(chain);
        self.advance(tip, fork, hashes, &info)?;
        Ok(RoundOutcome::Progressed)
    }

    /// Hashes of the node's active chain after the fork point, at most [`MAX_HASHES`].
    fn hashes_after(&self, fork: Option<Tip>, info: &ChainInfo) -> Result<Vec<BlockHash>, SyncError> {
        let genesis = genesis_hash(self.follow.node.options().network);
        let (mut last, mut hashes) = match fork {
            Some(fork) => (fork.hash, Vec::new()),
            None => (genesis, vec![genesis]),
        };
        while hashes.len() < MAX_HASHES && last != info.best_block_hash {
            let headers = self.follow.node.headers(&last, 2_000)?;
            let Some((newest, _)) = headers.last().filter(|_| headers.len() > 1) else { break };
            last = *newest;
            hashes.extend(headers.iter().skip(1).map(|(hash, _)| *hash));
        }
        Ok(hashes)
    }

    /// Disconnects blocks from the tip down to the fork point and connects the blocks after it, in few commits.
    ///
    /// Nothing changes before the node has sent the first batch of these blocks; if that takes long, earlier commits become
    /// durable meanwhile. Blocks that were connected before the node failed stay. A reorganisation of fewer than [`FEW`] blocks is
    /// not committed or published while the chain is shorter than before: it is rolled back until the next try, unless that is
    /// all that the node has. A deeper one takes several commits. They are published once a block connects, or if the rest
    /// fails; after a crash the shorter chain is shown.
    ///
    /// Errors: the first, also if what was committed before it cannot be published.
    fn advance(
        &mut self,
        tip: Option<Tip>,
        fork: Option<Tip>,
        hashes: Vec<BlockHash>,
        info: &ChainInfo,
    ) -> Result<(), SyncError> {
        let _pause = self.prefetcher.as_ref().map(Prefetcher::pause);
        let mut progress = CatchUpProgress::new(fork, info.blocks, hashes.len());
        let mut change = ChainChange::default();
        let mut result = self.advance_in_commits(&mut change, &mut progress, tip, fork, hashes);
        if result.is_err() {
            result = result.and(self.publish_change(change.only_committed()));
        }
        progress.finish();
        result
    }

    /// [`Self::advance`] until the first error. `change` is then what is not published yet, and otherwise empty.
    fn advance_in_commits(
        &mut self,
        change: &mut ChainChange,
        progress: &mut CatchUpProgress,
        tip: Option<Tip>,
        fork: Option<Tip>,
        hashes: Vec<BlockHash>,
    ) -> Result<(), SyncError> {
        let mut rows = self.prefetcher.as_ref().and_then(Prefetcher::take_rows);
        let (limits, published) = (self.limits(), self.follow.published);
        // a few blocks are published before the disk has them
        let (shrinks, is_few) = (hashes.is_empty(), are_few(hashes.len()));
        // a few blocks leave the chain in one commit, even if their pages exceed the cache, which writes some of them twice then
        let is_deep = !is_shallow(tip, fork);
        // blocks that were mined while the server did not run are not observed
        let arrive_at = (is_few && published.state().mempool_in_sync).then(now);
        let last = hashes.last().copied();
        let mut batches = Pipeline::start(self.follow.node, hashes, self.follow.index.parser(), limits)?;

        let before = self.chain.clone().filter(|_| tip != fork);
        let affected =
            self.mempool_sync.as_mut().filter(|mempool_sync| before.is_some() || mempool_sync.is_affected_by_blocks());
        let mut pre_state = affected.map(|mempool_sync| mempool_sync.pre_block_state(before.as_deref()));
        // a first batch that comes soon does not wait for a flush; but no update is under way before it comes, because that would
        // keep earlier commits from becoming durable as long as the node does not answer
        self.follow.index.delay_flush()?;
        let first = batches.next().transpose()?;

        let mut update = self.follow.index.update()?;
        let mut record_writer =
            RecordWriter { is_enabled: self.mempool_sync.is_some(), is_started: false, fork: update.tip() };
        while change.disconnect(&mut update, fork, before.as_deref(), is_deep)? {
            record_writer.fork = update.tip();
            record_writer.write(&mut self.record, &mut update, change)?;
            update.commit()?;
            change.committed = change.disconnected.len();
            update = self.follow.index.update()?;
        }
        record_writer.fork = update.tip();
        if !change.disconnected.is_empty() {
            let lowest = fork.map_or(0, |fork| fork.height.to_u32());
            info!(
                depth = change.disconnected.len(),
                fork_height = lowest,
                "the node disconnected blocks of the index's chain"
            );
        }

        let mut since = Instant::now();
        let mut result = Ok(());
        // whether the disk lacks space for as many blocks as disconnect: then nothing disconnects
        let mut lacks_space = false;
        for batch in first.map(Ok).into_iter().chain(batches) {
            let batch = match batch {
                Ok(_) if self.follow.node.stop().is_raised() => break,
                Ok(batch) => batch,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let fitting = blocks_that_fit(&update, &batch, change)?;
            let (batch, rest) = batch.split_at(fitting);
            if batch.is_empty() && !rest.is_empty() {
                lacks_space = change.is_shorter();
                if lacks_space || update.tip() == fork {
                    let needed = if change.disconnected.is_empty() { &rest[..1] } else { rest };
                    self.required_space = Some(update.required_space_for(needed)?);
                }
                break;
            }
            let found = rows.take();
            change.connect(&mut update, batch, pre_state.as_ref(), found.as_ref(), arrive_at)?;
            drop(found);
            progress.connected(update.tip(), batch);
            published.change_state(|state| match state.phase {
                SyncPhase::CatchingUp => SyncState { speed: progress.speed(), ..state },
                _ => state,
            });
            // the last block is committed below, where it does not wait for the disk, however many pages it changes
            let is_last = update.tip().map(|tip| tip.hash) == last;
            let may_commit = is_deep || !change.is_shorter();
            if !is_last && may_commit && (since.elapsed() > COMMIT_INTERVAL || update.is_full()?) {
                record_writer.write(&mut self.record, &mut update, change)?;
                update.commit()?;
                self.publish_change(std::mem::take(change))?;
                self.freeze_when_due(CATCH_UP_SLICE)?;
                self.derive_when_due(CATCH_UP_SLICE)?;
                // the next blocks may contain transactions that these blocks returned to the mempool
                if let (Some(pre_state), Some(mempool_sync)) = (&mut pre_state, &mut self.mempool_sync) {
                    *pre_state = mempool_sync.pre_block_state(before.as_deref());
                }
                update = self.follow.index.update()?;
                since = Instant::now();
            }
            if !rest.is_empty() {
                break;
            }
        }
        // the node failed, and may send the rest at the next try
        let is_cut_short = !is_deep && change.is_shorter() && update.tip().map(|tip| tip.hash) != last;
        if shrinks || (update.tip() != fork && !lacks_space && !is_cut_short) {
            record_writer.write(&mut self.record, &mut update, change)?;
            match self.follow.until {
                // at the tip, clients wait for the block; disconnections must be durable, and so must a chain that ends
                // the wait for a lost block
                Until::Stopped if is_few && change.disconnected.is_empty() && self.withheld.is_none() => {
                    update.commit_announced()?;
                }
                // no client receives these blocks
                Until::CaughtUp if is_few && change.disconnected.is_empty() => update.commit_non_durable()?,
                _ => update.commit()?,
            }
        } else {
            drop(update);
            *change = std::mem::take(change).only_committed();
        }
        let published = self.publish_change(std::mem::take(change));
        result.and(published)
    }

    /// Applies a chain change to the mempool and publishes both together.
    fn publish_change(&mut self, change: ChainChange) -> Result<(), SyncError> {
        let events = change.events();
        if events.is_empty() {
            return Ok(());
        }
        self.branches.note_change(change.disconnected.len(), change.connected.len());
        let mut chain = Arc::new(self.follow.index.snapshot()?);
        // the index has changed: a failure of the mempool must not leave the chain before that published
        let followed = self.follow_chain(&mut chain, change);
        if followed.is_err()
            && let Some(mempool_sync) = &mut self.mempool_sync
        {
            mempool_sync.mark_behind();
            self.follow.published.change_state(|state| SyncState { mempool_in_sync: false, ..state });
        }
        self.abandon_when_due()?;
        self.announce(&chain, events);
        self.follow.index.flush_soon()?;
        followed
    }

    /// Applies a chain change to the mempool, and ends the record of a reorganisation. `chain` becomes the state after that.
    fn follow_chain(&mut self, chain: &mut Arc<Snapshot>, change: ChainChange) -> Result<(), SyncError> {
        let Some(mempool_sync) = &mut self.mempool_sync else { return Ok(()) };
        let before = self.chain.as_deref();
        if let Some(record) = self.record.as_ref().filter(|_| !change.disconnected.is_empty()) {
            mempool_sync.set_freed_first_seen(&record.reorg.first_seen);
        }
        let is_known =
            mempool_sync.follow_chain(self.follow.node, before, chain, change.mempool, &change.disconnected)?;
        if is_known && self.finish_reorg(chain)? {
            *chain = Arc::new(self.follow.index.snapshot()?);
        }
        Ok(())
    }

    fn limits(&self) -> PipelineLimits {
        // a block takes about four times its size with its parsed form and its rows, and there are up to three batches
        let share = self.follow.buffer_bytes / 16;
        PipelineLimits {
            connections: self.follow.connections,
            fetched_bytes: u64::try_from(self.follow.buffer_bytes / 4).unwrap_or(u64::MAX),
            batch_bytes: share.max(1),
            batch_blocks: 1_000,
        }
    }
}

/// The sync state that follows from the node's chain and the tip of the index. The speed is kept while catching up.
fn state_of(info: &ChainInfo, tip: Option<Tip>, before: SyncState) -> SyncState {
    let lag = tip.map(|tip| info.blocks.to_u32().saturating_sub(tip.height.to_u32()));
    let phase = match lag {
        Some(lag) if lag < FEW => SyncPhase::Following,
        _ => SyncPhase::CatchingUp,
    };
    SyncState {
        phase,
        node_height: Some(info.blocks),
        node_headers: Some(info.headers),
        node_tip: Some(info.best_block_hash),
        speed: before.speed.filter(|_| phase == SyncPhase::CatchingUp),
        mempool_in_sync: before.mempool_in_sync,
        disk_shortage: None,
        awaited_block: before.awaited_block,
        abandoned_block: before.abandoned_block,
    }
}
