//! Cursors of streams: where a reader was, as an opaque text that any server of the chain, or the same run of this one,
//! can go on from.
//!
//! ```text
//!   chainEvents:    direction u8 ‖ block hash 32        sealed as the cursors of lists are
//!   mempoolEvents:  run u64 ‖ number u64
//!   ledgerEvents:   direction u8 ‖ block hash 32 ‖ events informed of it u32 ‖ [run u64 ‖ number u64 ‖ turns u64]
//!                   sealed with what is watched, too
//! ```

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use crate::api::error::{ApiError, shown};
use crate::api::pagination::cursor::Scope;

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

/// A reader of a ledger that has heard of what a block did, or of what happened in the mempool while it was the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LedgerCursor {
    pub(crate) block: ChainCursor,
    /// How many of the events of that block were sent, [`WHOLE`](Self::WHOLE) if all.
    pub(crate) sent: u32,
    /// How far it is in what happened in the mempool, if that can be gone on from.
    pub(crate) reached: Option<MempoolReached>,
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

    pub(crate) fn encode(self) -> String {
        scope(Self::STREAM).sealed(&self.to_bytes())
    }

    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream.
    pub(crate) fn decode(cursor: &str) -> Result<Self, ApiError> {
        let place = || {
            let content = scope(Self::STREAM).opened(cursor)?;
            Self::from_bytes(content.try_into().ok()?)
        };
        place().ok_or_else(|| no_cursor(Self::STREAM, cursor))
    }
}

impl MempoolCursor {
    const STREAM: &'static str = "mempoolEvents";

    pub(crate) fn encode(self) -> String {
        scope(Self::STREAM).sealed(&[self.run.to_be_bytes(), self.sequence.to_be_bytes()].concat())
    }

    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream.
    pub(crate) fn decode(cursor: &str) -> Result<Self, ApiError> {
        let place = || {
            let content = scope(Self::STREAM).opened(cursor)?;
            let (run, sequence) = content.split_first_chunk()?;
            let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
            Some(Self { run: u64::from_be_bytes(*run), sequence })
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

    pub(crate) fn encode(self, scope: &Scope) -> String {
        let mut content = self.block.to_bytes().to_vec();
        content.extend(self.sent.to_be_bytes());
        if let Some(MempoolReached { run, sequence, tip_changes }) = self.reached {
            content.extend([run, sequence, tip_changes].map(u64::to_be_bytes).concat());
        }
        scope.sealed(&content)
    }

    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream.
    pub(crate) fn decode(cursor: &str, scope: &Scope) -> Result<Self, ApiError> {
        let place = || {
            let content = scope.opened(cursor)?;
            let (block, rest) = content.split_first_chunk::<33>()?;
            let (sent, rest) = rest.split_first_chunk()?;
            let (block, sent) = (ChainCursor::from_bytes(*block)?, u32::from_be_bytes(*sent));
            let numbers: Vec<u64> =
                rest.chunks(8).map_while(|part| part.try_into().ok()).map(u64::from_be_bytes).collect();
            let reached = match (rest.len(), &numbers[..]) {
                (0, _) => None,
                (24, [run, sequence, tip_changes]) => {
                    Some(MempoolReached { run: *run, sequence: *sequence, tip_changes: *tip_changes })
                }
                _ => return None,
            };
            Some(Self { block, sent, reached })
        };
        place().ok_or_else(|| {
            ApiError::bad_user_input(format!(
                "{} is not a cursor of {} with these arguments: give one from an event of this subscription, \
                 with the same addresses, scripts and depths",
                shown(cursor),
                Self::STREAM
            ))
        })
    }
}

fn scope(stream: &'static str) -> Scope {
    Scope::new(stream, "Subscription".to_owned())
}

fn no_cursor(stream: &str, cursor: &str) -> ApiError {
    ApiError::bad_user_input(format!(
        "{} is not a cursor of {stream}: give one from an event of this subscription",
        shown(cursor)
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_leads_back_to_its_place(hash: [u8; 32], run: u64, sequence: u64) {
            let hash = BlockHash::from_byte_array(hash);
            for place in [ChainCursor::Connected(hash), ChainCursor::Disconnected(hash)] {
                prop_assert_eq!(ChainCursor::decode(&place.encode()).unwrap(), place);
                prop_assert!(MempoolCursor::decode(&place.encode()).is_err());
            }
            let place = MempoolCursor { run, sequence };
            prop_assert_eq!(MempoolCursor::decode(&place.encode()).unwrap(), place);
            prop_assert!(ChainCursor::decode(&place.encode()).is_err());
        }

        #[test]
        fn a_cursor_of_a_ledger_leads_back_to_its_place_in_the_same_stream_only(
            hash: [u8; 32], sent: u32, reached: Option<(u64, u64, u64)>,
        ) {
            let reached = reached.map(|(run, sequence, tip_changes)| MempoolReached { run, sequence, tip_changes });
            let hash = BlockHash::from_byte_array(hash);
            let (scope, other) = (LedgerCursor::scope("a".to_owned()), LedgerCursor::scope("b".to_owned()));
            for block in [ChainCursor::Connected(hash), ChainCursor::Disconnected(hash)] {
                let place = LedgerCursor { block, sent, reached };
                prop_assert_eq!(LedgerCursor::decode(&place.encode(&scope), &scope).unwrap(), place);
                prop_assert!(LedgerCursor::decode(&place.encode(&scope), &other).is_err());
                prop_assert!(LedgerCursor::decode(&block.encode(), &scope).is_err());
            }
        }

        #[test]
        fn a_changed_cursor_and_any_other_text_is_refused(at: prop::sample::Index, noise in ".{0,80}") {
            let mut cursor = ChainCursor::Connected(BlockHash::from_byte_array([7; 32])).encode().into_bytes();
            let at = at.index(cursor.len() - 1);
            cursor[at] = if cursor[at] == b'A' { b'B' } else { b'A' };
            prop_assert!(ChainCursor::decode(&String::from_utf8(cursor).unwrap()).is_err());
            prop_assert!(ChainCursor::decode(&noise).is_err() && MempoolCursor::decode(&noise).is_err());
        }
    }
}
