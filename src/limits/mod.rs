//! Every limit that the server enforces on clients, with its setting, default, bounds and description.
//!
//! ```text
//!                       declarations.rs
//!        one line a limit: name, type, unit, default, bounds, setting, schema field
//!          │                    │                       │
//!       Limits             DECLARED                Server.limits
//!   values that the    read by `settings`:      built by `api` from the
//!   code enforces      bounds, documentation    same declarations
//! ```
//!
//! This module knows nothing of Bitcoin, the schema or HTTP, so every module can read it.

mod declarations;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) use declarations::declarations;

/// The highest value of [`Limits::page_size`]. The cost of a document with more items than this on a page is computed as
/// if it had this many.
pub const HIGHEST_PAGE_SIZE: u32 = 1_000;

/// The gap limit of a descriptor that is given without one, as wallets have it (BIP44). The lowest value of
/// [`Limits::gap_limit`].
pub const DEFAULT_GAP_LIMIT: u32 = 20;

/// The highest value of [`Limits::gap_limit`]. A higher gap limit in a document is refused, and counts as none before.
pub const HIGHEST_GAP_LIMIT: u32 = 100_000;

/// How many scripts of a branch of a descriptor are derived together.
pub(crate) const DERIVED_TOGETHER: u32 = 64;

const fn widen(number: u32) -> u64 {
    number as u64
}

/// The most transactions in a package that is submitted to the node (`MAX_PACKAGE_COUNT` of Core's `policy/packages.h`).
/// Not a setting: the node refuses more.
pub const PACKAGE_SIZE: u32 = 25;

/// How the value of a limit is written in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// A number of bytes, written with a unit as in `64KiB`.
    Bytes,
    /// A whole number of seconds.
    Seconds,
}

/// What the settings need to know of one limit.
pub struct Declaration {
    /// The setting, section included: `server.max_body`.
    pub setting: &'static str,
    /// How its value is written.
    pub unit: Unit,
    /// The lowest and highest value, in [`Declaration::unit`].
    pub bounds: RangeInclusive<u64>,
    /// What it bounds, and what happens beyond it.
    pub description: &'static str,
    get: fn(&Limits) -> u64,
    set: fn(&mut Limits, u64),
}

impl Declaration {
    /// The value of this limit in `limits`, in its unit.
    #[must_use]
    pub fn get(&self, limits: &Limits) -> u64 {
        (self.get)(limits)
    }

    /// Sets this limit in `limits`. Errors: the value is out of bounds, and stays as it was.
    pub fn set(&self, limits: &mut Limits, value: u64) -> Result<(), OutOfBounds> {
        if !self.bounds.contains(&value) {
            return Err(OutOfBounds { bounds: self.bounds.clone() });
        }
        (self.set)(limits, value);
        Ok(())
    }
}

impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Declaration").field(&self.setting).finish()
    }
}

/// A value below the lowest or above the highest that a limit allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// The lowest and highest allowed value.
    pub bounds: RangeInclusive<u64>,
}

/// The type of a limit's value, as a number in the limit's unit.
trait LimitValue: Copy {
    fn from_number(number: u64) -> Self;
    fn number(self) -> u64;
}

/// A number that the type cannot represent becomes the highest that it can.
impl LimitValue for usize {
    fn from_number(number: u64) -> Self {
        usize::try_from(number).unwrap_or(usize::MAX)
    }

    fn number(self) -> u64 {
        u64::try_from(self).unwrap_or(u64::MAX)
    }
}

impl LimitValue for u32 {
    fn from_number(number: u64) -> Self {
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    fn number(self) -> u64 {
        self.into()
    }
}

impl LimitValue for Duration {
    fn from_number(number: u64) -> Self {
        Duration::from_secs(number)
    }

    fn number(self) -> u64 {
        self.as_secs()
    }
}

macro_rules! define {
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
        protocol { $(
            $(#[doc = $protocol_doc:expr])+
            $protocol_name:ident: $protocol_type:ty, $protocol_unit:ident = $protocol_default:expr, $protocol_bounds:expr,
                $protocol_setting:literal;
        )+ }
    ) => {
        /// The value of every limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $( $( $(#[doc = $doc])+ pub $name: $type, )+ )+
            $( $(#[doc = $protocol_doc])+ pub $protocol_name: $protocol_type, )+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self {
                    $( $( $name: LimitValue::from_number($default), )+ )+
                    $( $protocol_name: LimitValue::from_number($protocol_default), )+
                }
            }
        }

        /// Every limit, in the order of their declarations.
        pub static DECLARED: &[Declaration] = &[
            $( $( define!(@declaration $name, $unit, $bounds, $setting, concat!($($doc),+)), )+ )+
            $( define!(@declaration $protocol_name, $protocol_unit, $protocol_bounds, $protocol_setting,
                       concat!($($protocol_doc),+)), )+
        ];
    };
    (@declaration $name:ident, $unit:ident, $bounds:expr, $setting:literal, $description:expr) => {
        Declaration {
            setting: $setting,
            unit: Unit::$unit,
            bounds: $bounds,
            description: $description,
            get: |limits| limits.$name.number(),
            set: |limits, number| limits.$name = LimitValue::from_number(number),
        }
    };
}

declarations!(define);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_default_is_within_its_bounds() {
        for limit in DECLARED {
            let default = limit.get(&Limits::default());
            assert!(limit.bounds.contains(&default), "{}: {default}", limit.setting);
        }
    }

    #[test]
    fn every_limit_sets_a_value_of_its_own() {
        for limit in DECLARED {
            for value in [*limit.bounds.start(), *limit.bounds.end()] {
                let mut limits = Limits::default();
                limit.set(&mut limits, value).unwrap();
                assert_eq!(limit.get(&limits), value, "{}", limit.setting);
                for other in DECLARED.iter().filter(|other| other.setting != limit.setting) {
                    assert_eq!(other.get(&limits), other.get(&Limits::default()), "{}", other.setting);
                }
            }
        }
        let settings: HashSet<_> = DECLARED.iter().map(|limit| limit.setting).collect();
        assert_eq!(settings.len(), DECLARED.len());
    }

    #[test]
    fn a_value_out_of_bounds_changes_nothing() {
        let page_size = DECLARED.iter().find(|limit| limit.setting == "server.max_page_size").unwrap();
        for value in [0, 1_001] {
            let mut limits = Limits::default();
            assert_eq!(page_size.set(&mut limits, value), Err(OutOfBounds { bounds: 1..=1_000 }));
            assert_eq!(limits, Limits::default());
        }
    }
}
