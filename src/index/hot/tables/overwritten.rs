//! `overwritten`: outpoint of an earlier copy (txnum 4 ‖ vout 3) → txnum of the later copy (4) that has the same txid and
//! takes the output out of the UTXO set (BIP30). In a generation the later copy is of it, and the earlier one may be of an
//! older one.

use redb::TableDefinition;

use super::spends::TxPoint;

pub(in crate::index) const TABLE: TableDefinition<'static, &TxPoint, &[u8; 4]> = TableDefinition::new("overwritten");
