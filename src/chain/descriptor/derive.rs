//! The scripts of a descriptor.

use std::collections::HashMap;
use std::sync::LazyLock;

use bitcoin::bip32::{ChildNumber, Xpub};
use bitcoin::hashes::{hash160, ripemd160, sha256};
use bitcoin::key::TweakedPublicKey;
use bitcoin::opcodes::all::OP_CHECKMULTISIG;
use bitcoin::script::{Builder, PushBytes};
use bitcoin::secp256k1::{Parity, Secp256k1, VerifyOnly};
use bitcoin::{NetworkKind, PublicKey, ScriptBuf};
use miniscript::descriptor::{DescriptorPublicKey, ShInner, SinglePubKey};
use miniscript::{Descriptor, ForEachKey, Translator, hash256};

use super::error::DescriptorError;
use super::tap_leaves;
use crate::chain::script::multisig;

/// Indexes end here; those from here on are hardened (BIP32).
pub const INDEX_END: u32 = 1 << 31;

static SECP: LazyLock<Secp256k1<VerifyOnly>> = LazyLock::new(Secp256k1::verification_only);

/// What a descriptor is made of.
#[derive(Clone, Debug)]
pub(super) enum DescriptorForm {
    /// Keys and the scripts over them.
    Keys(Box<Descriptor<DescriptorPublicKey>>, ScriptVariant),
    /// One script, whose keys are not known (BIP385).
    Script(ScriptBuf),
    /// `combo` (BIP384): the descriptors that it stands for, which have the same key.
    Combo(Vec<OutputDescriptor>),
}

/// How the scripts of a descriptor differ from those that the library derives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptVariant {
    /// They do not.
    None,
    /// `rawtr` (BIP386): the key is the output key, without a tweak.
    RawTaproot,
    /// `sortedmulti` without `sh` or `wsh` (BIP383): the keys are sorted (BIP67).
    SortedMultisig,
    /// `tr` with leaves of `sortedmulti_a` (BIP387): for each leaf, from the left, whether its keys are sorted.
    SortedLeaves(Vec<bool>),
}

/// A descriptor with public keys only, whose scripts can be derived.
#[derive(Clone, Debug)]
pub struct OutputDescriptor {
    text: String,
    form: DescriptorForm,
    branches: usize,
    keys: usize,
    is_ranged: bool,
}

impl OutputDescriptor {
    pub(super) fn new(text: String, form: DescriptorForm, branches: usize) -> Self {
        let (keys, is_ranged) = match &form {
            DescriptorForm::Keys(descriptor, _) => (descriptor.iter_pk().count(), descriptor.has_wildcard()),
            DescriptorForm::Script(_) => (0, false),
            DescriptorForm::Combo(parts) => {
                (parts.iter().map(|part| part.keys).max().unwrap_or(0), parts.iter().any(|part| part.is_ranged))
            }
        };
        Self { text, form, branches, keys, is_ranged }
    }

    /// The descriptor in its canonical form, with its checksum: hardened steps as `h`, digits of keys in lower case, an
    /// extended key alone as the descriptor of its account.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The checksum of [`text`](Self::text).
    #[must_use]
    pub fn checksum(&self) -> &str {
        self.text.rsplit_once('#').map_or("", |(_, checksum)| checksum)
    }

    /// The number of paths of the multipath step, 1 without one; of `combo`, times the number of its types of scripts.
    #[must_use]
    pub fn branches(&self) -> usize {
        self.branches
    }

    /// Whether it has a multipath step (BIP389).
    #[must_use]
    pub fn is_multipath(&self) -> bool {
        match &self.form {
            DescriptorForm::Combo(parts) => parts.iter().any(Self::is_multipath),
            DescriptorForm::Keys(..) | DescriptorForm::Script(_) => self.branches > 1,
        }
    }

    /// Whether a branch has the addresses for change: the second path of two (BIP389).
    #[must_use]
    pub fn is_change(&self, branch: usize) -> bool {
        match self.part(branch) {
            Some((part, branch)) => part.is_change(branch),
            None => branch == 1 && self.branches == 2,
        }
    }

    /// Whether all scripts have one type: false for `combo`.
    #[must_use]
    pub fn has_one_script_type(&self) -> bool {
        !matches!(self.form, DescriptorForm::Combo(_))
    }

    /// Of `combo`, the descriptor that a branch belongs to, and which of its branches it is. `None` of another form, and for
    /// a branch that does not exist.
    fn part(&self, mut branch: usize) -> Option<(&Self, usize)> {
        let DescriptorForm::Combo(parts) = &self.form else { return None };
        for part in parts {
            if branch < part.branches {
                return Some((part, branch));
            }
            branch -= part.branches;
        }
        None
    }

    /// The number of keys that each script is made of, each occurrence of one.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Whether each branch has many scripts: whether a key ends with `/*`.
    #[must_use]
    pub fn is_ranged(&self) -> bool {
        self.is_ranged
    }

    /// Whether it is known what spends the scripts: not of `addr` and `raw`.
    #[must_use]
    pub fn is_solvable(&self) -> bool {
        !matches!(self.form, DescriptorForm::Script(_))
    }

    /// Whether a key is in its uncompressed form.
    pub(super) fn has_uncompressed_key(&self) -> bool {
        let DescriptorForm::Keys(descriptor, _) = &self.form else { return false };
        // children of extended keys are compressed (BIP32)
        let is_uncompressed = |key: DescriptorPublicKey| {
            let DescriptorPublicKey::Single(single) = key else { return false };
            matches!(single.key, SinglePubKey::FullKey(key) if !key.compressed)
        };
        descriptor.iter_pk().any(is_uncompressed)
    }

    /// Its keys and the number of its branches; `None` without keys.
    pub(super) fn into_keys(self) -> Option<(Box<Descriptor<DescriptorPublicKey>>, usize)> {
        match self.form {
            DescriptorForm::Keys(descriptor, _) => Some((descriptor, self.branches)),
            DescriptorForm::Script(_) | DescriptorForm::Combo(_) => None,
        }
    }

    /// The kind of network that the extended keys are for, `None` without any.
    #[must_use]
    pub fn key_network(&self) -> Option<NetworkKind> {
        match &self.form {
            DescriptorForm::Keys(descriptor, _) => descriptor.iter_pk().find_map(|key| key.xkey_network()),
            DescriptorForm::Combo(parts) => parts.first().and_then(Self::key_network),
            DescriptorForm::Script(_) => None,
        }
    }

    /// The path of the first extended key of a branch, with `*` for the index: from the master key (`m/84h/0h/0h/0/*`) if
    /// the key's origin is known, otherwise below the extended key (`0/*`). `None` without an extended key, and for a branch
    /// that does not exist.
    #[must_use]
    pub fn path(&self, branch: usize) -> Option<String> {
        if let Some((part, branch)) = self.part(branch) {
            return part.path(branch);
        }
        let DescriptorForm::Keys(descriptor, _) = &self.form else { return None };
        if branch < self.branches { descriptor.iter_pk().find_map(|key| path_of(&key, branch)) } else { None }
    }

    /// What derives the scripts of an existing branch.
    ///
    /// Errors: the branch does not exist, or has no key (chance below 2^-127).
    pub fn branch(&self, branch: usize) -> Result<BranchDeriver<'_>, DescriptorError> {
        if let Some((part, branch)) = self.part(branch) {
            return part.branch(branch);
        }
        let missing = || DescriptorError::NoKey { branch, index: 0 };
        if branch >= self.branches {
            return Err(missing());
        }
        let DescriptorForm::Keys(descriptor, _) = &self.form else {
            return Ok(BranchDeriver { branch, descriptor: self, parents: HashMap::new() });
        };
        let parents = parents(descriptor, branch).ok_or_else(missing)?;
        Ok(BranchDeriver { branch, descriptor: self, parents })
    }
}

/// What the keys of a branch are derived from; `None` if there is no such key (chance below 2^-127).
fn parents(
    descriptor: &Descriptor<DescriptorPublicKey>,
    branch: usize,
) -> Option<HashMap<DescriptorPublicKey, Parent>> {
    let (mut parents, mut is_complete) = (HashMap::new(), true);
    descriptor.for_each_key(|key| {
        match Parent::of(key, branch) {
            Some(parent) => is_complete &= parents.insert(key.clone(), parent).is_none_or(|known| known == parent),
            None => is_complete = false,
        }
        is_complete
    });
    is_complete.then_some(parents)
}

/// The descriptor with the keys of its first script; `None` if there is no such key.
pub(super) fn first_keys(descriptor: &Descriptor<DescriptorPublicKey>) -> Option<Descriptor<PublicKey>> {
    let child = ChildNumber::from_normal_idx(0).ok()?;
    descriptor.translate_pk(&mut AtIndex { parents: &parents(descriptor, 0)?, child }).ok()
}

/// What the key of a script is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    /// The key of each script.
    Fixed(PublicKey),
    /// The parent of a key for each script.
    Ranged(Xpub),
}

impl Parent {
    fn of(key: &DescriptorPublicKey, branch: usize) -> Option<Self> {
        let (xkey, paths) = match key {
            DescriptorPublicKey::Single(single) => {
                return Some(Self::Fixed(match single.key {
                    SinglePubKey::FullKey(key) => key,
                    SinglePubKey::XOnly(key) => PublicKey::new(key.public_key(Parity::Even)),
                }));
            }
            DescriptorPublicKey::XPub(key) => (&key.xkey, std::slice::from_ref(&key.derivation_path)),
            DescriptorPublicKey::MultiXPub(key) => (&key.xkey, key.derivation_paths.paths().as_slice()),
        };
        let parent = xkey.derive_pub(&*SECP, path_at(paths, branch)?).ok()?;
        Some(if key.has_wildcard() { Self::Ranged(parent) } else { Self::Fixed(PublicKey::new(parent.public_key)) })
    }
}

/// The path of a branch: a key without a multipath step has one path for all.
fn path_at<T>(paths: &[T], branch: usize) -> Option<&T> {
    if paths.len() == 1 { paths.first() } else { paths.get(branch) }
}

/// The path to the keys of a branch, as far as it is the same for all; `None` for a key without any.
fn path_of(key: &DescriptorPublicKey, branch: usize) -> Option<String> {
    let origin = match key {
        DescriptorPublicKey::Single(_) => return None,
        DescriptorPublicKey::XPub(key) => &key.origin,
        DescriptorPublicKey::MultiXPub(key) => &key.origin,
    };
    let paths = key.full_derivation_paths();
    let steps = path_at(&paths, branch)?.into_iter().map(|step| format!("{step:#}"));
    let root = origin.is_some().then(|| "m".to_owned());
    let parts: Vec<_> = root.into_iter().chain(steps).chain(key.has_wildcard().then(|| "*".to_owned())).collect();
    Some(parts.join("/"))
}

/// Derives the scripts of one branch of a descriptor. What is common to all of them is derived once.
#[derive(Clone, Debug)]
pub struct BranchDeriver<'d> {
    branch: usize,
    descriptor: &'d OutputDescriptor,
    parents: HashMap<DescriptorPublicKey, Parent>,
}

impl BranchDeriver<'_> {
    /// The scriptPubKey at an index below 2^31, the same at each if the descriptor is not ranged.
    ///
    /// Errors: [`DescriptorError::NoKey`].
    pub fn script(&self, index: u32) -> Result<ScriptBuf, DescriptorError> {
        let (descriptor, variant) = match &self.descriptor.form {
            DescriptorForm::Script(script) => return Ok(script.clone()),
            DescriptorForm::Keys(descriptor, variant) => (descriptor, variant),
            // a branch is derived by the part that it belongs to
            DescriptorForm::Combo(_) => return Err(DescriptorError::NoKey { branch: self.branch, index }),
        };
        let missing = || DescriptorError::NoKey { branch: self.branch, index };
        let child = ChildNumber::from_normal_idx(index).map_err(|_| missing())?;
        let derived = descriptor.translate_pk(&mut AtIndex { parents: &self.parents, child });
        let derived = derived.map_err(|_| missing())?;
        match variant {
            // the library sorts uncompressed keys as if they were compressed
            ScriptVariant::None => match &derived {
                Descriptor::Sh(output) if matches!(output.as_inner(), ShInner::SortedMulti(_)) => {
                    sorted_multisig(&output.inner_script()).map(|script| script.to_p2sh())
                }
                _ => Some(derived.script_pubkey()),
            },
            ScriptVariant::RawTaproot => raw_taproot(&derived),
            ScriptVariant::SortedMultisig => sorted_multisig(&derived.script_pubkey()),
            ScriptVariant::SortedLeaves(sorted) => tap_leaves::sorted_output(&SECP, &derived, sorted),
        }
        .ok_or_else(missing)
    }
}

/// The output of a taproot key that is not tweaked; `None` of another descriptor.
fn raw_taproot(descriptor: &Descriptor<PublicKey>) -> Option<ScriptBuf> {
    let Descriptor::Tr(output) = descriptor else { return None };
    let (key, _) = output.internal_key().inner.x_only_public_key();
    Some(ScriptBuf::new_p2tr_tweaked(TweakedPublicKey::dangerous_assume_tweaked(key)))
}

/// A multisig script with its keys in the order of their bytes (BIP67); `None` of another script.
fn sorted_multisig(script: &ScriptBuf) -> Option<ScriptBuf> {
    let (required, mut keys) = multisig(script)?;
    keys.sort_unstable();
    let mut sorted = Builder::new().push_int(required.into());
    for key in &keys {
        sorted = sorted.push_slice(<&PushBytes>::try_from(*key).ok()?);
    }
    Some(sorted.push_int(i64::try_from(keys.len()).ok()?).push_opcode(OP_CHECKMULTISIG).into_script())
}

/// Replaces each key by its child.
struct AtIndex<'p> {
    parents: &'p HashMap<DescriptorPublicKey, Parent>,
    child: ChildNumber,
}

/// A key that does not exist.
struct NoChild;

impl Translator<DescriptorPublicKey> for AtIndex<'_> {
    type TargetPk = PublicKey;
    type Error = NoChild;

    fn pk(&mut self, key: &DescriptorPublicKey) -> Result<PublicKey, NoChild> {
        match self.parents.get(key).ok_or(NoChild)? {
            Parent::Fixed(key) => Ok(*key),
            Parent::Ranged(parent) => {
                let child = parent.ckd_pub(&*SECP, self.child).map_err(|_| NoChild)?;
                Ok(PublicKey::new(child.public_key))
            }
        }
    }

    fn sha256(&mut self, hash: &sha256::Hash) -> Result<sha256::Hash, NoChild> {
        Ok(*hash)
    }

    fn hash256(&mut self, hash: &hash256::Hash) -> Result<hash256::Hash, NoChild> {
        Ok(*hash)
    }

    fn ripemd160(&mut self, hash: &ripemd160::Hash) -> Result<ripemd160::Hash, NoChild> {
        Ok(*hash)
    }

    fn hash160(&mut self, hash: &hash160::Hash) -> Result<hash160::Hash, NoChild> {
        Ok(*hash)
    }
}
