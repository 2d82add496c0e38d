//! Following a node: histories of blocks and reorganisations, imports, freezes, and what fails meanwhile.

mod announced;
mod branches;
mod deriving;
pub(crate) mod faults;
mod follow;
mod freeze_failures;
pub(crate) mod freezing;
mod full_disk;
pub(crate) mod histories;
mod import_failures;
mod import_resume;
mod in_sync;
mod interrupted;
mod merging;
mod real_chains;
