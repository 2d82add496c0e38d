//! The node's REST interface (Core's `doc/REST-interface.md`): binary, without login, off unless the node runs with
//! `rest=1`.

use std::sync::Arc;

use super::error::NodeError;
use super::http::{Http, Limits};

/// What REST says.
pub(super) enum RestAnswer {
    /// The bytes that were asked for.
    Found(Vec<u8>),
    /// The interface is there and does not have it.
    Missing,
    /// The interface, or this path of it, is not there.
    NotOffered,
}

pub(super) struct Rest {
    http: Arc<Http>,
}

impl Rest {
    pub(super) fn new(http: Arc<Http>) -> Rest {
        Rest { http }
    }

    /// Gets a path below `/rest/`.
    pub(super) fn get(&self, path: &str, limits: Limits) -> Result<RestAnswer, NodeError> {
        let path = format!("/rest/{path}");
        let answer = self.http.get(&path, limits)?;
        match answer.status {
            200 => Ok(RestAnswer::Found(answer.body)),
            // the interface explains what it does not have; the server says nothing about paths it does not know
            404 if answer.body.is_empty() => Ok(RestAnswer::NotOffered),
            404 => Ok(RestAnswer::Missing),
            _ => Err(NodeError::Protocol { asked: path, problem: answer.excerpt() }),
        }
    }
}
