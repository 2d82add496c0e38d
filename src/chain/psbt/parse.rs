//! From a text to a PSBT.

use bitcoin::consensus::encode;
use bitcoin::psbt::Error;
use bitcoin::{Amount, Psbt};

use super::error::PsbtError;
use super::off_curve::OnCurve;
use super::text::decode;
use crate::chain::impossible_outpoint;
use crate::chain::reason::shortened;

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
