//! Cursors: where a row stands in a connection, as an opaque text.
//!
//! A cursor holds its format version, the position of the row, the hash of the block *that holds the row*, and a seal
//! over all of it together with the connection and the object it belongs to. A cursor of another connection or object,
//! or one that was cut or changed, does not fit its seal. Nothing in it is secret, and nothing it says is trusted.
//!
//! ```text
//!   base64url( version u8 ‖ position u32 ‖ [block hash 32] ‖ seal 8 )
//! ```

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, HashEngine, sha256};

use super::error::ApiError;
use crate::view::{ChainMembership, View};

const VERSION: u8 = 1;
const SEAL: usize = 8;
const WITHOUT_BLOCK: usize = 1 + 4 + SEAL;
const WITH_BLOCK: usize = WITHOUT_BLOCK + 32;

/// A connection of one object, whose rows cursors point to.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// The type and the field of the connection.
    connection: &'static str,
    /// The id of the object it belongs to.
    owner: String,
    /// The block that holds its rows, if it is on the main chain: a cursor lives as long as that block stays there.
    /// Rows of a stale block stay what they are, so their cursors hold none.
    block: Option<BlockHash>,
}

impl Scope {
    pub(super) fn new(connection: &'static str, owner: String, block: Option<BlockHash>) -> Self {
        Self { connection, owner, block }
    }

    /// The cursor of the row at this position.
    pub(super) fn cursor(&self, position: u32) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(position.to_be_bytes());
        if let Some(block) = self.block {
            bytes.extend(block.as_byte_array());
        }
        bytes.extend(self.seal(&bytes));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The position that a cursor of this connection points to.
    ///
    /// Errors: BAD_USER_INPUT for a text that is no cursor, or one of another connection or object; CURSOR_ORPHANED if
    /// the block that held the row is not on the main chain any more.
    pub(super) fn position(&self, cursor: &str, view: &View) -> Result<u32, ApiError> {
        let (position, block) = self.read(cursor).ok_or_else(|| {
            ApiError::bad_user_input(format!("this is not a cursor of {}.{}", self.owner, self.connection))
        })?;
        match block {
            Some(hash) if Some(hash) != self.block => {
                let fork = view.fork_height(hash)?;
                let place = view.block_place(hash)?;
                if place.is_some_and(|place| place.membership == ChainMembership::Main) {
                    Ok(position)
                } else {
                    Err(ApiError::cursor_orphaned(fork))
                }
            }
            _ => Ok(position),
        }
    }

    fn read(&self, cursor: &str) -> Option<(u32, Option<BlockHash>)> {
        // the longest cursor has 60 characters; a longer text need not be decoded to be refused
        let bytes = (cursor.len() <= 64).then(|| URL_SAFE_NO_PAD.decode(cursor).ok()).flatten()?;
        let known = bytes.len() == WITHOUT_BLOCK || bytes.len() == WITH_BLOCK;
        let (content, seal) = bytes.split_at_checked(bytes.len().checked_sub(SEAL)?)?;
        if !known || self.seal(content) != seal {
            return None;
        }
        let (version, content) = content.split_first()?;
        let (position, block) = content.split_first_chunk()?;
        let block = block.first_chunk().map(|hash| BlockHash::from_byte_array(*hash));
        (*version == VERSION).then_some((u32::from_be_bytes(*position), block))
    }

    fn seal(&self, content: &[u8]) -> [u8; SEAL] {
        let mut engine = sha256::Hash::engine();
        for part in [self.connection.as_bytes(), b"\0", self.owner.as_bytes(), b"\0", content] {
            engine.input(part);
        }
        let hash = sha256::Hash::from_engine(engine).to_byte_array();
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&hash[..SEAL]);
        seal
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(owner: &str, block: Option<[u8; 32]>) -> Scope {
        Scope::new("Block.transactions", owner.to_owned(), block.map(BlockHash::from_byte_array))
    }

    proptest! {
        #[test]
        fn a_cursor_leads_back_to_its_row_and_block(position: u32, block: Option<[u8; 32]>) {
            let scope = scope("Block:a", block);
            let cursor = scope.cursor(position);
            prop_assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
            prop_assert_eq!(scope.read(&cursor), Some((position, block.map(BlockHash::from_byte_array))));
        }

        #[test]
        fn a_changed_cursor_and_any_other_text_is_refused(position: u32, at: prop::sample::Index, noise in ".{0,80}") {
            let scope = scope("Block:a", Some([7; 32]));
            let mut cursor = scope.cursor(position).into_bytes();
            let at = at.index(cursor.len());
            cursor[at] = if cursor[at] == b'A' { b'B' } else { b'A' };
            prop_assert_eq!(scope.read(&String::from_utf8(cursor).unwrap()), None);
            prop_assert_eq!(scope.read(&noise), None);
        }
    }

    #[test]
    fn a_cursor_of_another_object_or_connection_is_refused() {
        let cursor = scope("Block:a", None).cursor(3);
        assert!(scope("Block:a", Some([1; 32])).read(&cursor).is_some(), "the block that holds the rows may change");
        assert_eq!(scope("Block:b", None).read(&cursor), None);
        assert_eq!(Scope::new("Transaction.inputs", "Block:a".to_owned(), None).read(&cursor), None);
    }
}
