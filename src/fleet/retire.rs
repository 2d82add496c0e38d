//! Removes what no manifest names any more.
//!
//! ```text
//!   manifest, superseded ─► retired/<its name> ─► manifest removed ─► after `keep`: its objects, unless a manifest names
//!                                                                     them again, and then retired/<its name>
//! ```
//!
//! A retired manifest says when its objects were last named, by the clock of the store. An object is removed only when it is older
//! than `keep`, too, because the manifest of an upload that is under way is not there yet.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::{info, warn};

use super::error::FleetError;
use super::manifest::{MOST_BYTES, Manifest};
use super::names::{ContentHash, MANIFESTS, ManifestName, OBJECTS, RETIRED};
use super::store::{FleetStore, ListedObject};

/// How many of its newest manifests a publisher keeps, for joiners whose node does not have the newest block yet.
const KEPT_MANIFESTS: usize = 2;

/// What was removed from a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Manifests.
    pub manifests: u64,
    /// Objects.
    pub objects: u64,
}

/// The manifests in a listing, the lowest first. Other objects are passed over.
pub(super) fn manifests_in(listed: &[ListedObject]) -> Vec<(ManifestName, i64)> {
    let mut names: Vec<_> =
        listed.iter().filter_map(|object| Some((object.name.parse().ok()?, object.written))).collect();
    names.sort();
    names
}

/// Removes the manifests of the publisher of the newest one but this and those right before it, and objects that no manifest has
/// named for `keep`.
///
/// Errors: the store fails.
pub(super) async fn retire(store: &FleetStore, newest: &ManifestName, keep: Duration) -> Result<Retired, FleetError> {
    let mut retired = Retired::default();
    let mut others = manifests_in(&store.list(MANIFESTS).await?);
    // after a reorganisation the newest may be lower than others, of blocks that left the chain
    others.retain(|(name, _)| name.publisher == newest.publisher && name != newest);
    // by height, and of the same height by the time of the write
    others.sort_by(|(a, a_written), (b, b_written)| (a.height, a_written).cmp(&(b.height, b_written)));
    others.truncate(others.len().saturating_sub(KEPT_MANIFESTS - 1));
    for (name, _) in others {
        let content = match store.read(&name.object(), MOST_BYTES).await {
            Err(FleetError::Gone { .. }) => continue,
            content => content?,
        };
        store.write(&name.tombstone(), content).await?;
        store.remove(&name.object()).await?;
        info!(manifest = %name, "retired a manifest");
        retired.manifests += 1;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let oldest = i64::try_from(now.saturating_sub(keep).as_secs()).unwrap_or(i64::MAX);
    let is_old = |written: i64| written < oldest;
    let tombstones = manifests_in(&store.list(RETIRED).await?);
    let (old, recent): (Vec<_>, Vec<_>) = tombstones.into_iter().partition(|(_, written)| is_old(*written));
    let objects = store.list(OBJECTS).await?;
    let objects = objects.iter().filter(|object| is_old(object.written));
    let mut unnamed: Vec<_> = objects.filter_map(|object| object.name.parse::<ContentHash>().ok()).collect();
    let mut recently_named = BTreeSet::new();
    if !unnamed.is_empty() {
        for (name, _) in &recent {
            let Some(named) = objects_of(store, name, &name.tombstone()).await? else { return Ok(retired) };
            recently_named.extend(named);
        }
    }
    unnamed.retain(|object| !recently_named.contains(object));
    let Some(named) = named_objects(store).await? else { return Ok(retired) };
    unnamed.retain(|object| !named.contains(object));
    for object in unnamed {
        // listed again for each, because another publisher may have added a manifest meanwhile
        let Some(named) = named_objects(store).await? else { return Ok(retired) };
        if !named.contains(&object) {
            store.remove(&object.object()).await?;
            info!(object = %object.object(), "removed an object that no manifest names");
            retired.objects += 1;
        }
    }
    store.remove_unfinished(OBJECTS, oldest);
    for (name, _) in old {
        store.remove(&name.tombstone()).await?;
    }
    Ok(retired)
}

/// The objects that the manifests of all publishers name; `None` if that is not known, so that nothing may be removed.
async fn named_objects(store: &FleetStore) -> Result<Option<BTreeSet<ContentHash>>, FleetError> {
    let mut named = BTreeSet::new();
    for (name, _) in manifests_in(&store.list(MANIFESTS).await?) {
        let Some(objects) = objects_of(store, &name, &name.object()).await? else { return Ok(None) };
        named.extend(objects);
    }
    Ok(Some(named))
}

/// The objects that a manifest names, none if it is gone; `None` if it cannot be read.
async fn objects_of(
    store: &FleetStore,
    name: &ManifestName,
    object: &str,
) -> Result<Option<Vec<ContentHash>>, FleetError> {
    let content = match store.read(object, MOST_BYTES).await {
        Err(FleetError::Gone { .. }) => return Ok(Some(Vec::new())),
        content => content?,
    };
    match Manifest::decode(name, &content) {
        Ok(manifest) => Ok(Some(manifest.objects().collect())),
        Err(error) => {
            warn!(%error, "no object is removed, because a manifest cannot be read");
            Ok(None)
        }
    }
}
