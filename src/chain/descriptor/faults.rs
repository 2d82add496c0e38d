//! What is wrong in a text that the library refuses, where its reason does not say which argument is meant.
//!
//! ```text
//!   wsh(multi(2,KEY,02ff))     argument 2 of multi, at position 13, is no key
//!   wpkh(KEY,KEY)              wpkh has one argument
//!   wsh(wpkh(KEY))             wpkh does not stand in wsh
//! ```

use std::str::FromStr;

use miniscript::descriptor::DescriptorPublicKey;

use super::error::DescriptorError;
use crate::chain::reason::shortened;

/// How much of an argument is quoted, in characters.
const SHOWN: usize = 40;

/// Expressions with one argument, a key.
const OF_KEY: [&str; 7] = ["pk", "pkh", "wpkh", "pk_k", "pk_h", "combo", "rawtr"];
/// Expressions with a number and then keys.
const OF_KEYS: [&str; 4] = ["multi", "sortedmulti", "multi_a", "sortedmulti_a"];
/// Expressions with one argument, an expression.
const OF_SCRIPT: [&str; 2] = ["sh", "wsh"];
/// Expressions with one argument, a hash, and its digits.
const OF_HASH: [(&str, usize); 4] = [("sha256", 64), ("hash256", 64), ("ripemd160", 40), ("hash160", 40)];
/// Expressions that stand within these others only; at the top, all do.
const WITHIN: [(&str, &[&str]); 7] =
    [("wsh", &["sh"]), ("wpkh", &["sh"]), ("sh", &[]), ("tr", &[]), ("rawtr", &[]), ("combo", &[]), ("addr", &[])];

/// An expression whose arguments are read.
struct OpenExpression<'t> {
    name: &'t str,
    /// The number of its arguments so far.
    arguments: usize,
}

/// The first argument of a descriptor, or expression in it, that cannot be what it is.
pub(super) fn first_fault(body: &str) -> Option<DescriptorError> {
    let mut open: Vec<OpenExpression<'_>> = Vec::new();
    let (mut begin, mut is_leaf) = (0, true);
    for (position, character) in body.char_indices() {
        match character {
            '(' | '{' => {
                let name = body[begin..position].rsplit(':').next().unwrap_or_default();
                if let Some(fault) = misplaced(name, open.last(), begin) {
                    return Some(fault);
                }
                open.push(OpenExpression { name, arguments: 0 });
                is_leaf = true;
            }
            ',' | ')' | '}' => {
                let inner = open.last_mut()?;
                let argument = if is_leaf { Some(&body[begin..position]) } else { None };
                if let Some(fault) = wrong_argument(inner, argument, begin) {
                    return Some(fault);
                }
                inner.arguments += 1;
                is_leaf = character == ',';
                if !is_leaf {
                    open.pop();
                }
            }
            _ => continue,
        }
        begin = position + character.len_utf8();
    }
    None
}

/// The fault of an expression that does not stand in the one around it.
fn misplaced(name: &str, around: Option<&OpenExpression<'_>>, position: usize) -> Option<DescriptorError> {
    let around = around?.name;
    let (_, within) = WITHIN.iter().find(|(known, _)| *known == name)?;
    if within.contains(&around) {
        return None;
    }
    let places = if within.is_empty() { String::new() } else { format!(" or in {}", within.join(", ")) };
    Some(malformed(format!("{name} stands at the beginning{places} only, and here it is in {around}"), position))
}

/// The fault of an argument: its text, `None` for an expression.
fn wrong_argument(inner: &OpenExpression<'_>, argument: Option<&str>, position: usize) -> Option<DescriptorError> {
    let OpenExpression { name, arguments } = *inner;
    let has_one = OF_KEY.contains(&name) || OF_SCRIPT.contains(&name) || OF_HASH.iter().any(|(hash, _)| *hash == name);
    if has_one && arguments > 0 {
        return Some(malformed(format!("{name} has one argument"), position));
    }
    if name == "tr" && arguments > 1 {
        return Some(malformed("tr has a key and at most one tree as its arguments".to_owned(), position));
    }
    let argument = argument?;
    if argument.is_empty() {
        let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
        return Some(malformed(format!("an argument{of} is empty"), position));
    }
    if let Some((_, digits)) = OF_HASH.iter().find(|(hash, _)| *hash == name) {
        let is_hash = argument.len() == *digits && argument.bytes().all(|digit| digit.is_ascii_hexdigit());
        let fault = || format!("{name} takes {digits} hexadecimal digits, and this is {}", shown(argument));
        return (!is_hash).then(|| malformed(fault(), position));
    }
    let is_key =
        OF_KEY.contains(&name) || (name == "tr" && arguments == 0) || (OF_KEYS.contains(&name) && arguments > 0);
    let error = DescriptorPublicKey::from_str(argument).err().filter(|_| is_key)?;
    let reason = match shortened(&error).as_str() {
        // what the library says of points that are not on the curve
        "string error" | "malformed public key" => "it is mistyped, cut, or no point of the curve".to_owned(),
        reason => reason.to_owned(),
    };
    Some(DescriptorError::KeyAt { key: shown(argument), position, reason })
}

fn malformed(reason: String, position: usize) -> DescriptorError {
    DescriptorError::Malformed { reason, position: Some(position) }
}

/// The beginning of an argument in quotes.
fn shown(argument: &str) -> String {
    let mut letters = argument.chars();
    let beginning: String = letters.by_ref().take(SHOWN).collect();
    if letters.next().is_some() { format!("{beginning:?}…") } else { format!("{beginning:?}") }
}
