//! The source of a value.

use std::fmt;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the defaults file, which is compiled in.
    Defaults,
    /// In the settings file at this path.
    File(PathBuf),
    /// In this environment variable.
    Environment(String),
    /// On the command line, with this flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Defaults => f.write_str("the defaults"),
            Origin::File(path) => path.display().fmt(f),
            Origin::Environment(name) => write!(f, "the environment variable {name}"),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}
