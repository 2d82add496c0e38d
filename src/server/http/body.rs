//! Receives the body of a request, within its limit, its time and the memory of all.

use std::borrow::Cow;

use async_graphql::ServerError;
use async_graphql::futures_util::StreamExt;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use tokio::time::{Instant, timeout, timeout_at};

use crate::execution::memory::{MemoryBudget, Reservation, SMALL};
use crate::server::connection::min_rate::{MinRate, TransferMonitor};

/// How much of a refused body is read all the same, in multiples of the limit. A client that still writes when its
/// connection is closed may never read why.
const READ_ON: u64 = 4;

/// Why there is no body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodyError {
    /// It is larger than the limit: so many bytes, as far as that is known.
    TooLarge(u64),
    /// It exceeds the memory of all clients.
    NoMemory(ServerError),
    /// It is late, or too slow.
    Late,
    /// It is not chunked as its head says, or the connection ended before it.
    Malformed,
}

/// A body, as far as it is received, with its reservation.
#[derive(Debug, Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    /// Each for as much as was there before, so that there are few.
    reservations: Vec<Reservation>,
    /// The bytes that are reserved, or are too few to be.
    reserved: usize,
}

impl Received {
    fn add(&mut self, chunk: &[u8], memory: &MemoryBudget) -> Result<(), ServerError> {
        let size = self.bytes.len().saturating_add(chunk.len());
        if size > self.reserved.max(SMALL) {
            // as much as is there already, as the buffer grows, too
            let more = size.max(self.reserved.saturating_mul(2)).saturating_sub(self.reserved);
            self.reservations.extend(memory.reserve_large(more)?);
            self.reserved = self.reserved.saturating_add(more);
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The whole body. One that announces to be too large is refused at once, unless its client already sends it and would soon
/// be done.
pub(crate) async fn receive(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    min_rate: MinRate,
    memory: &MemoryBudget,
) -> Result<Received, BodyError> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let most = limit.saturating_mul(READ_ON);
    let announced = announced(headers).unwrap_or(0);
    // a client that expects "100 Continue" sends nothing before that
    if announced > most || (announced > limit && headers.contains_key(EXPECT)) {
        return Err(BodyError::TooLarge(announced));
    }
    timeout(min_rate.timeout, read(body, limit, most, min_rate, memory)).await.unwrap_or(Err(BodyError::Late))
}

/// The only coding in which bodies are read. A compressed body could expand to any multiple of the limit.
pub(crate) const IDENTITY: &str = "identity";

/// How the body is encoded, if that is in a way in which it is not read.
pub(crate) fn unknown_coding(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let codings = headers.get_all(CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    codings.into_iter().find(|codings| {
        let mut each = codings.split(',').map(str::trim);
        !each.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(IDENTITY))
    })
}

/// The transfer coding of the body, if it is another than `chunked` alone. The library removes that one and no other.
pub(crate) fn unknown_transfer_coding(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let codings = headers.get_all(TRANSFER_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    codings.into_iter().find(|codings| !codings.trim().eq_ignore_ascii_case("chunked"))
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read(
    body: Body,
    limit: u64,
    most: u64,
    min_rate: MinRate,
    memory: &MemoryBudget,
) -> Result<Received, BodyError> {
    let (mut chunks, mut received, mut size) = (body.into_data_stream(), Received::default(), 0_u64);
    let mut pace = TransferMonitor::new(min_rate);
    pace.wait(Instant::now());
    loop {
        let next = chunks.next();
        let chunk = match pace.due() {
            Some(due) => timeout_at(due, next).await.map_err(|_| BodyError::Late)?,
            None => next.await,
        };
        let Some(chunk) = chunk else { break };
        let Ok(chunk) = chunk else { return Err(BodyError::Malformed) };
        pace.take(chunk.len(), Instant::now());
        size = size.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if size <= limit {
            received.add(&chunk, memory).map_err(BodyError::NoMemory)?;
        } else if size > most {
            break;
        } else {
            received = Received::default();
        }
    }
    if size > limit { Err(BodyError::TooLarge(size)) } else { Ok(received) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Bytes;
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    async fn receive_with(headers: &[(HeaderName, &'static str)], body: Body) -> Result<Vec<u8>, BodyError> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        receive(&headers, body, 10, LEAST, &MemoryBudget::of_unread_responses(0)).await.map(|body| body.bytes)
    }

    const LEAST: MinRate = MinRate { timeout: Duration::from_secs(30), rate: 1, patience: Duration::from_secs(10) };

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        assert_eq!(receive_with(&[], Body::from("0123456789")).await, Ok(b"0123456789".to_vec()));
        assert_eq!(receive_with(&[], Body::empty()).await, Ok(Vec::new()));
        assert_eq!(receive_with(&[], Body::from("0123456789a")).await, Err(BodyError::TooLarge(11)));
        assert_eq!(receive_with(&[(CONTENT_LENGTH, "much")], Body::from("0")).await, Ok(b"0".to_vec()));
    }

    /// A body that never comes.
    fn silent() -> Body {
        use async_graphql::futures_util::stream;
        Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_says_it_is_too_large_is_not_waited_for() {
        let expects = (EXPECT, "100-continue");
        assert_eq!(receive_with(&[(CONTENT_LENGTH, "41")], silent()).await, Err(BodyError::TooLarge(41)));
        assert_eq!(receive_with(&[(CONTENT_LENGTH, "11"), expects], silent()).await, Err(BodyError::TooLarge(11)));
        let fitting = receive_with(&[(CONTENT_LENGTH, "10")], silent());
        assert!(timeout(Duration::from_millis(10), fitting).await.is_err());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_malformed() {
        use async_graphql::futures_util::stream;
        let chunks = [Ok(b"0".to_vec()), Err(std::io::Error::from(std::io::ErrorKind::InvalidInput))];
        assert_eq!(receive_with(&[], Body::from_stream(stream::iter(chunks))).await, Err(BodyError::Malformed));
    }

    #[test]
    fn only_a_body_as_it_is_has_a_known_coding() {
        for (codings, unknown) in [
            (&[][..], None),
            (&["identity"], None),
            (&["Identity, identity", ""], None),
            (&["gzip"], Some("gzip")),
            (&["identity", "identity, br"], Some("identity, br")),
        ] {
            let headers = codings.iter().map(|value| (CONTENT_ENCODING, HeaderValue::from_static(value))).collect();
            assert_eq!(unknown_coding(&headers).as_deref(), unknown, "{codings:?}");
        }
    }

    /// A body that comes byte by byte, so many tenths of a second after each other.
    fn dripping(bytes: usize, tenths: u64) -> Body {
        use async_graphql::futures_util::stream;
        let drops = stream::iter(0..bytes).then(move |_| async move {
            tokio::time::sleep(Duration::from_millis(tenths * 100)).await;
            Ok::<_, std::io::Error>(Bytes::from_static(b"x"))
        });
        Body::from_stream(drops)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_its_time_in_all_and_comes_at_the_least_rate() {
        let milliseconds = Duration::from_millis;
        let least = |timeout, rate| MinRate { timeout: milliseconds(timeout), rate, patience: milliseconds(500) };
        for (bytes, tenths, least, expected) in [
            (8, 1, least(20_000, 1), Ok(8)),
            // slower than the rate, but not for long
            (2, 1, least(20_000, 100), Ok(2)),
            (1_000, 1, least(20_000, 100), Err(BodyError::Late)),
            (1_000, 2, least(20_000, 100), Err(BodyError::Late)),
            // as fast as that, but too long
            (1_000, 1, least(700, 0), Err(BodyError::Late)),
        ] {
            let received =
                receive(&HeaderMap::new(), dripping(bytes, tenths), 100, least, &MemoryBudget::of_unread_responses(0))
                    .await;
            assert_eq!(received.map(|body| body.bytes.len()), expected, "{bytes} {tenths}");
        }
    }

    #[tokio::test]
    async fn bodies_that_there_is_no_room_for_are_refused_until_others_are_done() {
        let held = MemoryBudget::of_unread_responses(1_536 << 10);
        let receive = async |size: usize| {
            let body = Body::from_stream(async_graphql::futures_util::stream::iter(
                (0..size >> 10).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 1 << 10]))),
            ));
            receive(&HeaderMap::new(), body, 2 << 20, LEAST, &held).await
        };
        let first = receive(512 << 10).await;
        assert_eq!(first.as_ref().map(|body| body.bytes.len()), Ok(512 << 10));
        assert!(matches!(receive(768 << 10).await, Err(BodyError::NoMemory(_))));
        assert_eq!(receive(SMALL).await.map(|body| body.bytes.len()), Ok(SMALL));
        drop(first);
        assert!(receive(768 << 10).await.is_ok());
    }
}
