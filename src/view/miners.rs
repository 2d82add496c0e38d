//! Mining pools and their blocks.

use super::{View, corrupt};
use crate::chain::pools::{MinerEvidence, PoolId, Pools};
use crate::chain::raw::RawTransaction;
use crate::index::IndexError;

impl View {
    /// The pools that blocks are ascribed to.
    #[must_use]
    pub fn pools(&self) -> &Pools {
        self.head.chain.pools()
    }

    /// The pool that the block with this serialised coinbase is ascribed to, and by what. `None` if it is none of the table.
    ///
    /// Errors: the bytes are not a transaction.
    pub fn miner_of(&self, coinbase: &[u8]) -> Result<Option<(PoolId, MinerEvidence)>, IndexError> {
        let coinbase = RawTransaction::parse_whole(coinbase)
            .map_err(|error| corrupt("transactions", format!("a coinbase is not a transaction: {error}")))?;
        Ok(self.pools().identify(&coinbase))
    }
}
