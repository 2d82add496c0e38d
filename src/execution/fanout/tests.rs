use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::futures_util::{FutureExt, StreamExt};
use async_graphql::{Request, Variables};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::execution::payload::{Payload, Refused, SubscriptionPayload};

const PATIENCE: Duration = Duration::from_secs(10);

type Payloads = BoxStream<'static, Payload>;

/// Sources of streams, each with a sender of its payloads.
#[derive(Clone, Default)]
struct Sources(Arc<Mutex<Vec<mpsc::UnboundedSender<Payload>>>>);

impl Sources {
    fn begin(&self) -> Payloads {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().push(sender);
        UnboundedReceiverStream::new(receiver).boxed()
    }

    fn begun(&self) -> usize {
        self.0.lock().len()
    }

    fn say(&self, which: usize, what: &str) {
        self.0.lock()[which].send(payload(what)).unwrap();
    }

    fn end(&self, which: usize) {
        self.0.lock()[which] = mpsc::unbounded_channel().0;
    }

    fn is_dropped(&self, which: usize) -> bool {
        self.0.lock()[which].is_closed()
    }
}

fn streams() -> Fanout {
    Fanout::new(OpenSubscriptions::default())
}

/// The key of a request with this number among its variables.
fn key(number: u64) -> RequestKey {
    let variables = Variables::from_json(serde_json::json!({ "number": number }));
    RequestKey::of(&Request::new("subscription { a }").variables(variables)).unwrap()
}

fn payload(text: &str) -> Payload {
    Payload::Result(text.to_owned().into())
}

fn join(streams: &Fanout, sharing: Sharing, sources: &Sources) -> Payloads {
    let sources = sources.clone();
    read(streams.join(key(0), sharing, move |_| begun(sources.begin())))
}

fn started(payloads: BoxStream<'static, SubscriptionPayload>, begun: CancellationToken) -> StartedStream {
    StartedStream { payloads, begun }
}

/// What a subscriber is sent.
fn read(stream: StartedStream) -> Payloads {
    stream.payloads.map(|payload| payload.payload).boxed()
}

/// A stream that has begun.
fn begun(payloads: Payloads) -> StartedStream {
    started(payloads.map(SubscriptionPayload::from).boxed(), CancellationToken::new())
}

async fn next(payloads: &mut Payloads) -> Option<String> {
    let payload = tokio::time::timeout(PATIENCE, payloads.next()).await.expect("a payload is sent");
    payload.map(|payload| payload.into_result().to_string())
}

/// Whether nothing is sent and the end has not come, once all others have had their turn.
async fn is_silent(payloads: &mut Payloads) -> bool {
    tokio::time::sleep(Duration::from_millis(20)).await;
    payloads.next().now_or_never().is_none()
}

async fn until(is: impl Fn() -> bool) {
    let waited = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.expect("it comes to that");
}

#[tokio::test]
async fn many_readers_of_one_execution_read_all_in_order() {
    let (streams, sources) = (streams(), Sources::default());
    let mut readers: Vec<_> = (0..50).map(|_| join(&streams, Sharing::FromNowOn, &sources)).collect();
    for what in ["1", "2", "3"] {
        sources.say(0, what);
    }
    sources.end(0);
    for reader in &mut readers {
        for expected in [Some("1"), Some("2"), Some("3"), None] {
            assert_eq!(next(reader).await.as_deref(), expected);
        }
    }
    assert_eq!(sources.begun(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_one_execution_however_many_come_at_once() {
    let (streams, sources) = (streams(), Sources::default());
    let comers = (0..200).map(|_| {
        let (streams, sources) = (streams.clone(), sources.clone());
        tokio::spawn(async move { join(&streams, Sharing::FromNowOn, &sources) })
    });
    let mut readers = Vec::new();
    for comer in comers.collect::<Vec<_>>() {
        readers.push(comer.await.unwrap());
    }
    sources.say(0, "1");
    for reader in &mut readers {
        assert_eq!(next(reader).await.as_deref(), Some("1"));
    }
    assert_eq!((sources.begun(), streams.0.open.count()), (1, 199), "the schema counts one more");
}

#[tokio::test]
async fn what_is_not_the_same_is_not_shared() {
    let (streams, sources) = (streams(), Sources::default());
    let of = |query: &str, operation: Option<&str>, variables: serde_json::Value| {
        let mut request = Request::new(query).variables(async_graphql::Variables::from_json(variables));
        request.operation_name = operation.map(str::to_owned);
        RequestKey::of(&request).unwrap()
    };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let keys = [
        of("a", None, json("{}")),
        of("b", None, json("{}")),
        of("a", Some("A"), json("{}")),
        of("a", None, json(r#"{"x":{"y":1,"z":[1,2]}}"#)),
        of("a", None, json(r#"{"x":{"z":[2,1],"y":1}}"#)),
        // the same as the fourth
        of("a", None, json(r#"{"x":{"z":[1,2],"y":1}}"#)),
    ];
    let readers = keys.map(|key| {
        let sources = sources.clone();
        read(streams.join(key, Sharing::FromNowOn, move |_| begun(sources.begin())))
    });
    assert_eq!((readers.len(), sources.begun()), (6, 5));
}

#[tokio::test]
async fn all_that_join_know_when_it_has_begun() {
    let (streams, sources, token) = (streams(), Sources::default(), CancellationToken::new());
    let join = || {
        let (sources, token) = (sources.clone(), token.clone());
        streams.join(key(0), Sharing::FromNowOn, move |_| {
            started(sources.begin().map(SubscriptionPayload::from).boxed(), token.clone())
        })
    };
    let readers = [join(), join()];
    assert!(readers.iter().all(|reader| !reader.begun.is_cancelled()));
    token.cancel();
    assert!(readers.iter().all(|reader| reader.begun.is_cancelled()));
}

#[tokio::test]
async fn a_reader_too_far_behind_the_others_ends_with_an_error() {
    let bounds = RingBounds { count: 10, bytes: 1_000, all_bytes: 1 << 20 };
    let (streams, sources) = (Fanout::bounded(OpenSubscriptions::default(), bounds), Sources::default());
    let mut quick = join(&streams, Sharing::FromNowOn, &sources);
    let mut slow = join(&streams, Sharing::FromNowOn, &sources);
    for number in 0..11 {
        sources.say(0, &number.to_string());
        assert_eq!(next(&mut quick).await, Some(number.to_string()), "no reader waits for the slow one");
    }
    let last: serde_json::Value = serde_json::from_str(&next(&mut slow).await.unwrap()).unwrap();
    assert_eq!(last["errors"][0]["extensions"]["code"], "RESOURCE_EXHAUSTED");
    assert_eq!(last["data"], serde_json::Value::Null);
    assert_eq!(next(&mut slow).await, None);
    sources.say(0, "on");
    assert_eq!(next(&mut quick).await.as_deref(), Some("on"));
}

#[tokio::test(start_paused = true)]
async fn a_single_reader_takes_items_on_demand() {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let begin = move |_| {
        let taken = counted.clone();
        begun(stream::repeat_with(move || payload(&taken.fetch_add(1, Ordering::Relaxed).to_string())).boxed())
    };
    let mut reader = read(streams().join(key(0), Sharing::FromNowOn, begin));
    for number in 0..5_000 {
        assert_eq!(next(&mut reader).await, Some(number.to_string()));
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(taken.load(Ordering::Relaxed), 5_000, "nothing is taken without a reader");
}

#[tokio::test]
async fn the_last_to_leave_ends_it_at_once() {
    let (streams, sources) = (streams(), Sources::default());
    let readers = [(); 3].map(|()| join(&streams, Sharing::FromNowOn, &sources));
    let mut open = 3;
    for reader in readers {
        assert!(!sources.is_dropped(0));
        open -= 1;
        drop(reader);
        assert_eq!(streams.0.open.count(), u32::try_from(usize::saturating_sub(open, 1)).unwrap());
    }
    assert!(sources.is_dropped(0) && streams.0.running.lock().is_empty());
    let _reader = join(&streams, Sharing::FromNowOn, &sources);
    assert_eq!(sources.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_reader_gets_what_comes_or_the_newest_value() {
    for (sharing, expected) in [(Sharing::FromNowOn, "2"), (Sharing::NewestFirst, "1")] {
        let (streams, sources) = (streams(), Sources::default());
        let mut first = join(&streams, sharing, &sources);
        sources.say(0, "0");
        assert_eq!(next(&mut first).await.as_deref(), Some("0"));
        sources.say(0, "1");
        assert_eq!(next(&mut first).await.as_deref(), Some("1"));
        let mut newcomer = join(&streams, sharing, &sources);
        // the first asks for more
        assert!(is_silent(&mut first).await);
        sources.say(0, "2");
        assert_eq!(next(&mut newcomer).await.as_deref(), Some(expected), "{sharing:?}");
        assert_eq!(sources.begun(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_receivers_continue_with_the_present_value() {
    let (streams, sources) = (streams(), Sources::default());
    let [mut quick, mut slow] = [(); 2].map(|()| join(&streams, Sharing::NewestFirst, &sources));
    for what in ["1", "2", "3"] {
        sources.say(0, what);
        assert_eq!(next(&mut quick).await.as_deref(), Some(what));
    }
    assert_eq!(next(&mut slow).await.as_deref(), Some("3"));
    assert!(is_silent(&mut slow).await);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_for_waiting_readers_and_not_for_new_ones() {
    let (streams, refused) = (streams(), payload_refused());
    let (ask, asked) = mpsc::unbounded_channel();
    let asked = Arc::new(Mutex::new(Some(UnboundedReceiverStream::new(asked))));
    let begin = move || asked.lock().take().map_or_else(|| stream::pending().boxed(), StreamExt::boxed);
    let begin = Arc::new(begin);
    let join = || {
        let begin = begin.clone();
        read(streams.join(key(0), Sharing::FromNowOn, move |_| begun(begin())))
    };
    let mut readers = [join(), join(), join()];
    ask.send(refused.clone()).unwrap();
    for reader in &mut readers {
        assert_eq!(tokio::time::timeout(PATIENCE, reader.next()).await.unwrap(), Some(refused.clone()));
        assert_eq!(next(reader).await, None);
    }
    assert!(is_silent(&mut join()).await, "it asks anew");
}

fn payload_refused() -> Payload {
    Payload::Refused(Refused(r#"[{"message":"no"}]"#.into()))
}

#[tokio::test(start_paused = true)]
async fn joining_an_ended_execution_begins_a_new_one() {
    let (streams, sources) = (streams(), Sources::default());
    let mut first = join(&streams, Sharing::FromNowOn, &sources);
    sources.say(0, "1");
    assert_eq!(next(&mut first).await.as_deref(), Some("1"));
    let mut newcomer = join(&streams, Sharing::FromNowOn, &sources);
    sources.end(0);
    assert_eq!(next(&mut first).await, None, "it has read something");
    let waiting = tokio::spawn(async move { next(&mut newcomer).await });
    until(|| sources.begun() == 2).await;
    sources.say(1, "2");
    assert_eq!(waiting.await.unwrap().as_deref(), Some("2"));
    let _later = join(&streams, Sharing::FromNowOn, &sources);
    assert_eq!(sources.begun(), 3, "what has ended is not joined");
}

#[tokio::test]
async fn a_source_that_panics_ends_its_waiters() {
    let (streams, count) = (streams(), Arc::new(AtomicUsize::new(0)));
    let join = || {
        let count = count.clone();
        let begin = move || match count.fetch_add(1, Ordering::Relaxed) {
            0 => stream::once(async {
                tokio::task::yield_now().await;
                panic!("this is the test's")
            })
            .boxed(),
            number => stream::iter([payload(&number.to_string())]).boxed(),
        };
        read(streams.join(key(0), Sharing::FromNowOn, move |_| begun(begin())))
    };
    let mut readers = [join(), join()];
    assert_eq!(next(&mut readers[0]).await.as_deref(), Some("1"));
    assert_eq!(next(&mut readers[1]).await.as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_readers_are_all_stuck_is_left_to_them() {
    let (streams, sources) = (streams(), Sources::default());
    let mut stuck = join(&streams, Sharing::FromNowOn, &sources);
    for what in ["1", "2", "3"] {
        sources.say(0, what);
    }
    tokio::time::sleep(super::stream::FRESH + Duration::from_millis(100)).await;
    let mut newcomer = join(&streams, Sharing::FromNowOn, &sources);
    assert!(is_silent(&mut newcomer).await, "it was not there when that happened");
    sources.say(1, "4");
    assert_eq!(next(&mut newcomer).await.as_deref(), Some("4"));
    for expected in ["1", "2", "3"] {
        assert_eq!(next(&mut stuck).await.as_deref(), Some(expected));
    }
    drop(stuck);
    assert!(streams.0.running.lock().contains_key(&key(0)), "the newer is still there to be joined");
}

/// Streams of one key, each payload with its number as its resume point. A reader that resumes from a point is sent its number.
fn counting(streams: &Fanout, key: RequestKey, bytes: usize) -> (mpsc::UnboundedSender<u64>, impl Fn() -> Payloads) {
    let (say, receiver) = mpsc::unbounded_channel::<u64>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let streams = streams.clone();
    let join = move || {
        let receiver = receiver.clone();
        let key = key.clone();
        let begin = move |behind: Option<ResumePoint>| {
            if let Some(place) = behind {
                let behind = payload(&format!("behind {}", place.to_number()));
                return begun(stream::iter([behind]).chain(stream::pending()).boxed());
            }
            let receiver = receiver.lock().take().expect("it is begun once");
            let payloads = UnboundedReceiverStream::new(receiver).map(move |number| SubscriptionPayload {
                payload: payload(&format!("{number:0>bytes$}")),
                cost: 1,
                resume_point: Some(ResumePoint::number(number)),
                start: Some(ResumePoint::number(0)),
            });
            started(payloads.boxed(), CancellationToken::new())
        };
        read(streams.join(key, Sharing::FromNowOn, begin))
    };
    (say, join)
}

#[tokio::test]
async fn a_reader_that_can_resume_continues_alone() {
    let bounds = RingBounds { count: 4, bytes: 1_000, all_bytes: 1 << 20 };
    let streams = Fanout::bounded(OpenSubscriptions::default(), bounds);
    let (say, join) = counting(&streams, key(0), 1);
    let [mut quick, mut from_the_start, mut slow] = [join(), join(), join()];
    let mut late = None;
    for number in 1..=9 {
        say.send(number).unwrap();
        assert_eq!(next(&mut quick).await, Some(number.to_string()));
        if number == 1 {
            assert_eq!(next(&mut slow).await.as_deref(), Some("1"));
        }
        if number == 3 {
            late = Some(join());
        }
    }
    assert_eq!(next(&mut from_the_start).await.as_deref(), Some("behind 0"));
    assert_eq!(next(&mut slow).await.as_deref(), Some("behind 1"));
    assert_eq!(next(&mut late.unwrap()).await.as_deref(), Some("behind 3"));
    say.send(10).unwrap();
    assert_eq!(next(&mut quick).await.as_deref(), Some("10"));
}

#[tokio::test]
async fn what_is_too_much_in_all_streams_together_is_at_the_cost_of_those_that_keep_most() {
    let bounds = RingBounds { count: 100, bytes: 10_000, all_bytes: 2_000 };
    let streams = Fanout::bounded(OpenSubscriptions::default(), bounds);
    let (say_much, join_much) = counting(&streams, key(1), 500);
    let (say_little, join_little) = counting(&streams, key(2), 10);
    let (mut quick, mut slow) = (join_much(), join_much());
    let (mut other, mut waiting) = (join_little(), join_little());
    say_little.send(1).unwrap();
    assert_eq!(next(&mut other).await.as_deref(), Some("0000000001"));
    for number in 1..=20 {
        say_much.send(number).unwrap();
        next(&mut quick).await.unwrap();
        assert!(streams.0.kept.load(Ordering::Relaxed) <= 2_000);
    }
    // one that is itself within its share pushes, and those that are not pay
    for number in 2..=30 {
        say_little.send(number).unwrap();
        assert_eq!(next(&mut other).await, Some(format!("{number:0>10}")));
        assert!(streams.0.kept.load(Ordering::Relaxed) <= 2_000);
    }
    for number in 1..=30 {
        assert_eq!(next(&mut waiting).await, Some(format!("{number:0>10}")));
    }
    assert_eq!(next(&mut slow).await.as_deref(), Some("behind 0"));
    drop((quick, slow, other, waiting));
    assert!(streams.0.all.lock().is_empty());
    assert_eq!(streams.0.kept.load(Ordering::Relaxed), 0);
}
