//! Fixed-width fields of row values, in order, big-endian.

use super::error::IndexError;

/// Appends fields to a row.
#[derive(Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the fields of a row in order. A row that is too short or too long is [`IndexError::Corrupt`].
pub(super) struct Decoder<'a> {
    table: &'static str,
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(table: &'static str, bytes: &'a [u8]) -> Self {
        Self { table, bytes }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let (field, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.corrupt("is too short"))?;
        self.bytes = rest;
        Ok(*field)
    }

    pub(super) fn u8(&mut self) -> Result<u8, IndexError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, IndexError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn u128(&mut self) -> Result<u128, IndexError> {
        self.array().map(u128::from_be_bytes)
    }

    /// The remaining bytes.
    pub(super) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Ends the row; remaining bytes are an error.
    pub(super) fn finish(self) -> Result<(), IndexError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.corrupt("is too long")) }
    }

    pub(super) fn corrupt(&self, what: &str) -> IndexError {
        IndexError::corrupt(self.table, format!("a row {what}"))
    }
}
