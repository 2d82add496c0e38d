//! What a server can do without.

use async_graphql::Enum;

use crate::rates::Rates;
use crate::view::{OptionalTable, OptionalTables};

/// What the part that runs the server may switch on.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Whether mutations send transactions to the node, which relays them to the network.
    pub broadcast: bool,
    /// The optional tables of the index.
    pub tables: OptionalTables,
    /// Whether clients may request the node's next block template.
    pub block_template: bool,
    /// What a bitcoin costs in other currencies.
    pub rates: Option<Rates>,
}

/// An optional feature of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "FeatureName")]
pub(crate) enum Feature {
    /// The mutations submit transactions to the node.
    Broadcast,
    /// Confirmed transactions are found by their wtxids.
    Wtxids,
    /// `Query.search` finds used addresses by their beginnings.
    AddressPrefixes,
    /// `Query.opReturns` finds OP_RETURN outputs by the beginning of their data.
    OpReturns,
    /// The server computes compact block filters itself. Without it they are those of the node, if that has an index of them.
    BlockFilters,
    /// `Mempool.nextBlockTemplate` asks the node for its next block.
    BlockTemplate,
    /// `Query.rate`, and the values of amounts in other currencies.
    Rates,
}

impl Feature {
    pub(crate) const ALL: [Self; 7] = [
        Self::Broadcast,
        Self::Wtxids,
        Self::AddressPrefixes,
        Self::OpReturns,
        Self::BlockFilters,
        Self::BlockTemplate,
        Self::Rates,
    ];

    /// The feature that needs an optional table of the index.
    pub(crate) fn of_table(table: OptionalTable) -> Self {
        match table {
            OptionalTable::Wtxids => Self::Wtxids,
            OptionalTable::AddressPrefixes => Self::AddressPrefixes,
            OptionalTable::OpReturns => Self::OpReturns,
        }
    }

    /// The setting that switches it on, as errors name it.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Broadcast => "api.broadcast",
            Self::Wtxids => "index.wtxids",
            Self::AddressPrefixes => "index.address_prefixes",
            Self::OpReturns => "index.op_returns",
            Self::BlockFilters => "index.block_filters",
            Self::BlockTemplate => "server.block_template",
            Self::Rates => "rates.file or rates.url",
        }
    }
}

impl Features {
    /// Whether a feature is switched on.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Broadcast => self.broadcast,
            Feature::Wtxids => self.tables.wtxids,
            Feature::AddressPrefixes => self.tables.address_prefixes,
            Feature::OpReturns => self.tables.op_returns,
            Feature::BlockFilters => self.tables.block_filters,
            Feature::BlockTemplate => self.block_template,
            Feature::Rates => self.rates.is_some(),
        }
    }
}
