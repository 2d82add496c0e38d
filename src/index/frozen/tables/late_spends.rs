//! `late_spends`: outpoint (funding txnum 4 ‖ vout 3) → input (spending txnum 4 ‖ vin 3). The spends of this generation's
//! transactions whose outputs an older generation has.

use redb::TableDefinition;

use super::super::super::hot::tables::spends::TxPoint;
use super::super::versions::TableVersions;

pub(in crate::index) const TABLE: TableDefinition<'static, &TxPoint, &TxPoint> = TableDefinition::new("late_spends");

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new("late_spends", 1..=1);
