use std::ops::Deref;
use std::sync::Arc;

use async_graphql::{Context, ID, Object, SimpleObject};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, HashEngine, sha256};

use super::address::Address;
use super::address_error::AddressErrorObject;
use super::holdings::{Ledger, script_hash};
use super::ledger_fields::LedgerFields;
use super::ledger_input::{LedgerInput, accounts};
use super::script::Script;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::global_id::address_set_id;
use crate::chain::hidden;
use crate::view::View;

/// How many members a set is taken to have where their number is not known.
const MEMBERS: usize = 100;

/// The result of looking up one address, script or descriptor.
#[derive(Clone, SimpleObject)]
pub(crate) struct AddressLookup {
    /// The address, the scriptPubKey in hexadecimal, or the descriptor, as given in the request, but for private keys.
    input: String,
    /// The address, the script if it has no address, or the account of the descriptor. Null if `error` is set.
    ledger: Option<Ledger>,
    /// Why the entry is not an address of this network. Null if the entry is part of the set.
    error: Option<AddressErrorObject>,
}

impl FieldCacheability for AddressLookup {
    const IMMUTABLE: &'static str = "input ledger error";
}

/// Several addresses, scripts and descriptors as one ledger.
#[derive(Clone)]
pub(crate) struct AddressSet {
    members: Vec<AddressLookup>,
    fields: LedgerFields,
}

impl AddressSet {
    /// Each address, script and descriptor as given.
    pub(crate) fn into_members(self) -> Vec<AddressLookup> {
        self.members
    }

    /// What a set of so many members costs: each once, and what is asked of the set once for each hundred of them,
    /// because almost every field of it reads something of each.
    pub(crate) fn cost(members: usize, per_set: usize) -> usize {
        members.div_ceil(MEMBERS).max(1).saturating_mul(per_set).saturating_add(members).saturating_add(1)
    }

    /// The set of what is given.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for too many; BAD_USER_INPUT if no list is given, and for a descriptor that is none.
    pub(crate) async fn of(ctx: &Context<'_>, view: &Arc<View>, input: LedgerInput) -> Result<Self, ApiError> {
        input.check(ctx)?;
        let count = input.script_count();
        let (mut members, mut scripts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for text in input.addresses.into_iter().flatten() {
            members.push(match Address::read(view, &text) {
                Ok(address) => {
                    let address = address?;
                    scripts.push((address.script_pubkey().clone(), address.text().to_owned()));
                    AddressLookup { input: text, ledger: Some(Ledger::Address(address)), error: None }
                }
                Err(error) => {
                    let error = Some(AddressErrorObject::new(&error, &text)?);
                    AddressLookup { input: hidden(&text).into_owned(), ledger: None, error }
                }
            });
        }
        for script in input.scripts.into_iter().flatten() {
            let script = ScriptBuf::from_bytes(script.into_bytes());
            let address = Address::of(view, script.clone());
            let hex = script.to_hex_string();
            let name = address.as_ref().map_or_else(|| hex.clone(), |address| address.text().to_owned());
            let ledger = address.map_or_else(|| Ledger::Script(Script::of(view, script.clone())), Ledger::Address);
            scripts.push((script, name));
            members.push(AddressLookup { input: hex, ledger: Some(ledger), error: None });
        }
        let mut scripts: Vec<_> = scripts.into_iter().map(|(script, name)| (script_hash(&script), name)).collect();
        let mut owner = content_id(scripts.iter().map(|(hash, _)| *hash));
        let descriptors = input.descriptors.unwrap_or_default();
        let texts: Vec<_> = descriptors.iter().map(|given| given.text.clone()).collect();
        for (input, account) in texts.into_iter().zip(accounts(ctx, view, descriptors).await?) {
            // the same however many of its scripts were used, so that a page has a next one
            owner = format!("{owner} {}", account.id_text());
            scripts.extend(account.used_scripts().map(|used| (used.hash, used.name())));
            members.push(AddressLookup { input, ledger: Some(Ledger::DescriptorAccount(account)), error: None });
        }
        Ok(Self { members, fields: LedgerFields::new(view, owner, scripts) })
    }
}

/// What names a set in cursors: the same for the same scripts, in whatever order and form they are given.
pub(crate) fn content_id(hashes: impl Iterator<Item = sha256::Hash>) -> String {
    let mut hashes: Vec<_> = hashes.collect();
    hashes.sort_unstable();
    hashes.dedup();
    let mut engine = sha256::Hash::engine();
    for hash in &hashes {
        engine.input(hash.as_byte_array());
    }
    format!("AddressSet:{}", sha256::Hash::from_engine(engine))
}

impl Deref for AddressSet {
    type Target = LedgerFields;

    fn deref(&self) -> &LedgerFields {
        &self.fields
    }
}

impl FieldCacheability for AddressSet {
    const IMMUTABLE: &'static str = "id members";
    const BY_ARGUMENT: &'static str = "stats balance balanceHistory utxos";
    const UNTIL_NEXT_HEAD: &'static str = "transactions coinbaseBlocks";
}

/// Several addresses, scripts and descriptors as one ledger: summed figures, and one list of transactions without duplicates.
#[Object]
impl AddressSet {
    /// `AddressSet:` followed by a hash of the entries as given, in their order. The server does not store sets: `node` returns
    /// null for this id.
    pub(crate) async fn id(&self) -> ID {
        let mut engine = sha256::Hash::engine();
        for AddressLookup { input, ledger, error } in &self.members {
            // what is no address may be a script, and an account has a gap limit, too
            let (fault, account) = match ledger {
                Some(Ledger::DescriptorAccount(account)) => ("", account.id_text()),
                _ => (if error.is_some() { "no address" } else { "" }, ""),
            };
            for text in [input, fault, account] {
                engine.input(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
                engine.input(text.as_bytes());
            }
        }
        address_set_id(&sha256::Hash::from_engine(engine)).into()
    }

    /// Each address, script and descriptor of the request, in the given order, addresses first and descriptors last.
    /// As many as the request has.
    #[graphql(complexity = "costs::list(MEMBERS, child_complexity)")]
    async fn members(&self) -> Vec<AddressLookup> {
        self.members.clone()
    }

    #[graphql(flatten)]
    async fn fields(&self) -> &LedgerFields {
        &self.fields
    }
}
