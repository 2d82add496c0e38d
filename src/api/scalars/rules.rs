//! What values of arguments are, in the words of an error: the engine names the argument, the place in it and the type.

use async_graphql::registry::MetaType;
use async_graphql::{Name, Value};

use crate::api::error::shown;

/// What a value of a scalar with this name is; `None` for other types.
fn rule(scalar: &str) -> Option<&'static str> {
    Some(match scalar {
        "BigInt" => "a decimal string without sign and leading zeros",
        "BlockHash" | "Hash256" | "Txid" | "Wtxid" => "a string of 64 hexadecimal digits",
        "Boolean" => "true or false",
        "DateTime" => "a UTC time from 1970 to 2106 such as \"2009-01-03T18:15:05Z\"",
        "Decimal" => "a decimal number in a string",
        "Float" => "a number",
        "Hex" => "a string of hexadecimal digits, two for each byte, without 0x",
        "ID" => "a string or an integer",
        "Int" => "an integer of 32 bits",
        "Int53" => "an integer from -(2^53 - 1) to 2^53 - 1",
        "Sats" => "an amount in satoshis, an integer from 0 to 2^53 - 1",
        "SignedSats" => "a change in satoshis, an integer from -(2^53 - 1) to 2^53 - 1",
        "String" => "a string",
        "UInt53" => "an integer from 0 to 2^53 - 1",
        _ => return None,
    })
}

/// What a value of a type with parts is.
fn rule_of(kind: &MetaType) -> Option<String> {
    match kind {
        MetaType::InputObject { oneof: true, input_fields, .. } => {
            Some(format!("an object with exactly one of the fields {}", joined(input_fields.keys())))
        }
        MetaType::InputObject { .. } => Some("an object".to_owned()),
        MetaType::Enum { enum_values, .. } => Some(format!("one of {}", joined(enum_values.keys()))),
        _ => None,
    }
}

fn joined<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

/// Adds what is expected, and what is wrong with the value, to a message of the engine's validation about a value of this type.
pub(crate) fn explain(message: &mut String, value: Option<&Value>, kind: Option<&MetaType>) {
    if let (Some(MetaType::InputObject { name, .. }), Some(end)) = (kind, message.find("\", Oneof ")) {
        message.truncate(end);
        for part in ["\", expected type \"", name, "\""] {
            message.push_str(part);
        }
    }
    if let (Some(MetaType::Enum { enum_values, .. }), true) = (kind, message.contains(" does not contain the value ")) {
        message.push_str(": give one of ");
        message.push_str(&joined(enum_values.keys()));
        return;
    }
    let expected = message.strip_suffix('"').and_then(|message| message.rsplit_once("expected type \""));
    let Some((_, expected)) = expected else { return };
    let of_list = || expected.starts_with('[').then(|| "a list".to_owned());
    let rule = rule(expected).map(str::to_owned).or_else(|| kind.and_then(rule_of)).or_else(of_list);
    let Some(rule) = rule else { return };
    let found = value.map(|value| match (kind, value) {
        (Some(MetaType::InputObject { input_fields, .. }), Value::Object(given)) => {
            let is_known = |(name, _): &(&Name, &Value)| input_fields.contains_key(name.as_str());
            fields_found(given.iter().filter(is_known))
        }
        _ => found(expected, value),
    });
    message.push_str(": ");
    message.push_str(&rule);
    if let Some(found) = found {
        message.push_str(", got ");
        message.push_str(&found);
    }
}

/// Which fields an object has that must have exactly one.
fn fields_found<'a>(given: impl Iterator<Item = (&'a Name, &'a Value)>) -> String {
    let given: Vec<_> = given.collect();
    match given[..] {
        [] => "none of them".to_owned(),
        [(name, Value::Null)] => format!("{name}: null"),
        _ => joined(given.iter().map(|(name, _)| name)),
    }
}

/// What a value is that is refused as one of this scalar.
fn found(scalar: &str, value: &Value) -> String {
    match value {
        Value::String(text) => match scalar {
            "BlockHash" | "Hash256" | "Txid" | "Wtxid" => wrong_digits(text).unwrap_or_else(|| digits(text.len())),
            "Hex" => wrong_digits(text).unwrap_or_else(|| format!("an odd number of them: {}", text.len())),
            _ => shown(text),
        },
        Value::Number(number) => number.to_string(),
        Value::Boolean(is_true) => is_true.to_string(),
        Value::Enum(name) => format!("{name} without quotes"),
        Value::Null => "null".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Binary(_) => "bytes".to_owned(),
    }
}

fn digits(count: usize) -> String {
    if count == 1 { "1 digit".to_owned() } else { format!("{count} digits") }
}

/// The first character that is no hexadecimal digit, and its position.
fn wrong_digits(text: &str) -> Option<String> {
    let (position, wrong) = text.chars().enumerate().find(|(_, letter)| !letter.is_ascii_hexdigit())?;
    Some(format!("{wrong:?} at position {position}"))
}

#[cfg(test)]
mod tests {
    use async_graphql::OutputType;
    use async_graphql::registry::Registry;

    use super::*;
    use crate::api::{mutation, query};

    #[test]
    fn every_scalar_has_a_rule() {
        let mut registry = Registry::default();
        query::Query::create_type_info(&mut registry);
        mutation::Mutation::create_type_info(&mut registry);
        let scalars = registry.types.iter().filter(|(_, found)| matches!(found, MetaType::Scalar { .. }));
        let names: Vec<_> = scalars.map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"Txid") && names.len() > 8, "{names:?}");
        let silent: Vec<_> = names.iter().filter(|name| rule(name).is_none()).collect();
        assert!(silent.is_empty(), "{silent:?}");
    }

    #[test]
    fn a_message_about_a_scalar_says_the_rule_and_what_is_wrong() {
        let invalid = |scalar: &str| format!("Invalid value for argument \"of.3\", expected type \"{scalar}\"");
        let digits = |count: usize| Value::from("ab".repeat(count / 2) + &"c".repeat(count % 2));
        for (scalar, value, wrong) in [
            ("Txid", digits(63), "a string of 64 hexadecimal digits, got 63 digits"),
            ("Wtxid", digits(1), "a string of 64 hexadecimal digits, got 1 digit"),
            ("BlockHash", "0xab".into(), "a string of 64 hexadecimal digits, got 'x' at position 1"),
            ("Hash256", 7.into(), "a string of 64 hexadecimal digits, got 7"),
            (
                "Hex",
                digits(5),
                "a string of hexadecimal digits, two for each byte, without 0x, got an odd number of them: 5",
            ),
            (
                "Hex",
                "abé".into(),
                "a string of hexadecimal digits, two for each byte, without 0x, got 'é' at position 2",
            ),
            ("Sats", Value::from(-1), "an amount in satoshis, an integer from 0 to 2^53 - 1, got -1"),
            ("UInt53", "1e3".into(), "an integer from 0 to 2^53 - 1, got \"1e3\""),
            ("Int", Value::Boolean(true), "an integer of 32 bits, got true"),
            ("String", Value::Enum(Name::new("abc")), "a string, got abc without quotes"),
            ("Boolean", Value::Null, "true or false, got null"),
            ("Float", Value::List(vec![]), "a number, got a list"),
        ] {
            let mut message = invalid(scalar);
            explain(&mut message, Some(&value), None);
            assert_eq!(message, format!("{}: {wrong}", invalid(scalar)));
        }
        let mut message = invalid("Int");
        explain(&mut message, None, None);
        assert_eq!(message, format!("{}: an integer of 32 bits", invalid("Int")));
    }

    #[test]
    fn a_message_about_anything_else_stays() {
        for message in [r#"argument "at", expected type "BlockAt""#, r#"Unknown field "Txid""#] {
            let mut explained = message.to_owned();
            explain(&mut explained, Some(&Value::Null), None);
            assert_eq!(explained, message);
        }
    }
}
