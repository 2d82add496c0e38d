//! Real blocks for tests.

#[cfg(test)]
pub(in crate::chain) mod real_blocks;
#[cfg(test)]
pub(in crate::chain) mod shared_data;
