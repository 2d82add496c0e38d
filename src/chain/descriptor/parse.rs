//! From a text to a descriptor.

use std::str::FromStr;

use bitcoin::{Network, NetworkKind, ScriptBuf};
use miniscript::descriptor::checksum::{Engine, Error as ChecksumError, verify_checksum};
use miniscript::descriptor::{DescriptorPublicKey, Tr, Wildcard, XKeyNetwork};
use miniscript::{Descriptor, Error, ForEachKey, ParseError, ParseThresholdError, ParseTreeError};

use super::account_key::{account_descriptor, account_key_inside};
use super::derive::{DescriptorForm, OutputDescriptor, ScriptVariant};
use super::error::DescriptorError;
use super::faults::first_fault;
use super::safety::check_safety;
use super::tap_leaves;
use crate::chain::address::{address_of, parse_address};
use crate::chain::reason::shortened;
use crate::chain::secrets::hidden;

/// The longest text that is parsed, in bytes: enough for 20 extended keys with their origins.
pub const LONGEST_DESCRIPTOR: usize = 10_000;

/// The most paths of a multipath step.
pub const MOST_BRANCHES: usize = 16;

/// The most derivation steps of all keys on all branches together: what it takes to derive the parents of all scripts.
const MOST_STEPS: usize = 2_000;

/// The forms of descriptors at the top level, but for `addr` and `raw`.
const FORMS: [&str; 7] = ["pk", "pkh", "wpkh", "sh", "wsh", "tr", "multi"];

/// The forms that `sh` takes: Miniscript stands in `wsh` and `tr` only (BIP379), though the library takes it here too.
const FORMS_IN_SH: [&str; 6] = ["pk", "pkh", "wpkh", "wsh", "multi", "sortedmulti"];

/// What begins a key that several signers have together (BIP390), whose derivation the library does not have.
const MUSIG: &str = "musig(";

/// Forms that are parsed as another form with the same arguments, and how scripts of that become theirs.
const VARIANTS: [(&str, &str, ScriptVariant); 2] =
    [("rawtr", "tr", ScriptVariant::RawTaproot), ("sortedmulti", "multi", ScriptVariant::SortedMultisig)];

impl OutputDescriptor {
    /// The descriptor that a text stands for on a network: a descriptor with or without its checksum, or an extended public
    /// key alone, which stands for the receive and change chains of its account.
    ///
    /// Errors: the first of what is wrong, private keys before all else.
    pub fn parse(text: &str, network: Network) -> Result<Self, DescriptorError> {
        if text.len() > LONGEST_DESCRIPTOR {
            return Err(DescriptorError::TooLong { length: text.len(), longest: LONGEST_DESCRIPTOR });
        }
        if text.is_empty() {
            return Err(DescriptorError::Empty);
        }
        if matches!(hidden(text), std::borrow::Cow::Owned(_)) {
            return Err(DescriptorError::PrivateKey);
        }
        if let Some((position, character)) = text.chars().enumerate().find(|(_, letter)| letter.is_whitespace()) {
            return Err(DescriptorError::Space { character, position });
        }
        let body = without_checksum(text)?;
        let Some((name, _)) = body.split_once('(') else {
            return Self::of_keys(&account_descriptor(body)?, network);
        };
        match name {
            "addr" => {
                let script = parse_address(inside(body)?, network)?;
                let text = address_of(&script, network).unwrap_or_default();
                Ok(Self::of_script(&format!("addr({text})"), script))
            }
            "raw" => {
                let script = ScriptBuf::from_hex(inside(body)?).ok().filter(|script| !script.is_empty());
                let script = script.ok_or(DescriptorError::RawScript)?;
                Ok(Self::of_script(&format!("raw({})", script.to_hex_string()), script))
            }
            name if FORMS.contains(&name) => {
                refuse_account_keys(body)?;
                if body.contains(MUSIG) {
                    return Err(DescriptorError::Unsupported { name: "musig".to_owned() });
                }
                check_argument_of_sh(body)?;
                if body.contains(tap_leaves::SORTED) {
                    Self::of_sorted_leaves(body, network)
                } else {
                    Self::of_keys(body, network)
                }
            }
            "combo" => {
                refuse_account_keys(body)?;
                Self::of_combo(inside(body)?, network)
            }
            name if VARIANTS.iter().any(|(variant, ..)| *variant == name) => {
                refuse_account_keys(body)?;
                Self::of_variant(name, body, network)
            }
            "" => {
                let reason = "a bracket opens without a name in front of it".to_owned();
                Err(DescriptorError::Malformed { reason, position: Some(0) })
            }
            name => Err(DescriptorError::Unsupported { name: name.chars().take(20).collect() }),
        }
    }

    fn of_script(body: &str, script: ScriptBuf) -> Self {
        Self::new(with_checksum(body), DescriptorForm::Script(script), 1)
    }

    pub(super) fn of_keys(body: &str, network: Network) -> Result<Self, DescriptorError> {
        let descriptor = read(body).map_err(|error| first_fault(body).unwrap_or_else(|| refusal(&error)))?;
        let branches = check_keys(&descriptor, network)?;
        check_safety(&descriptor).map_err(|error| refusal(&error))?;
        // BIP380 allows both ' and h for hardened steps, which stand in key origins only
        let body = format!("{descriptor:#}").replace('\'', "h");
        let form = DescriptorForm::Keys(Box::new(descriptor), ScriptVariant::None);
        Ok(Self::new(with_checksum(&body), form, branches))
    }

    /// A descriptor of a form that the library does not have.
    fn of_variant(name: &str, body: &str, network: Network) -> Result<Self, DescriptorError> {
        let unsupported = || DescriptorError::Unsupported { name: name.to_owned() };
        let (_, base, variant) = VARIANTS.iter().find(|(found, ..)| *found == name).ok_or_else(unsupported)?;
        let arguments = body.strip_prefix(name).ok_or_else(unsupported)?;
        let shift = name.len().saturating_sub(base.len());
        let parsed = Self::of_keys(&format!("{base}{arguments}"), network).map_err(|error| error.moved_by(shift))?;
        let text = parsed.text().split('#').next().and_then(|text| text.strip_prefix(base)).ok_or_else(unsupported)?;
        let text = with_checksum(&format!("{name}{text}"));
        match parsed.into_keys() {
            // rawtr is one key and no tree
            Some((descriptor, branches)) if *variant != ScriptVariant::RawTaproot || !has_tree(&descriptor) => {
                Ok(Self::new(text, DescriptorForm::Keys(descriptor, variant.clone()), branches))
            }
            _ => {
                let reason = format!("{name} has one key as its argument");
                Err(DescriptorError::Malformed { reason, position: None })
            }
        }
    }

    /// A `tr` with leaves of `sortedmulti_a`, which are parsed as `multi_a`.
    fn of_sorted_leaves(body: &str, network: Network) -> Result<Self, DescriptorError> {
        let (unsorted, sorted) = tap_leaves::unsorted(body)?;
        // a position behind the first of the names that were shortened would be wrong
        let parsed = Self::of_keys(&unsorted, network).map_err(|error| match error {
            DescriptorError::Malformed { reason, .. } => DescriptorError::Malformed { reason, position: None },
            DescriptorError::KeyAt { key, reason, .. } => {
                DescriptorError::Key { reason: format!("{key} is none: {reason}") }
            }
            error => error,
        })?;
        let text = tap_leaves::with_sorted(parsed.text().split('#').next().unwrap_or_default(), &sorted);
        let lost =
            || DescriptorError::Malformed { reason: "sortedmulti_a stands in tr only".to_owned(), position: None };
        let (descriptor, branches) = parsed.into_keys().ok_or_else(lost)?;
        let form = DescriptorForm::Keys(descriptor, ScriptVariant::SortedLeaves(sorted));
        Ok(Self::new(with_checksum(&text), form, branches))
    }
}

/// The descriptor of a text, before it is known whether it is safe.
fn read(body: &str) -> Result<Descriptor<DescriptorPublicKey>, Error> {
    // the library checks the safety of a `tr` here already, by other rules than ours
    if body.starts_with("tr(") { Tr::from_str(body).map(Descriptor::Tr) } else { Descriptor::from_str(body) }
}

/// Errors: a key is one that says itself what its scripts are (SLIP-132).
fn refuse_account_keys(body: &str) -> Result<(), DescriptorError> {
    match account_key_inside(body) {
        Some((prefix, position)) => Err(DescriptorError::AccountKeyInside { prefix: prefix.to_owned(), position }),
        None => Ok(()),
    }
}

/// Errors: a `sh` of something that `sh` does not take.
fn check_argument_of_sh(body: &str) -> Result<(), DescriptorError> {
    let Some(argument) = body.strip_prefix("sh(") else { return Ok(()) };
    match argument.split_once('(') {
        Some((name, _)) if !FORMS_IN_SH.contains(&name) => Err(DescriptorError::Malformed {
            reason: format!("sh takes {}, as Miniscript stands in wsh and tr only", FORMS_IN_SH.join(", ")),
            position: Some("sh(".len()),
        }),
        _ => Ok(()),
    }
}

fn has_tree(descriptor: &Descriptor<DescriptorPublicKey>) -> bool {
    matches!(descriptor, Descriptor::Tr(output) if output.tap_tree().is_some())
}

/// The text before the checksum, which must be right if there is one.
fn without_checksum(text: &str) -> Result<&str, DescriptorError> {
    verify_checksum(text).map_err(|error| {
        let (body, given) = text.rsplit_once('#').unwrap_or((text, ""));
        let position = body.len().saturating_add(1);
        match error {
            ChecksumError::InvalidCharacter { ch: character, pos } => {
                let position = text.char_indices().take_while(|(at, _)| *at < pos).count();
                DescriptorError::Character { character, position }
            }
            ChecksumError::InvalidChecksumLength { actual: length, .. } => {
                DescriptorError::ChecksumLength { length, right: checksum(body), position }
            }
            ChecksumError::InvalidChecksum { expected, .. } => {
                DescriptorError::Checksum { given: given.to_owned(), right: expected.iter().collect(), position }
            }
        }
    })
}

/// The checksum of a text of valid characters.
fn checksum(body: &str) -> String {
    let mut engine = Engine::new();
    // the characters were checked before, or are our own
    match engine.input(body) {
        Ok(()) => engine.checksum(),
        Err(_) => String::new(),
    }
}

pub(super) fn with_checksum(body: &str) -> String {
    format!("{body}#{}", checksum(body))
}

/// What stands within the brackets of a form that has one argument.
fn inside(body: &str) -> Result<&str, DescriptorError> {
    let inside = body.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.ok_or_else(|| DescriptorError::Malformed {
        reason: "the text does not end with the closing bracket".to_owned(),
        position: None,
    })
}

/// The number of branches. Errors: keys that cannot be derived, or are of another network.
fn check_keys(descriptor: &Descriptor<DescriptorPublicKey>, network: Network) -> Result<usize, DescriptorError> {
    match descriptor.xkey_network() {
        XKeyNetwork::Mixed => return Err(DescriptorError::MixedNetworks),
        XKeyNetwork::Single(kind) if kind != NetworkKind::from(network) => {
            return Err(DescriptorError::Network { asked: network });
        }
        XKeyNetwork::Single(_) | XKeyNetwork::NoXKeys => {}
    }
    let (mut branches, mut steps, mut fault) = (1, 0_usize, None);
    descriptor.for_each_key(|key| {
        let paths = key.derivation_paths();
        steps = steps.saturating_add(paths.iter().map(|path| path.as_ref().len()).sum());
        if key.has_hardened_step() || key.wildcard() == Some(Wildcard::Hardened) {
            fault = Some(DescriptorError::Hardened);
        } else if key.is_multipath() {
            let mut distinct = paths.clone();
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() < paths.len() {
                fault = Some(DescriptorError::RepeatedBranch);
            } else if branches > 1 && branches != paths.len() {
                fault = Some(DescriptorError::BranchMismatch { one: branches, another: paths.len() });
            }
            branches = paths.len();
        }
        fault.is_none()
    });
    let too_many = |what, count, most| DescriptorError::TooMany { what, count, most };
    match fault {
        Some(fault) => Err(fault),
        None if branches > MOST_BRANCHES => Err(too_many("the branches", branches, MOST_BRANCHES)),
        None if steps > MOST_STEPS => Err(too_many("the derivation steps", steps, MOST_STEPS)),
        None => Ok(branches),
    }
}

/// What the library says of an uncompressed key in any script with a witness. The variant of its error cannot be named.
const UNCOMPRESSED: &str = "uncompressed keys cannot be used in Taproot descriptors.";

/// Reasons of the library about expressions in scripts that do not have them, and ours.
const CONTEXT_REASONS: [(&str, &str); 2] = [
    ("Multi a(CHECKSIGADD) only allowed post tapscript", "multi_a stands in tr only (BIP387)"),
    ("Invalid use of Multi node in taproot context", "multi does not stand in tr, which takes multi_a (BIP387)"),
];

/// What the parser found wrong.
fn refusal(error: &Error) -> DescriptorError {
    let reason = shortened(error);
    match error {
        // the library writes out its keys
        Error::NonTopLevel(_) => DescriptorError::Malformed {
            reason: "the expression is no script by itself: its type is not B (BIP379)".to_owned(),
            position: None,
        },
        Error::ContextError(_) if reason == UNCOMPRESSED => {
            DescriptorError::Key { reason: "wpkh, wsh and tr take no uncompressed keys".to_owned() }
        }
        Error::Threshold(_) | Error::ParseThreshold(ParseThresholdError::Threshold(_)) => {
            let rule = "in k of n, k is at least 1 and at most n, and n at most 20 in multi and 999 in multi_a";
            DescriptorError::Malformed { reason: format!("{reason}: {rule}"), position: None }
        }
        Error::ParseThreshold(_) => DescriptorError::Malformed {
            reason: format!("the first argument of multi, sortedmulti, multi_a and thresh is a number: {reason}"),
            position: None,
        },
        Error::ContextError(_) if !reason.to_ascii_lowercase().contains("key") => {
            let known = CONTEXT_REASONS.iter().find(|(theirs, _)| *theirs == reason);
            let reason = known.map_or(reason.as_str(), |(_, ours)| ours).to_owned();
            DescriptorError::Malformed { reason, position: None }
        }
        Error::Parse(ParseError::FromStr(_)) | Error::PubKeyCtxError(..) | Error::ContextError(_) => {
            DescriptorError::Key { reason }
        }
        Error::AnalysisError(_) | Error::NonStandardBareScript | Error::ImpossibleSatisfaction => {
            DescriptorError::Unsafe { reason }
        }
        Error::Parse(ParseError::Tree(tree)) => DescriptorError::Malformed { reason, position: position(tree) },
        _ => DescriptorError::Malformed { reason, position: None },
    }
}

fn position(error: &ParseTreeError) -> Option<usize> {
    match error {
        ParseTreeError::ExpectedParenOrComma { pos, .. }
        | ParseTreeError::UnmatchedOpenParen { pos, .. }
        | ParseTreeError::UnmatchedCloseParen { pos, .. }
        | ParseTreeError::IllegalCurlyBrace { pos }
        | ParseTreeError::MultipleSeparators { pos, .. }
        | ParseTreeError::TrailingCharacter { pos, .. } => Some(*pos),
        ParseTreeError::MismatchedParens { close_pos, .. } => Some(*close_pos),
        _ => None,
    }
}
