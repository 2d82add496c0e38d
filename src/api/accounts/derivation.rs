//! Derives the scripts of descriptors, batch by batch, and keeps the batches that were used last.
//!
//! A batch is derived on a thread of its own, since it takes milliseconds; a request that is given up derives no further
//! batch. Two requests that need the same batch at once both derive it, which costs no more than either alone would.

use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Network, ScriptBuf};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::api::blocking::BlockingPool;
use crate::api::error::ApiError;
use crate::chain::address_of;
use crate::chain::descriptor::{DescriptorError, INDEX_END, OutputDescriptor};
use crate::limits::DERIVED_TOGETHER;

/// Bytes that a batch typically weighs.
const TYPICAL: u64 = 12_000;
/// The longest text that is parsed where the request is; a longer one is parsed on a thread of its own.
const SHORT: usize = 500;

/// A script of a descriptor.
#[derive(Clone, Debug)]
pub(crate) struct DerivedScript {
    pub(crate) script: ScriptBuf,
    /// SHA-256 of the script.
    pub(crate) hash: sha256::Hash,
    /// Its address, `None` for types without one.
    pub(crate) address: Option<String>,
}

impl DerivedScript {
    /// A script with its address on a network.
    fn new(script: ScriptBuf, network: Network) -> Self {
        let hash = sha256::Hash::hash(script.as_bytes());
        let address = address_of(&script, network);
        Self { script, hash, address }
    }

    /// Its text form: the address, or the script itself.
    pub(crate) fn name(&self) -> String {
        self.address.clone().unwrap_or_else(|| self.script.to_hex_string())
    }

    fn bytes(&self) -> usize {
        let address = self.address.as_ref().map_or(0, String::len);
        size_of::<Self>().saturating_add(self.script.len()).saturating_add(address)
    }
}

/// Which batch: the SHA-256 of the descriptor, the branch, and the number of the batch within it.
type BatchKey = (sha256::Hash, usize, u32);

#[derive(Clone)]
struct BatchWeight;

impl Weighter<BatchKey, Arc<[DerivedScript]>> for BatchWeight {
    fn weight(&self, _: &BatchKey, scripts: &Arc<[DerivedScript]>) -> u64 {
        let bytes = scripts.iter().map(DerivedScript::bytes).fold(size_of::<BatchKey>(), usize::saturating_add);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Derived scripts, and the threads that derive them.
pub(crate) struct DerivationCache {
    batches: Cache<BatchKey, Arc<[DerivedScript]>, BatchWeight>,
    pool: BlockingPool,
}

impl DerivationCache {
    /// A cache of about so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let typical = usize::try_from(bytes / TYPICAL).unwrap_or(usize::MAX).max(1);
        Self { batches: Cache::with_weighter(typical, bytes, BatchWeight), pool: BlockingPool::default() }
    }

    /// The descriptor that a text stands for. The outer error is a fault of the server.
    pub(crate) async fn parse(
        &self,
        text: String,
        network: Network,
    ) -> Result<Result<OutputDescriptor, DescriptorError>, ApiError> {
        if text.len() <= SHORT {
            return Ok(OutputDescriptor::parse(&text, network));
        }
        self.pool.run(move || Ok(OutputDescriptor::parse(&text, network))).await
    }

    /// The scripts of a branch from index [`DERIVED_TOGETHER`] times `batch` on, up to the end of the batch or the last index that
    /// there is. A descriptor that is not ranged has one script.
    pub(crate) async fn batch(
        &self,
        descriptor: &Arc<OutputDescriptor>,
        branch: usize,
        batch: u32,
        network: Network,
    ) -> Result<Arc<[DerivedScript]>, ApiError> {
        let key = (sha256::Hash::hash(descriptor.text().as_bytes()), branch, batch);
        if let Some(found) = self.batches.get(&key) {
            return Ok(found);
        }
        let descriptor = Arc::clone(descriptor);
        let derived = self
            .pool
            .run(move || {
                let deriver = descriptor.branch(branch).map_err(|error| ApiError::internal(&error.to_string()))?;
                let first = batch.saturating_mul(DERIVED_TOGETHER);
                let end =
                    if descriptor.is_ranged() { first.saturating_add(DERIVED_TOGETHER).min(INDEX_END) } else { 1 };
                let scripts = (first..end).map(|index| {
                    let script = deriver.script(index).map_err(|error| ApiError::internal(&error.to_string()))?;
                    Ok(DerivedScript::new(script, network))
                });
                scripts.collect::<Result<Arc<[DerivedScript]>, ApiError>>()
            })
            .await?;
        self.batches.insert(key, Arc::clone(&derived));
        Ok(derived)
    }
}
