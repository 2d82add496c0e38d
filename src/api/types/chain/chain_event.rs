use std::sync::Arc;

use async_graphql::{Interface, SimpleObject};

use super::reorg::Reorg;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::UInt53;
use crate::api::streams::chain::Change;
use crate::api::types::block::Block;

/// A change of the main chain.
#[derive(Interface)]
#[graphql(
    name = "ChainEvent",
    field(
        name = "seq",
        ty = "UInt53",
        desc = "The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it."
    ),
    field(
        name = "cursor",
        ty = "String",
        desc = "The cursor of this event. Pass it as `after` to resume after this event, on this server or another server of \
                the same chain."
    )
)]
pub(crate) enum ChainEventObject {
    /// A block joined it.
    Connected(BlockConnected),
    /// A block left it.
    Disconnected(BlockDisconnected),
}

impl FieldCacheability for ChainEventObject {
    const NEVER: &'static str = "seq cursor";
}

/// A block that joined the main chain on top of the block of the previous event.
#[derive(SimpleObject)]
pub(crate) struct BlockConnected {
    /// The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it.
    #[graphql(owned)]
    seq: UInt53,
    /// The cursor of this event. Pass it as `after` to resume after this event, on this server or another server of the
    /// same chain.
    #[graphql(owned)]
    cursor: String,
    /// The block.
    block: Block,
}

impl FieldCacheability for BlockConnected {
    const NEVER: &'static str = "seq cursor block";
}

/// A block that left the main chain in a reorg. It was the tip until then. The event precedes the events of the blocks
/// that replace it.
#[derive(SimpleObject)]
pub(crate) struct BlockDisconnected {
    /// The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it.
    #[graphql(owned)]
    seq: UInt53,
    /// The cursor of this event. Pass it as `after` to resume after this event, on this server or another server of the
    /// same chain.
    #[graphql(owned)]
    cursor: String,
    /// The block, which is now stale.
    block: Block,
    /// The reorg in which the block left the main chain. Null if it is no longer stored. What happened to the
    /// transactions may not be known yet.
    reorg: Option<Reorg>,
}

impl FieldCacheability for BlockDisconnected {
    const NEVER: &'static str = "seq cursor block reorg";
}

impl ChainEventObject {
    /// The cursor of the event.
    pub(crate) fn position(&self) -> &str {
        match self {
            Self::Connected(BlockConnected { cursor, .. }) | Self::Disconnected(BlockDisconnected { cursor, .. }) => {
                cursor
            }
        }
    }

    pub(crate) fn new(change: Change, seq: UInt53) -> Result<Self, ApiError> {
        let (cursor, view) = (change.place().encode(seq), Arc::new(change.view));
        let (hash, block) = (change.block.row.hash, Block::new(&view, change.block));
        if change.joined {
            return Ok(Self::Connected(BlockConnected { seq, cursor, block }));
        }
        let reorg = Reorg::maybe(&view, view.reorg_that_disconnected(hash)).transpose()?;
        Ok(Self::Disconnected(BlockDisconnected { seq, cursor, block, reorg }))
    }
}
