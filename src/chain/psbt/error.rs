//! Why a text is not a PSBT.

use bitcoin::OutPoint;

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
