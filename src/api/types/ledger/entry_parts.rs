//! The inputs and outputs of a transaction that belong to a ledger.

use std::sync::Arc;

use async_graphql::{Context, OutputType};

use super::holdings::Holdings;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::connection::{Connection, Edge};
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::{Variant, transaction_id};
use crate::api::pagination::page::{DEFAULT_PARTS, PageArgs};
use crate::api::scalars::UInt53;
use crate::api::types::enums::SortOrder;
use crate::api::types::transaction::{Input, Output};
use crate::view::Transaction;

/// Inputs whose outputs are looked up at a time.
const INPUTS_AT_ONCE: usize = 128;

impl Holdings {
    /// A page of the inputs of a transaction that spend outputs of the ledger. There are as many as `count` says, if that is
    /// known.
    ///
    /// Errors: those of the page; QUERY_LIMIT_EXCEEDED, since the transactions are read whose outputs it spends.
    pub(super) fn own_inputs(
        &self,
        ctx: &Context<'_>,
        transaction: &Arc<Transaction>,
        count: Option<u32>,
        args: PageArgs,
    ) -> Result<Connection<Input>, ApiError> {
        let own = self.find_own_inputs(ctx, transaction, count)?;
        self.page_of_parts(ctx, transaction, ("inputs", own), args, |vin| Input::new(&self.view, transaction, vin))
    }

    /// A page of the outputs of a transaction to the ledger.
    ///
    /// Errors: those of the page; QUERY_LIMIT_EXCEEDED.
    pub(super) fn own_outputs(
        &self,
        ctx: &Context<'_>,
        transaction: &Arc<Transaction>,
        args: PageArgs,
    ) -> Result<Connection<Output>, ApiError> {
        costs::spend(ctx, transaction.parts.output.len() / costs::HASHED_SCRIPTS)?;
        let own = self.view.own_outputs(&self.ledger, transaction);
        self.page_of_parts(ctx, transaction, ("outputs", own), args, |vout| Output::new(&self.view, transaction, vout))
    }

    fn find_own_inputs(
        &self,
        ctx: &Context<'_>,
        transaction: &Transaction,
        count: Option<u32>,
    ) -> Result<Vec<u32>, ApiError> {
        let inputs = transaction.parts.input.len();
        let count = count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        if count == Some(inputs) {
            return Ok((0..).zip(&transaction.parts.input).map(|(vin, _)| vin).collect());
        }
        let (mut own, mut begin) = (Vec::new(), 0);
        // those behind the last of the ledger need not be looked up
        while begin < inputs && count != Some(own.len()) {
            let end = begin.saturating_add(INPUTS_AT_ONCE).min(inputs);
            costs::spend(ctx, end - begin)?;
            let prevouts = self.view.prevouts::<ApiError>(transaction, begin..end)?;
            for (vin, prevout) in (begin..end).zip(prevouts) {
                if prevout.is_some_and(|prevout| self.view.owns(&self.ledger, &prevout)) {
                    own.push(u32::try_from(vin).map_err(|_| ApiError::internal("a transaction has too many inputs"))?);
                }
            }
            begin = end;
        }
        Ok(own)
    }

    fn page_of_parts<N: OutputType + Clone>(
        &self,
        ctx: &Context<'_>,
        transaction: &Transaction,
        (connection, own): (&'static str, Vec<u32>),
        args: PageArgs,
        part: impl Fn(u32) -> N,
    ) -> Result<Connection<N>, ApiError>
    where
        Edge<N>: OutputType,
    {
        let whole = transaction_id(transaction.txid, Variant::of(transaction));
        let scope = Scope::new(connection, format!("{} in {whole}", self.owner));
        let limits = limits(ctx)?;
        let request = args.or_size(DEFAULT_PARTS, limits).read(&scope, &self.view, limits)?;
        let total = UInt53::count(own.len())?;
        let walk = request.walk(0..u64::MAX, SortOrder::Asc);
        let mut wanted: Vec<_> = own.into_iter().filter(|part| walk.positions.contains(&u64::from(*part))).collect();
        if !walk.ascending {
            wanted.reverse();
        }
        let rows = wanted.into_iter().map(|part| Ok::<_, ApiError>((u64::from(part), Some(part))));
        let page = request.page(|_| false, rows)?;
        let held_by = match transaction.place {
            Some(place) => Some(self.view.block_hash(place.height)?),
            None => None,
        };
        Connection::new(&scope, page, Some(total), |_| Ok(held_by), |_, number| Ok(part(number)))
    }
}
