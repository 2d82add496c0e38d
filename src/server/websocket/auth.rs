//! Who comes in over a websocket: whoever opened it, or whoever its first message says it is.

use std::sync::{Arc, OnceLock};

use super::protocol::{Closing, close};
use crate::server::auth::callers::{Authenticator, Client, bearer};

/// Asks for a token where there must be one.
pub(crate) struct SocketAuth {
    callers: Arc<Authenticator>,
    /// Who opened the connection.
    caller: Arc<Client>,
    guest: AuthenticatedClient,
}

/// Who came in, for those who have to know. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct AuthenticatedClient(Arc<OnceLock<Arc<Client>>>);

impl AuthenticatedClient {
    /// `None` as long as nobody was let in.
    pub(crate) fn caller(&self) -> Option<&Arc<Client>> {
        self.0.get()
    }
}

impl SocketAuth {
    /// Through which comes who opened the connection, or whoever it says it is.
    pub(crate) fn new(callers: Arc<Authenticator>, caller: Arc<Client>) -> Self {
        Self { callers, caller, guest: AuthenticatedClient::default() }
    }

    /// Who will have come in.
    pub(crate) fn guest(&self) -> AuthenticatedClient {
        self.guest.clone()
    }

    /// Who it is, whose first message holds this authorization, as in `Bearer …` or the token alone. Errors: it is not let
    /// in.
    pub(crate) fn admit(&self, authorization: Option<&str>) -> Result<Arc<Client>, Closing> {
        let caller = match authorization {
            Some(text) => self.callers.of(Some(bearer(text).unwrap_or(text.trim())), None).ok(),
            None => Some(self.caller.clone()),
        };
        let admitted = caller.filter(|caller| caller.is_admitted);
        let admitted = admitted.ok_or_else(|| Closing::new(close::FORBIDDEN, "Forbidden".to_owned()))?;
        // it introduces itself once
        Ok(self.guest.0.get_or_init(|| admitted).clone())
    }
}
