//! Optional tables: what each of them has, switching them on and off, and the step by step work that follows.
//!
//! ```text
//!   off ── switch_tables ──► on: new blocks write rows ──► tend_tables: rows of the live blocks that were there before
//!    ▲                        │                             due_table ─► DueTable::build ─► name_table: a file for each
//!    │                        │                                          generation, and then its live rows are swept
//!    └── tend_tables ◄── dropping ◄── switch_tables: files are retired, and live rows deleted
//! ```
//!
//! Live rows stay until the file of their generation is in force, so that a freeze never interrupts lookups.
//!
//! A further table is a variant of [`OptionalTable`] (`list.rs`), its live table (`tables/`), its packed form
//! (`frozen/tables/`, one impl of `DerivedForm`), and its lookups. A live row is a key without a value that follows from a
//! transaction alone and names it; everything else here is the same for all of them.

pub(in crate::index) mod address_prefixes;
mod background;
mod list;
mod live;
pub(in crate::index) mod op_returns;
mod reads;
mod row_context;
mod state;
pub(in crate::index) mod wtxids;

pub use background::NamedTable;
pub(super) use list::txnum_of;
pub use list::{OptionalTable, OptionalTables};
pub(super) use live::{connect_optional, disconnect_optional, skip_optional};
pub(super) use reads::OptionalReads;
pub(super) use row_context::RowContext;
pub(super) use state::{TableState, read_state};
