//! Loads the settings: merges their sources, checks them, and derives the values of empty ones.

use std::ffi::OsString;
use std::path::PathBuf;

use super::admin::AdminAddress;
use super::defaults::defaults;
use super::effective::Settings;
use super::error::SettingsError;
use super::layers::{Flag, Merged};
use super::platform::{self, Platform};
use super::{bounds, check, given_limits, webhooks};

/// The sources of the settings, beside the defaults. It has unmasked secrets, so it cannot be printed.
#[derive(Clone, Default)]
pub struct Sources {
    /// A settings file.
    pub file: Option<PathBuf>,
    /// The environment; variables that do not begin with `BTCGRAPH_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// The flags of the command line.
    pub flags: Vec<Flag>,
    /// The directories of this user, `None` if unknown.
    pub platform: Option<Platform>,
}

impl Settings {
    /// The settings that `sources` give. Every error names the setting and its source.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let mut merged = Merged::defaults(defaults())?;
        if let Some(path) = &sources.file {
            let path = sources.platform.as_ref().map_or_else(|| path.clone(), |p| platform::expand_home(path, &p.home));
            merged.add_file(&path)?;
        }
        merged.add_environment(&sources.environment)?;
        merged.add_flags(&sources.flags)?;
        bounds::check_numbers(&merged)?;
        webhooks::check_kinds(&merged)?;
        let mut settings: Settings = merged.read()?;
        settings.limits = given_limits::read(&merged)?;
        bounds::check_sizes(&settings, &merged, sources.platform.as_ref().and_then(|platform| platform.memory))?;
        check::check(&settings, &merged)?;
        webhooks::check(&settings.webhook, (settings.network, &settings.limits), &merged)?;
        settings.derive_empty(sources.platform.as_ref())
    }

    /// Derives the values of empty settings.
    fn derive_empty(mut self, platform: Option<&Platform>) -> Result<Self, SettingsError> {
        if let Some(Platform { home, .. }) = platform {
            let node = &mut self.node;
            let paths = [
                &mut self.data_dir,
                &mut node.rpc_cookie,
                &mut node.blocks_dir,
                &mut self.server.port_file,
                &mut self.server.allowed_operations,
                &mut self.rates.file,
            ];
            let paths = paths.into_iter().chain([&mut self.index.temporary_dir, &mut self.index.pools_file]);
            let paths = paths.chain(self.webhook.iter_mut().map(|hook| &mut hook.secret_file));
            for path in paths.chain(self.admin.listen.path_mut()) {
                *path = platform::expand_home(path, home);
            }
        }
        let known = |setting| platform.ok_or(SettingsError::NoHome { setting });
        if self.data_dir.as_os_str().is_empty() {
            self.data_dir.clone_from(&known("data_dir")?.data);
        }
        if self.index.temporary_dir.as_os_str().is_empty() {
            self.index.temporary_dir = self.network_dir();
        }
        if self.admin.listen.is_empty() {
            self.admin.listen = AdminAddress::default_in(&self.network_dir());
        }
        if self.node.rpc_url.is_empty() {
            self.node.rpc_url = platform::rpc_url(self.network);
        }
        if self.node.rpc_cookie.as_os_str().is_empty() && self.node.rpc_user.is_empty() {
            self.node.rpc_cookie = known("node.rpc_cookie")?.node_cookie(self.network);
        }
        if self.node.blocks_dir.as_os_str().is_empty() && self.node.is_local() {
            let beside_cookie = self.node.rpc_cookie.parent().map(|directory| directory.join("blocks"));
            let blocks = beside_cookie.or_else(|| Some(platform?.node_blocks(self.network)));
            self.node.blocks_dir = blocks.unwrap_or_default();
        }
        Ok(self)
    }
}
