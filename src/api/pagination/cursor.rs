//! Cursors: where a row stands in a connection, as an opaque text.
//!
//! A cursor holds its format version, the position of the row, the hash of the block *that holds the row*, and a seal
//! over all of it together with the connection, its filter and the object it belongs to. A cursor of another connection,
//! filter or object, or one that was cut or changed, does not fit its seal. Nothing in it is secret, and nothing it says
//! is trusted.
//!
//! ```text
//!   base64url( version u8 ‖ position u64 ‖ [block hash 32] ‖ seal 8 )
//! ```
//!
//! A list whose rows are not bound to blocks says something else between version and seal ([`Scope::sealed`]), as lists
//! of the mempool do, and those that go on into it ([`mixed`](super::pending_list)).

use std::borrow::Cow;
use std::sync::Arc;

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, HashEngine, sha256};

use crate::api::error::{ApiError, shown};
use crate::view::{ChainMembership, View};

const VERSION: u8 = 1;
const SEAL: usize = 8;
/// Bytes of the longest cursor: that of a stream that watches descriptors.
const LONGEST: usize = 1 + 69 + 2 * 32 * 5 + 9 + SEAL;

/// A connection of one object under one filter, whose rows cursors point to.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The type and the field of the connection.
    connection: &'static str,
    /// The id of the object it belongs to.
    owner: String,
    /// The filter and the order of its rows, in a form that differs where they differ.
    filter: String,
}

/// A cursor as a client gives it, and the argument that it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenCursor<'c> {
    pub(crate) argument: &'static str,
    pub(crate) text: &'c str,
}

/// What a cursor says: the position of a row, and the block of the main chain that holds it, if the row lives only as
/// long as that block stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlace {
    pub(crate) position: u64,
    pub(crate) block: Option<BlockHash>,
}

/// The cursor of a row. That of a row in a list of the chain is encoded when it is asked for, which it seldom is.
#[derive(Clone, Debug)]
pub(crate) enum Cursor {
    Text(String),
    OfRow(Arc<Scope>, RowPlace),
}

impl Cursor {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::OfRow(scope, place) => scope.cursor(place.position, place.block),
        }
    }
}

impl OutputType for Cursor {
    fn type_name() -> Cow<'static, str> {
        <String as OutputType>::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        <String as OutputType>::create_type_info(registry)
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        Ok(Value::String(self.text()))
    }
}

impl Scope {
    pub(crate) fn new(connection: &'static str, owner: String) -> Self {
        Self { connection, owner, filter: String::new() }
    }

    /// The same connection under a filter, an order, or whatever else chooses its rows.
    pub(crate) fn filtered(self, filter: String) -> Self {
        Self { filter, ..self }
    }

    /// The cursor of the row at this position. `block` is the block of the main chain that holds the row; rows that
    /// stay what they are whatever happens to the chain have none.
    pub(crate) fn cursor(&self, position: u64, block: Option<BlockHash>) -> String {
        let mut content = position.to_be_bytes().to_vec();
        if let Some(block) = block {
            content.extend(block.as_byte_array());
        }
        self.sealed(&content)
    }

    /// A cursor that says this, in a form that the connection alone knows.
    pub(crate) fn sealed(&self, content: &[u8]) -> String {
        let mut bytes = Vec::with_capacity(LONGEST);
        bytes.push(VERSION);
        bytes.extend(content);
        bytes.extend(self.seal(&bytes));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What a cursor of this connection points to.
    ///
    /// Errors: BAD_USER_INPUT for a text that is no cursor, or one of another connection, filter or object;
    /// CURSOR_ORPHANED if the block that kept the row is not on the main chain any more.
    pub(crate) fn place(&self, given: GivenCursor<'_>, view: &View) -> Result<RowPlace, ApiError> {
        let place = self.read(given.text).ok_or_else(|| self.refusal(given))?;
        if let Some(hash) = place.block {
            on_main_chain(hash, view)?;
        }
        Ok(place)
    }

    /// That this text is no cursor of this connection.
    pub(crate) fn refusal(&self, given: GivenCursor<'_>) -> ApiError {
        let fault = format!(
            "is {}, which is not a cursor of {}.{} with these arguments: give one that this connection returned, with the \
             same filter and order",
            shown(given.text),
            self.owner,
            self.connection
        );
        ApiError::bad_argument(given.argument, fault)
    }

    fn read(&self, cursor: &str) -> Option<RowPlace> {
        let content = self.opened(cursor)?;
        let (position, block) = content.split_first_chunk()?;
        let position = u64::from_be_bytes(*position);
        match block.len() {
            0 => Some(RowPlace { position, block: None }),
            32 => Some(RowPlace { position, block: block.first_chunk().map(|hash| BlockHash::from_byte_array(*hash)) }),
            _ => None,
        }
    }

    /// What a cursor of this connection says; `None` for any other text.
    pub(crate) fn opened(&self, cursor: &str) -> Option<Vec<u8>> {
        // a text longer than any cursor need not be decoded to be refused
        let short = cursor.len() <= LONGEST.saturating_mul(4).div_ceil(3);
        let bytes = short.then(|| URL_SAFE_NO_PAD.decode(cursor).ok()).flatten()?;
        let (content, seal) = bytes.split_at_checked(bytes.len().checked_sub(SEAL)?)?;
        let (version, place) = content.split_first()?;
        (*version == VERSION && self.seal(content) == seal).then(|| place.to_vec())
    }

    fn seal(&self, content: &[u8]) -> [u8; SEAL] {
        let mut engine = sha256::Hash::engine();
        for part in
            [self.connection.as_bytes(), b"\0", self.owner.as_bytes(), b"\0", self.filter.as_bytes(), b"\0", content]
        {
            engine.input(part);
        }
        let hash = sha256::Hash::from_engine(engine).to_byte_array();
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&hash[..SEAL]);
        seal
    }
}

/// Refuses a cursor that depends on this block once that is not on the main chain any more: CURSOR_ORPHANED.
pub(crate) fn on_main_chain(hash: BlockHash, view: &View) -> Result<(), ApiError> {
    let found = view.block_place(hash)?;
    if found.is_none_or(|place| place.membership != ChainMembership::Main) {
        return Err(ApiError::cursor_orphaned(view.fork_height(hash)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(owner: &str) -> Scope {
        Scope::new("transactions", owner.to_owned())
    }

    proptest! {
        #[test]
        fn a_cursor_leads_back_to_its_row_and_block(position: u64, block: Option<[u8; 32]>) {
            let block = block.map(BlockHash::from_byte_array);
            let cursor = scope("Block:a").cursor(position, block);
            prop_assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
            prop_assert_eq!(scope("Block:a").read(&cursor), Some(RowPlace { position, block }));
        }

        #[test]
        fn a_changed_cursor_and_any_other_text_is_refused(position: u64, at: prop::sample::Index, noise in ".{0,80}") {
            let scope = scope("Block:a");
            let mut cursor = scope.cursor(position, Some(BlockHash::from_byte_array([7; 32]))).into_bytes();
            let at = at.index(cursor.len());
            cursor[at] = if cursor[at] == b'A' { b'B' } else { b'A' };
            prop_assert_eq!(scope.read(&String::from_utf8(cursor).unwrap()), None);
            prop_assert_eq!(scope.read(&noise), None);
        }
    }

    #[test]
    fn a_cursor_of_another_object_connection_or_filter_is_refused() {
        let cursor = scope("Block:a").cursor(3, None);
        assert_eq!(scope("Block:b").read(&cursor), None);
        assert_eq!(Scope::new("inputs", "Block:a".to_owned()).read(&cursor), None);
        assert_eq!(scope("Block:a").filtered("DESC".to_owned()).read(&cursor), None);
    }
}
