//! Joins: an empty data directory becomes an index by the published blocks of another.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bitcoin::BlockHash;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::checksums::BlockChecksums;
use super::download::download;
use super::error::FleetError;
use super::files::lock;
use super::joined::JoinedNote;
use super::manifest::{MOST_BYTES, Manifest, PublishedGeneration};
use super::names::{ContentHash, MANIFESTS, ManifestName};
use super::progress::TransferProgress;
use super::retire::manifests_in;
use super::store::FleetStore;
use super::wanted::WantedObject;
use crate::chain::Height;
use crate::index::{Generation, Index, IndexOptions, JoinedFile, PartialFile, RequiredSpace, Salt, Tip, TxNum};

/// How often joining starts again with the newest manifest because an object was removed meanwhile.
const ATTEMPTS: usize = 5;
/// Of how many of the highest manifests the node is asked.
const MOST_MANIFESTS: usize = 1_000;
/// Memory for reading the totals of the highest block.
const CHECK_CACHE: usize = 1 << 20;
/// Space on the disk beside the objects.
const RESERVE: u64 = 64 << 20;

/// Whether the node has a block of this height and hash in its main chain. Errors: why it cannot say.
pub type OnChain = Arc<dyn Fn(u32, BlockHash) -> Result<bool, FleetError> + Send + Sync>;

/// How to join.
#[derive(Clone)]
pub struct JoinOptions {
    /// The index that is made.
    pub index: IndexOptions,
    /// Asks the node; without it the highest manifest is used.
    pub on_chain: Option<OnChain>,
    /// Stops joining, which the next call continues.
    pub stop: CancellationToken,
}

/// What was joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinOutcome {
    /// The manifest.
    pub manifest: ManifestName,
    /// The highest block of the index.
    pub tip: Tip,
}

/// Makes an index of the newest published blocks that the node has in its main chain.
///
/// Errors: [`FleetError`]. What was downloaded and verified stays beside the index, and is not requested again.
pub async fn join(store: &FleetStore, options: &JoinOptions) -> Result<JoinOutcome, FleetError> {
    let joining = JoinTarget::begin(options).await?;
    let (name, manifest) = joining.retry_if_gone(async || fetch(store, options, &joining).await).await?;
    let (of_index, directory, published) = (options.index.clone(), joining.directory.clone(), name.clone());
    let parts = manifest.generations.iter().map(|generation| (part_of(generation, &directory), None)).collect();
    let tip = tokio::task::spawn_blocking(move || adopt(of_index, &published, &manifest, parts)).await??;
    drop(joining.lock);
    remove(&directory);
    Ok(JoinOutcome { manifest: name, tip })
}

/// An empty index that this process alone joins.
pub(super) struct JoinTarget {
    pub(super) directory: PathBuf,
    pub(super) lock: File,
    salt: Option<RequiredSalt>,
}

impl JoinTarget {
    /// Checks that the index is absent or has no blocks, and makes the directory of the download.
    pub(super) async fn begin(options: &JoinOptions) -> Result<Self, FleetError> {
        let of_index = options.index.clone();
        let salt = tokio::task::spawn_blocking(move || salt_of_empty(&of_index)).await??;
        let directory = joining_directory(&options.index.path);
        fs::create_dir_all(&directory).map_err(FleetError::of_file("make the directory", &directory))?;
        let lock = lock(&directory)?;
        Ok(Self { directory, lock, salt })
    }

    /// Repeats this while an object of it is gone.
    pub(super) async fn retry_if_gone<T>(
        &self,
        mut fetch: impl AsyncFnMut() -> Result<T, FleetError>,
    ) -> Result<T, FleetError> {
        for _ in 1..ATTEMPTS {
            match fetch().await {
                Err(FleetError::Gone { object }) => {
                    warn!(%object, "an object was removed meanwhile; starting again with the newest manifest");
                }
                fetched => return fetched,
            }
        }
        fetch().await
    }

    /// Chooses a manifest that can be joined here, and makes sure that its objects fit on the disk.
    pub(super) async fn choose(
        &self,
        store: &FleetStore,
        options: &JoinOptions,
    ) -> Result<(ManifestName, Manifest), FleetError> {
        let (name, manifest) = choose(store, options).await?;
        if let Some(RequiredSalt { salt, holder, remedy }) = &self.salt
            && manifest.salt() != Some(*salt)
        {
            return Err(FleetError::Salt { holder: holder.clone(), remedy });
        }
        let parts: Vec<_> =
            manifest.generations.iter().map(|generation| part_of(generation, &self.directory)).collect();
        remove_other_parts(&self.directory, &parts)?;
        for (generation, part) in manifest.generations.iter().zip(&parts) {
            if let Some(object) = generation.object() {
                Index::take_back(&options.index.path, &generation.stem, build_of(object), part)?;
            }
        }
        let missing =
            manifest.generations.iter().zip(&parts).map(|(generation, part)| missing_bytes(generation.bytes, part));
        let missing = missing.fold(0, u64::saturating_add);
        if missing > 0
            && let Some(shortage) = RequiredSpace::at(&self.directory, missing.saturating_add(RESERVE)).shortage()
        {
            return Err(FleetError::DiskShortage(shortage));
        }
        info!(
            manifest = %name,
            height = manifest.height,
            generations = manifest.generations.len(),
            mib = manifest.bytes() >> 20,
            store = store.url(),
            "joining"
        );
        Ok((name, manifest))
    }
}

/// The space that a file of so many bytes has to take yet: all of it is taken when it is made.
fn missing_bytes(bytes: u64, part: &Path) -> u64 {
    if fs::metadata(part).is_ok_and(|part| part.len() >= bytes) { 0 } else { bytes }
}

/// Removes the files of a download that another manifest began, which take as much space as those of this one.
fn remove_other_parts(directory: &Path, parts: &[PathBuf]) -> Result<(), FleetError> {
    for file in fs::read_dir(directory).map_err(FleetError::of_file("read", directory))? {
        let path = file.map_err(FleetError::of_file("read", directory))?.path();
        if path.extension().is_some_and(|extension| extension == "part") && !parts.contains(&path) {
            fs::remove_file(&path).map_err(FleetError::of_file("remove", &path))?;
        }
    }
    Ok(())
}

/// Removes the directory of a download that is complete.
pub(super) fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory) {
        warn!(%error, directory = %directory.display(), "cannot remove the directory of the download; remove it");
    }
}

/// The object of a generation with its checksums, which are downloaded.
async fn wanted(
    store: &FleetStore,
    name: &ManifestName,
    generation: &PublishedGeneration,
) -> Result<WantedObject, FleetError> {
    let (object, sums) = objects_of(name, generation)?;
    let content = store.read(&sums.object(), BlockChecksums::encoded_bytes(generation.bytes)).await?;
    WantedObject::new(object, generation.bytes, sums, content)
}

/// The names of the object of a generation and of that of its checksums.
pub(super) fn objects_of(
    name: &ManifestName,
    generation: &PublishedGeneration,
) -> Result<(ContentHash, ContentHash), FleetError> {
    let malformed = || FleetError::Malformed { object: name.object(), reason: "an object has no name".to_owned() };
    generation.object().zip(generation.checksums()).ok_or_else(malformed)
}

/// Where objects are downloaded to.
pub(super) fn joining_directory(index: &Path) -> PathBuf {
    index.with_extension("joining")
}

/// A salt that the published blocks must have, and who has it.
#[derive(Clone)]
struct RequiredSalt {
    salt: Salt,
    holder: String,
    remedy: &'static str,
}

/// Checks that the index is absent or has no blocks. Returns the salt of an index or of the settings.
fn salt_of_empty(options: &IndexOptions) -> Result<Option<RequiredSalt>, FleetError> {
    let path = &options.path;
    let building = path.with_extension("building");
    if building.exists() {
        return Err(FleetError::Importing { path: building });
    }
    if path.exists() {
        let index = Index::open_existing(options)?;
        if let Some(tip) = index.snapshot()?.tip() {
            return Err(FleetError::NotEmpty { path: path.clone(), height: tip.height.to_u32() });
        }
        let remedy = "remove that file, which has no blocks, and run the command again";
        return Ok(Some(RequiredSalt { salt: index.salt(), holder: format!("the index {}", path.display()), remedy }));
    }
    let remedy = "leave index.salt out, and the index gets that of the published blocks";
    Ok(options.salt.map(|salt| RequiredSalt { salt, holder: "the setting index.salt".to_owned(), remedy }))
}

/// Chooses a manifest, and downloads what is missing of its objects.
async fn fetch(
    store: &FleetStore,
    options: &JoinOptions,
    joining: &JoinTarget,
) -> Result<(ManifestName, Manifest), FleetError> {
    let (name, manifest) = joining.choose(store, options).await?;
    let progress = Arc::new(TransferProgress::new("downloading", manifest.bytes()));
    for generation in &manifest.generations {
        let wanted = wanted(store, &name, generation).await?;
        let part = part_of(generation, &joining.directory);
        download(store, &wanted, &part, &progress, &options.stop).await?;
    }
    Ok((name, manifest))
}

pub(super) fn part_of(generation: &PublishedGeneration, directory: &Path) -> PathBuf {
    let name = generation.object().map(|object| object.to_string()).unwrap_or_default();
    directory.join(format!("{name}.part"))
}

/// Distinguishes the names of two files with the same blocks.
pub(super) fn build_of(object: ContentHash) -> u32 {
    let [a, b, c, d, ..] = object.0;
    u32::from_be_bytes([a, b, c, d])
}

/// The highest manifest that this program can use and whose block the node has in its main chain.
async fn choose(store: &FleetStore, options: &JoinOptions) -> Result<(ManifestName, Manifest), FleetError> {
    let mut listed = manifests_in(&store.list(MANIFESTS).await?);
    listed.sort_by(|(a, a_written), (b, b_written)| (b.height, b_written).cmp(&(a.height, a_written)));
    let count = listed.len();
    let Some((highest, _)) = listed.first().cloned() else {
        return Err(FleetError::NoManifest { url: store.url().to_owned() });
    };
    listed.truncate(MOST_MANIFESTS);
    let mut unusable = None;
    for (name, _) in listed {
        if options.stop.is_cancelled() {
            return Err(FleetError::Stopped);
        }
        if !is_on_chain(options, &name).await? {
            continue;
        }
        match read(store, &name, options).await {
            Ok(manifest) => return Ok((name, manifest)),
            // a manifest before it may do
            Err(
                error @ (FleetError::NewerManifest { .. }
                | FleetError::WrongNetwork { .. }
                | FleetError::Malformed { .. }
                | FleetError::Changed { .. }
                | FleetError::Index(_)),
            ) => {
                warn!(%error, "a manifest cannot be used");
                unusable = unusable.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = unusable {
        return Err(error);
    }
    // of another network no block is in the chain of the node, and that says more
    match read(store, &highest, options).await {
        Err(error @ FleetError::WrongNetwork { .. }) => Err(error),
        _ => Err(FleetError::NotOnChain {
            url: store.url().to_owned(),
            count,
            height: highest.height,
            hash: highest.hash,
        }),
    }
}

async fn is_on_chain(options: &JoinOptions, name: &ManifestName) -> Result<bool, FleetError> {
    let Some(on_chain) = options.on_chain.clone() else { return Ok(true) };
    let (height, hash) = (name.height, name.hash);
    tokio::task::spawn_blocking(move || on_chain(height, hash)).await?
}

async fn read(store: &FleetStore, name: &ManifestName, options: &JoinOptions) -> Result<Manifest, FleetError> {
    let manifest = Manifest::decode(name, &store.read(&name.object(), MOST_BYTES).await?)?;
    manifest.check_use(name, options.index.network)?;
    Ok(manifest)
}

/// Puts files into force in an index with the salt of the manifest: those of its generations, with the file itself for one of
/// which bytes may be missing.
pub(super) fn adopt(
    options: IndexOptions,
    name: &ManifestName,
    manifest: &Manifest,
    parts: Vec<(PathBuf, Option<Arc<dyn PartialFile>>)>,
) -> Result<Tip, FleetError> {
    let malformed = |reason: &str| FleetError::Malformed { object: name.object(), reason: reason.to_owned() };
    let salt = manifest.salt().ok_or_else(|| malformed("it has no salt"))?;
    let mut files = Vec::new();
    for (generation, (path, partial)) in manifest.generations.iter().zip(parts) {
        let object = generation.object().ok_or_else(|| malformed("an object has no name"))?;
        let last = Tip { height: Height::from(generation.last), hash: generation.hash };
        let end = TxNum(generation.transactions);
        files.push(JoinedFile { path, partial, build: build_of(object), last, end });
    }
    let last = files.last().ok_or_else(|| malformed("it has no generations"))?;
    // what the manifest says of the cut, before the index exists
    let generation = match &last.partial {
        Some(partial) => Generation::open_partial(&last.path, partial, options.network, salt, CHECK_CACHE)?,
        None => Generation::open(&last.path, options.network, salt, CHECK_CACHE)?,
    };
    let totals = generation.block(last.last.height)?.map(|block| block.running);
    if totals.map(|totals| (totals.utxo_count, totals.utxo_value)) != Some((manifest.utxo_count, manifest.utxo_value)) {
        return Err(malformed("its UTXO count or value is not that of its blocks"));
    }
    drop(generation);
    let note = JoinedNote::new(name);
    note.write(&options.path)?;
    let options = IndexOptions { salt: Some(salt), ..options };
    Ok(Index::open(&options)?.join(&files)?)
}
