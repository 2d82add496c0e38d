use std::sync::Arc;

use async_graphql::{ID, Object};

use super::database_info::DatabaseInfo;
use super::server_limits::ServerLimits;
use crate::api::context::{Pinned, ServingContext};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::features::Feature;
use crate::api::pagination::global_id::SERVER_ID;
use crate::api::scalars::{DateTime, int};

/// An optional feature, and whether it is switched on.
pub(crate) struct FeatureInfo {
    name: Feature,
    enabled: bool,
}

impl FieldCacheability for FeatureInfo {
    const NEVER: &'static str = "name enabled setting";
}

/// An optional feature of the server. If it is disabled, what needs it fails with FEATURE_DISABLED.
#[Object(name = "Feature")]
impl FeatureInfo {
    /// The feature.
    async fn name(&self) -> Feature {
        self.name
    }

    /// Whether this server has it.
    async fn enabled(&self) -> bool {
        self.enabled
    }

    /// The setting with which the operator enables it.
    async fn setting(&self) -> &'static str {
        self.name.setting()
    }
}

/// This server.
#[derive(Clone)]
pub(crate) struct ServerInfo {
    serving: Arc<ServingContext>,
    pinned: Pinned,
}

impl ServerInfo {
    pub(crate) fn new(serving: &Arc<ServingContext>, pinned: Pinned) -> Self {
        Self { serving: serving.clone(), pinned }
    }
}

impl FieldCacheability for ServerInfo {
    const NEVER: &'static str = "id softwareVersion gitCommit startedAt limits database subscriptionCount features";
}

/// This server: its version, its limits and features, and its index. Available even before any block is indexed.
#[Object]
impl ServerInfo {
    /// Always `Server:main`, on every server.
    pub(crate) async fn id(&self) -> ID {
        SERVER_ID.into()
    }

    /// The version of the program, as in `btcgraph --version`.
    async fn software_version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The commit that the program was built from. Null if the build did not record it.
    async fn git_commit(&self) -> Option<&'static str> {
        option_env!("BTCGRAPH_GIT_COMMIT").filter(|commit| !commit.is_empty())
    }

    /// When the server was started.
    async fn started_at(&self) -> DateTime {
        DateTime::from_system(self.serving.started_at)
    }

    /// The limits on the size and cost of requests and answers.
    async fn limits(&self) -> ServerLimits {
        (&self.serving.limits).into()
    }

    /// The index that the server stores.
    async fn database(&self) -> DatabaseInfo {
        DatabaseInfo::new(self.pinned.clone(), &self.serving)
    }

    /// The number of subscriptions that are open now, of all clients together.
    async fn subscription_count(&self) -> Result<i32, ApiError> {
        int(self.serving.subscriptions())
    }

    /// All optional features, and whether this server has them.
    #[graphql(complexity = "costs::list(Feature::ALL.len(), child_complexity)")]
    async fn features(&self) -> Vec<FeatureInfo> {
        Feature::ALL.map(|name| FeatureInfo { name, enabled: self.serving.features.has(name) }).into()
    }
}
