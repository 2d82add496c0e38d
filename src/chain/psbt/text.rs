//! The bytes of a PSBT that is given as a text, and where the text is wrong.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use bitcoin::hex::FromHex;

use super::error::PsbtError;

/// What every PSBT begins with, in hexadecimal digits.
const MAGIC: &str = "70736274ff";

/// The bytes of a text of base64 or hexadecimal digits, white space not counted.
///
/// Errors: [`PsbtError::Empty`], [`PsbtError::Encoding`].
pub(super) fn decode(text: &str) -> Result<Vec<u8>, PsbtError> {
    let (places, text): (Vec<usize>, String) =
        text.chars().enumerate().filter(|(_, letter)| !letter.is_whitespace()).unzip();
    if text.is_empty() {
        return Err(PsbtError::Empty);
    }
    if !text.get(..MAGIC.len()).is_some_and(|magic| magic.eq_ignore_ascii_case(MAGIC)) {
        return STANDARD.decode(&text).map_err(|error| base64_fault(&text, &places, &error));
    }
    match text.chars().zip(places).find(|(letter, _)| !letter.is_ascii_hexdigit()) {
        Some((letter, at)) => Err(misplaced(letter, at)),
        None => Vec::from_hex(&text).map_err(|_| fault("it has an odd number of digits", None)),
    }
}

/// What is wrong with a text without white space as base64, whose letters have these places in the text with it.
fn base64_fault(text: &str, places: &[usize], error: &DecodeError) -> PsbtError {
    let letters = || text.char_indices().zip(places);
    // an error counts bytes, and its byte may be within a letter
    let letter_with = |byte: usize| letters().take_while(|((begin, _), _)| *begin <= byte).last();
    match error {
        DecodeError::InvalidByte(at, _) => {
            // which need not be the first wrong one
            let is_foreign = |letter: char| !(letter.is_ascii_alphanumeric() || ['+', '/'].contains(&letter));
            let padding = text.trim_end_matches('=').len();
            let first = letters().find(|((begin, letter), _)| *begin < padding && is_foreign(*letter));
            match first.or_else(|| letter_with(*at)) {
                Some(((_, letter), place)) => misplaced(letter, *place),
                None => fault("it is cut", None),
            }
        }
        DecodeError::InvalidLastSymbol(at, _) => {
            fault("it is cut, the last letter stands for less than a byte", letter_with(*at).map(|(_, place)| *place))
        }
        DecodeError::InvalidLength(_) => fault("it is cut, a single letter is left of the last four", None),
        DecodeError::InvalidPadding => fault("it does not end with as many = as fill up the last four letters", None),
    }
}

fn misplaced(letter: char, at: usize) -> PsbtError {
    fault(&format!("{letter:?} does not belong there"), Some(at))
}

fn fault(what: &str, position: Option<usize>) -> PsbtError {
    let reason = match position {
        Some(at) => format!("{what}, at position {at} (counted from 0)"),
        None => what.to_owned(),
    };
    PsbtError::Encoding { reason, position }
}
