//! Where blocks are in the node's files is stored beside the chain, which does not depend on it.

use btcgraph::chain::Height;
use btcgraph::index::{BlockFileRow, Index};
use btcgraph::sim::SimChain;
use redb::{Database, TableDefinition};

use crate::support::indexed::{Indexed, options};

fn row(file: u32) -> BlockFileRow {
    BlockFileRow { file, offset: 8 + file, length: 285 }
}

fn stored(index: &Index) -> Vec<(Height, BlockFileRow)> {
    index.snapshot().unwrap().block_files().unwrap().map(Result::unwrap).collect()
}

fn record(index: &mut Index, rows: &[(u32, u32)]) {
    let mut update = index.update().unwrap();
    update.record_block_files(rows.iter().map(|(height, file)| ((*height).into(), row(*file)))).unwrap();
    update.commit().unwrap();
}

#[test]
fn positions_in_block_files_are_stored_by_height() {
    let mut indexed = Indexed::empty();
    assert_eq!(stored(&indexed.index), []);
    record(&mut indexed.index, &[(300, 1), (0, 2), (70_000, 3)]);
    record(&mut indexed.index, &[(300, 4)]);
    let expected = [(0.into(), row(2)), (300.into(), row(4)), (70_000.into(), row(3))];
    assert_eq!(stored(&indexed.index), expected);
    let tables = indexed.index.snapshot().unwrap().tables().unwrap();
    assert_eq!(tables.iter().find(|table| table.name == "block_files").unwrap().rows, 3);
}

#[test]
fn a_wrong_position_is_no_difference_of_the_index() {
    let mut chain = SimChain::new(3);
    chain.mine_empty(5).unwrap();
    let mut indexed = Indexed::of(chain.active_blocks().map(|block| &**block), 10);
    let before = indexed.rows();
    record(&mut indexed.index, &[(2, 9), (1_000, 9)]);
    let after = indexed.rows();
    assert_eq!(before, after);
}

#[test]
fn an_index_without_the_table_opens_and_makes_it() {
    let Indexed { index, directory } = Indexed::empty();
    drop(index);
    let options = options(directory.path());
    let database = Database::open(&options.path).unwrap();
    let transaction = database.begin_write().unwrap();
    let table: TableDefinition<'_, &[u8; 4], &[u8; 12]> = TableDefinition::new("block_files");
    assert!(transaction.delete_table(table).unwrap());
    transaction.commit().unwrap();
    drop(database);
    let mut index = Index::open(&options).unwrap();
    assert_eq!(stored(&index), []);
    record(&mut index, &[(1, 1)]);
    assert_eq!(stored(&index), [(1.into(), row(1))]);
}
