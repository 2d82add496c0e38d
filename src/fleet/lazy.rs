//! Joins before the download is complete: the index is opened on files of which blocks are missing, which are fetched when they
//! are read, and all others meanwhile.
//!
//! ```text
//!   index.joining/lazy.json       the manifest; as long as it is there, files may be missing
//!                /<sha256>.sums   the checksums of an object
//!                /<sha256>.part   an object ── complete, verified as a whole ──► index.frozen/<generation>.redb
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::checksums::BlockChecksums;
use super::download::verify_whole;
use super::error::FleetError;
use super::files::{flush, lock, write_whole};
use super::join::{
    JoinOptions, JoinOutcome, JoinTarget, adopt, build_of, joining_directory, objects_of, part_of, remove,
};
use super::manifest::{Manifest, PublishedGeneration};
use super::names::ManifestName;
use super::pace::Pace;
use super::partial::PartialObject;
use super::progress::TransferProgress;
use super::store::FleetStore;
use super::wanted::WantedObject;
use crate::index::{Index, PartialFile, PartialFiles};

/// The pause after a failure of the download.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// An index that was joined, and whose files are not complete yet.
pub struct LazyJoin {
    index: PathBuf,
    directory: PathBuf,
    files: Vec<LazyFile>,
    /// No other process downloads meanwhile.
    lock: fs::File,
}

/// The file of a generation.
struct LazyFile {
    /// Its name once it is in its place.
    name: String,
    part: PathBuf,
    object: PartialObject,
}

impl LazyJoin {
    /// Makes an index of the newest published blocks that the node has in its main chain, without downloading more than that
    /// takes.
    ///
    /// Errors: as [`join`](fn@super::join).
    pub async fn begin(store: &FleetStore, options: &JoinOptions) -> Result<(Self, JoinOutcome), FleetError> {
        let joining = JoinTarget::begin(options).await?;
        let (name, manifest, files) = joining
            .retry_if_gone(async || {
                let (name, manifest) = joining.choose(store, options).await?;
                let directory = &joining.directory;
                LazyNote::write(&name, &manifest, directory)?;
                let files = files_of(store, &options.index.path, &name, &manifest, &options.stop).await?;
                Ok((name, manifest, files))
            })
            .await?;
        // without the note the index could not be opened
        flush(&joining.directory)?;
        flush(joining.directory.parent().unwrap_or(Path::new(".")))?;
        let parts = files.iter().map(|file| (file.part.clone(), Some(file.partial()))).collect();
        let (of_index, published) = (options.index.clone(), name.clone());
        let tip = tokio::task::spawn_blocking(move || adopt(of_index, &published, &manifest, parts)).await??;
        let (index, directory) = (options.index.path.clone(), joining.directory);
        Ok((Self { index, directory, files, lock: joining.lock }, JoinOutcome { manifest: name, tip }))
    }

    /// Resumes the download of the index in this file. `None` if none was begun there.
    ///
    /// Errors: another process downloads it; the store fails; reading or writing a file fails.
    pub async fn resume(
        store: &FleetStore,
        index: &Path,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, FleetError> {
        let directory = joining_directory(index);
        let Some((name, manifest)) = LazyNote::read(&directory)? else { return Ok(None) };
        let lock = lock(&directory)?;
        let files = files_of(store, index, &name, &manifest, stop).await?;
        info!(manifest = %name, height = manifest.height, missing = files.len(), "going on with the download");
        Ok(Some(Self { index: index.to_path_buf(), directory, files, lock }))
    }

    /// Removes what is left of a download that was complete when the process ended.
    pub fn remove_rest(index: &Path) {
        let directory = joining_directory(index);
        if LazyNote::path(&directory).exists() {
            remove(&directory);
        }
    }

    /// The files that may not be complete, for [`Index::open_partial`].
    #[must_use]
    pub fn partial_files(&self) -> PartialFiles {
        self.files.iter().map(|file| (file.name.clone(), file.partial())).collect()
    }

    /// How many ranges this process requested so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.files.iter().map(|file| file.object.requests()).sum()
    }

    /// Downloads what is missing, the oldest generation first, and moves each to its place when it is complete. What was
    /// downloaded before a failure is not requested again.
    ///
    /// Errors: as [`join`](fn@super::join).
    pub async fn complete(self, stop: &CancellationToken) -> Result<(), FleetError> {
        for file in &self.files {
            let completed = stop.run_until_cancelled(file.complete(&self.index, Pace::ALONE, stop)).await;
            completed.unwrap_or(Err(FleetError::Stopped))?;
        }
        self.end();
        Ok(())
    }

    /// [`LazyJoin::complete`] while the index is read. Continues after failures that may pass, which are logged.
    ///
    /// Errors: [`FleetError::Stopped`], `Misnamed`; reading or writing a file fails.
    pub async fn complete_beside_readers(self, stop: &CancellationToken) -> Result<(), FleetError> {
        let completing = async {
            for file in &self.files {
                while let Err(error) = file.complete(&self.index, Pace::BESIDE_READERS, stop).await {
                    if !error.is_transient() {
                        return Err(error);
                    }
                    warn!(%error, again_in = ?RETRY_PAUSE, "the download is interrupted; what is missing is requested when it is read");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
            Ok(())
        };
        stop.run_until_cancelled(completing).await.unwrap_or(Err(FleetError::Stopped))?;
        self.end();
        Ok(())
    }

    fn end(self) {
        drop(self.lock);
        remove(&self.directory);
        info!("the download is complete: all published blocks are on this machine");
        // what waited for it begins only now that nothing is left to be moved
        for file in &self.files {
            file.object.set_complete();
        }
    }
}

impl LazyFile {
    fn partial(&self) -> Arc<dyn PartialFile> {
        Arc::new(self.object.clone())
    }

    async fn complete(&self, index: &Path, pace: Pace, stop: &CancellationToken) -> Result<(), FleetError> {
        self.object.fill(pace, stop).await?;
        match verify_whole(&self.object, &self.part, stop).await {
            Err(FleetError::Misnamed { .. }) => {
                // a block that changed on the disk is requested again
                self.object.forget();
                self.object.fill(pace, stop).await?;
                verify_whole(&self.object, &self.part, stop).await?;
            }
            verified => verified?,
        }
        // readers have the file open, under any name
        Ok(Index::put_in_place(index, &self.name, &self.part)?)
    }
}

/// What the next start has to know. Has no `Debug`, as [`Manifest`].
#[derive(Serialize, Deserialize)]
struct LazyNote {
    /// The name of the manifest.
    name: String,
    manifest: Manifest,
}

impl LazyNote {
    fn path(directory: &Path) -> PathBuf {
        directory.join("lazy.json")
    }

    fn write(name: &ManifestName, manifest: &Manifest, directory: &Path) -> Result<(), FleetError> {
        let (path, note) = (Self::path(directory), Self { name: name.to_string(), manifest: manifest.clone() });
        let content = serde_json::to_vec(&note).map_err(|error| FleetError::of_file("write", &path)(error.into()))?;
        write_whole(&path, &content)
    }

    /// `None` if there is none.
    fn read(directory: &Path) -> Result<Option<(ManifestName, Manifest)>, FleetError> {
        let path = Self::path(directory);
        let failed = FleetError::of_file("read", &path);
        let content = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            content => content.map_err(&failed)?,
        };
        let Self { name, manifest } = serde_json::from_slice(&content).map_err(|error| failed(error.into()))?;
        Ok(Some((name.parse().map_err(|()| failed(ErrorKind::InvalidData.into()))?, manifest)))
    }
}

/// The files of the generations of a manifest that are not in their place, with their checksums, which are fetched.
async fn files_of(
    store: &FleetStore,
    index: &Path,
    name: &ManifestName,
    manifest: &Manifest,
    stop: &CancellationToken,
) -> Result<Vec<LazyFile>, FleetError> {
    let directory = joining_directory(index);
    let progress = Arc::new(TransferProgress::in_background("downloading", manifest.bytes()));
    let (mut fetches, mut files, health) = (JoinSet::new(), Vec::new(), Arc::default());
    for (at, generation) in manifest.generations.iter().enumerate() {
        let (object, _) = objects_of(name, generation)?;
        let file = Index::generation_name(&generation.stem, build_of(object));
        if Index::has_file(index, &file) {
            progress.add(generation.bytes);
            continue;
        }
        let (store, directory, name, generation) = (store.clone(), directory.clone(), name.clone(), generation.clone());
        let (progress, health, stop) = (Arc::clone(&progress), Arc::clone(&health), stop.clone());
        fetches.spawn(async move {
            let (wanted, part) =
                (wanted(&store, &directory, &name, &generation).await?, part_of(&generation, &directory));
            let object = PartialObject::open(&store, wanted, &part, &progress, (&health, &stop))?;
            Ok::<_, FleetError>((at, LazyFile { name: file, part, object }))
        });
    }
    while let Some(fetched) = fetches.join_next().await {
        files.push(fetched??);
    }
    files.sort_by_key(|(at, _)| *at);
    Ok(files.into_iter().map(|(_, file)| file).collect())
}

/// The object of a generation with its checksums, which are kept in a file for the next start.
async fn wanted(
    store: &FleetStore,
    directory: &Path,
    name: &ManifestName,
    generation: &PublishedGeneration,
) -> Result<WantedObject, FleetError> {
    let (object, sums) = objects_of(name, generation)?;
    let kept = directory.join(format!("{sums}.sums"));
    if let Ok(content) = fs::read(&kept)
        && let Ok(wanted) = WantedObject::new(object, generation.bytes, sums, content)
    {
        return Ok(wanted);
    }
    let content = store.read(&sums.object(), BlockChecksums::encoded_bytes(generation.bytes)).await?;
    let wanted = WantedObject::new(object, generation.bytes, sums, content)?;
    write_whole(&kept, wanted.sums.encode())?;
    Ok(wanted)
}
