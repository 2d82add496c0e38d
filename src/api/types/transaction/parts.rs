//! The pages of a transaction's inputs and outputs.

use async_graphql::{Context, OutputType};

use super::input::Input;
use super::output::Output;
use super::transaction::{Transaction, small};
use crate::api::context::limits;
use crate::api::error::ApiError;
use crate::api::pagination::connection::{Connection, Edge};
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::{Variant, transaction_id};
use crate::api::pagination::page::{DEFAULT_PARTS, PageArgs};
use crate::api::types::enums::SortOrder;

impl Transaction {
    /// A page of its parts. They are the same whichever block holds the transaction, but a cursor is bound to the block
    /// all the same, so that a client that walks through pages learns of a reorganisation under its feet.
    fn part_page<N: OutputType + Clone>(
        &self,
        ctx: &Context<'_>,
        args: PageArgs,
        (connection, count): (&'static str, u32),
        part: impl Fn(u32) -> N,
    ) -> Result<Connection<N>, ApiError>
    where
        Edge<N>: OutputType,
    {
        let scope = Scope::new(connection, transaction_id(self.transaction.txid, Variant::of(&self.transaction)));
        let limits = limits(ctx)?;
        let page = args.or_size(DEFAULT_PARTS, limits).read(&scope, &self.view, limits)?;
        let page = page.of(0..count.into(), SortOrder::Asc);
        let held_by = match self.transaction.place {
            Some(place) => Some(self.view.block_hash(place.height)?),
            None => None,
        };
        Connection::new(
            &scope,
            page,
            Some(count.into()),
            |_| Ok(held_by),
            |index, ()| {
                let index = u32::try_from(index).map_err(|_| ApiError::internal("a transaction has too many parts"))?;
                Ok(part(index))
            },
        )
    }

    pub(super) fn input_page(&self, ctx: &Context<'_>, args: PageArgs) -> Result<Connection<Input>, ApiError> {
        let count = small(self.transaction.parts.input.len())?;
        let input = |vin| Input::new(&self.view, &self.transaction, vin);
        self.part_page(ctx, args, ("inputs", count), input)
    }

    pub(super) fn output_page(&self, ctx: &Context<'_>, args: PageArgs) -> Result<Connection<Output>, ApiError> {
        let count = small(self.transaction.parts.output.len())?;
        let output = |vout| Output::new(&self.view, &self.transaction, vout);
        self.part_page(ctx, args, ("outputs", count), output)
    }
}
