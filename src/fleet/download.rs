//! Downloads one object in ranges, each of which is compared with its checksums, into a file that is continued after an
//! interruption: the blocks of it that match their checksums are not requested again.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::checksums::{BLOCK, BlockChecksums};
use super::error::FleetError;
use super::names::ContentHash;
use super::progress::TransferProgress;
use super::store::FleetStore;
use crate::chain::wide;

/// Bytes of a range.
const RANGE: u64 = 4 << 20;
/// Ranges that are requested at the same time.
const CONCURRENT: usize = 8;
/// How often a range is requested that does not match its checksums: it may have been damaged on the way.
const ATTEMPTS: usize = 2;

/// An object that is downloaded.
#[derive(Clone)]
pub(super) struct WantedObject {
    pub(super) object: ContentHash,
    pub(super) bytes: u64,
    pub(super) sums: Arc<BlockChecksums>,
}

/// Downloads what a file lacks of an object, and verifies all of it.
///
/// Errors: [`FleetError::Gone`], `Truncated`, `Changed`, `Stopped`; the store fails; the file cannot be read or written.
pub(super) async fn download(
    store: &FleetStore,
    wanted: &WantedObject,
    path: &Path,
    progress: &Arc<TransferProgress>,
    stop: &CancellationToken,
) -> Result<(), FleetError> {
    let name = wanted.object.object();
    match store.size(&name).await? {
        None => return Err(FleetError::Gone { object: name }),
        Some(found) if found != wanted.bytes => {
            return Err(FleetError::Truncated { object: name, found, expected: wanted.bytes });
        }
        Some(_) => {}
    }
    let (of_scan, target, shared, to_stop) = (wanted.clone(), path.to_path_buf(), Arc::clone(progress), stop.clone());
    let missing = tokio::task::spawn_blocking(move || missing_ranges(&of_scan, &target, &shared, &to_stop)).await??;
    debug!(object = %name, ranges = missing.len(), "downloading what is missing");
    let mut waiting = missing.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < CONCURRENT {
            let Some(range) = waiting.next() else { break };
            let (store, wanted, path, progress) =
                (store.clone(), wanted.clone(), path.to_path_buf(), Arc::clone(progress));
            running.spawn(async move {
                let bytes = range.end - range.start;
                fetch(&store, &wanted, range, &path).await?;
                progress.add(bytes);
                Ok::<_, FleetError>(())
            });
        }
        let joined = tokio::select! {
            joined = running.join_next() => joined,
            () = stop.cancelled() => return Err(FleetError::Stopped),
        };
        match joined {
            None => break,
            // dropping the others stops them
            Some(joined) => joined??,
        }
    }
    let (wanted, path, stop) = (wanted.clone(), path.to_path_buf(), stop.clone());
    tokio::task::spawn_blocking(move || verify_whole(&wanted, &path, &stop)).await?
}

/// Requests a range, and writes it if it matches its checksums.
async fn fetch(store: &FleetStore, wanted: &WantedObject, range: Range<u64>, path: &Path) -> Result<(), FleetError> {
    let object = wanted.object.object();
    let mut attempt = 1;
    loop {
        let content = store.read_range(&object, range.clone()).await?;
        let (sums, path, start) = (Arc::clone(&wanted.sums), path.to_path_buf(), range.start);
        let expected = range.end - range.start;
        let written = tokio::task::spawn_blocking(move || -> Result<Option<u64>, FleetError> {
            if wide(content.len()) != expected {
                return Ok(Some(0));
            }
            if let Some(offset) = sums.first_difference(block_of(start), &content) {
                return Ok(Some(wide(offset)));
            }
            let failed = FleetError::of_file("write", &path);
            let mut file = OpenOptions::new().write(true).open(&path).map_err(&failed)?;
            file.seek(SeekFrom::Start(start)).and_then(|_| file.write_all(&content)).map_err(&failed)?;
            Ok(None)
        });
        match written.await?? {
            None => return Ok(()),
            Some(offset) if attempt == ATTEMPTS => {
                return Err(FleetError::Changed { object, offset: range.start + offset });
            }
            Some(_) => attempt += 1,
        }
    }
}

fn block_of(offset: u64) -> usize {
    usize::try_from(offset / wide(BLOCK)).unwrap_or(usize::MAX)
}

/// The ranges whose bytes in the file do not match their checksums. The file is made if it does not exist.
fn missing_ranges(
    wanted: &WantedObject,
    path: &Path,
    progress: &TransferProgress,
    stop: &CancellationToken,
) -> Result<Vec<Range<u64>>, FleetError> {
    let failed = FleetError::of_file("read", path);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = opened.map_err(FleetError::of_file("make", path))?;
    let is_new = file.metadata().map_err(&failed)?.len() == 0;
    file.set_len(wanted.bytes).map_err(FleetError::of_file("make space for", path))?;
    let (mut missing, mut start) = (Vec::new(), 0);
    let mut content = Vec::new();
    while start < wanted.bytes {
        if stop.is_cancelled() {
            return Err(FleetError::Stopped);
        }
        let range = start..wanted.bytes.min(start + RANGE);
        start = range.end;
        if is_new {
            missing.push(range);
            continue;
        }
        content.resize(usize::try_from(range.end - range.start).unwrap_or(usize::MAX), 0);
        file.read_exact(&mut content).map_err(&failed)?;
        match wanted.sums.first_difference(block_of(range.start), &content) {
            None => progress.add(range.end - range.start),
            Some(_) => missing.push(range),
        }
    }
    Ok(missing)
}

/// Compares the whole file with the name of the object, and makes it durable.
fn verify_whole(wanted: &WantedObject, path: &Path, stop: &CancellationToken) -> Result<(), FleetError> {
    let failed = FleetError::of_file("read", path);
    let mut file = File::open(path).map_err(&failed)?;
    let (mut whole, mut content) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        if stop.is_cancelled() {
            return Err(FleetError::Stopped);
        }
        match file.read(&mut content).map_err(&failed)? {
            0 => break,
            read => whole.update(&content[..read]),
        }
    }
    if ContentHash(whole.finalize().into()) != wanted.object {
        return Err(FleetError::Changed { object: wanted.object.object(), offset: 0 });
    }
    file.sync_all().map_err(FleetError::of_file("flush", path))
}
