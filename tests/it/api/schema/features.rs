//! The page of features names fields and tests that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use btcgraph::api::type_definitions;

/// A row: its number, the feature, its fields and its tests.
type Row = (String, String, Vec<String>, Vec<String>);

/// What stands in code in a cell, separated by commas.
fn codes(cell: &str) -> Vec<String> {
    let items = cell.split(", ").filter(|item| !item.is_empty());
    let code = |item: &str| item.strip_prefix('`').and_then(|item| item.strip_suffix('`')).map(str::to_owned);
    items.map(|item| code(item).unwrap_or_else(|| panic!("not in code: {item}"))).collect()
}

fn rows() -> Vec<Row> {
    let page = include_str!("../../../../docs/features.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| | "));
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, feature, fields, tests] = cells[..] else { panic!("not four cells: {line}") };
        (number.to_owned(), feature.to_owned(), codes(fields), codes(tests))
    };
    rows.map(row).collect()
}

/// The fields of all types, as `Type.field`.
fn fields() -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for definition in parse_schema(type_definitions()).unwrap().definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let of = match definition.node.kind {
            TypeKind::Object(object) => object.fields,
            TypeKind::Interface(interface) => interface.fields,
            _ => continue,
        };
        fields.extend(of.iter().map(|field| format!("{}.{}", definition.node.name.node, field.node.name.node)));
    }
    fields
}

/// The text of the file with a test, or of all files of the folder that it heads; or of a scenario.
fn source(test: &str) -> Option<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    if let Some(scenario) = test.strip_prefix(SCENARIOS) {
        return std::fs::read_to_string(tests.join("scenarios").join(format!("{scenario}.scn"))).ok();
    }
    let (module, _) = test.rsplit_once("::")?;
    let module = tests.join("it").join(module.replace("::", "/"));
    if let Ok(files) = std::fs::read_dir(&module) {
        let paths: Vec<_> = files.map(|file| file.unwrap().path()).filter(|path| path.is_file()).collect();
        return Some(paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect());
    }
    std::fs::read_to_string(module.with_extension("rs")).ok()
}

const SCENARIOS: &str = "scenarios::";
/// It asks for all limits, by the list of them.
const OF_ALL_LIMITS: &str = "api::requests::operations::every_declared_limit_is_a_field_with_its_value";

/// Whether one of the files with these tests has the name of a field.
fn is_asked_for(field: &str, tests: &[String]) -> bool {
    let (of, name) = field.split_once('.').unwrap();
    let names = |text: &str| text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == name);
    (of.ends_with("Limits") && tests.iter().any(|test| test == OF_ALL_LIMITS))
        || tests.iter().filter_map(|test| source(test)).any(|text| names(&text))
}

/// Whether there is a test with this path below tests/it, or a scenario.
fn exists(test: &str) -> bool {
    let name = test.rsplit("::").next().unwrap_or_default();
    source(test).is_some_and(|source| {
        if test.starts_with(SCENARIOS) {
            return true;
        }
        // tests over an index in either form
        let both = source.split("live_and_cut!(").skip(1).filter_map(|rest| rest.split(')').next());
        if both.flat_map(|names| names.split(',')).any(|found| found.trim() == name) {
            return true;
        }
        let mut lines = source.lines().peekable();
        let mut is_test = false;
        lines.any(|line| {
            let line = line.trim_start();
            let found =
                is_test && line.split(['(', '<']).next().is_some_and(|head| head.ends_with(&format!("fn {name}")));
            // further attributes may stand between
            is_test =
                line.starts_with("#[test]") || line.starts_with("#[tokio::test") || (is_test && line.starts_with("#["));
            found
        })
    })
}

#[test]
fn every_field_and_test_of_the_features_exists() {
    let (rows, fields) = (rows(), fields());
    assert!(rows.len() > 100, "the page was read");
    let mut wrong = Vec::new();
    for (number, feature, of, tests) in &rows {
        wrong.extend(
            of.iter().filter(|field| !fields.contains(*field)).map(|field| format!("{number} {feature}: {field}")),
        );
        let unasked = of.iter().filter(|field| fields.contains(*field) && !is_asked_for(field, tests));
        wrong.extend(unasked.map(|field| format!("{number} {feature}: {field} is in none of the files of its tests")));
        wrong.extend(tests.iter().filter(|test| !exists(test)).map(|test| format!("{number} {feature}: {test}")));
        if tests.is_empty() {
            wrong.push(format!("{number} {feature} has no test"));
        }
    }
    assert!(wrong.is_empty(), "not there: {wrong:#?}");
    let mut numbers: BTreeMap<_, u32> = BTreeMap::new();
    for (number, ..) in &rows {
        *numbers.entry(number).or_default() += 1;
    }
    numbers.retain(|_, count| *count > 1);
    assert!(numbers.is_empty(), "rows with one number: {numbers:?}");
}

#[test]
fn a_field_is_asked_for_by_its_whole_name_in_the_file_of_a_test() {
    let tests = |path: &str| [format!("{path}::any")];
    assert!(is_asked_for("Miner.payoutAddresses", &tests("api::block::miners")));
    assert!(!is_asked_for("Miner.payout", &tests("api::block::miners")));
    assert!(is_asked_for("Ledger.statusHash", &tests("api::checker")), "in a file of its folder");
    assert!(!is_asked_for("PageLimits.pageSize", &tests("api::checker")));
    assert!(is_asked_for("PageLimits.pageSize", &[OF_ALL_LIMITS.to_owned()]));
}

#[test]
fn a_test_is_found_by_its_path_and_name_only() {
    assert!(exists("api::schema::features::a_test_is_found_by_its_path_and_name_only"));
    assert!(
        exists("api::ledgers::lists::every_list_is_the_same_in_pages_of_every_size_from_either_end"),
        "over an index in either form"
    );
    assert!(exists("api::schema::everything_in_the_schema_has_a_description"), "in the head file of a folder");
    assert!(exists("scenarios::first-payment") && !exists("scenarios::first"));
    for other in ["api::schema::features::exists", "api::schema::features::a_test", "api::schema::none::a_test", "rows"]
    {
        assert!(!exists(other), "{other}");
    }
}
