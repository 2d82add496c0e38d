//! `Server.limits`: one field for each limit of [`crate::limits`] that clients meet.

use std::time::Duration;

use async_graphql::SimpleObject;

use crate::api::scalars::UInt53;
use crate::limits::{Limits, PACKAGE_SIZE, declarations};

/// The type of a limit in the schema.
trait InSchema {
    type Output;
    fn in_schema(self) -> Self::Output;
}

impl InSchema for usize {
    type Output = UInt53;

    fn in_schema(self) -> UInt53 {
        UInt53::bound(self)
    }
}

impl InSchema for u32 {
    type Output = UInt53;

    fn in_schema(self) -> UInt53 {
        self.into()
    }
}

impl InSchema for Duration {
    type Output = f64;

    fn in_schema(self) -> f64 {
        self.as_secs_f64()
    }
}

macro_rules! define {
    (
        clients { $(
            $(#[doc = $group_doc:expr])+
            $group:ident: $group_type:ident { $(
                $(#[doc = $doc:expr])+
                $name:ident: $type:ty, $unit:ident = $default:expr, $bounds:expr, $setting:literal, $field:tt;
            )+ $( fixed {
                $(#[doc = $fixed_doc:expr])+
                $fixed_name:ident: $fixed_type:ty = $fixed_value:expr, $fixed_field:literal;
            } )? }
        )+ }
        protocol $protocol:tt
    ) => {
        /// How large requests and answers may be, how often clients may ask, and how long they may take. Beyond a limit a
        /// request fails with QUERY_LIMIT_EXCEEDED, which names the limit, unless the field says otherwise. The operator of
        /// the server sets them.
        #[derive(SimpleObject)]
        #[graphql(name = "Limits")]
        pub(crate) struct ServerLimits {
            $( $(#[doc = $group_doc])+ $group: $group_type, )+
        }

        $(
            $(#[doc = $group_doc])+
            #[derive(SimpleObject)]
            pub(crate) struct $group_type {
                $( $(#[doc = $doc])+ #[graphql(name = $field)] $name: <$type as InSchema>::Output, )+
                $( $(#[doc = $fixed_doc])+ #[graphql(name = $fixed_field)] $fixed_name: <$fixed_type as InSchema>::Output, )?
            }
        )+

        impl From<&Limits> for ServerLimits {
            fn from(limits: &Limits) -> Self {
                Self {
                    $( $group: $group_type {
                        $( $name: limits.$name.in_schema(), )+
                        $( $fixed_name: $fixed_value.in_schema(), )?
                    }, )+
                }
            }
        }
    };
}

declarations!(define);
