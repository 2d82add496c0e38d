use std::borrow::Borrow;
use std::collections::BTreeMap;

use async_graphql::{Enum, SimpleObject};
use bitcoin::bip32::{KeySource, Xpub};
use bitcoin::psbt::raw::{Key, ProprietaryKey};

use super::psbt_key::path_text;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hex, int_of};
use crate::view::View;

/// What an entry weighs in what an answer may read, beside its bytes.
const ENTRY_BYTES: usize = 64;

/// An extended public key for which a PSBT has keys.
#[derive(Clone, SimpleObject)]
pub(crate) struct PsbtXpub {
    /// The extended public key.
    xpub: String,
    /// The fingerprint of the master key: 4 bytes (BIP32). Anyone can write any fingerprint into a PSBT.
    fingerprint: Hex,
    /// The derivation path from the master key, as in `m/84h/0h/0h`.
    path: String,
}

impl FieldCacheability for PsbtXpub {
    const IMMUTABLE: &'static str = "xpub fingerprint path";
}

impl PsbtXpub {
    pub(super) fn all(xpubs: &BTreeMap<Xpub, KeySource>) -> Vec<Self> {
        let found = xpubs.iter().map(|(xpub, (fingerprint, path))| Self {
            xpub: xpub.to_string(),
            fingerprint: Hex::new(fingerprint.to_bytes()),
            path: path_text(path),
        });
        found.collect()
    }
}

/// An entry of a PSBT of a type that this server does not know.
#[derive(Clone, SimpleObject)]
pub(crate) struct PsbtUnknownEntry {
    /// The whole key: its type and what follows it.
    key: Hex,
    /// The value.
    value_data: Hex,
}

impl FieldCacheability for PsbtUnknownEntry {
    const IMMUTABLE: &'static str = "key valueData";
}

impl PsbtUnknownEntry {
    /// All of a map of the PSBT. Counts their bytes, which an answer may repeat as often as it names the field.
    pub(super) fn all(view: &View, entries: &BTreeMap<Key, Vec<u8>>) -> Result<Vec<Self>, ApiError> {
        let bytes = entries.iter().map(|(key, value)| key.key.len() + value.len() + ENTRY_BYTES);
        view.count(bytes.sum())?;
        let entry = |(key, value): (&Key, &Vec<u8>)| Self {
            key: Hex::new([&[key.type_value], &key.key[..]].concat()),
            value_data: Hex::new(value.as_slice()),
        };
        Ok(entries.iter().map(entry).collect())
    }
}

/// A proprietary entry of a PSBT (BIP174), for the software that made it.
#[derive(Clone, SimpleObject)]
pub(crate) struct PsbtProprietaryEntry {
    /// What identifies the software.
    identifier: Hex,
    /// The subtype, a number of the software from 0 to 255.
    subtype: i32,
    /// What follows the subtype in the key.
    key_data: Hex,
    /// The value.
    value_data: Hex,
}

impl FieldCacheability for PsbtProprietaryEntry {
    const IMMUTABLE: &'static str = "identifier subtype keyData valueData";
}

impl PsbtProprietaryEntry {
    /// All of a map of the PSBT. Counts their bytes, which an answer may repeat as often as it names the field.
    pub(super) fn all(view: &View, entries: &BTreeMap<ProprietaryKey, Vec<u8>>) -> Result<Vec<Self>, ApiError> {
        let bytes = entries.iter().map(|(key, value)| key.prefix.len() + key.key.len() + value.len() + ENTRY_BYTES);
        view.count(bytes.sum())?;
        let entry = |(key, value): (&ProprietaryKey, &Vec<u8>)| Self {
            identifier: Hex::new(key.prefix.as_slice()),
            subtype: key.subtype.into(),
            key_data: Hex::new(key.key.as_slice()),
            value_data: Hex::new(value.as_slice()),
        };
        Ok(entries.iter().map(entry).collect())
    }
}

/// A hash function of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum PreimageHash {
    /// RIPEMD-160.
    #[graphql(name = "RIPEMD160")]
    Ripemd160,
    /// SHA-256.
    #[graphql(name = "SHA256")]
    Sha256,
    /// RIPEMD-160 of SHA-256.
    #[graphql(name = "HASH160")]
    Hash160,
    /// SHA-256 twice.
    #[graphql(name = "HASH256")]
    Hash256,
}

/// What hashes to a hash in the script of an input.
#[derive(Clone, SimpleObject)]
pub(crate) struct PsbtPreimage {
    /// The hash function.
    hash_type: PreimageHash,
    /// The hash, in the byte order of scripts.
    hash_hex: Hex,
    /// What has the hash.
    preimage: Hex,
}

impl FieldCacheability for PsbtPreimage {
    const IMMUTABLE: &'static str = "hashType hashHex preimage";
}

impl PsbtPreimage {
    /// All of an input. Counts their bytes.
    pub(super) fn all(view: &View, input: &bitcoin::psbt::Input) -> Result<Vec<Self>, ApiError> {
        fn of<H: Borrow<[u8]>>(
            hash_type: PreimageHash,
            found: &BTreeMap<H, Vec<u8>>,
        ) -> impl Iterator<Item = PsbtPreimage> {
            found.iter().map(move |(hash, preimage)| PsbtPreimage {
                hash_type,
                hash_hex: Hex::new(Borrow::<[u8]>::borrow(hash)),
                preimage: Hex::new(preimage.as_slice()),
            })
        }
        let bytes = (input.ripemd160_preimages.values())
            .chain(input.sha256_preimages.values())
            .chain(input.hash160_preimages.values())
            .chain(input.hash256_preimages.values())
            .map(|preimage| preimage.len() + ENTRY_BYTES);
        view.count(bytes.sum())?;
        let found = of(PreimageHash::Ripemd160, &input.ripemd160_preimages)
            .chain(of(PreimageHash::Sha256, &input.sha256_preimages))
            .chain(of(PreimageHash::Hash160, &input.hash160_preimages))
            .chain(of(PreimageHash::Hash256, &input.hash256_preimages));
        Ok(found.collect())
    }
}

/// A script of a taproot output (BIP341).
#[derive(Clone, SimpleObject)]
pub(crate) struct PsbtTapLeaf {
    /// The script.
    script_hex: Hex,
    /// The version of the leaf: 192 is tapscript (BIP342).
    leaf_version: i32,
    /// How deep the leaf is in the tree of an output, 0 for the only one. Null for a script of an input.
    depth: Option<i32>,
    /// The control block that proves that the spent output has the script. Null for a script of an output.
    control_block: Option<Hex>,
}

impl FieldCacheability for PsbtTapLeaf {
    const IMMUTABLE: &'static str = "scriptHex leafVersion depth controlBlock";
}

impl PsbtTapLeaf {
    /// The scripts of an input. Counts their bytes.
    pub(super) fn of_input(view: &View, input: &bitcoin::psbt::Input) -> Result<Vec<Self>, ApiError> {
        let bytes = input.tap_scripts.iter().map(|(block, (script, _))| block.size() + script.len() + ENTRY_BYTES);
        view.count(bytes.sum())?;
        let found = input.tap_scripts.iter().map(|(block, (script, version))| Self {
            script_hex: Hex::new(script.to_bytes()),
            leaf_version: version.to_consensus().into(),
            depth: None,
            control_block: Some(Hex::new(block.serialize())),
        });
        Ok(found.collect())
    }

    /// The tree of an output. Counts its bytes.
    pub(super) fn of_output(view: &View, output: &bitcoin::psbt::Output) -> Result<Option<Vec<Self>>, ApiError> {
        let Some(tree) = &output.tap_tree else { return Ok(None) };
        view.count(tree.script_leaves().map(|leaf| leaf.script().len() + ENTRY_BYTES).sum())?;
        let leaf = |leaf: &bitcoin::taproot::ScriptLeaf<'_>| -> Result<Self, ApiError> {
            Ok(Self {
                script_hex: Hex::new(leaf.script().to_bytes()),
                leaf_version: leaf.version().to_consensus().into(),
                depth: Some(int_of(leaf.merkle_branch().len())?),
                control_block: None,
            })
        };
        tree.script_leaves().map(|found| leaf(&found)).collect::<Result<_, _>>().map(Some)
    }
}
