//! The schema as tools read it from a running server.

use super::serve;
use crate::api::web::assert_no_fault;
use btcgraph::server::Options;

#[test]
fn codegen_and_inspector_read_the_schema_from_the_url() {
    let served = serve(Options::default());
    assert_no_fault("introspected.js", "@graphql-codegen/cli", 130, &[&served.url()]);
}
