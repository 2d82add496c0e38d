//! The parameters of a call, by position or by name, checked against those that the method declares (Core's
//! `src/rpc/util.cpp` and `src/rpc/server.cpp`, whose messages these are).

use bitcoin::hashes::{Hash, sha256d};
use serde_json::Value;

use super::super::error::{RpcFailure, code};

/// A declared parameter of a method.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim::node) struct Parameter {
    pub(in crate::sim::node) name: &'static str,
    pub(in crate::sim::node) kind: ParamType,
    pub(in crate::sim::node) required: bool,
}

/// The JSON type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim::node) enum ParamType {
    Array,
    Bool,
    Number,
    Text,
    /// Any type: the method checks it.
    Any,
}

/// Parameters by position, as many as the method declares; missing ones are `null`.
#[derive(Debug, PartialEq)]
pub(in crate::sim::node) struct Params(Vec<Value>);

impl Params {
    /// Checks the parameters of a call against `declared` and orders them by position. `method` is for the message if
    /// their number is wrong.
    pub(in crate::sim::node) fn check(
        method: &str,
        declared: &[Parameter],
        given: Value,
    ) -> Result<Params, RpcFailure> {
        let given = match given {
            Value::Array(given) => given,
            Value::Object(named) => by_position(declared, named)?,
            _ => Vec::new(),
        };
        let least = declared.iter().rposition(|parameter| parameter.required).map_or(0, |last| last + 1);
        if given.len() < least || given.len() > declared.len() {
            return Err(RpcFailure::new(code::MISC, usage(method, declared)));
        }
        let mut wrong = Vec::new();
        for ((number, parameter), value) in (1..).zip(declared).zip(&given) {
            let missing = value.is_null() && !parameter.required;
            if !missing && let Err(problem) = parameter.kind.check(value) {
                wrong.push(format!("    \"Position {number} ({})\": \"{problem}\"", parameter.name));
            }
        }
        if !wrong.is_empty() {
            return Err(RpcFailure::new(code::TYPE, format!("Wrong type passed:\n{{\n{}\n}}", wrong.join(",\n"))));
        }
        let mut values = given;
        values.resize(declared.len(), Value::Null);
        Ok(Params(values))
    }

    pub(in crate::sim::node) fn get(&self, position: usize) -> &Value {
        self.0.get(position).unwrap_or(&Value::Null)
    }

    /// Text; empty if it is missing.
    pub(in crate::sim::node) fn text(&self, position: usize) -> &str {
        self.get(position).as_str().unwrap_or_default()
    }

    pub(in crate::sim::node) fn flag(&self, position: usize, otherwise: bool) -> bool {
        self.get(position).as_bool().unwrap_or(otherwise)
    }

    /// A signed integer of 32 bits, like most of a node's numbers.
    pub(in crate::sim::node) fn integer(&self, position: usize) -> Result<i32, RpcFailure> {
        integer(self.get(position))
    }

    /// An unsigned integer of 32 bits.
    pub(in crate::sim::node) fn unsigned(&self, position: usize) -> Result<u32, RpcFailure> {
        let number = self.get(position).as_u64().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(out_of_range)
    }

    /// A verbosity: a number, or `false` and `true` for 0 and 1.
    pub(in crate::sim::node) fn verbosity(&self, position: usize, otherwise: i32) -> Result<i32, RpcFailure> {
        match self.get(position) {
            Value::Null => Ok(otherwise),
            Value::Bool(flag) => Ok(i32::from(*flag)),
            Value::Number(_) => self.integer(position),
            other => Err(RpcFailure::new(code::TYPE, mismatch(other, "number"))),
        }
    }

    /// A hash in display order. `name` is its name in the message.
    pub(in crate::sim::node) fn hash<H: From<sha256d::Hash>>(
        &self,
        position: usize,
        name: &str,
    ) -> Result<H, RpcFailure> {
        hash(self.text(position), name)
    }
}

/// Parses a hash in display order.
pub(in crate::sim::node) fn hash<H: From<sha256d::Hash>>(text: &str, name: &str) -> Result<H, RpcFailure> {
    let invalid = |problem: String| RpcFailure::new(code::INVALID_PARAMETER, format!("{name} must be {problem}"));
    let length = 2 * sha256d::Hash::LEN;
    if text.len() != length {
        return Err(invalid(format!("of length {length} (not {}, for '{text}')", text.len())));
    }
    let hash: sha256d::Hash = text.parse().map_err(|_| invalid(format!("hexadecimal string (not '{text}')")))?;
    Ok(H::from(hash))
}

fn integer(value: &Value) -> Result<i32, RpcFailure> {
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(out_of_range)
}

fn out_of_range() -> RpcFailure {
    RpcFailure::new(code::MISC, "JSON integer out of range")
}

impl ParamType {
    fn check(self, value: &Value) -> Result<(), String> {
        let (fits, name) = match self {
            ParamType::Array => (value.is_array(), "array"),
            ParamType::Bool => (value.is_boolean(), "bool"),
            ParamType::Number => (value.is_number(), "number"),
            ParamType::Text => (value.is_string(), "string"),
            ParamType::Any => (true, ""),
        };
        if fits { Ok(()) } else { Err(mismatch(value, name)) }
    }
}

fn mismatch(value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("JSON value of type {found} is not of expected type {expected}")
}

fn by_position(declared: &[Parameter], mut named: serde_json::Map<String, Value>) -> Result<Vec<Value>, RpcFailure> {
    let mut given: Vec<Value> = Vec::new();
    for (position, parameter) in declared.iter().enumerate() {
        if let Some(value) = named.remove(parameter.name) {
            given.resize(position, Value::Null);
            given.push(value);
        }
    }
    match named.keys().next() {
        Some(name) => Err(RpcFailure::new(code::INVALID_PARAMETER, format!("Unknown named parameter {name}"))),
        None => Ok(given),
    }
}

/// The usage of a method: its name and parameters, the optional ones in parentheses, texts in quotes.
fn usage(method: &str, declared: &[Parameter]) -> String {
    let mut line = method.to_owned();
    let mut in_brackets = false;
    for parameter in declared {
        let optional = !parameter.required;
        line += match (in_brackets, optional) {
            (false, true) => " ( ",
            (true, false) => " ) ",
            _ => " ",
        };
        in_brackets = optional;
        let quote = if parameter.kind == ParamType::Text { "\"" } else { "" };
        line.extend([quote, parameter.name, quote]);
    }
    if in_brackets { line + " )" } else { line }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DECLARED: [Parameter; 3] = [
        Parameter { name: "hash", kind: ParamType::Text, required: true },
        Parameter { name: "count", kind: ParamType::Number, required: false },
        Parameter { name: "verbose", kind: ParamType::Bool, required: false },
    ];

    fn check(given: Value) -> Result<Vec<Value>, (i32, String)> {
        match Params::check("ask", &DECLARED, given) {
            Ok(params) => Ok(params.0),
            Err(failure) => Err((failure.code, failure.message)),
        }
    }

    #[test]
    fn parameters_are_by_position_or_name_and_missing_ones_are_null() {
        let all = vec![json!("a"), Value::Null, json!(true)];
        assert_eq!(check(json!(["a", null, true])), Ok(all.clone()));
        assert_eq!(check(json!({"verbose": true, "hash": "a"})), Ok(all));
        assert_eq!(check(json!(["a"])), Ok(vec![json!("a"), Value::Null, Value::Null]));
        assert_eq!(check(json!({"hash": "a", "no": 1})), Err((-8, "Unknown named parameter no".into())));
    }

    #[test]
    fn too_few_or_too_many_are_answered_with_the_usage() {
        let usage = Err((-1, "ask \"hash\" ( count verbose )".to_owned()));
        assert_eq!(check(json!([])), usage);
        assert_eq!(check(json!(["a", 1, true, 4])), usage);
    }

    #[test]
    fn all_wrong_types_are_named_at_once() {
        let message = "Wrong type passed:\n{\n    \
            \"Position 1 (hash)\": \"JSON value of type null is not of expected type string\",\n    \
            \"Position 3 (verbose)\": \"JSON value of type number is not of expected type bool\"\n}";
        assert_eq!(check(json!([null, 1, 0])), Err((-3, message.into())));
    }

    #[test]
    fn invalid_numbers_and_hashes_are_refused_with_the_reason() {
        for number in [json!(1.5), json!(3_000_000_000_u32), json!(-3_000_000_000_i64)] {
            assert_eq!(integer(&number).unwrap_err().message, "JSON integer out of range");
        }
        assert_eq!(integer(&json!(-7)), Ok(-7));
        let message = |text: &str| hash::<sha256d::Hash>(text, "hash").unwrap_err().message;
        assert_eq!(message("ab"), "hash must be of length 64 (not 2, for 'ab')");
        let no_hex = "z".repeat(64);
        assert_eq!(message(&no_hex), format!("hash must be hexadecimal string (not '{no_hex}')"));
    }
}
