//! A table of pools, and which of them mined a block.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::{Network, Script, ScriptBuf};

use super::file::{self, PoolsFileError};
use super::known::known_pools;
use super::pool::Pool;
use crate::chain::raw::RawTransaction;

/// The version of the rules of [`Pools::identify`]. Raised with every change of them, because what was derived by other rules
/// is of no use then.
const RULES: u32 = 2;

/// The place of a pool in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u16);

/// What a pool was recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinerEvidence {
    /// Text in the scriptSig of the coinbase.
    CoinbaseTag,
    /// A script that the coinbase pays.
    PayoutScript,
}

/// A table of pools. Pools that stand in front take precedence where two have the same tag or payout script.
#[derive(Clone, Debug)]
pub struct Pools {
    list: Vec<Pool>,
    by_slug: HashMap<String, PoolId>,
    by_script: HashMap<ScriptBuf, PoolId>,
    /// All tags by their first byte, in the order of precedence, with their letters in lower case.
    by_tag: BTreeMap<u8, Vec<Tag>>,
    fingerprint: [u8; 32],
}

/// A tag of a pool. The least of several takes precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tag {
    is_built_in: bool,
    length: Reverse<usize>,
    pool: PoolId,
    text: Vec<u8>,
}

impl Pools {
    /// The pools that are known without a file. On networks other than mainnet they are recognised by their tags alone.
    #[must_use]
    pub fn known(network: Network) -> Self {
        Self::of(known_pools(network), 0)
    }

    /// The pools of a file in the format pools-v2 (`id`, `name`, `addresses`, `tags`, `link`), followed by those that are known
    /// without it, but for those that have the slug of one of the file. Addresses of other networks are left out.
    ///
    /// Errors: [`PoolsFileError`], which names the entry.
    pub fn with_file(network: Network, json: &str) -> Result<Self, PoolsFileError> {
        let mut pools = file::read(network, json)?;
        let missing = known_pools(network).into_iter().filter(|known| pools.iter().all(|pool| pool.slug != known.slug));
        let missing = missing.collect::<Vec<_>>();
        let of_file = pools.len();
        pools.extend(missing);
        Ok(Self::of(pools, of_file))
    }

    /// A table of these pools, whose slugs differ, and of which the first so many are those of a file.
    fn of(list: Vec<Pool>, of_file: usize) -> Self {
        let (mut by_slug, mut by_script) = (HashMap::new(), HashMap::new());
        let mut by_tag = BTreeMap::<u8, Vec<_>>::new();
        for (id, pool) in (0..).map(PoolId).zip(&list) {
            by_slug.insert(pool.slug.clone(), id);
            for script in &pool.payout_scripts {
                by_script.entry(script.clone()).or_insert(id);
            }
            for tag in &pool.tags {
                let text = tag.to_ascii_lowercase().into_bytes();
                if let Some(first) = text.first() {
                    let (is_built_in, length) = (usize::from(id.0) >= of_file, Reverse(text.len()));
                    by_tag.entry(*first).or_default().push(Tag { is_built_in, length, pool: id, text });
                }
            }
        }
        for tags in by_tag.values_mut() {
            tags.sort_unstable();
        }
        let fingerprint = fingerprint(&list, of_file);
        Self { list, by_slug, by_script, by_tag, fingerprint }
    }

    /// All pools with their ids, in the order of precedence.
    pub fn iter(&self) -> impl Iterator<Item = (PoolId, &Pool)> {
        (0..).map(PoolId).zip(&self.list)
    }

    /// The pool with this id, if the table has it.
    #[must_use]
    pub fn get(&self, id: PoolId) -> Option<&Pool> {
        self.list.get(usize::from(id.0))
    }

    /// The pool with this slug.
    #[must_use]
    pub fn find(&self, slug: &str) -> Option<PoolId> {
        self.by_slug.get(slug).copied()
    }

    /// The pools whose slugs begin so, in the order of precedence.
    pub fn starting_with<'p>(&'p self, slug: &'p str) -> impl Iterator<Item = PoolId> + 'p {
        self.iter().filter(move |(_, pool)| pool.slug.starts_with(slug)).map(|(id, _)| id)
    }

    /// A hash of all that decides which pool a block is ascribed to, and under which id. Names and links are not part of it.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The pool that mined the block with this coinbase, and what it was recognised by. `None` if it is none of the table.
    #[must_use]
    pub fn identify(&self, coinbase: &RawTransaction<'_>) -> Option<(PoolId, MinerEvidence)> {
        let script_sig = coinbase.inputs().next().map_or(&[][..], |input| input.script_sig);
        let outputs = coinbase.outputs().map(|output| Script::from_bytes(output.script_pubkey));
        self.by_parts(Script::from_bytes(script_sig), outputs)
    }

    /// The pool of a coinbase with this scriptSig and these output scripts.
    pub(super) fn by_parts<'s>(
        &self,
        script_sig: &Script,
        outputs: impl IntoIterator<Item = &'s Script>,
    ) -> Option<(PoolId, MinerEvidence)> {
        let tagged = self.tagged(script_sig.as_bytes()).map(|id| (id, MinerEvidence::CoinbaseTag));
        tagged.or_else(|| {
            let paid = outputs.into_iter().find_map(|script| self.by_script.get(script).copied());
            paid.map(|id| (id, MinerEvidence::PayoutScript))
        })
    }

    /// The pool whose tag in these bytes takes precedence.
    fn tagged(&self, bytes: &[u8]) -> Option<PoolId> {
        let bytes = bytes.to_ascii_lowercase();
        let begins = (0..bytes.len()).filter_map(|start| bytes.get(start..));
        let found = begins.filter_map(|rest| {
            let tags = self.by_tag.get(rest.first()?)?;
            tags.iter().find(|tag| rest.starts_with(&tag.text))
        });
        found.min().map(|tag| tag.pool)
    }
}

/// Hashes slugs, tags and scripts in order, each with its length in front, and how many of the pools are those of a file.
fn fingerprint(list: &[Pool], of_file: usize) -> [u8; 32] {
    let mut engine = sha256::Hash::engine();
    let mut add = |bytes: &[u8]| {
        engine.input(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        engine.input(bytes);
    };
    add(&RULES.to_le_bytes());
    add(&u64::try_from(of_file).unwrap_or(u64::MAX).to_le_bytes());
    for pool in list {
        add(pool.slug.as_bytes());
        add(&u64::try_from(pool.tags.len()).unwrap_or(u64::MAX).to_le_bytes());
        pool.tags.iter().for_each(|tag| add(tag.as_bytes()));
        add(&u64::try_from(pool.payout_scripts.len()).unwrap_or(u64::MAX).to_le_bytes());
        pool.payout_scripts.iter().for_each(|script| add(script.as_bytes()));
    }
    sha256::Hash::from_engine(engine).to_byte_array()
}
