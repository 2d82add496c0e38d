//! What the rows of a transaction in the optional tables depend on beside its bytes.

use bitcoin::Network;

use super::super::keys::Salt;

/// What the rows of a transaction depend on beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct RowContext {
    pub(in crate::index) salt: Salt,
    pub(in crate::index) network: Network,
}
