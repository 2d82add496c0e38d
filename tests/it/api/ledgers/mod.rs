//! What scripts hold and held, as a client reads it: figures against the model and the node, lists page by page, and
//! everything that is refused.

mod accounts;
mod addresses;
mod at_any_block;
pub(crate) mod descriptors;
mod expected;
mod figures;
mod first_keys;
pub(crate) mod history_series;
mod lists;
mod net_effect;
mod poller;
mod real_node;
mod refusals;
mod reorganised;
mod scans;
mod spendable;
mod unconfirmed;
mod unconfirmed_truth;
mod walk;
