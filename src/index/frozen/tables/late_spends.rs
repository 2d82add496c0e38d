//! `late_spends`: outpoint (funding txnum 4 ‖ vout 3) → input (spending txnum 4 ‖ vin 3). The spends of this generation's
//! transactions whose outputs an older generation has.

use redb::TableDefinition;

use super::super::super::tables::spends::TxPoint;

pub(in crate::index) const TABLE: TableDefinition<'static, &TxPoint, &TxPoint> = TableDefinition::new("late_spends");
