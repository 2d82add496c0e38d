//! Who comes in over a websocket: whoever opened it, or whoever its first message says it is.

use std::sync::Arc;

use super::super::callers::{Caller, Callers, bearer};
use super::protocol::{Closing, close};

/// Asks for a token where there must be one.
pub(super) struct Door {
    callers: Arc<Callers>,
    /// Who opened the connection.
    caller: Arc<Caller>,
}

impl Door {
    pub(super) fn new(callers: Arc<Callers>, caller: Arc<Caller>) -> Self {
        Self { callers, caller }
    }

    /// Who it is, whose first message holds this authorization, as in `Bearer …` or the token alone. Errors: it is not let
    /// in.
    pub(super) fn admit(&self, authorization: Option<&str>) -> Result<Arc<Caller>, Closing> {
        let caller = match authorization {
            Some(text) => self.callers.of(Some(bearer(text).unwrap_or(text.trim())), None).ok(),
            None => Some(self.caller.clone()),
        };
        let admitted = caller.filter(|caller| caller.is_admitted);
        admitted.ok_or_else(|| Closing::new(close::FORBIDDEN, "Forbidden".to_owned()))
    }
}
