//! How cacheable each field of the schema is: whether its value for an object can change.
//!
//! ```text
//!   Immutable         never changes once the object is deep in the main chain    Block.hash, Transaction.fee
//!   ImmutableIfFound  what was found stays found; what was not may be later      Query.block
//!   ByArgument        at a height it is immutable, at the tip it is not          Chain.range, Address.balance
//!   UntilNextTip      changes with the main chain                                Block.confirmations, Output.spentBy
//!   UntilNextHead     changes with the mempool or the stale blocks seen, too     Transaction.firstSeenAt
//!   Never             changes at any time: the node, the clock, this server      ServerInfo.subscriptionCount
//! ```
//!
//! An answer is as cacheable as the least cacheable of its fields and of the objects that they belong to; an object notes
//! its own depth ([`ReadSet`](crate::view::ReadSet)). What a list or a value object contains is immutable where the field
//! that returns it is not: only the list itself is new. A field with an argument for a height notes in its resolver up to
//! which height it depends on the chain ([`View::note_chain_up_to`](crate::view::View::note_chain_up_to)).
//!
//! Each type declares its fields beside its definition ([`FieldCacheability`]), and `list.rs` lists the types. A field that is
//! not declared is never cached; subscriptions declare none, because no client caches events. One test compares what is
//! declared with the schema; another repeats queries while the chain grows and compares the answers with it.
//! In doubt choose the less cacheable: that costs a client one more request, and the other costs it a wrong answer for a year.
//!
//! ```text
//!   mark.rs          how cacheable a field is
//!   declaration.rs   what a type declares
//!   list.rs          all types that do; the figures of `Server.limits` are in limits.rs
//!   by_type.rs       the fields of a type, as each field of an answer is found in them
//! ```

mod by_type;
mod declaration;
mod limits;
mod list;
mod mark;
#[cfg(test)]
mod tests;

pub(crate) use by_type::{FindCacheability, TypeCacheability};
pub(crate) use declaration::FieldCacheability;
pub(crate) use list::type_cacheability;

pub use list::field_cacheability;
pub use mark::Cacheability;
