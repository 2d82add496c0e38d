//! The body of a request, within its limit and its time.

use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use tokio::time::timeout;

/// How much of a body that is refused is read all the same, in multiples of the limit. A client that is still writing
/// when its connection is closed may never read why.
const READ_ON: u64 = 4;

/// How long a client may take to send a body.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum NoBody {
    /// It is larger than the limit: so many bytes, as far as that is known.
    TooLarge(u64),
    /// It did not come in time, or not to its end.
    Late,
}

/// The whole body. One that says of itself that it is too large is refused at once, unless its client is sending it
/// already and would soon be done.
pub(in crate::server) async fn receive(headers: &HeaderMap, body: Body, limit: usize) -> Result<Vec<u8>, NoBody> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let most = limit.saturating_mul(READ_ON);
    let announced = announced(headers).unwrap_or(0);
    // who expects "100 Continue" sends nothing before it has that
    if announced > most || (announced > limit && headers.contains_key(EXPECT)) {
        return Err(NoBody::TooLarge(announced));
    }
    timeout(TIMEOUT, read(body, limit, most)).await.unwrap_or(Err(NoBody::Late))
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read(body: Body, limit: u64, most: u64) -> Result<Vec<u8>, NoBody> {
    let (mut chunks, mut received, mut size) = (body.into_data_stream(), Vec::new(), 0_u64);
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else { return Err(NoBody::Late) };
        size = size.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if size <= limit {
            received.extend_from_slice(&chunk);
        } else if size > most {
            break;
        }
    }
    if size > limit { Err(NoBody::TooLarge(size)) } else { Ok(received) }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    async fn receive_with(headers: &[(HeaderName, &'static str)], body: Body) -> Result<Vec<u8>, NoBody> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        receive(&headers, body, 10).await
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        assert_eq!(receive_with(&[], Body::from("0123456789")).await, Ok(b"0123456789".to_vec()));
        assert_eq!(receive_with(&[], Body::empty()).await, Ok(Vec::new()));
        assert_eq!(receive_with(&[], Body::from("0123456789a")).await, Err(NoBody::TooLarge(11)));
        assert_eq!(receive_with(&[(CONTENT_LENGTH, "much")], Body::from("0")).await, Ok(b"0".to_vec()));
    }

    /// A body that never comes.
    fn silent() -> Body {
        use async_graphql::futures_util::stream;
        Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>())
    }

    #[tokio::test]
    async fn a_body_that_says_it_is_too_large_is_not_waited_for() {
        let expects = (EXPECT, "100-continue");
        assert_eq!(receive_with(&[(CONTENT_LENGTH, "41")], silent()).await, Err(NoBody::TooLarge(41)));
        assert_eq!(receive_with(&[(CONTENT_LENGTH, "11"), expects], silent()).await, Err(NoBody::TooLarge(11)));
        let fitting = receive_with(&[(CONTENT_LENGTH, "10")], silent());
        assert!(timeout(Duration::from_millis(10), fitting).await.is_err());
    }
}
