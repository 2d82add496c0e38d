//! Publishing the frozen blocks of an index, and joining from them: the program on a directory and on a bucket, and what
//! happens when the store, the objects or the processes fail; and backups.

mod backups;
mod bucket;
mod directory;
mod faults;
mod full_disk;
mod interrupted;
mod lazy;
mod retiring;
pub(super) mod s3;
mod stage;
