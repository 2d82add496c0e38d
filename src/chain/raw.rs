//! Slices blocks and transactions out of their serialised bytes. Nothing is copied, and a field is decoded on request.
//!
//! [`RawTransaction::parse`] checks everything once; the iterators over inputs, outputs and witnesses then read bytes
//! whose structure is known. Rules: the network serialisation of Bitcoin Core (`primitives/transaction.h`,
//! `serialize.h`) and BIP144.

use std::ops::Range;

use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{Txid, Wtxid};

/// Serialised size of a block header in bytes.
pub const HEADER_SIZE: usize = 80;
/// Serialised size of a block at most, in bytes (Core: `MAX_BLOCK_SERIALIZED_SIZE` in `consensus/consensus.h`).
pub const MAX_BLOCK_SIZE: u32 = 4_000_000;

/// Why bytes are not a transaction or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawError {
    /// The bytes end inside a field.
    #[error("the bytes end early, within the field that begins at offset {offset}")]
    UnexpectedEnd {
        /// Where the field that is cut off begins, in bytes.
        offset: usize,
    },
    /// A CompactSize uses more bytes than it needs (Core: "non-canonical ReadCompactSize()").
    #[error("the length at offset {offset} is not written in its shortest form")]
    NonCanonicalLength {
        /// Where the length begins, in bytes.
        offset: usize,
    },
    /// The byte after the segwit marker is not 1 (BIP144), or a transaction without inputs.
    #[error("there is no input, or the marker of witnesses at offset {offset} has not the flag 1 behind it")]
    UnknownFormat {
        /// Where the marker begins, in bytes.
        offset: usize,
    },
    /// Witness flag without any witness (Core: "Superfluous witness record").
    #[error("a witness is announced, but every witness is empty")]
    SuperfluousWitness,
    /// Bytes are left over behind the last transaction.
    #[error("{count} bytes are left over at the end")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
}

/// Reads bytes from front to back.
#[derive(Clone, Debug)]
struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], RawError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(RawError::UnexpectedEnd { offset: self.at })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], RawError> {
        let offset = self.at;
        self.take(N)?.first_chunk().ok_or(RawError::UnexpectedEnd { offset })
    }

    fn u32(&mut self) -> Result<u32, RawError> {
        self.array().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Result<u64, RawError> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn compact_size(&mut self) -> Result<u64, RawError> {
        let offset = self.at;
        let (value, least) = match self.array::<1>()?[0] {
            0xfd => (u64::from(u16::from_le_bytes(*self.array()?)), 0xfd),
            0xfe => (u64::from(self.u32()?), 0x1_0000),
            0xff => (self.u64()?, 0x1_0000_0000),
            small => return Ok(u64::from(small)),
        };
        if value < least { Err(RawError::NonCanonicalLength { offset }) } else { Ok(value) }
    }

    /// A length, which at least as many bytes must follow, so that it fits `usize` and no loop runs far past the end.
    fn length(&mut self) -> Result<usize, RawError> {
        let offset = self.at;
        let length = usize::try_from(self.compact_size()?).ok();
        length.filter(|length| *length <= self.bytes.len() - self.at).ok_or(RawError::UnexpectedEnd { offset })
    }

    fn var_bytes(&mut self) -> Result<&'a [u8], RawError> {
        let length = self.length()?;
        self.take(length)
    }
}

/// One input as serialised.
#[derive(Clone, Copy, Debug)]
pub struct RawInput<'a> {
    /// The txid of the outpoint, in internal byte order; all zero for a coinbase.
    pub txid: &'a [u8; 32],
    /// The output number of the outpoint; `0xffff_ffff` for a coinbase.
    pub vout: u32,
    /// The scriptSig.
    pub script_sig: &'a [u8],
    /// The sequence number.
    pub sequence: u32,
}

impl RawInput<'_> {
    /// The txid of the outpoint.
    #[must_use]
    pub fn outpoint_txid(&self) -> Txid {
        Txid::from_byte_array(*self.txid)
    }

    /// Whether this is the one input of a coinbase (Core: `COutPoint::IsNull`).
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.vout == u32::MAX && *self.txid == [0; 32]
    }
}

/// One output as serialised.
#[derive(Clone, Copy, Debug)]
pub struct RawOutput<'a> {
    /// The amount in sat.
    pub value: u64,
    /// The scriptPubKey.
    pub script_pubkey: &'a [u8],
}

/// A transaction in its serialised form, with the offsets of its parts.
#[derive(Clone, Copy, Debug)]
pub struct RawTransaction<'a> {
    bytes: &'a [u8],
    has_witness: bool,
    inputs_at: usize,
    input_count: usize,
    outputs_at: usize,
    output_count: usize,
    outputs_end: usize,
}

impl<'a> RawTransaction<'a> {
    /// Parses the transaction at the start of `bytes`, which other bytes may follow.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RawError> {
        let mut reader = ByteReader { bytes, at: 0 };
        reader.take(4)?; // version
        let has_witness = bytes.get(4) == Some(&0);
        if has_witness && *reader.array::<2>()? != [0, 1] {
            return Err(RawError::UnknownFormat { offset: 4 });
        }
        let inputs_offset = reader.at;
        let input_count = reader.length()?;
        if input_count == 0 {
            return Err(RawError::UnknownFormat { offset: inputs_offset });
        }
        let inputs_at = reader.at;
        for _ in 0..input_count {
            reader.take(36)?;
            reader.var_bytes()?;
            reader.take(4)?;
        }
        let output_count = reader.length()?;
        let outputs_at = reader.at;
        for _ in 0..output_count {
            reader.take(8)?;
            reader.var_bytes()?;
        }
        let outputs_end = reader.at;
        if has_witness {
            let mut any = false;
            for _ in 0..input_count {
                let items = reader.length()?;
                any |= items > 0;
                for _ in 0..items {
                    reader.var_bytes()?;
                }
            }
            if !any {
                return Err(RawError::SuperfluousWitness);
            }
        }
        reader.take(4)?; // locktime
        let bytes = &bytes[..reader.at];
        Ok(Self { bytes, has_witness, inputs_at, input_count, outputs_at, output_count, outputs_end })
    }

    /// Parses `bytes` as one transaction, to the last byte.
    pub fn parse_whole(bytes: &'a [u8]) -> Result<Self, RawError> {
        let transaction = Self::parse(bytes)?;
        match bytes.len() - transaction.bytes.len() {
            0 => Ok(transaction),
            count => Err(RawError::TrailingBytes { count }),
        }
    }

    /// The serialised transaction, witness included.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether any input has a witness (BIP144).
    #[must_use]
    pub fn has_witness(&self) -> bool {
        self.has_witness
    }

    /// The version field; Core reads it as unsigned since version 28.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// The locktime field.
    #[must_use]
    pub fn lock_time(&self) -> u32 {
        self.bytes.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Bytes, witness included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes without marker, flag and witness.
    #[must_use]
    pub fn stripped_size(&self) -> usize {
        if self.has_witness { self.outputs_end - 2 + 4 } else { self.bytes.len() }
    }

    /// Weight units: three times the stripped size plus the size (BIP141).
    #[must_use]
    pub fn weight(&self) -> usize {
        3 * self.stripped_size() + self.size()
    }

    /// Double SHA-256 of the serialisation without witness.
    #[must_use]
    pub fn txid(&self) -> Txid {
        if !self.has_witness {
            return Txid::from_raw_hash(sha256d::Hash::hash(self.bytes));
        }
        let mut engine = sha256d::Hash::engine();
        engine.input(&self.bytes[..4]);
        engine.input(&self.bytes[6..self.outputs_end]);
        engine.input(&self.bytes[self.bytes.len() - 4..]);
        Txid::from_raw_hash(sha256d::Hash::from_engine(engine))
    }

    /// Double SHA-256 of the whole serialisation (BIP141; the coinbase counts as zero only inside the witness tree).
    #[must_use]
    pub fn wtxid(&self) -> Wtxid {
        Wtxid::from_raw_hash(sha256d::Hash::hash(self.bytes))
    }

    /// Whether this is a coinbase: one input with the null outpoint.
    #[must_use]
    pub fn is_coinbase(&self) -> bool {
        self.input_count == 1 && self.inputs().next().is_some_and(|input| input.is_null())
    }

    /// How many inputs there are, at least one.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.input_count
    }

    /// How many outputs there are.
    #[must_use]
    pub fn output_count(&self) -> usize {
        self.output_count
    }

    /// The inputs in order.
    pub fn inputs(&self) -> impl Iterator<Item = RawInput<'a>> + use<'a> {
        let mut reader = ByteReader { bytes: self.bytes, at: self.inputs_at };
        (0..self.input_count).map_while(move |_| {
            let txid = reader.array().ok()?;
            let vout = reader.u32().ok()?;
            let script_sig = reader.var_bytes().ok()?;
            let sequence = reader.u32().ok()?;
            Some(RawInput { txid, vout, script_sig, sequence })
        })
    }

    /// The outputs in order.
    pub fn outputs(&self) -> impl Iterator<Item = RawOutput<'a>> + use<'a> {
        let bytes = self.bytes;
        self.output_places()
            .map_while(move |(value, script)| Some(RawOutput { value, script_pubkey: bytes.get(script)? }))
    }

    /// The amount in sat of each output, and where in the serialisation its scriptPubKey is.
    pub fn output_places(&self) -> impl Iterator<Item = (u64, Range<usize>)> + use<'a> {
        let mut reader = ByteReader { bytes: self.bytes, at: self.outputs_at };
        (0..self.output_count).map_while(move |_| {
            let value = reader.u64().ok()?;
            let length = reader.var_bytes().ok()?.len();
            Some((value, reader.at - length..reader.at))
        })
    }

    /// The output with this number, if there is one.
    #[must_use]
    pub fn output(&self, vout: u32) -> Option<RawOutput<'a>> {
        self.outputs().nth(usize::try_from(vout).ok()?)
    }

    /// The witness stacks, one for each input in order; none at all for a transaction without witness.
    pub fn witnesses(&self) -> impl Iterator<Item = Vec<&'a [u8]>> + use<'a> {
        let mut reader = ByteReader { bytes: self.bytes, at: self.outputs_end };
        let count = if self.has_witness { self.input_count } else { 0 };
        (0..count).map_while(move |_| {
            let items = reader.length().ok()?;
            (0..items).map(|_| reader.var_bytes().ok()).collect()
        })
    }
}

/// The scriptSig of the first input of a transaction, `None` if the bytes end before it or there is no input.
#[must_use]
pub fn first_script_sig(transaction: &[u8]) -> Option<&[u8]> {
    // behind the version, and the marker and flag of witnesses (BIP144)
    let at = if transaction.get(4) == Some(&0) { 6 } else { 4 };
    let mut reader = ByteReader { bytes: transaction, at: at.min(transaction.len()) };
    let input_count = reader.length().ok()?;
    reader.take(36).ok().filter(|_| input_count > 0)?;
    reader.var_bytes().ok()
}

/// A block in its serialised form: its header and its transactions.
#[derive(Clone, Debug)]
pub struct RawBlock<'a> {
    /// The 80 bytes of the header.
    pub header: &'a [u8; HEADER_SIZE],
    /// The transactions in order, at least one.
    pub transactions: Vec<RawTransaction<'a>>,
    /// Bytes of header and transaction count.
    pub frame_size: usize,
}

impl<'a> RawBlock<'a> {
    /// The number of transactions that the head of a block states.
    ///
    /// Errors: the bytes end before it.
    pub fn transaction_count(bytes: &[u8]) -> Result<u64, RawError> {
        let mut reader = ByteReader { bytes, at: 0 };
        reader.take(HEADER_SIZE)?;
        reader.compact_size()
    }

    /// The first transaction of a block. What is behind it is not read, and need not be there.
    ///
    /// Errors: the bytes end before it does, or are no transaction; the head of the block states that it has none.
    pub fn coinbase(bytes: &'a [u8]) -> Result<RawTransaction<'a>, RawError> {
        let mut reader = ByteReader { bytes, at: 0 };
        reader.take(HEADER_SIZE)?;
        let count_at = reader.at;
        if reader.compact_size()? == 0 {
            return Err(RawError::UnknownFormat { offset: count_at });
        }
        let start = reader.at;
        RawTransaction::parse(&bytes[start..]).map_err(|error| error.moved_by(start))
    }

    /// Parses `bytes` as one block, to the last byte.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RawError> {
        let mut reader = ByteReader { bytes, at: 0 };
        let header = reader.array()?;
        let count_at = reader.at;
        let count = reader.length()?;
        if count == 0 {
            return Err(RawError::UnknownFormat { offset: count_at });
        }
        let frame_size = reader.at;
        // a transaction has at least 51 bytes, so a false count allocates little
        let mut transactions = Vec::with_capacity(count.min(bytes.len() / 51 + 1));
        for _ in 0..count {
            let start = reader.at;
            let transaction = RawTransaction::parse(&bytes[start..]).map_err(|error| error.moved_by(start))?;
            reader.take(transaction.size())?;
            transactions.push(transaction);
        }
        match bytes.len() - reader.at {
            0 => Ok(Self { header, transactions, frame_size }),
            count => Err(RawError::TrailingBytes { count }),
        }
    }
}

impl RawError {
    /// Moves the offset of this error by the position of the slice in the bytes around it.
    fn moved_by(self, start: usize) -> Self {
        match self {
            Self::UnexpectedEnd { offset } => Self::UnexpectedEnd { offset: offset + start },
            Self::NonCanonicalLength { offset } => Self::NonCanonicalLength { offset: offset + start },
            Self::UnknownFormat { offset } => Self::UnknownFormat { offset: offset + start },
            Self::SuperfluousWitness | Self::TrailingBytes { .. } => self,
        }
    }
}

/// The transactions of a block, one behind the other.
///
/// Errors: the bytes are not so many transactions.
pub fn split_transactions(count: usize, mut bytes: &[u8]) -> Result<Vec<RawTransaction<'_>>, RawError> {
    let mut transactions = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        let transaction = RawTransaction::parse(bytes)?;
        bytes = bytes.get(transaction.size()..).unwrap_or_default();
        transactions.push(transaction);
    }
    Ok(transactions)
}

#[cfg(test)]
mod tests;
