//! Reads at many places at once.

use super::super::error::IndexError;

/// Threads that read at many places.
const READERS: usize = 8;
/// Items that are worth a thread of their own.
const SHARE: usize = 8;

/// The results of reads for many items, in their order. Each thread reads for items next to each other.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    read: impl Fn(&T) -> Result<R, IndexError> + Sync,
) -> Result<Vec<R>, IndexError> {
    let share = items.len().div_ceil(READERS).max(SHARE);
    if items.len() <= share {
        return items.iter().map(read).collect();
    }
    std::thread::scope(|scope| {
        let (mut readers, read) = (Vec::with_capacity(READERS), &read);
        for part in items.chunks(share) {
            let reader = std::thread::Builder::new().name("read".into());
            let work = move || part.iter().map(read).collect::<Result<Vec<_>, _>>();
            readers.push(reader.spawn_scoped(scope, work).map_err(IndexError::Threads)?);
        }
        let mut found = Vec::with_capacity(items.len());
        for reader in readers {
            found.extend(reader.join().unwrap_or(Err(IndexError::Broken))?);
        }
        Ok(found)
    })
}
