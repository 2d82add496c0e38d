//! Publishes the frozen blocks of an index: objects that the store does not have, then a manifest.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bitcoin::hex::DisplayHex;
use bitcoin::{BlockHash, Network};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::byte_rate::ByteRate;
use super::checksums::BlockChecksums;
use super::error::FleetError;
use super::files::{lock, write_whole};
use super::manifest::{Manifest, PublishedGeneration};
use super::names::{ContentHash, ManifestName};
use super::progress::TransferProgress;
use super::retire::{Retired, retire};
use super::store::FleetStore;
use super::upload::{UploadedFile, Uploader};
use crate::chain::network;
use crate::index::{FrozenFiles, GenerationIdentity, Salt};

/// How often objects that another publisher removed meanwhile are uploaded again.
const ROUNDS: usize = 3;
/// The ends of the names of files that have what is known of the file of a generation: [`KnownFile`], and its checksums.
const KNOWN_SUFFIXES: [&str; 2] = [".json", ".sums"];

/// The frozen blocks of an index, as a running server reports them. The salt is in the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCut {
    /// The network, as the settings spell it.
    pub network: String,
    /// The generations in force up to the cut, the oldest first.
    pub files: Vec<CutFile>,
    /// The outputs that are unspent after the highest block.
    pub utxo_count: u64,
    /// Their value in sat.
    pub utxo_value: u64,
    /// The height of the highest frozen block, if a reorganisation shortened a generation, so that the cut is lower.
    pub left_out: Option<u32>,
}

/// A generation in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutFile {
    /// Its file.
    pub path: PathBuf,
    /// The height of its highest block.
    pub height: u32,
    /// The hash of that block.
    pub hash: BlockHash,
    /// The number of transactions in the chain up to that block.
    pub transactions: u32,
}

impl PublishedCut {
    /// The cut of an index of this network.
    ///
    /// Errors: a path cannot be made absolute.
    pub fn new(network: Network, frozen: FrozenFiles) -> Result<Self, FleetError> {
        let FrozenFiles { generations, utxo_count, utxo_value, left_out } = frozen;
        let files = generations.into_iter().map(|generation| {
            let path = generation.path;
            Ok(CutFile {
                path: fs::canonicalize(&path).map_err(FleetError::of_file("find", &path))?,
                height: generation.last.height.to_u32(),
                hash: generation.last.hash,
                transactions: generation.end.0,
            })
        });
        let files = files.collect::<Result<_, FleetError>>()?;
        let left_out = left_out.map(|frozen| frozen.height.to_u32());
        Ok(Self { network: network::name(network).to_owned(), files, utxo_count, utxo_value, left_out })
    }
}

/// How to publish.
#[derive(Clone)]
pub struct PublishOptions {
    /// The network.
    pub network: Network,
    /// A directory on the disk of the index, for checksums and for uploads that were interrupted.
    pub directory: PathBuf,
    /// How long an object stays that no manifest names any more.
    pub keep: Duration,
    /// The most bytes a second that are read, for checksums and for uploads.
    pub rate: Option<NonZeroU64>,
    /// Stops publishing, which the next call continues.
    pub stop: CancellationToken,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishOutcome {
    /// The manifest of the cut.
    pub manifest: ManifestName,
    /// Whether the store did not have it before.
    pub is_new: bool,
    /// How many objects were uploaded.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was removed.
    pub retired: Retired,
}

/// What is known of the file of a generation, from an earlier time.
#[derive(Serialize, Deserialize)]
struct KnownFile {
    bytes: u64,
    object: String,
}

/// A generation with its objects.
struct PreparedGeneration {
    file: UploadedFile,
    checksums: ContentHash,
    identity: GenerationIdentity,
    published: PublishedGeneration,
}

/// Publishes this cut of an index, and then removes what this publisher has retired.
///
/// Errors: [`FleetError`]. What was uploaded stays, and is not uploaded again.
pub async fn publish(
    store: &FleetStore,
    cut: &PublishedCut,
    options: &PublishOptions,
) -> Result<PublishOutcome, FleetError> {
    let directory = &options.directory;
    fs::create_dir_all(directory).map_err(FleetError::of_file("make the directory", directory))?;
    let _lock = lock(directory)?;
    let publisher = publisher(directory)?;
    store.refuse_public().await?;
    let prepared = prepare(cut, options).await?;
    let salt = salt_of(&prepared)?;
    let generations = prepared.iter().map(|generation| generation.published.clone()).collect();
    let totals = (cut.utxo_count, cut.utxo_value);
    let manifest = Manifest::new(options.network, &publisher, salt, totals, generations);
    let (name, bytes) = manifest.ok_or(FleetError::NothingFrozen)?.encode()?;

    let (mut objects, mut uploaded) = upload_missing(store, &prepared, options).await?;
    let is_new = store.size(&name.object()).await?.is_none();
    if is_new {
        store.write(&name.object(), bytes).await?;
    }
    // another publisher may have removed an object right before the manifest named it
    for round in 1.. {
        let (more, more_bytes) = upload_missing(store, &prepared, options).await?;
        (objects, uploaded) = (objects + more, uploaded + more_bytes);
        if more == 0 {
            break;
        }
        if round == ROUNDS {
            let object = name.object();
            warn!(%object, "objects of the new manifest are removed again and again: another publisher may have a wrong clock");
            break;
        }
    }
    let kept = store.read(&name.object(), super::manifest::MOST_BYTES).await?;
    Manifest::decode(&name, &kept)?;
    let retired = retire(store, &name, options.keep).await?;
    forget_others(directory, &cut.files);
    Ok(PublishOutcome { manifest: name, is_new, objects, bytes: uploaded, retired })
}

/// The name of this publisher, which is drawn once.
fn publisher(directory: &Path) -> Result<String, FleetError> {
    let path = directory.join("publisher");
    if let Ok(name) = fs::read_to_string(&path)
        && super::names::hex::<8>(name.trim()).is_some()
    {
        return Ok(name.trim().to_owned());
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| FleetError::of_file("draw a name for", &path)(error.into()))?;
    let name = random.to_lower_hex_string();
    write_whole(&path, format!("{name}\n").as_bytes())?;
    Ok(name)
}

/// The salt that all generations have.
fn salt_of(prepared: &[PreparedGeneration]) -> Result<Salt, FleetError> {
    let first = prepared.first().ok_or(FleetError::NothingFrozen)?;
    match prepared.iter().find(|other| other.identity.salt != first.identity.salt) {
        None => Ok(first.identity.salt),
        Some(other) => Err(FleetError::LocalChange { path: other.file.path.clone() }),
    }
}

/// Computes the checksums of the files that were not published before.
async fn prepare(cut: &PublishedCut, options: &PublishOptions) -> Result<Vec<PreparedGeneration>, FleetError> {
    let expected = network::name(options.network);
    if cut.network != expected {
        let (object, found, expected) = ("the index".to_owned(), cut.network.clone(), expected.to_owned());
        return Err(FleetError::WrongNetwork { object, found, expected });
    }
    let (files, options) = (cut.files.clone(), options.clone());
    let work = move || {
        let mut sizes = BTreeMap::new();
        for file in &files {
            let size = fs::metadata(&file.path).map_err(FleetError::of_file("find", &file.path))?.len();
            sizes.insert(file.path.clone(), size);
        }
        let progress = TransferProgress::new("computing checksums", sizes.values().sum());
        let rate = ByteRate::new(options.rate);
        files.iter().map(|file| prepare_file(file, &options, &progress, &rate)).collect()
    };
    tokio::task::spawn_blocking(work).await?
}

fn prepare_file(
    file: &CutFile,
    options: &PublishOptions,
    progress: &TransferProgress,
    rate: &ByteRate,
) -> Result<PreparedGeneration, FleetError> {
    let CutFile { path, height, hash, transactions } = file;
    let bytes = fs::metadata(path).map_err(FleetError::of_file("find", path))?.len();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let identity = GenerationIdentity::read(path, options.network)?;
    let directory = &options.directory;
    let [of_file, of_sums] = KNOWN_SUFFIXES.map(|suffix| directory.join(format!("{name}{suffix}")));
    let known = || {
        let known: KnownFile = serde_json::from_slice(&fs::read(&of_file).ok()?).ok()?;
        let object = known.object.parse::<ContentHash>().ok().filter(|_| known.bytes == bytes)?;
        Some((object, BlockChecksums::decode(fs::read(&of_sums).ok()?, bytes)?))
    };
    let (object, sums) = if let Some(known) = known() {
        progress.add(bytes);
        known
    } else {
        let (object, sums) = BlockChecksums::of_file(path, &options.stop, |read| {
            progress.add(read);
            rate.wait(read, &options.stop);
        })?;
        write_whole(&of_sums, sums.encode())?;
        let known = serde_json::to_vec(&KnownFile { bytes, object: object.to_string() });
        write_whole(&of_file, &known.map_err(|error| FleetError::of_file("write", &of_file)(error.into()))?)?;
        (object, sums)
    };
    let checksums = ContentHash::of(sums.encode());
    // of a name `<first>-<last>-<hash>-<build>.redb`
    let stem = name.rsplit_once('-').map_or(name.as_str(), |(stem, _)| stem).to_owned();
    let range = (identity.range.first.to_u32(), *height, *hash, *transactions);
    let published = PublishedGeneration::new(range, (stem, bytes), (object, checksums), identity.format.clone());
    let file = UploadedFile { path: path.clone(), bytes, object, sums: Arc::new(sums) };
    Ok(PreparedGeneration { file, checksums, identity, published })
}

/// Removes what is known of files that are not of the cut any more, as a merge or a reorganisation replaced them.
fn forget_others(directory: &Path, files: &[CutFile]) {
    let is_of_cut = |name: &str| files.iter().any(|file| file.path.file_name().is_some_and(|of_file| of_file == name));
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let known = KNOWN_SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
        if known.is_some_and(|of_file| {
            Path::new(of_file).extension().is_some_and(|kind| kind == "redb") && !is_of_cut(of_file)
        }) {
            // what stays is small and computed from the file itself
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Uploads the objects that the store does not have. Returns how many, and their bytes.
async fn upload_missing(
    store: &FleetStore,
    prepared: &[PreparedGeneration],
    options: &PublishOptions,
) -> Result<(u64, u64), FleetError> {
    let (mut files, mut sums) = (Vec::new(), Vec::new());
    for generation in prepared {
        let file = &generation.file;
        if is_missing(store, file.object, file.bytes).await? {
            files.push(file);
        }
        if is_missing(store, generation.checksums, BlockChecksums::encoded_bytes(file.bytes)).await? {
            sums.push(generation);
        }
    }
    let of_sums = |generation: &PreparedGeneration| BlockChecksums::encoded_bytes(generation.file.bytes);
    let bytes = files.iter().map(|file| file.bytes).chain(sums.iter().map(|generation| of_sums(generation))).sum();
    if bytes > 0 {
        info!(objects = files.len() + sums.len(), mib = bytes >> 20, store = store.url(), "uploading");
    }
    let progress = TransferProgress::new("uploading", bytes);
    let rate = Arc::new(ByteRate::new(options.rate));
    let (directory, stop) = (&options.directory, &options.stop);
    let uploader = Uploader { store, directory, progress: &progress, rate, stop };
    for generation in &sums {
        tokio::time::sleep(uploader.rate.wait_for(of_sums(generation))).await;
        store.write(&generation.checksums.object(), generation.file.sums.encode().to_vec()).await?;
        progress.add(of_sums(generation));
    }
    for file in &files {
        if options.stop.is_cancelled() {
            return Err(FleetError::Stopped);
        }
        uploader.upload(file).await?;
    }
    let count = files.len() + sums.len();
    Ok((u64::try_from(count).unwrap_or(u64::MAX), bytes))
}

/// Whether the store does not have an object.
///
/// Errors: it has the object with another size.
async fn is_missing(store: &FleetStore, object: ContentHash, bytes: u64) -> Result<bool, FleetError> {
    match store.size(&object.object()).await? {
        None => Ok(true),
        Some(found) if found == bytes => Ok(false),
        Some(found) => Err(FleetError::Truncated { object: object.object(), found, expected: bytes }),
    }
}
