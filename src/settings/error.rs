//! The errors of loading settings.

use std::io;
use std::path::PathBuf;

use super::origin::Origin;

/// Why the settings cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings file cannot be read.
    #[error("cannot read the settings file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The settings file is not TOML.
    #[error("{origin} is not TOML: {reason}")]
    Syntax {
        /// The file.
        origin: Origin,
        /// What is wrong, and where.
        reason: String,
    },
    /// There is no such setting.
    #[error("there is no setting {setting:?} (given by {origin}){}",
        nearest.as_ref().map_or(String::new(), |name| format!("; did you mean {name:?}?")))]
    Unknown {
        /// The unknown name.
        setting: String,
        /// Its source.
        origin: Origin,
        /// The likely correction.
        nearest: Option<String>,
    },
    /// A setting has a value that it cannot have.
    #[error("the setting {setting}, given by {origin}: {reason}")]
    Invalid {
        /// The setting.
        setting: String,
        /// Its source.
        origin: Origin,
        /// What is wrong with it.
        reason: String,
    },
    /// A default lies in the user's home directory, which is not known.
    #[error("this user has no home directory to find a default for the setting {setting} in: set it")]
    NoHome {
        /// The setting.
        setting: &'static str,
    },
    /// The defaults file and the types of the settings do not fit each other: a mistake in btcgraph.
    #[error("the built-in defaults are invalid, which is a bug of btcgraph: {0}")]
    Defaults(String),
}

impl SettingsError {
    pub(super) fn invalid(setting: &str, origin: &Origin, reason: impl Into<String>) -> Self {
        SettingsError::Invalid { setting: setting.to_owned(), origin: origin.clone(), reason: reason.into() }
    }
}
