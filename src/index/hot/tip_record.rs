//! What `meta` says of the index as a whole: its tip, and the frozen blocks below it with their optional tables.

use redb::ReadableTable;

use super::super::error::IndexError;
use super::super::frozen::{DerivedName, Generations, InForceRecord};
use super::live_tables::Tables;
use super::tables::meta;
use super::tip::Tip;

/// The newest block; `None` for an index without blocks.
pub(in crate::index) fn read_tip(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Option<Tip>, IndexError> {
    let row = meta.get(meta::TIP)?;
    row.map(|row| meta::decode_tip(row.value()).map(|(height, hash)| Tip { height, hash })).transpose()
}

/// The generations that the index names.
pub(in crate::index) fn read_generations(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Vec<InForceRecord>, IndexError> {
    let row = meta.get(meta::GENERATIONS)?;
    row.map_or_else(|| Ok(Vec::new()), |row| InForceRecord::decode_all(row.value()))
}

/// The files of their tables that the index names.
pub(in crate::index) fn read_derived(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Vec<DerivedName>, IndexError> {
    let row = meta.get(meta::DERIVED)?;
    row.map_or_else(|| Ok(Vec::new()), |row| DerivedName::decode_all(row.value()))
}

pub(in crate::index) fn write_generations(
    tables: &mut Tables<'_>,
    generations: &Generations,
) -> Result<(), IndexError> {
    if generations.derived_names().next().is_none() {
        tables.meta.remove(meta::DERIVED)?;
    } else {
        tables.meta.insert(meta::DERIVED, DerivedName::encode_all(generations.derived_names()).as_slice())?;
    }
    let records = generations.records();
    if records.is_empty() {
        tables.meta.remove(meta::GENERATIONS)?;
    } else {
        tables.meta.insert(meta::GENERATIONS, InForceRecord::encode_all(&records).as_slice())?;
    }
    Ok(())
}

pub(in crate::index) fn write_tip(tables: &mut Tables<'_>, tip: Option<Tip>) -> Result<(), IndexError> {
    match tip {
        Some(tip) => tables.meta.insert(meta::TIP, meta::encode_tip(tip.height, tip.hash).as_slice())?,
        None => tables.meta.remove(meta::TIP)?,
    };
    Ok(())
}
