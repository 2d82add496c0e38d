//! Any lines as the messages of one websocket, a line `next`, `refuse`, `end` or `init due` as what else can happen to it:
//! whatever that is, the rules of the protocol hold, and nothing panics.
#![no_main]

use btcgraph::server::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| fuzzing::converse(text));
