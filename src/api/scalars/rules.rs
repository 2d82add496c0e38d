//! What values of scalars are, in the words of an error: the engine names the argument, the place in it and the scalar.

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

/// Adds what is expected to a message of the engine's validation that ends with the name of a scalar.
pub(crate) fn explain(message: &mut String) {
    let scalar = message.strip_suffix('"').and_then(|message| message.rsplit_once("expected type \""));
    if let Some(rule) = scalar.and_then(|(_, scalar)| rule(scalar)) {
        message.push_str(": ");
        message.push_str(rule);
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::OutputType;
    use async_graphql::registry::{MetaType, Registry};

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
    fn only_a_message_about_a_scalar_is_explained() {
        for (message, expected) in [
            (
                r#"Invalid value for argument "hashes.3", expected type "BlockHash""#,
                r#"Invalid value for argument "hashes.3", expected type "BlockHash": a string of 64 hexadecimal digits"#,
            ),
            (r#"argument "at", expected type "BlockAt""#, r#"argument "at", expected type "BlockAt""#),
            (r#"Unknown field "Txid""#, r#"Unknown field "Txid""#),
        ] {
            let mut explained = message.to_owned();
            explain(&mut explained);
            assert_eq!(explained, expected);
        }
    }
}
