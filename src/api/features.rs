//! What a server can do without.

/// What the part that runs the server may switch on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether mutations send transactions to the node, which tells them to the network.
    pub broadcast: bool,
    /// Whether confirmed transactions are found by their wtxids.
    pub wtxids: bool,
}

impl Features {
    /// The setting that switches broadcasting on, as an error names it.
    pub(crate) const BROADCAST: &'static str = "api.broadcast";

    /// The setting that switches lookups of confirmed transactions by their wtxids on.
    pub(crate) const WTXIDS: &'static str = "index.wtxids";

    /// The names of what is switched on.
    pub(crate) fn names(self) -> Vec<String> {
        let names = [(self.broadcast, "broadcast"), (self.wtxids, "wtxids")];
        names.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.to_owned()).collect()
    }
}
