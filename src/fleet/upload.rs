//! Uploads one object. A large one is sent in parts, and an upload that was interrupted continues behind the parts that the
//! bucket has.
//!
//! The parts that a bucket has are noted in a file beside the index, `<sha256>.upload`: a first line with the store, the
//! number of the upload and the size of a part, then a line for each part. A bucket that does not know the upload any more
//! begins a new one.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::multipart::{MultipartStore, PartId};
use object_store::{Error, MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::byte_rate::ByteRate;
use super::checksums::{BLOCK, BlockChecksums};
use super::error::FleetError;
use super::names::ContentHash;
use super::progress::TransferProgress;
use super::store::FleetStore;
use crate::chain::wide;

/// The smallest part; a smaller object is sent as a whole.
const PART: u64 = 8 << 20;
/// A bucket takes 10,000 parts at most.
const MOST_PARTS: u64 = 9_000;
/// Parts that are uploaded at the same time.
const CONCURRENT: usize = 4;

/// A local file that is uploaded.
pub(super) struct UploadedFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) object: ContentHash,
    pub(super) sums: Arc<BlockChecksums>,
}

/// What all uploads share.
pub(super) struct Uploader<'u> {
    pub(super) store: &'u FleetStore,
    /// Where the parts are noted.
    pub(super) directory: &'u Path,
    pub(super) progress: &'u TransferProgress,
    pub(super) rate: Arc<ByteRate>,
    pub(super) stop: &'u CancellationToken,
}

impl Uploader<'_> {
    /// Uploads a file, every block of which is compared with its checksum before.
    ///
    /// Errors: the store fails; the file cannot be read, or changed; [`FleetError::Stopped`].
    pub(super) async fn upload(&self, file: &UploadedFile) -> Result<(), FleetError> {
        let name = file.object.object();
        if file.bytes <= PART {
            let content = self.unless_stopped(self.read_part(file, 0, file.bytes)).await??;
            self.store.write(&name, content).await?;
            self.progress.add(file.bytes);
            return Ok(());
        }
        if self.store.bucket().is_some() { self.upload_parts(file, &name).await } else { self.copy(file, &name).await }
    }

    /// Copies a file to a directory, where it appears when it is complete.
    async fn copy(&self, file: &UploadedFile, name: &str) -> Result<(), FleetError> {
        let failed = |error| FleetError::of_store("write", name, error);
        let mut upload = self.store.objects().put_multipart(&self.store.path(name)).await.map_err(failed)?;
        let copied = self.copy_to(file, name, upload.as_mut()).await;
        if copied.is_err() {
            // if that fails, what is left is not an object, and is removed with retired ones
            let _ = upload.abort().await;
        }
        copied
    }

    async fn copy_to(
        &self,
        file: &UploadedFile,
        name: &str,
        upload: &mut dyn MultipartUpload,
    ) -> Result<(), FleetError> {
        let failed = |error| FleetError::of_store("write", name, error);
        let mut offset = 0;
        while offset < file.bytes {
            let length = PART.min(file.bytes - offset);
            let content = self.unless_stopped(self.read_part(file, offset, length)).await??;
            self.unless_stopped(upload.put_part(PutPayload::from(content))).await?.map_err(failed)?;
            self.progress.add(length);
            offset += length;
        }
        upload.complete().await.map(|_| ()).map_err(failed)
    }

    async fn upload_parts(&self, file: &UploadedFile, name: &str) -> Result<(), FleetError> {
        let Some(bucket) = self.store.bucket() else { return Ok(()) };
        let failed = |error| FleetError::of_store("write", name, error);
        let path = self.store.path(name);
        let note = self.directory.join(format!("{}.upload", file.object));
        let mut parts = if let Some(parts) = PartsNote::read(&note, self.store.url()) {
            parts
        } else {
            let id = bucket.create_multipart(&path).await.map_err(failed)?;
            PartsNote::begin(&note, self.store.url(), id, part_bytes(file.bytes))?
        };
        let (bytes, part_bytes) = (file.bytes, parts.part_bytes);
        let count = bytes.div_ceil(part_bytes);
        let length_of = |part: u64| part_bytes.min(bytes - part * part_bytes);
        let missing: Vec<_> = (0..count).filter(|part| !parts.done.contains_key(part)).collect();
        self.progress.add(parts.done.keys().filter(|part| **part < count).map(|part| length_of(*part)).sum());
        let mut running = JoinSet::new();
        let mut waiting = missing.into_iter();
        loop {
            while running.len() < CONCURRENT {
                let Some(part) = waiting.next() else { break };
                let (bucket, path, id) = (bucket.clone(), path.clone(), parts.id.clone());
                let content = self.read_part(file, part * part_bytes, length_of(part));
                running.spawn(async move {
                    let content = PutPayload::from(content.await?);
                    let index = usize::try_from(part).unwrap_or(usize::MAX);
                    Ok::<_, FleetError>((part, bucket.put_part(&path, &id, index, content).await))
                });
            }
            // dropping the others when it fails stops them; their parts are uploaded again
            let Some(joined) = self.unless_stopped(running.join_next()).await? else { break };
            match joined?? {
                (part, Ok(id)) => {
                    self.progress.add(length_of(part));
                    parts.add(part, id.content_id)?;
                }
                (_, Err(error)) => return Err(part_failed(name, &note, error)),
            }
        }
        let ids = parts.done.values().map(|id| PartId { content_id: id.clone() }).collect();
        if let Err(error) = bucket.complete_multipart(&path, &parts.id, ids).await {
            return Err(part_failed(name, &note, error));
        }
        fs::remove_file(&note).map_err(FleetError::of_file("remove", &note))
    }

    /// Reads a part of a file when it is due, as [`read_part`] does.
    fn read_part(
        &self,
        file: &UploadedFile,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Vec<u8>, FleetError>> + use<> {
        let (path, sums, rate) = (file.path.clone(), Arc::clone(&file.sums), Arc::clone(&self.rate));
        async move {
            tokio::time::sleep(rate.wait_for(length)).await;
            tokio::task::spawn_blocking(move || read_part(&path, &sums, offset, length)).await?
        }
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, FleetError> {
        tokio::select! {
            done = work => Ok(done),
            () = self.stop.cancelled() => Err(FleetError::Stopped),
        }
    }
}

/// A bucket that does not know the upload has removed it: the next attempt begins a new one.
fn part_failed(name: &str, note: &Path, error: Error) -> FleetError {
    match error {
        Error::NotFound { .. } => {
            let _ = fs::remove_file(note);
            let source = Error::Generic { store: "S3", source: "the upload was removed by the bucket".into() };
            FleetError::Store { doing: "write", object: name.to_owned(), source: Box::new(source) }
        }
        error => FleetError::of_store("write", name, error),
    }
}

/// The size of a part of an object with so many bytes, a multiple of a block.
fn part_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(MOST_PARTS).next_multiple_of(1 << 20).max(PART)
}

/// Reads a part of a file, which begins at a block, and compares it with its checksums.
fn read_part(path: &Path, sums: &BlockChecksums, offset: u64, length: u64) -> Result<Vec<u8>, FleetError> {
    let failed = FleetError::of_file("read", path);
    let mut content = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let mut file = File::open(path).map_err(&failed)?;
    file.seek(SeekFrom::Start(offset)).map_err(&failed)?;
    file.read_exact(&mut content).map_err(&failed)?;
    let first = usize::try_from(offset / wide(BLOCK)).unwrap_or(usize::MAX);
    match sums.first_difference(first, &content) {
        None => Ok(content),
        Some(_) => Err(FleetError::LocalChange { path: path.to_owned() }),
    }
}

/// The parts of an upload that the bucket has.
struct PartsNote {
    path: PathBuf,
    file: File,
    id: String,
    part_bytes: u64,
    done: BTreeMap<u64, String>,
}

impl PartsNote {
    fn begin(path: &Path, url: &str, id: String, part_bytes: u64) -> Result<Self, FleetError> {
        let failed = FleetError::of_file("write", path);
        let mut file = File::create(path).map_err(&failed)?;
        file.write_all(format!("{part_bytes}\t{url}\t{id}\n").as_bytes()).map_err(&failed)?;
        Ok(Self { path: path.to_path_buf(), file, id, part_bytes, done: BTreeMap::new() })
    }

    /// `None` if there is none that is usable for this store.
    fn read(path: &Path, url: &str) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let mut first = lines.next()?.split('\t');
        let part_bytes = first.next()?.parse().ok().filter(|bytes| *bytes >= PART && bytes % wide(BLOCK) == 0)?;
        let id = (first.next()? == url).then(|| first.next().map(str::to_owned))??;
        let part = |line: &str| {
            let (part, id) = line.split_once('\t')?;
            Some((part.parse().ok()?, id.to_owned()))
        };
        let done = lines.map_while(part).collect();
        let file = OpenOptions::new().append(true).open(path).ok()?;
        // half a line, which a crash left, would begin the next one
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(wide(whole)).ok()?;
        Some(Self { path: path.to_path_buf(), file, id, part_bytes, done })
    }

    fn add(&mut self, part: u64, id: String) -> Result<(), FleetError> {
        let line = format!("{part}\t{id}\n");
        self.file.write_all(line.as_bytes()).map_err(FleetError::of_file("write", &self.path))?;
        self.done.insert(part, id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_blocks_and_not_too_many() {
        for bytes in [PART + 1, 1 << 30, 80 << 30, 5 << 40] {
            let part = part_bytes(bytes);
            assert!(
                part.is_multiple_of(wide(BLOCK)) && part >= PART && bytes.div_ceil(part) <= MOST_PARTS,
                "{bytes}: {part}"
            );
        }
    }

    #[test]
    fn noted_parts_are_read_again_but_for_half_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.upload");
        assert!(PartsNote::read(&path, "s3://a").is_none());
        let mut note = PartsNote::begin(&path, "s3://a", "upload 1".to_owned(), PART).unwrap();
        note.add(3, "\"c\"".to_owned()).unwrap();
        note.add(0, "\"z\"".to_owned()).unwrap();
        std::io::Write::write_all(&mut note.file, b"7\t\"ha").unwrap();
        PartsNote::read(&path, "s3://a").unwrap().add(5, "\"f\"".to_owned()).unwrap();
        let read = PartsNote::read(&path, "s3://a").unwrap();
        assert_eq!((read.id.as_str(), read.part_bytes), ("upload 1", PART));
        assert_eq!(
            read.done,
            BTreeMap::from([(0, "\"z\"".to_owned()), (3, "\"c\"".to_owned()), (5, "\"f\"".to_owned())])
        );
        assert!(PartsNote::read(&path, "s3://other").is_none());
    }
}
