//! The settings: their names and types, their sources, and the defaults that depend on the network and the platform.
//!
//! `settings/defaults.toml` is compiled in. With the limits of [`crate::limits`], which are inserted into it, it documents
//! every setting and defines which ones exist; the structs here give each its type. [`Settings::load`] merges file,
//! environment and flags into it and derives the empty values. Only `main` and its commands know the settings; they pass
//! each module what it needs.

mod admin;
mod bounds;
mod check;
mod defaults;
mod effective;
mod error;
mod given_limits;
mod layers;
mod limits;
mod listen;
mod load;
mod node;
mod origin;
mod platform;
mod print;
mod rates;
mod server;
mod values;
mod webhooks;

pub use admin::{AdminAddress, NotAnAdminAddress};
pub use defaults::defaults;
pub use effective::{
    AdminSettings, ApiSettings, IndexSettings, LogSettings, MempoolSettings, PublishSettings, Settings, SyncSettings,
};
pub use error::SettingsError;
pub use layers::Flag;
pub use listen::{ListenAddress, NotAListenAddress};
pub use load::Sources;
pub use node::{NodeAuth, NodeSettings};
pub use origin::Origin;
pub use platform::Platform;
pub use rates::RatesSettings;
pub use server::ServerSettings;
pub use values::{ByteSize, LogFormat, MASK, NotASalt, NotASize, RawTransactions, Salt, Secret};
pub use webhooks::WebhookSettings;

#[cfg(test)]
mod tests;
