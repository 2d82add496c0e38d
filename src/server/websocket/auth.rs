//! Who comes in over a websocket: whoever opened it, or whoever its first message says it is.

use std::sync::{Arc, OnceLock};

use super::protocol::{Closing, close};
use crate::server::auth::callers::{Caller, Callers, bearer};

/// Asks for a token where there must be one.
pub(crate) struct Door {
    callers: Arc<Callers>,
    /// Who opened the connection.
    caller: Arc<Caller>,
    guest: Guest,
}

/// Who came in, for those who have to know. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Guest(Arc<OnceLock<Arc<Caller>>>);

impl Guest {
    /// `None` as long as nobody was let in.
    pub(crate) fn caller(&self) -> Option<&Arc<Caller>> {
        self.0.get()
    }
}

impl Door {
    /// Through which comes who opened the connection, or whoever it says it is.
    pub(crate) fn new(callers: Arc<Callers>, caller: Arc<Caller>) -> Self {
        Self { callers, caller, guest: Guest::default() }
    }

    /// Who will have come in.
    pub(crate) fn guest(&self) -> Guest {
        self.guest.clone()
    }

    /// Who it is, whose first message holds this authorization, as in `Bearer …` or the token alone. Errors: it is not let
    /// in.
    pub(crate) fn admit(&self, authorization: Option<&str>) -> Result<Arc<Caller>, Closing> {
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
