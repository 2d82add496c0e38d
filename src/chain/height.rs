use std::fmt;

/// A block's height: the number of blocks before it in its chain (genesis = 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Height(u32);

impl Height {
    /// The height of the genesis block.
    pub const GENESIS: Height = Height(0);

    /// The height as a number.
    #[must_use]
    pub const fn to_u32(self) -> u32 {
        self.0
    }

    /// The height of the block after this one. Saturates, which no real chain reaches.
    #[must_use]
    pub const fn next(self) -> Height {
        Height(self.0.saturating_add(1))
    }

    /// The height of the block before this one, `None` for genesis.
    #[must_use]
    pub fn previous(self) -> Option<Height> {
        self.0.checked_sub(1).map(Height)
    }
}

impl From<u32> for Height {
    fn from(height: u32) -> Self {
        Height(height)
    }
}

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
