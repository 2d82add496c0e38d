//! The limits of [`crate::limits`] that the sources give: parsed, and checked against their bounds.

use config::ValueKind;

use super::error::SettingsError;
use super::layers::Merged;
use super::limits::bounds;
use super::values::ByteSize;
use crate::limits::{DECLARED, Declaration, Limits, OutOfBounds, Unit};

/// The limits that were given. Errors: a value that is not in the limit's unit, or is out of its bounds.
pub(super) fn read(merged: &Merged) -> Result<Limits, SettingsError> {
    let mut limits = Limits::default();
    for limit in DECLARED {
        let Some((value, origin)) = merged.get(limit.setting) else { continue };
        let invalid = |reason: String| SettingsError::invalid(limit.setting, origin, reason);
        let number = match (value, limit.unit) {
            (ValueKind::String(text), Unit::Bytes) => {
                text.parse::<ByteSize>().map_err(|error| invalid(error.to_string()))?.to_bytes()
            }
            (ValueKind::I64(number), _) => {
                u64::try_from(*number).map_err(|_| invalid(out_of_bounds(limit, *number)))?
            }
            (other, _) => return Err(invalid(format!("must be a whole number, not {other}"))),
        };
        limit.set(&mut limits, number).map_err(|OutOfBounds { .. }| {
            invalid(match limit.unit {
                Unit::Bytes => out_of_bounds(limit, ByteSize::new(number)),
                Unit::Count | Unit::Seconds => out_of_bounds(limit, number),
            })
        })?;
    }
    Ok(limits)
}

fn out_of_bounds(limit: &Declaration, value: impl std::fmt::Display) -> String {
    format!("must be from {}, not {value}", bounds(limit))
}
