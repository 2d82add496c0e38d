//! What each list of the schema is. The engine gives all types that are made from one generic type one description, so the
//! descriptions of connections and edges are replaced once the schema is put together.

use std::borrow::Cow;

use async_graphql::parser::types::Field;
use async_graphql::registry::{MetaType, Registry};
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};

/// The name of the items in the names of the types, and what the connection and the edge are.
#[rustfmt::skip]
const LISTS: &[(&str, &str, &str)] = &[
    ("Block",
     "A page of blocks, with the height order of the field that returns it.",
     "A block of a list, and the cursor to continue from it."),
    ("ConflictedTransaction",
     "A page of the transactions that a reorg invalidated, because its branch spends the same outputs.",
     "A transaction that a reorg invalidated, and the cursor to continue from it."),
    ("DerivedAddress",
     "A page of the scripts of a descriptor account, by branch and index.",
     "A derived script of an account, and the cursor to continue from it."),
    ("DifficultyEpoch",
     "A page of difficulty epochs, each of 2,016 blocks.",
     "A difficulty epoch of a list, and the cursor to continue from it."),
    ("Input",
     "A page of the inputs of a transaction, in their order in it.",
     "An input of a transaction, and the cursor to continue from it."),
    ("LedgerEntry",
     "A page of the history of a ledger: what each transaction received and spent.",
     "A transaction in the history of a ledger, and the cursor to continue from it."),
    ("Output",
     "A page of outputs, in the order of the field that returns it.",
     "An output of a list, and the cursor to continue from it."),
    ("PsbtInput",
     "A page of the inputs of a PSBT, in their order in it.",
     "An input of a PSBT, and the cursor to continue from it."),
    ("PsbtOutput",
     "A page of the outputs of a PSBT, in their order in it.",
     "An output of a PSBT, and the cursor to continue from it."),
    ("RbfNode",
     "A page of trees of replacements, each given by its root, the transaction that was not replaced itself.",
     "A tree of replacements, and the cursor to continue from it."),
    ("Reorg",
     "A page of the reorgs that the server followed, newest first.",
     "A reorg of a list, and the cursor to continue from it."),
    ("ReorgBlock",
     "A page of the blocks that a reorg took out of the main chain, or that it connected.",
     "A block of a reorg, and the cursor to continue from it."),
    ("ScriptDelta",
     "A page of the scripts whose balances the mempool changes, by the SHA-256 of the script.",
     "A script whose balance the mempool changes, and the cursor to continue from it."),
    ("SearchResult",
     "A page of what a text may stand for, the most likely first.",
     "A result of a search, and the cursor to continue from it."),
    ("SilentPaymentTweak",
     "A page of the tweaks of a block, in the order of its transactions.",
     "A tweak of a block, and the cursor to continue from it."),
    ("Transaction",
     "A page of transactions, in the order of the field that returns it.",
     "A transaction of a list, and the cursor to continue from it."),
    ("Txid",
     "A page of txids, for lists whose transactions are not needed or no longer stored.",
     "A txid of a list, and the cursor to continue from it."),
    ("Utxo",
     "A page of the unspent outputs of a ledger, with their total value.",
     "An unspent output of a ledger, and the cursor to continue from it."),
];

/// The name of the items of each list, in the names of its connection and its edge.
pub(crate) fn items_of_lists() -> impl Iterator<Item = &'static str> {
    LISTS.iter().map(|(item, ..)| *item)
}

/// No type of the schema: registering it gives each list its description. It must be registered after all others.
pub(crate) enum ListDescriptions {}

impl OutputType for ListDescriptions {
    fn type_name() -> Cow<'static, str> {
        "ListDescriptions".into()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        for (item, connection, edge) in LISTS {
            for (kind, text) in [("Connection", connection), ("Edge", edge)] {
                if let Some(MetaType::Object { description, .. }) = registry.types.get_mut(&format!("{item}{kind}")) {
                    *description = Some((*text).to_owned());
                }
            }
        }
        Self::type_name().into_owned()
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        match *self {}
    }
}
