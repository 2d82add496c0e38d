//! The client of a websocket: that of the request that opened it, or that of the token in its first message.

use std::sync::{Arc, OnceLock};

use super::protocol::{Closing, close};
use crate::execution::client::Client;
use crate::server::auth::authenticator::{Authenticator, bearer};

/// Authenticates a websocket.
pub(crate) struct SocketAuth {
    authenticator: Arc<Authenticator>,
    /// The client that opened the connection.
    opened_by: Arc<Client>,
    authenticated: AuthenticatedClient,
}

/// The client once it is authenticated, for the log. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct AuthenticatedClient(Arc<OnceLock<Arc<Client>>>);

impl AuthenticatedClient {
    /// `None` before authentication, and if it fails.
    pub(crate) fn get(&self) -> Option<&Arc<Client>> {
        self.0.get()
    }
}

impl SocketAuth {
    pub(crate) fn new(authenticator: Arc<Authenticator>, opened_by: Arc<Client>) -> Self {
        Self { authenticator, opened_by, authenticated: AuthenticatedClient::default() }
    }

    pub(crate) fn authenticated(&self) -> AuthenticatedClient {
        self.authenticated.clone()
    }

    /// The client whose first message has this authorization, as `Bearer …` or the token alone. Errors: it is refused.
    pub(crate) fn authenticate(&self, authorization: Option<&str>) -> Result<Arc<Client>, Closing> {
        let client = match authorization {
            Some(text) => self.authenticator.client(Some(bearer(text).unwrap_or(text.trim())), None).ok(),
            None => Some(self.opened_by.clone()),
        };
        let admitted = client.filter(|client| client.is_admitted);
        let admitted = admitted.ok_or_else(|| Closing::new(close::FORBIDDEN, "Forbidden".to_owned()))?;
        // the protocol allows one first message
        Ok(self.authenticated.0.get_or_init(|| admitted).clone())
    }
}
