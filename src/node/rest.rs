//! The node's REST interface (Core's `doc/REST-interface.md`): binary, without login, off unless the node runs with
//! `rest=1`.

use std::sync::Arc;

use super::error::NodeError;
use super::http::{Http, ResponseLimits};

/// A response of the REST interface.
pub(super) enum RestResponse {
    /// The requested bytes.
    Found(Vec<u8>),
    /// The interface is enabled and does not have the object.
    NotFound,
    /// The interface, or this path of it, is not enabled.
    Unavailable,
}

pub(super) struct Rest {
    http: Arc<Http>,
}

impl Rest {
    pub(super) fn new(http: Arc<Http>) -> Rest {
        Rest { http }
    }

    /// Gets a path below `/rest/`.
    pub(super) fn get(&self, path: &str, limits: ResponseLimits) -> Result<RestResponse, NodeError> {
        let path = format!("/rest/{path}");
        let answer = self.http.get(&path, limits)?;
        match answer.status {
            200 => Ok(RestResponse::Found(answer.body)),
            // a 404 of the interface has a message; a 404 of the server for an unknown path has no body
            404 if answer.body.is_empty() => Ok(RestResponse::Unavailable),
            404 => Ok(RestResponse::NotFound),
            500..=599 => Err(NodeError::ServerError { asked: path, answer: answer.excerpt() }),
            _ => Err(NodeError::Protocol { asked: path, problem: answer.excerpt() }),
        }
    }
}
