//! `overwritten`: outpoint of an earlier copy (txnum 4 ‖ vout 3) → txnum of the later copy (4) that has the same txid and
//! takes the output out of the UTXO set (BIP30). The later copy is of this generation, the earlier one may be of an older.

use redb::TableDefinition;

use super::super::super::tables::spends::TxPoint;

pub(in crate::index) const TABLE: TableDefinition<'static, &TxPoint, &[u8; 4]> = TableDefinition::new("overwritten");
