//! Downloads one object into a file that is continued after an interruption: the blocks of it that match their checksums are
//! not requested again.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::error::FleetError;
use super::names::ContentHash;
use super::pace::Pace;
use super::partial::PartialObject;
use super::progress::TransferProgress;
use super::store::FleetStore;
use super::wanted::WantedObject;

/// Downloads what a file lacks of an object, and verifies all of it.
///
/// Errors: as [`PartialObject::fill`] and [`verify_whole`].
pub(super) async fn download(
    store: &FleetStore,
    wanted: &WantedObject,
    path: &Path,
    progress: &Arc<TransferProgress>,
    stop: &CancellationToken,
) -> Result<(), FleetError> {
    let object = PartialObject::open(store, wanted.clone(), path, progress, (&Arc::default(), stop))?;
    object.fill(Pace::ALONE, stop).await?;
    verify_whole(&object, path, stop).await
}

/// Compares the whole file with the name of the object, and makes it durable.
///
/// Errors: [`FleetError::Misnamed`], `Stopped`; the file cannot be read or flushed.
pub(super) async fn verify_whole(
    object: &PartialObject,
    path: &Path,
    stop: &CancellationToken,
) -> Result<(), FleetError> {
    let (name, path, stop) = (object.wanted().object, path.to_path_buf(), stop.clone());
    tokio::task::spawn_blocking(move || {
        let failed = FleetError::of_file("read", &path);
        let mut file = File::open(&path).map_err(&failed)?;
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
        if ContentHash(whole.finalize().into()) != name {
            return Err(FleetError::Misnamed { object: name.object() });
        }
        file.sync_all().map_err(FleetError::of_file("flush", &path))
    })
    .await?
}
