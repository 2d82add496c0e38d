//! What a document costs before anything is executed, and what the worst documents cost that the guard lets through.
//!
//! `cargo bench --bench guard`; the figures stand in `benches/README.md`. All of them are given as multiples of what it
//! takes to parse `{ __typename }`, too, so that those of two machines can be compared.

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use async_graphql::parser::parse_query;
use async_graphql::{Executor, Request};
use btcgraph::api::{self, Features, Schema};
use btcgraph::execution::guard;
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::view::Published;
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What all figures are multiples of.
const BASELINE: &str = "{ __typename }";

/// The most that a document may take that the guard lets through, the engine's validation included.
const TARGET: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let baseline = time(|| parse_query(BASELINE).is_ok());
    println!("parsing {BASELINE}: {baseline:.2?}");
    typical(baseline)?;
    let schema = api::schema(Published::default(), Live::default(), Limits::default(), Features::default());
    throughput(&runtime, &schema, baseline)?;
    worst(&runtime, &schema, baseline);
    Ok(())
}

/// The median of many runs.
fn time<T>(mut run: impl FnMut() -> T) -> Duration {
    time_each(|| {
        let started = Instant::now();
        black_box(run());
        started.elapsed()
    })
}

/// The same of runs that time themselves.
fn time_each(mut run: impl FnMut() -> Duration) -> Duration {
    let (begun, mut taken) = (Instant::now(), Vec::new());
    while taken.len() < 3 || (taken.len() < 2_000 && begun.elapsed() < Duration::from_secs(1)) {
        taken.push(run());
    }
    taken.sort_unstable();
    taken[taken.len() / 2]
}

/// The medians of the same number of runs of two in turn: what the machine does meanwhile happens to both.
fn time_both<T, U>(mut one: impl FnMut() -> T, mut other: impl FnMut() -> U) -> (Duration, Duration) {
    let mut others = Vec::new();
    let one = time_each(|| {
        let started = Instant::now();
        black_box(one());
        let taken = started.elapsed();
        let started = Instant::now();
        black_box(other());
        others.push(started.elapsed());
        taken
    });
    others.sort_unstable();
    (one, others[others.len() / 2])
}

fn print_ratio(what: &str, taken: Duration, baseline: Duration) {
    println!("  {what}: {taken:.2?}, {:.1} times the baseline", taken.as_secs_f64() / baseline.as_secs_f64());
}

/// A page of a block with its transactions, as an explorer asks for it, in 2 KB.
fn two_kilobytes() -> String {
    let output = "outputs { value scriptType address scriptPubKey isCoinbase spentBy { index transaction { txid } } }";
    let input = "inputs { index sequence previousOutput { value address scriptType } }";
    let transaction = format!("txid wtxid version size weight vsize fee feeRate state confirmations {input} {output}");
    let block = "hash height time medianTime difficulty size weight txCount subsidy totalFees confirmations";
    let mut query = "query Page($height: Int!, $first: Int = 25, $after: String) {\n".to_owned();
    for alias in 0..4 {
        let list = format!(
            "transactions(first: $first, after: $after) {{ nodes {{ {transaction} }} pageInfo {{ hasNextPage }} }}"
        );
        let _ = writeln!(query, "  b{alias}: block(height: $height) {{ {block} previousBlock {{ {block} }} {list} }}");
    }
    query + "}\n"
}

fn typical(baseline: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let (query, limits) = (two_kilobytes(), Limits::default());
    guard::admit(&query, &limits)?;
    println!("a query of {} bytes", query.len());
    let (admitted, parsed) = time_both(|| guard::admit(&query, &limits), || parse_query(&query));
    print_ratio("the parser", parsed, baseline);
    print_ratio("everything else of the guard", admitted.saturating_sub(parsed), baseline);
    let document = parse_query(&query)?;
    print_ratio("a copy of it, as one that is kept is handed on", time(|| document.clone()), baseline);
    Ok(())
}

/// A request with its document parsed, as the server hands it on.
fn request(query: &str) -> Option<Request> {
    let document = guard::admit(query, &Limits::default()).ok()?;
    let mut request = Request::new(query);
    request.set_parsed_query(document);
    Some(request)
}

fn throughput(runtime: &Runtime, schema: &Schema, baseline: Duration) -> Result<(), Box<dyn std::error::Error>> {
    println!("from text to response, without transport");
    for query in [BASELINE, "{ server { subscriptionCount limits { requests { fieldLevels complexity } } } }"] {
        let taken = time(|| request(query).map(|request| runtime.block_on(schema.execute(request))));
        print_ratio(query, taken, baseline);
        println!("    {:.0} a second on one core", 1.0 / taken.as_secs_f64());
        let answer = runtime.block_on(schema.execute(request(query).ok_or("it is refused")?));
        if answer.is_err() {
            return Err(format!("{query}: {:?}", answer.errors).into());
        }
    }
    Ok(())
}

/// Shapes of documents, each of a size.
type Shape = (&'static str, fn(usize) -> String);

fn joined(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(" ")
}

const SHAPES: [Shape; 18] = [
    ("one field many times", |n| format!("{{ tip {{ {} }} }}", "hash ".repeat(n))),
    ("unknown fields, each with a guess at what is meant", |n| {
        format!("{{ tip {{ {} }} }}", joined(n, |i| format!("hasj{i}")))
    }),
    ("one field with a selection many times", |n| format!("{{ tip {{ {} }} }}", "previousBlock { hash } ".repeat(n))),
    ("aliases", |n| {
        format!("{{ tip {{ {} }} }}", joined(n.min(100), |i| format!("a{i}: previousBlock {{ hash height }}")))
    }),
    ("fields within each other", |n| {
        let (levels, each) = (18, n / 18);
        let level = format!("{} previous {{ ", "hash ".repeat(each));
        format!("{{ tip {{ {} hash {} }} }}", level.repeat(levels), "}".repeat(levels))
    }),
    ("inline fragments within each other", |n| {
        let (levels, each) = (58, n / 58);
        let level = format!("{} ... on Block {{ ", "hash ".repeat(each));
        format!("{{ tip {{ {} hash {} }} }}", level.repeat(levels), "}".repeat(levels))
    }),
    ("one fragment spread often", |n| {
        let each = 70.min(n);
        format!("{{ tip {{ {} }} }} fragment F on Block {{ {} }}", "...F ".repeat(n / each), "hash ".repeat(each - 1))
    }),
    ("fragments that double", |n| {
        let levels = usize::try_from(n.max(2).ilog2()).unwrap_or(0);
        let each = joined(levels, |i| format!("fragment F{i} on Block {{ ...F{next} ...F{next} }}", next = i + 1));
        format!("{{ tip {{ ...F0 }} }} {each} fragment F{levels} on Block {{ hash }}")
    }),
    ("a chain of fragments, each with fields", |n| {
        let (levels, each) = (58, n / 58);
        let link = |i: usize| format!("fragment F{i} on Block {{ {} ...F{next} }}", "hash ".repeat(each), next = i + 1);
        format!("{{ tip {{ ...F0 }} }} {} fragment F{levels} on Block {{ hash }}", joined(levels, link))
    }),
    ("fragments side by side", |n| {
        let of = |i: usize| format!("fragment F{i} on Block {{ hash }}");
        format!("{{ tip {{ {} }} }} {}", joined(n, |i| format!("...F{i}")), joined(n, of))
    }),
    ("fragments that nobody spreads", |n| {
        format!("{{ tip {{ hash }} }} {}", joined(n, |i| format!("fragment F{i} on Block {{ hash }}")))
    }),
    ("variables", |n| {
        let defined = joined(n, |i| format!("$v{i}: Int"));
        format!(
            "query({defined}) {{ tip {{ hash }} {} }}",
            joined(n.min(49), |i| format!("a{i}: block(height: $v{i}) {{ hash }}"))
        )
    }),
    ("variables that nobody defined", |n| format!("{{ nodes(ids: [{}]) {{ id }} }}", joined(n, |i| format!("$v{i}")))),
    ("operations", |n| joined(n, |i| format!("query Q{i} {{ tip {{ hash }} }}"))),
    ("operations that spread the same chain with variables", |n| {
        let (levels, operations) = (20, n / 25);
        let link =
            |i| format!("fragment F{i} on Block {{ transactions(first: $v{i}) {{ nodes {{ txid }} }} ...F{} }}", i + 1);
        let chain = format!("{} fragment F{levels} on Block {{ hash }}", joined(levels, link));
        format!("{} {chain}", joined(operations, |i| format!("query Q{i} {{ tip {{ ...F0 }} }}")))
    }),
    ("literals", |n| format!("{{ nodes(ids: [{}]) {{ id }} }}", "\"\" ".repeat(n))),
    ("directives", |n| {
        let included = "hash @include(if: true) ".repeat(n.min(50));
        format!("{{ tip {{ {included} {} }} }}", "hash ".repeat(n.saturating_sub(200)))
    }),
    ("introspection", |n| {
        let of_type = "ofType { name kind ".repeat(8) + &"}".repeat(8);
        let fields = format!("fields {{ name type {{ name kind {of_type} }} }}");
        let aliased = |i: usize| format!("a{i}: types {{ name {fields} }}");
        format!("{{ __schema {{ {} }} }}", joined((n / 25).min(18), aliased))
    }),
];

/// The largest of each shape that the guard lets through, and what it takes until the engine has refused it or begun to
/// execute it: nothing is indexed here, so that executing takes no time, but for introspection.
fn worst(runtime: &Runtime, schema: &Schema, baseline: Duration) {
    println!("the largest documents that the guard lets through");
    let mut above = Vec::new();
    for (name, shape) in SHAPES {
        let is_admitted = |size: &usize| request(&shape(*size)).is_some();
        // what is smaller than one that is admitted need not be, but is, in all of these
        let (mut least, mut most) = (1, 20_000);
        while least + 1 < most {
            let middle = usize::midpoint(least, most);
            if is_admitted(&middle) { least = middle } else { most = middle }
        }
        let query = shape(least);
        let guarded = time(|| request(&query).is_some());
        let mut errors = 0;
        let all = time(|| {
            let answer = request(&query).map(|request| runtime.block_on(schema.execute(request)));
            errors = answer.map_or(0, |answer| answer.errors.len());
        });
        println!("  {name}, {} bytes, size {least}, {errors} errors", query.len());
        print_ratio("  the guard", guarded, baseline);
        print_ratio("  with validation", all, baseline);
        if all > TARGET {
            above.push(name);
        }
    }
    println!("above {TARGET:?}: {above:?}");
}
