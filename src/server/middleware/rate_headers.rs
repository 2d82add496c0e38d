//! What a response says of rates: the headers of draft-ietf-httpapi-ratelimit-headers-10, with what a client may still take of a
//! limit, and seconds as `Retry-After` has them.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::execution::gcra::{Allowance, WINDOW};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit");

/// Adds the headers of one policy, of `limit` units a minute. There may be those of another.
pub(crate) fn add_rate_headers(headers: &mut HeaderMap, policy: &str, limit: u32, allowance: Allowance) {
    let seconds = whole_seconds(allowance.full_in);
    for (name, value) in [
        (POLICY, format!("\"{policy}\";q={limit};w={}", WINDOW.as_secs())),
        (REMAINING, format!("\"{policy}\";r={};t={seconds}", allowance.remaining)),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(name, value);
        }
    }
}

/// A duration in whole seconds, rounded up, as `Retry-After` has it.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::execution::gcra::Gcra;

    #[test]
    fn headers_name_the_limit_and_the_remaining_units() {
        let now = Instant::now();
        let (gcra, mut headers) = (Gcra::new(600, now), HeaderMap::new());
        gcra.take(150, now).unwrap();
        add_rate_headers(&mut headers, "cost", gcra.limit(), gcra.allowance(now));
        assert_eq!(headers[POLICY], "\"cost\";q=600;w=60");
        assert_eq!(headers[REMAINING], "\"cost\";r=450;t=15");
        let rounded_up = Allowance { remaining: 7, full_in: Duration::from_millis(500) };
        add_rate_headers(&mut headers, "minute", 90, rounded_up);
        assert_eq!(headers.get_all(REMAINING).iter().nth(1).unwrap(), "\"minute\";r=7;t=1");
    }

    #[test]
    fn seconds_are_rounded_up() {
        let seconds = [0, 1, 1_000, 1_001].map(|milliseconds| whole_seconds(Duration::from_millis(milliseconds)));
        assert_eq!(seconds, [0, 1, 1, 2]);
    }
}
