use std::sync::Arc;

use async_graphql::{ID, Object};

use super::database_info::DatabaseInfo;
use super::error::ApiError;
use super::node::SERVER_ID;
use super::request::Pinned;
use super::running::Running;
use super::scalars::{DateTime, int};
use super::server_limits::ServerLimits;

/// This server.
#[derive(Clone)]
pub(super) struct ServerInfo {
    running: Arc<Running>,
    pinned: Pinned,
}

impl ServerInfo {
    pub(super) fn new(running: &Arc<Running>, pinned: Pinned) -> Self {
        Self { running: running.clone(), pinned }
    }
}

/// This server: which program it is, what it allows, and what it keeps. It answers also before any block is indexed.
#[Object]
impl ServerInfo {
    /// `Server:main`, on every server.
    pub(super) async fn id(&self) -> ID {
        SERVER_ID.into()
    }

    /// The version of the program, as in `btcgraph --version`.
    async fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The commit that the program was built from; null if the build did not say.
    async fn git_commit(&self) -> Option<&'static str> {
        option_env!("BTCGRAPH_GIT_COMMIT").filter(|commit| !commit.is_empty())
    }

    /// When the server was started.
    async fn started_at(&self) -> DateTime {
        DateTime::from_system(self.running.started_at)
    }

    /// How large requests and answers may be, and how much they may cost.
    async fn limits(&self) -> ServerLimits {
        (&self.running.limits).into()
    }

    /// The index that the server keeps.
    async fn database(&self) -> DatabaseInfo {
        DatabaseInfo::new(self.pinned.clone())
    }

    /// How many subscriptions are open now, of all clients together.
    async fn subscriptions(&self) -> Result<i32, ApiError> {
        int(self.running.subscriptions())
    }

    /// What is switched on of what a server can do without, by name. `broadcast`: the mutations send transactions.
    async fn features(&self) -> Vec<String> {
        self.running.features.names()
    }
}
