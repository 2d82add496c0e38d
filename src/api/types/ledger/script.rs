use std::ops::Deref;
use std::sync::Arc;

use async_graphql::{ID, Object};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, sha256};

use super::ledger_fields::LedgerFields;
use super::script_info::ScriptInfo;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::global_id::{script_hash_id, script_id};
use crate::api::scalars::{Hash256, Hex};
use crate::api::types::enums::ScriptTypeEnum;
use crate::chain::{ScriptType, address_of, asm};
use crate::view::{Dependency, View};

/// A scriptPubKey, or the hash of one that never appeared.
#[derive(Clone)]
pub(crate) struct Script {
    view: Arc<View>,
    hash: sha256::Hash,
    /// `None` if only the hash is known.
    bytes: Option<ScriptBuf>,
    fields: LedgerFields,
}

impl Script {
    /// This script, whether it was ever used or not.
    pub(crate) fn of(view: &Arc<View>, script: ScriptBuf) -> Self {
        let hash = sha256::Hash::hash(script.as_bytes());
        let name = address_of(&script, view.network()).unwrap_or_else(|| script.to_hex_string());
        let fields = LedgerFields::new(view, script_id(&hash), [(hash, name)]);
        Self { view: view.clone(), hash, bytes: Some(script), fields }
    }

    /// Whether more than its hash is known.
    pub(crate) fn is_known(&self) -> bool {
        self.bytes.is_some()
    }

    /// The script with this SHA-256. Whether it is known depends on the newest block and the mempool.
    pub(crate) fn with_hash(view: &Arc<View>, hash: sha256::Hash) -> Result<Self, ApiError> {
        view.read_set().depends_on(Dependency::Head);
        Ok(match view.script_of_hash::<ApiError>(&hash)? {
            Some(script) => Self::of(view, script),
            None => {
                Self { view: view.clone(), hash, bytes: None, fields: LedgerFields::new(view, script_id(&hash), []) }
            }
        })
    }
}

impl Deref for Script {
    type Target = LedgerFields;

    fn deref(&self) -> &LedgerFields {
        &self.fields
    }
}

impl FieldCacheability for Script {
    const IMMUTABLE: &'static str = "id scriptHash electrumScriptHash";
    const BY_ARGUMENT: &'static str = "stats balance balanceHistory utxos";
    const UNTIL_NEXT_HEAD: &'static str = "hex asm type address info transactions coinbaseBlocks";
}

/// A scriptPubKey and its history. Different addresses are always different scripts. Scripts without an address (P2PK,
/// bare multisig, nonstandard) are available here.
#[Object]
impl Script {
    /// `Script:` followed by the SHA-256 of the script in natural byte order, or `ScriptHash:` if no more than this hash is
    /// known. `node` returns null for the id of a script that the index does not know, such as one that can never be spent.
    pub(crate) async fn id(&self) -> ID {
        if self.is_known() { script_id(&self.hash) } else { script_hash_id(&self.hash) }.into()
    }

    /// The scriptPubKey. Null if only its hash was given and no spendable output ever used the script.
    async fn hex(&self) -> Option<Result<Hex, ApiError>> {
        let script = self.bytes.as_ref()?;
        Some(self.view.count(script.len()).map(|()| Hex::new(script.to_bytes())).map_err(ApiError::from))
    }

    /// The script in human-readable form, as Bitcoin Core writes it: pushes of up to 4 bytes as decimal numbers, longer ones
    /// in hexadecimal, other opcodes by name. `[error]` stands for a push that the script ends within. Null if `hex` is.
    async fn asm(&self) -> Option<Result<String, ApiError>> {
        let script = self.bytes.as_ref()?;
        // names are longer than opcodes
        let text = asm(script);
        Some(self.view.count(text.len()).map(|()| text).map_err(ApiError::from))
    }

    /// The type of the script. Null if `hex` is.
    #[graphql(name = "type")]
    async fn script_type(&self) -> Option<ScriptTypeEnum> {
        self.bytes.as_ref().map(|script| ScriptType::of(script).into())
    }

    /// The keys of the script, the signatures that it requires, and the addresses that pay to it by its hash, as
    /// `decodeScript` returns them. Null if `hex` is.
    async fn info(&self) -> Option<Result<ScriptInfo, ApiError>> {
        Some(ScriptInfo::of(&self.view, self.bytes.clone()?))
    }

    /// The SHA-256 of the script in natural byte order, as in esplora.
    async fn script_hash(&self) -> Hex {
        Hex::new(self.hash.to_byte_array())
    }

    /// The SHA-256 of the script, byte-reversed, as in the Electrum protocol.
    async fn electrum_script_hash(&self) -> Hash256 {
        Hash256::new(self.hash.to_byte_array())
    }

    /// The address of the script. Null for types without an address (P2PK, bare multisig, OP_RETURN, ...), and if `hex` is.
    async fn address(&self) -> Option<String> {
        address_of(self.bytes.as_ref()?, self.view.network())
    }

    #[graphql(flatten)]
    async fn fields(&self) -> &LedgerFields {
        &self.fields
    }
}
