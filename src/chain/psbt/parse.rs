//! From a text to a PSBT.

use bitcoin::consensus::encode;
use bitcoin::psbt::Error;
use bitcoin::{Amount, OutPoint, Psbt};

use super::off_curve::OnCurve;
use super::text::decode;
use crate::chain::impossible_outpoint;
use crate::chain::reason::shortened;

/// Why a text is not a PSBT of version 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PsbtError {
    /// There is no text.
    #[error("the PSBT is empty")]
    Empty,
    /// Neither base64 nor hexadecimal digits.
    #[error("the text is neither base64 nor hexadecimal digits: {reason}")]
    Encoding {
        /// What is wrong with it.
        reason: String,
        /// The first wrong character, from 0, if it is known.
        position: Option<usize>,
    },
    /// Bytes that do not begin as a PSBT.
    #[error("the text is no PSBT: its bytes do not begin with \"psbt\" and 0xff")]
    Magic,
    /// A PSBT of another version.
    #[error("only PSBTs of version 0 (BIP174) are supported, and this one has another version; version 2 is BIP370")]
    Version,
    /// A key that occurs twice in one map.
    #[error("the PSBT has a key twice: {key}")]
    RepeatedKey {
        /// Its type and content.
        key: String,
    },
    /// Bytes after the last map.
    #[error("the PSBT has {bytes} bytes more than its inputs and outputs need")]
    TrailingBytes {
        /// How many.
        bytes: usize,
    },
    /// More coins than there can be.
    #[error("the outputs of the PSBT exceed the coin supply")]
    OutputValue,
    /// An input of the unsigned transaction that spends an output which no transaction can have.
    #[error("the PSBT spends {outpoint}, and no output has an index above {}", i32::MAX)]
    Outpoint {
        /// The output.
        outpoint: OutPoint,
    },
    /// The bytes end within the PSBT.
    #[error("the PSBT ends early, after {bytes} bytes: it is cut, or a length in it is too large")]
    UnexpectedEnd {
        /// How many there are.
        bytes: usize,
    },
    /// Anything else that is wrong with the bytes.
    #[error("the PSBT is malformed in front of byte {end} (counted from 0): {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
        /// How many bytes were read: the entry that is wrong is the last of these.
        end: usize,
    },
}

impl PsbtError {
    /// The first wrong character of the text, from 0, if it is known.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        if let Self::Encoding { position, .. } = self { *position } else { None }
    }
}

/// The PSBT that a text stands for: base64 or hexadecimal digits, white space not counted. Returns its bytes, too.
pub fn parse_psbt(text: &str) -> Result<(Psbt, Vec<u8>), PsbtError> {
    let bytes = decode(text)?;
    let psbt = match OnCurve::of(&bytes) {
        None => read(&bytes, |position| position)?,
        Some(on_curve) => {
            let mut psbt = read(&on_curve.bytes, |position| on_curve.position(position))?;
            on_curve.return_to(&mut psbt).map_err(|key| PsbtError::RepeatedKey { key: shortened(&key) })?;
            psbt
        }
    };
    let paid = psbt.unsigned_tx.output.iter().try_fold(Amount::ZERO, |sum, output| sum.checked_add(output.value));
    if paid.is_none_or(|paid| paid > Amount::MAX_MONEY) {
        return Err(PsbtError::OutputValue);
    }
    if let Some(outpoint) = impossible_outpoint(&psbt.unsigned_tx) {
        return Err(PsbtError::Outpoint { outpoint });
    }
    Ok((psbt, bytes))
}

/// The PSBT of these bytes; `position` says where a number of them ends in all.
fn read(bytes: &[u8], position: impl Fn(usize) -> usize) -> Result<Psbt, PsbtError> {
    let mut rest = bytes;
    let parsed = Psbt::deserialize_from_reader(&mut rest);
    let end = bytes.len().saturating_sub(rest.len());
    let psbt = parsed.map_err(|error| refusal(&error, position(end), rest.is_empty()))?;
    if rest.is_empty() { Ok(psbt) } else { Err(PsbtError::TrailingBytes { bytes: rest.len() }) }
}

/// What is wrong with the first `end` bytes, of which there are no more if `is_all`.
fn refusal(error: &Error, end: usize, is_all: bool) -> PsbtError {
    match error {
        Error::InvalidMagic | Error::InvalidSeparator => PsbtError::Magic,
        Error::Version(_) => PsbtError::Version,
        Error::DuplicateKey(key) => PsbtError::RepeatedKey { key: shortened(key) },
        Error::Io(_) | Error::ConsensusEncoding(encode::Error::Io(_)) if is_all => {
            PsbtError::UnexpectedEnd { bytes: end }
        }
        error => PsbtError::Malformed { reason: reason(error), end },
    }
}

/// The library's reason, but for those that do not say what is wrong.
fn reason(error: &Error) -> String {
    match error {
        Error::Io(_) | Error::ConsensusEncoding(encode::Error::Io(_)) => "a value ends early".to_owned(),
        Error::ConsensusEncoding(error) => shortened(error),
        error => shortened(error),
    }
}
