//! The types of `Server.limits`, which the declarations of the limits make.

use super::mark::Cacheability;
use super::mark::Cacheability::Never;
use crate::limits::declarations;

/// The fields of the types of `Server.limits`, from the declarations of the limits.
macro_rules! limit_fields {
    (
        clients { $(
            $(#[doc = $group_doc:expr])+
            $group:ident: $group_type:ident { $(
                $(#[doc = $doc:expr])+
                $name:ident: $type:ty, $unit:ident = $default:expr, $bounds:expr, $setting:literal, $field:literal;
            )+ $( fixed {
                $(#[doc = $fixed_doc:expr])+
                $fixed_name:ident: $fixed_type:ty = $fixed_value:expr, $fixed_field:literal;
            } )? }
        )+ }
        protocol $protocol:tt
    ) => {
        &[
            ("Limits", Never, concat!($(stringify!($group), " "),+)),
            $( (stringify!($group_type), Never, concat!($($field, " ",)+ $($fixed_field)?)), )+
        ]
    };
}

/// Their fields, as [`field_cacheability`](super::field_cacheability) answers them.
pub(super) const LIMIT_CACHEABILITY: &[(&str, Cacheability, &str)] = declarations!(limit_fields);
