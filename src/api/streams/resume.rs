//! Cursors of streams: where a reader was, as an opaque text that any server of the chain, or the same run of this one,
//! can go on from.
//!
//! ```text
//!   chainEvents:    seq u64 ‖ direction u8 ‖ block hash 32        sealed as the cursors of lists are
//!   mempoolEvents:  seq u64 ‖ run u64 ‖ number u64
//!   ledgerEvents:   seq u64 ‖ direction u8 ‖ block hash 32 ‖ events informed of it u32
//!                   ‖ [run u64 ‖ number u64 ‖ turns u64 ‖ [arrival u64 within a gap]]
//!                   sealed with what is watched, too; with descriptors the brackets follow a byte, 0 if there are none, 1 if
//!                   the inner are not there, 2 if they are, and precede the place of the descriptors (watch_place.rs)
//!   Snapshot:       block hash 32 ‖ run u64 ‖ number u64 ‖ turns u64
//! ```
//!
//! The number of the event in its stream (`seq`) continues from the cursor, so that a client can tell whether an event is missing.
//! The cursor of a snapshot is good for each of these streams, and their numbers begin behind it.

use std::sync::Arc;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::watch_place::WatchPlace;
use crate::api::error::{ApiError, shown};
use crate::api::pagination::cursor::Scope;
use crate::api::scalars::UInt53;

/// A reader of the chain that has heard that this block joined or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainCursor {
    Connected(BlockHash),
    Disconnected(BlockHash),
}

/// A reader of the mempool that has heard of what had this number in this run of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MempoolCursor {
    pub(crate) run: u64,
    pub(crate) sequence: u64,
}

/// A reader of a ledger that has heard of what a block did, or of what happened in the mempool while it was the newest. Cheap
/// to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerCursor {
    pub(crate) block: ChainCursor,
    /// How many of the events of that block were sent, [`WHOLE`](Self::WHOLE) if all.
    pub(crate) sent: u32,
    /// How far it is in what happened in the mempool, if that can be gone on from.
    pub(crate) reached: Option<MempoolReached>,
    /// Within a gap: of the transactions that had arrived by then and wait, those whose number is below this one were sent.
    pub(crate) replayed: Option<u64>,
    /// The scripts of descriptors that it watches; `None` without descriptors, and where a snapshot begins a stream.
    pub(crate) watch: Option<Arc<WatchPlace>>,
}

/// A state of the chain and the mempool that a client has queried. Every stream can begin behind it, whatever it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotCursor {
    pub(crate) tip: BlockHash,
    pub(crate) reached: MempoolReached,
}

/// Where a stream begins: a place, and the number of the last event in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamStart<P> {
    pub(crate) place: P,
    pub(crate) seq: u64,
}

/// How far in a run of the server a reader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MempoolReached {
    pub(crate) run: u64,
    /// The number of the last event of the mempool.
    pub(crate) sequence: u64,
    /// How many turns of the chain came before.
    pub(crate) tip_changes: u64,
}

impl ChainCursor {
    const STREAM: &'static str = "chainEvents";

    /// The block.
    pub(crate) fn hash(self) -> BlockHash {
        match self {
            Self::Connected(hash) | Self::Disconnected(hash) => hash,
        }
    }

    fn to_bytes(self) -> [u8; 33] {
        let mut bytes = [0; 33];
        bytes[0] = u8::from(matches!(self, Self::Connected(_)));
        bytes[1..].copy_from_slice(self.hash().as_byte_array());
        bytes
    }

    fn from_bytes(bytes: [u8; 33]) -> Option<Self> {
        let (direction, hash) = bytes.split_first_chunk::<1>()?;
        let hash = BlockHash::from_byte_array(hash.try_into().ok()?);
        match direction {
            [0] => Some(Self::Disconnected(hash)),
            [1] => Some(Self::Connected(hash)),
            _ => None,
        }
    }

    pub(crate) fn encode(self, seq: UInt53) -> String {
        numbered(&scope(Self::STREAM), seq, &self.to_bytes())
    }

    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream or of a snapshot.
    pub(crate) fn decode(cursor: &str) -> Result<StreamStart<Self>, ApiError> {
        if let Some(SnapshotCursor { tip, .. }) = SnapshotCursor::read(cursor) {
            return Ok(StreamStart { place: Self::Connected(tip), seq: 0 });
        }
        let place = || {
            let (seq, content) = opened(&scope(Self::STREAM), cursor)?;
            Some(StreamStart { place: Self::from_bytes(content.try_into().ok()?)?, seq })
        };
        place().ok_or_else(|| no_cursor(Self::STREAM, cursor))
    }
}

impl MempoolCursor {
    const STREAM: &'static str = "mempoolEvents";

    pub(crate) fn encode(self, seq: UInt53) -> String {
        numbered(&scope(Self::STREAM), seq, &[self.run, self.sequence].map(u64::to_be_bytes).concat())
    }

    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream or of a snapshot.
    pub(crate) fn decode(cursor: &str) -> Result<StreamStart<Self>, ApiError> {
        if let Some(SnapshotCursor { reached, .. }) = SnapshotCursor::read(cursor) {
            return Ok(StreamStart { place: Self { run: reached.run, sequence: reached.sequence }, seq: 0 });
        }
        let place = || {
            let (seq, content) = opened(&scope(Self::STREAM), cursor)?;
            let (run, sequence) = content.split_first_chunk()?;
            let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
            Some(StreamStart { place: Self { run: u64::from_be_bytes(*run), sequence }, seq })
        };
        place().ok_or_else(|| no_cursor(Self::STREAM, cursor))
    }
}

impl LedgerCursor {
    const STREAM: &'static str = "ledgerEvents";

    /// All events of a block.
    pub(crate) const WHOLE: u32 = u32::MAX;

    /// The stream of what is named like this: the scripts that are watched, and what is sent about them.
    pub(crate) fn scope(watched: String) -> Scope {
        scope(Self::STREAM).filtered(watched)
    }

    pub(crate) fn encode(&self, scope: &Scope, seq: UInt53) -> String {
        let mut content = self.block.to_bytes().to_vec();
        content.extend(self.sent.to_be_bytes());
        let replayed = self.replayed.filter(|_| self.reached.is_some());
        if self.watch.is_some() {
            content.push(u8::from(self.reached.is_some()) + u8::from(replayed.is_some()));
        }
        if let Some(MempoolReached { run, sequence, tip_changes }) = self.reached {
            content.extend([run, sequence, tip_changes].map(u64::to_be_bytes).concat());
        }
        if let Some(from) = replayed {
            content.extend(from.to_be_bytes());
        }
        if let Some(watch) = &self.watch {
            watch.write(&mut content);
        }
        numbered(scope, seq, &content)
    }

    /// What the cursor of a stream says that watches this many branches of descriptors.
    ///
    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream or of a snapshot.
    pub(crate) fn decode(cursor: &str, scope: &Scope, branches: usize) -> Result<StreamStart<Self>, ApiError> {
        if let Some(SnapshotCursor { tip, reached }) = SnapshotCursor::read(cursor) {
            let (block, sent) = (ChainCursor::Connected(tip), Self::WHOLE);
            let place = Self { block, sent, reached: Some(reached), replayed: None, watch: None };
            return Ok(StreamStart { place, seq: 0 });
        }
        let place = || {
            let (seq, content) = opened(scope, cursor)?;
            let (block, rest) = content.split_first_chunk::<33>()?;
            let (sent, rest) = rest.split_first_chunk()?;
            let (block, sent) = (ChainCursor::from_bytes(*block)?, u32::from_be_bytes(*sent));
            let (has_reached, is_in_gap, mut rest) = match (branches, rest.split_first()) {
                (0, _) => (!rest.is_empty(), rest.len() > MempoolReached::BYTES, rest),
                (_, Some((flag @ 0..=2, rest))) => (*flag > 0, *flag == 2, rest),
                _ => return None,
            };
            let (mut reached, mut replayed) = (None, None);
            if has_reached {
                let (numbers, behind) = MempoolReached::read(rest)?;
                (reached, rest) = (Some(numbers), behind);
            }
            if is_in_gap {
                let (from, behind) = rest.split_first_chunk()?;
                (replayed, rest) = (Some(u64::from_be_bytes(*from)), behind);
            }
            let watch = match branches {
                0 if rest.is_empty() => None,
                0 => return None,
                _ => Some(Arc::new(WatchPlace::read(rest, branches)?)),
            };
            Some(StreamStart { place: Self { block, sent, reached, replayed, watch }, seq })
        };
        place().ok_or_else(|| {
            let fault = format!(
                "is {}, which is not a cursor of {} with these arguments: give one from an event of this subscription, \
                 with the same addresses, scripts, descriptors, gap limits and depths, or `snapshot.cursor` of a query",
                shown(cursor),
                Self::STREAM
            );
            ApiError::bad_argument("after", fault)
        })
    }
}

impl SnapshotCursor {
    pub(crate) fn encode(self) -> String {
        let MempoolReached { run, sequence, tip_changes } = self.reached;
        let mut content = self.tip.to_byte_array().to_vec();
        content.extend([run, sequence, tip_changes].map(u64::to_be_bytes).concat());
        scope("snapshot").sealed(&content)
    }

    /// `None` for a text that is no cursor of a snapshot.
    fn read(cursor: &str) -> Option<Self> {
        let content = scope("snapshot").opened(cursor)?;
        let (tip, rest) = content.split_first_chunk::<32>()?;
        let (reached, rest) = MempoolReached::read(rest)?;
        rest.is_empty().then_some(Self { tip: BlockHash::from_byte_array(*tip), reached })
    }
}

impl MempoolReached {
    /// Its length in a cursor.
    const BYTES: usize = 24;

    /// The numbers that bytes begin with, and the rest.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (run, rest) = bytes.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (tip_changes, rest) = rest.split_first_chunk()?;
        let [run, sequence, tip_changes] = [*run, *sequence, *tip_changes].map(u64::from_be_bytes);
        Some((Self { run, sequence, tip_changes }, rest))
    }
}

fn numbered(scope: &Scope, seq: UInt53, content: &[u8]) -> String {
    scope.sealed(&[&seq.to_u64().to_be_bytes(), content].concat())
}

/// The number and the rest of a cursor.
fn opened(scope: &Scope, cursor: &str) -> Option<(u64, Vec<u8>)> {
    let content = scope.opened(cursor)?;
    let (seq, rest) = content.split_first_chunk()?;
    Some((u64::from_be_bytes(*seq), rest.to_vec()))
}

fn scope(stream: &'static str) -> Scope {
    Scope::new(stream, "Subscription".to_owned())
}

fn no_cursor(stream: &str, cursor: &str) -> ApiError {
    let fault = format!(
        "is {}, which is not a cursor of {stream}: give one from an event of this subscription, or `snapshot.cursor` of a query",
        shown(cursor)
    );
    ApiError::bad_argument("after", fault)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_leads_back_to_its_place(hash: [u8; 32], run: u64, sequence: u64, number: u32) {
            let (hash, seq) = (BlockHash::from_byte_array(hash), UInt53::from(number));
            for place in [ChainCursor::Connected(hash), ChainCursor::Disconnected(hash)] {
                let cursor = place.encode(seq);
                prop_assert_eq!(ChainCursor::decode(&cursor).unwrap(), StreamStart { place, seq: number.into() });
                prop_assert!(MempoolCursor::decode(&cursor).is_err());
            }
            let place = MempoolCursor { run, sequence };
            let cursor = place.encode(seq);
            prop_assert_eq!(MempoolCursor::decode(&cursor).unwrap(), StreamStart { place, seq: number.into() });
            prop_assert!(ChainCursor::decode(&cursor).is_err());
        }

        #[test]
        fn a_cursor_of_a_snapshot_begins_every_stream(tip: [u8; 32], run: u64, sequence: u64, tip_changes: u64) {
            let tip = BlockHash::from_byte_array(tip);
            let reached = MempoolReached { run, sequence, tip_changes };
            let cursor = SnapshotCursor { tip, reached }.encode();
            let block = ChainCursor::Connected(tip);
            prop_assert_eq!(ChainCursor::decode(&cursor).unwrap(), StreamStart { place: block, seq: 0 });
            let place = MempoolCursor { run, sequence };
            prop_assert_eq!(MempoolCursor::decode(&cursor).unwrap(), StreamStart { place, seq: 0 });
            let (sent, reached) = (LedgerCursor::WHOLE, Some(reached));
            let place = LedgerCursor { block, sent, reached, replayed: None, watch: None };
            for watched in ["a", "b"] {
                let scope = LedgerCursor::scope(watched.to_owned());
                let start = StreamStart { place: place.clone(), seq: 0 };
                prop_assert_eq!(LedgerCursor::decode(&cursor, &scope, 2).unwrap(), start);
            }
        }

        #[test]
        fn a_cursor_of_a_ledger_leads_back_to_its_place_in_the_same_stream_only(
            hash: [u8; 32], sent: u32, reached: Option<((u64, u64, u64), Option<u64>)>, number: u32,
            ends in prop::collection::vec(1..=1_u32 << 31, 0..=31),
        ) {
            let seq = UInt53::from(number);
            let replayed = reached.and_then(|(_, replayed)| replayed);
            let reached =
                reached.map(|((run, sequence, tip_changes), _)| MempoolReached { run, sequence, tip_changes });
            let hash = BlockHash::from_byte_array(hash);
            let (scope, other) = (LedgerCursor::scope("a".to_owned()), LedgerCursor::scope("b".to_owned()));
            for block in [ChainCursor::Connected(hash), ChainCursor::Disconnected(hash)] {
                let (branches, watch) = (ends.len(), WatchPlace { ends: ends.clone(), backfill: None });
                let watch = (branches > 0).then(|| Arc::new(watch));
                let place = LedgerCursor { block, sent, reached, replayed, watch };
                let cursor = place.encode(&scope, seq);
                let start = StreamStart { place, seq: number.into() };
                prop_assert_eq!(LedgerCursor::decode(&cursor, &scope, branches).unwrap(), start);
                prop_assert!(LedgerCursor::decode(&cursor, &scope, branches + 1).is_err());
                prop_assert!(LedgerCursor::decode(&cursor, &other, branches).is_err());
                prop_assert!(LedgerCursor::decode(&block.encode(seq), &scope, branches).is_err());
            }
        }

        #[test]
        fn a_changed_cursor_and_any_other_text_is_refused(at: prop::sample::Index, noise in ".{0,80}") {
            let mut cursor = ChainCursor::Connected(BlockHash::from_byte_array([7; 32])).encode(3.into()).into_bytes();
            let at = at.index(cursor.len() - 1);
            cursor[at] = if cursor[at] == b'A' { b'B' } else { b'A' };
            prop_assert!(ChainCursor::decode(&String::from_utf8(cursor).unwrap()).is_err());
            prop_assert!(ChainCursor::decode(&noise).is_err() && MempoolCursor::decode(&noise).is_err());
        }
    }
}
