//! Pages of rows: arguments, cursors, connections and global ids.

pub(crate) mod connection;
pub(crate) mod cursor;
pub(crate) mod global_id;
pub(crate) mod list_descriptions;
pub(crate) mod page;
pub(crate) mod pending_list;
