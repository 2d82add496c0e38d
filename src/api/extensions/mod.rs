//! What surrounds the execution of a request: extensions of the engine, and what a request carries with it.

pub(crate) mod account;
pub(crate) mod cacheability;
pub(crate) mod conflicting_fields;
pub(crate) mod counted_document;
pub(crate) mod field_rules;
pub(crate) mod longest_list;
pub(crate) mod operation;
pub(crate) mod refused_value;
pub(crate) mod request;
pub(crate) mod sent_arguments;
pub(crate) mod spec_fixes;
pub(crate) mod wait_for_tip;
pub(crate) mod yielding;
