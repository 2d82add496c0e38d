//! Cursors of streams: where a reader was, as an opaque text that any server of the chain, or the same run of this one,
//! can go on from.
//!
//! ```text
//!   chainEvents:    direction u8 ‖ block hash 32        sealed as the cursors of lists are
//!   mempoolEvents:  run u64 ‖ number u64
//! ```

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::cursor::Scope;
use super::error::{ApiError, shown};

/// A reader of the chain who has heard that this block joined or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainPlace {
    Connected(BlockHash),
    Disconnected(BlockHash),
}

/// A reader of the mempool who has heard of what had this number in this run of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MempoolPlace {
    pub(super) run: u64,
    pub(super) sequence: u64,
}

impl ChainPlace {
    const STREAM: &'static str = "chainEvents";

    pub(super) fn cursor(self) -> String {
        let (direction, hash) = match self {
            Self::Connected(hash) => (1, hash),
            Self::Disconnected(hash) => (0, hash),
        };
        scope(Self::STREAM).sealed(&[&[direction][..], hash.as_byte_array()].concat())
    }

    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream.
    pub(super) fn read(cursor: &str) -> Result<Self, ApiError> {
        let place = || {
            let content = scope(Self::STREAM).opened(cursor)?;
            let (direction, hash) = content.split_first()?;
            let hash = BlockHash::from_byte_array(hash.try_into().ok()?);
            match direction {
                0 => Some(Self::Disconnected(hash)),
                1 => Some(Self::Connected(hash)),
                _ => None,
            }
        };
        place().ok_or_else(|| no_cursor(Self::STREAM, cursor))
    }
}

impl MempoolPlace {
    const STREAM: &'static str = "mempoolEvents";

    pub(super) fn cursor(self) -> String {
        scope(Self::STREAM).sealed(&[self.run.to_be_bytes(), self.sequence.to_be_bytes()].concat())
    }

    /// Errors: BAD_USER_INPUT for a text that is no cursor of this stream.
    pub(super) fn read(cursor: &str) -> Result<Self, ApiError> {
        let place = || {
            let content = scope(Self::STREAM).opened(cursor)?;
            let (run, sequence) = content.split_first_chunk()?;
            let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
            Some(Self { run: u64::from_be_bytes(*run), sequence })
        };
        place().ok_or_else(|| no_cursor(Self::STREAM, cursor))
    }
}

fn scope(stream: &'static str) -> Scope {
    Scope::new(stream, "Subscription".to_owned())
}

fn no_cursor(stream: &str, cursor: &str) -> ApiError {
    ApiError::bad_user_input(format!(
        "{} is not a cursor of {stream}: give one that an event of this subscription has carried",
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
            for place in [ChainPlace::Connected(hash), ChainPlace::Disconnected(hash)] {
                prop_assert_eq!(ChainPlace::read(&place.cursor()).unwrap(), place);
                prop_assert!(MempoolPlace::read(&place.cursor()).is_err());
            }
            let place = MempoolPlace { run, sequence };
            prop_assert_eq!(MempoolPlace::read(&place.cursor()).unwrap(), place);
            prop_assert!(ChainPlace::read(&place.cursor()).is_err());
        }

        #[test]
        fn a_changed_cursor_and_any_other_text_is_refused(at: prop::sample::Index, noise in ".{0,80}") {
            let mut cursor = ChainPlace::Connected(BlockHash::from_byte_array([7; 32])).cursor().into_bytes();
            let at = at.index(cursor.len() - 1);
            cursor[at] = if cursor[at] == b'A' { b'B' } else { b'A' };
            prop_assert!(ChainPlace::read(&String::from_utf8(cursor).unwrap()).is_err());
            prop_assert!(ChainPlace::read(&noise).is_err() && MempoolPlace::read(&noise).is_err());
        }
    }
}
