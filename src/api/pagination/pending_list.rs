//! Lists that begin in the chain and go on in the mempool: sent upwards, what is confirmed comes first, then what waits
//! in the order of its arrival.
//!
//! A confirmed row has a cursor as everywhere. That of a row of the mempool holds the txid and the number of arrival of
//! its transaction, and of what the list was read from: the newest block, and the number of the newest event of the mempool:
//!
//! ```text
//!   base64url( version u8 ‖ arrival u64 ‖ vout u32 ‖ txid 32 ‖ newest block 32 ‖ newest event u64 ‖ seal 8 )
//! ```
//!
//! A block moves rows from one part of the list to the other, past a row that still waits; and if it leaves the chain, they
//! return with new numbers of arrival, past that row again. So such a cursor is good only while its transaction waits where
//! it did, that block is on the main chain, no block on top of it holds a transaction of the list, and none returned from one
//! that left. Blocks that have nothing to do with the list change nothing.

use std::ops::Range;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};

use super::cursor::{GivenCursor, RowPlace, Scope, on_main_chain};
use super::page::{PageRequest, Walk};
use crate::api::allowance::find_transaction;
use crate::api::error::ApiError;
use crate::api::types::enums::{SortOrder, TxState};
use crate::view::{Entry, View};

/// Bytes of what such a cursor says.
const LENGTH: usize = 8 + 4 + 32 + 32 + 8;

/// Where a row of the mempool stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PendingRow {
    /// The number of arrival of its transaction.
    pub(crate) arrival: u64,
    /// The number of the output that the row is, 0 if rows are transactions.
    pub(crate) vout: u32,
}

/// Where a row stands in a mixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListPosition {
    /// In the chain.
    Confirmed(u64),
    /// In the mempool.
    Pending(PendingRow),
}

/// What a cursor of a mixed list says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingListPlace {
    /// A row of the chain.
    Confirmed(RowPlace),
    /// A row of the mempool.
    Pending(PendingRow),
}

/// The positions that a page may come from, and the end where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingListWalk {
    pub(crate) confirmed: Range<u64>,
    pub(crate) waiting: Range<PendingRow>,
    /// Whether to read the lowest first, which are those of the chain.
    pub(crate) ascending: bool,
}

/// What the cursor of a row of the mempool holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingCursor {
    waiting: PendingRow,
    txid: Txid,
    read_from: PendingListState,
}

/// What a mixed list was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingListState {
    /// The newest block.
    pub(crate) newest: BlockHash,
    /// The number of the newest event of the mempool.
    pub(crate) event: u64,
}

impl PendingRow {
    const FIRST: Self = Self { arrival: 0, vout: 0 };
    const END: Self = Self { arrival: u64::MAX, vout: u32::MAX };

    /// The position right behind this one.
    fn next(self) -> Self {
        match self.vout.checked_add(1) {
            Some(vout) => Self { vout, ..self },
            None => Self { arrival: self.arrival.saturating_add(1), vout: 0 },
        }
    }
}

impl PendingListWalk {
    /// The numbers of arrival of the transactions whose rows may be at these positions.
    pub(crate) fn arrivals(&self) -> Range<u64> {
        let Range { start, end } = self.waiting;
        start.arrival..if end.vout == 0 { end.arrival } else { end.arrival.saturating_add(1) }
    }
}

impl PageRequest<PendingListPlace> {
    /// Which positions to read, from which end, of a list whose confirmed part lies within `confirmed`.
    pub(crate) fn pending_list_walk(&self, confirmed: Range<u64>, order: SortOrder) -> PendingListWalk {
        let everything = PendingRow::FIRST..PendingRow::END;
        let ascending = self.is_ascending(order);
        match self.from() {
            Some(PendingListPlace::Pending(waiting)) if ascending => PendingListWalk {
                confirmed: confirmed.end..confirmed.end,
                waiting: waiting.next()..PendingRow::END,
                ascending,
            },
            Some(PendingListPlace::Pending(waiting)) => {
                PendingListWalk { confirmed, waiting: PendingRow::FIRST..waiting, ascending }
            }
            from => {
                let place = from.and_then(|from| match from {
                    PendingListPlace::Confirmed(place) => Some(place),
                    PendingListPlace::Pending(_) => None,
                });
                let waiting =
                    if ascending || place.is_none() { everything } else { PendingRow::FIRST..PendingRow::FIRST };
                let Walk { positions, ascending } = self.going_on(place).walk(confirmed, order);
                PendingListWalk { confirmed: positions, waiting, ascending }
            }
        }
    }
}

impl Scope {
    /// The cursor of a row of a transaction of the mempool.
    pub(crate) fn pending_cursor(&self, waiting: PendingRow, entry: &Entry, view: &View) -> String {
        let mut content = Vec::with_capacity(LENGTH);
        content.extend(waiting.arrival.to_be_bytes());
        content.extend(waiting.vout.to_be_bytes());
        content.extend(entry.txid.as_byte_array());
        content.extend(view.tip().hash.as_byte_array());
        content.extend(view.mempool().sequence().to_be_bytes());
        self.sealed(&content)
    }

    /// What a cursor of this mixed list points to. `overtaken` finds a block that holds a transaction of the list, or held one
    /// that returned, since the list was read.
    ///
    /// Errors: as of [`place`](Scope::place); CURSOR_ORPHANED if the row is one of the mempool and the list around it is
    /// not what it was.
    pub(crate) fn pending_list_place(
        &self,
        given: GivenCursor<'_>,
        view: &View,
        overtaken: impl FnOnce(PendingListState) -> Result<Option<BlockHash>, ApiError>,
    ) -> Result<PendingListPlace, ApiError> {
        let Some(PendingCursor { waiting, txid, read_from }) = self.read_pending(given.text) else {
            return self.place(given, view).map(PendingListPlace::Confirmed);
        };
        if view.mempool().get(&txid).is_none_or(|entry| entry.sequence != waiting.arrival) {
            let now = find_transaction(view, |view| view.transaction(&txid))?;
            let state = now.as_ref().map(|transaction| TxState::from(transaction.state()));
            let place = now.and_then(|transaction| transaction.place);
            let block = place.map(|place| view.block_hash(place.height)).transpose()?;
            return Err(ApiError::cursor_departed(state, block));
        }
        on_main_chain(read_from.newest, view)?;
        match overtaken(read_from)? {
            Some(block) => Err(ApiError::cursor_overtaken(block)),
            None => Ok(PendingListPlace::Pending(waiting)),
        }
    }

    fn read_pending(&self, cursor: &str) -> Option<PendingCursor> {
        let content = self.opened(cursor)?;
        let (arrival, content) = content.split_first_chunk()?;
        let (vout, content) = content.split_first_chunk()?;
        let (txid, content) = content.split_first_chunk()?;
        let (newest, event) = content.split_first_chunk()?;
        let waiting = PendingRow { arrival: u64::from_be_bytes(*arrival), vout: u32::from_be_bytes(*vout) };
        let read_from = PendingListState {
            newest: BlockHash::from_byte_array(*newest),
            event: u64::from_be_bytes(event.try_into().ok()?),
        };
        Some(PendingCursor { waiting, txid: Txid::from_byte_array(*txid), read_from })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_position_behind_the_last_output_is_the_first_of_the_next_arrival() {
        assert_eq!(PendingRow { arrival: 7, vout: 3 }.next(), PendingRow { arrival: 7, vout: 4 });
        assert_eq!(PendingRow { arrival: 7, vout: u32::MAX }.next(), PendingRow { arrival: 8, vout: 0 });
    }

    proptest! {
        #[test]
        fn a_cursor_is_of_the_chain_or_of_the_mempool_and_of_no_other_list(content in prop::array::uniform32(any::<u8>()), position: u64, vout: u32) {
            let scope = Scope::new("utxos", "Address:a".to_owned());
            let mut bytes = position.to_be_bytes().to_vec();
            bytes.extend(vout.to_be_bytes());
            bytes.extend(content);
            bytes.extend(content);
            bytes.extend(position.to_be_bytes());
            let cursor = scope.sealed(&bytes);
            let held = PendingCursor {
                waiting: PendingRow { arrival: position, vout },
                txid: Txid::from_byte_array(content),
                read_from: PendingListState { newest: BlockHash::from_byte_array(content), event: position },
            };
            prop_assert_eq!(scope.read_pending(&cursor), Some(held));
            prop_assert_eq!(Scope::new("utxos", "Address:b".to_owned()).read_pending(&cursor), None);
            let confirmed = scope.cursor(position, Some(BlockHash::from_byte_array(content)));
            prop_assert_eq!(scope.read_pending(&confirmed), None);
        }
    }
}
