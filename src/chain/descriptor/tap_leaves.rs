//! Leaves of `sortedmulti_a` (BIP387) in the tree of a `tr`. The library parses and derives them as `multi_a`; here their keys
//! are sorted after the derivation.

use std::ops::Range;

use bitcoin::opcodes::all::{OP_CHECKSIG, OP_CHECKSIGADD, OP_NUMEQUAL};
use bitcoin::script::Builder;
use bitcoin::secp256k1::{Secp256k1, Verification, XOnlyPublicKey};
use bitcoin::taproot::TaprootBuilder;
use bitcoin::{PublicKey, ScriptBuf};
use miniscript::{Descriptor, Miniscript, Tap, Terminal};

use super::error::DescriptorError;

/// How a leaf with sorted keys begins.
pub(super) const SORTED: &str = "sortedmulti_a(";
/// How it begins for the library.
const UNSORTED: &str = "multi_a(";

/// The descriptor with `multi_a` in the place of `sortedmulti_a`, and for each leaf, from the left, whether it was that.
///
/// Errors: `sortedmulti_a` stands where it is not a whole leaf of a `tr`.
pub(super) fn unsorted(body: &str) -> Result<(String, Vec<bool>), DescriptorError> {
    let leaves = leaves(body);
    let sorted = leaves.iter().map(|leaf| body.get(leaf.clone()).is_some_and(|leaf| leaf.starts_with(SORTED)));
    let sorted: Vec<bool> = sorted.collect();
    if body.matches(SORTED).count() != sorted.iter().filter(|sorted| **sorted).count() {
        let stands = |at: &usize| leaves.iter().any(|leaf| leaf.start == *at);
        let position = body.match_indices(SORTED).map(|(at, _)| at).find(|at| !stands(at));
        let reason = "sortedmulti_a is a whole leaf of the tree of tr, not a part of one".to_owned();
        return Err(DescriptorError::Malformed { reason, position });
    }
    Ok((replaced(body, &leaves, &sorted, SORTED, UNSORTED), sorted))
}

/// The descriptor with `sortedmulti_a` in the place of `multi_a` at these leaves.
pub(super) fn with_sorted(body: &str, sorted: &[bool]) -> String {
    replaced(body, &leaves(body), sorted, UNSORTED, SORTED)
}

fn replaced(body: &str, leaves: &[Range<usize>], sorted: &[bool], from: &str, to: &str) -> String {
    let (mut text, mut end) = (String::with_capacity(body.len()), 0);
    for leaf in leaves.iter().zip(sorted).filter(|(_, sorted)| **sorted).map(|(leaf, _)| leaf) {
        text += body.get(end..leaf.start).unwrap_or_default();
        text += to;
        end = leaf.start.saturating_add(from.len());
    }
    text + body.get(end..).unwrap_or_default()
}

/// Where the leaves of `tr(KEY,TREE)` stand, from the left; none of another descriptor. A leaf ends at a comma or brace that
/// is within no bracket of its own.
fn leaves(body: &str) -> Vec<Range<usize>> {
    let mut leaves = Vec::new();
    let Some(rest) = body.strip_prefix("tr(").and_then(|rest| rest.split_once(',')) else { return leaves };
    let start = body.len().saturating_sub(rest.1.len());
    let (mut depth, mut begin) = (0_usize, None);
    for (at, letter) in body.char_indices().filter(|(at, _)| *at >= start) {
        match letter {
            '{' | '}' | ',' if depth == 0 => leaves.extend(begin.take().map(|begin| begin..at)),
            ')' if depth == 0 => {
                leaves.extend(begin.take().map(|begin| begin..at));
                break;
            }
            _ => {
                begin = begin.or(Some(at));
                match letter {
                    '(' => depth = depth.saturating_add(1),
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
        }
    }
    leaves
}

/// The output of a `tr` whose keys are sorted at these leaves; `None` of another descriptor.
pub(super) fn sorted_output<C: Verification>(
    secp: &Secp256k1<C>,
    descriptor: &Descriptor<PublicKey>,
    sorted: &[bool],
) -> Option<ScriptBuf> {
    let Descriptor::Tr(output) = descriptor else { return None };
    let mut tree = TaprootBuilder::new();
    for (leaf, sorted) in output.leaves().zip(sorted) {
        let script = if *sorted { sorted_leaf(leaf.miniscript())? } else { leaf.compute_script() };
        tree = tree.add_leaf(leaf.depth(), script).ok()?;
    }
    let (key, _) = output.internal_key().inner.x_only_public_key();
    Some(ScriptBuf::new_p2tr_tweaked(tree.finalize(secp, key).ok()?.output_key()))
}

/// The script of a multisig leaf with its x-only keys in the order of their bytes (BIP387); `None` of another leaf.
fn sorted_leaf(leaf: &Miniscript<PublicKey, Tap>) -> Option<ScriptBuf> {
    let Terminal::MultiA(multisig) = leaf.as_inner() else { return None };
    let mut keys: Vec<XOnlyPublicKey> = multisig.iter().map(|key| key.inner.x_only_public_key().0).collect();
    keys.sort_unstable_by_key(XOnlyPublicKey::serialize);
    let mut script = Builder::new();
    for (at, key) in keys.iter().enumerate() {
        script = script.push_x_only_key(key).push_opcode(if at == 0 { OP_CHECKSIG } else { OP_CHECKSIGADD });
    }
    Some(script.push_int(i64::try_from(multisig.k()).ok()?).push_opcode(OP_NUMEQUAL).into_script())
}
