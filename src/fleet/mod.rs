//! One index on many machines: a publisher uploads its frozen blocks to an object store, and other machines join from there.
//!
//! ```text
//!   publisher: frozen files ─ checksums.rs ─ upload.rs ─► objects/<sha256>       ─ partial.rs ──► joiner: Index::join
//!              publish.rs ── manifest.rs ───────────────► manifests/<height>-…   ─ join.rs, lazy.rs ►
//!              retire.rs ───────────────────────────────► retired/<height>-…
//! ```
//!
//! An object has the name of its content and never changes; a manifest names the objects of one cut of the chain. Nothing is
//! overwritten, so that any number of publishers can share a store without coordination. Checksums prove integrity, not
//! truth: a party with write access to the store is trusted, up to the merkle roots that a joiner compares (`joined.rs`).
//! `docs/fleet.md` describes the objects.
//!
//! A backup (`backup.rs`, `restore.rs`) is a directory with all of one index: the generations, each copied once, and a copy of
//! its live tables.

mod backup;
mod block_fetch;
mod byte_rate;
mod checksums;
mod download;
mod error;
mod files;
mod join;
mod joined;
mod lazy;
mod manifest;
mod names;
mod pace;
mod partial;
mod progress;
mod publish;
mod reader_window;
mod restore;
mod retire;
mod store;
mod store_health;
mod upload;
mod wanted;

pub use backup::{BackupOutcome, BackupSource, back_up, check_backup_directory};
pub use error::FleetError;
pub use join::{JoinOptions, JoinOutcome, OnChain, join};
pub use joined::{JoinedNote, TxidCheck};
pub use lazy::LazyJoin;
pub use manifest::{Manifest, PublishedGeneration};
pub use names::ManifestName;
pub use publish::{CutFile, PublishOptions, PublishOutcome, PublishedCut, publish};
pub use restore::{RestoreOutcome, restore};
pub use retire::Retired;
pub use store::FleetStore;
