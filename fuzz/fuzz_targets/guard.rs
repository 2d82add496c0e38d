//! Any text as the document of a request: the guard neither panics nor overflows its stack, and is done in time
//! (`-timeout=1`).
#![no_main]

use btcgraph::execution::guard::admit;
use btcgraph::limits::Limits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = admit(text, &Limits::default());
});
