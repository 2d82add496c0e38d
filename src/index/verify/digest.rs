//! Digests of tables.

use bitcoin::hashes::{Hash, HashEngine, sha256};

/// SHA-256 over rows as they are read.
#[derive(Default)]
pub(super) struct Digest {
    engine: sha256::HashEngine,
    pub(super) rows: u64,
}

impl Digest {
    pub(super) fn row(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.engine.input(key);
        self.engine.input(value);
    }

    pub(super) fn finish(self) -> sha256::Hash {
        sha256::Hash::from_engine(self.engine)
    }
}
