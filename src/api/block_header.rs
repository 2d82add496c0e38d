use async_graphql::Object;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;

use super::error::ApiError;
use super::scalars::{BlockHash, DateTime, Hex, UInt53, int};
use crate::chain::Height;

/// The 80 bytes that are hashed, and what they say.
#[derive(Clone, Debug)]
pub(super) struct BlockHeader {
    pub(super) hash: bitcoin::BlockHash,
    pub(super) height: Height,
    pub(super) header: bitcoin::block::Header,
}

/// The header of a block: the 80 bytes whose double SHA-256 is its hash.
#[Object]
impl BlockHeader {
    /// The hash of the header, which is the hash of the block.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.hash)
    }

    /// How many blocks come before it in its chain; 0 for the genesis block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.height.to_u32())
    }

    /// The 80 bytes of the header as serialised.
    async fn hex(&self) -> Hex {
        Hex::new(serialize(&self.header))
    }

    /// The version field, read as unsigned. Its bits signal deployments (BIP9).
    async fn version(&self) -> UInt53 {
        self.header.version.to_consensus().cast_unsigned().into()
    }

    /// The hash of the block it stands on; null for the genesis block.
    async fn previous_hash(&self) -> Option<BlockHash> {
        let previous = self.header.prev_blockhash;
        (previous != bitcoin::BlockHash::all_zeros()).then_some(BlockHash(previous))
    }

    /// The root of the merkle tree over the txids, in display (reversed) byte order.
    async fn merkle_root(&self) -> Hex {
        merkle_root(&self.header)
    }

    /// The time in the header. The miner sets it: it may lie up to two hours ahead, and before that of the block in
    /// front.
    async fn time(&self) -> DateTime {
        DateTime::from_unix(self.header.time)
    }

    /// The time in the header, in seconds since 1970 began (UTC).
    async fn timestamp(&self) -> UInt53 {
        self.header.time.into()
    }

    /// The target in its compact form: one byte of exponent, three of mantissa, as an unsigned number.
    async fn bits(&self) -> UInt53 {
        self.header.bits.to_consensus().into()
    }

    /// The number that miners vary to find a hash below the target.
    async fn nonce(&self) -> UInt53 {
        self.header.nonce.into()
    }
}

/// The merkle root as nodes show it.
pub(super) fn merkle_root(header: &bitcoin::block::Header) -> Hex {
    let mut bytes = header.merkle_root.to_byte_array();
    bytes.reverse();
    Hex::new(bytes)
}
