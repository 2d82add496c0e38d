//! JSON-RPC as the node speaks it: envelopes, parameters, and the methods by name.

pub(in crate::sim::node) mod amounts;
pub(in crate::sim::node) mod envelope;
pub(in crate::sim::node) mod methods;
pub(in crate::sim::node) mod params;
