use async_graphql::Object;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, DateTime, Hash256, Hex, UInt53, int};
use crate::chain::Height;

/// The 80 bytes that are hashed, and what they say.
#[derive(Clone, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) hash: bitcoin::BlockHash,
    pub(crate) height: Height,
    pub(crate) header: bitcoin::block::Header,
}

impl FieldCacheability for BlockHeader {
    const IMMUTABLE: &'static str = "hash height hex version previousBlockHash merkleRoot time timestamp bits nonce";
}

/// The header of a block: the 80 bytes whose double SHA-256 is the block hash.
#[Object]
impl BlockHeader {
    /// The hash of the header, which is the block hash.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.hash)
    }

    /// The number of blocks before this block in its chain. 0 for the genesis block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.height.to_u32())
    }

    /// The 80 bytes of the serialised header.
    async fn hex(&self) -> Hex {
        Hex::new(serialize(&self.header))
    }

    /// The version field, as an unsigned integer. Its bits signal deployments (BIP9).
    async fn version(&self) -> UInt53 {
        self.header.version.to_consensus().cast_unsigned().into()
    }

    /// The hash of the previous block. Null for the genesis block.
    async fn previous_block_hash(&self) -> Option<BlockHash> {
        let previous = self.header.prev_blockhash;
        (previous != bitcoin::BlockHash::all_zeros()).then_some(BlockHash(previous))
    }

    /// The root of the merkle tree over the txids, in display (reversed) byte order.
    async fn merkle_root(&self) -> Hash256 {
        merkle_root(&self.header)
    }

    /// The timestamp of the header. The miner sets it: it can be up to two hours ahead of the actual time, and earlier
    /// than the timestamp of the previous block.
    async fn time(&self) -> DateTime {
        DateTime::from_unix(self.header.time)
    }

    /// The timestamp of the header, in seconds since 1970-01-01T00:00:00Z.
    async fn timestamp(&self) -> UInt53 {
        self.header.time.into()
    }

    /// The target in compact form, as an unsigned integer: one byte of exponent, three bytes of mantissa.
    async fn bits(&self) -> UInt53 {
        self.header.bits.to_consensus().into()
    }

    /// The nonce, which miners vary to find a hash below the target.
    async fn nonce(&self) -> UInt53 {
        self.header.nonce.into()
    }
}

/// The merkle root of a header.
pub(crate) fn merkle_root(header: &bitcoin::block::Header) -> Hash256 {
    Hash256::new(header.merkle_root.to_byte_array())
}
