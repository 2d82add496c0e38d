//! What a server can do without.

/// What whoever runs the server may switch on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether mutations send transactions to the node, which tells them to the network.
    pub broadcast: bool,
}

impl Features {
    /// The setting that switches broadcasting on, as an error names it.
    pub(super) const BROADCAST: &'static str = "api.broadcast";

    /// The names of what is switched on.
    pub(super) fn names(self) -> Vec<String> {
        self.broadcast.then(|| "broadcast".to_owned()).into_iter().collect()
    }
}
