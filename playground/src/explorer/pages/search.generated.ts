// Written from search.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/** Why a text is not an address of this network. */
export type AddressErrorCode =
  /** The text is empty, or has a length that no address has. */
  | 'WRONG_LENGTH'
  /** A character that no address of this encoding has. */
  | 'INVALID_CHARACTER'
  /** Upper and lower case in one bech32 address. */
  | 'MIXED_CASE'
  /** The checksum does not match: the address is mistyped. */
  | 'WRONG_CHECKSUM'
  /** The witness version or the witness program does not exist (BIP141, BIP350). */
  | 'INVALID_WITNESS_PROGRAM'
  /** The checksum matches, and the content is not an address. */
  | 'NOT_AN_ADDRESS'
  /** A private key. Anyone who has seen it can spend its coins. */
  | 'PRIVATE_KEY'
  /** An extended key (BIP32), which stands for many addresses. */
  | 'EXTENDED_KEY'
  /** An address of another network. */
  | 'WRONG_NETWORK';

/** The type of a scriptPubKey, as Bitcoin Core distinguishes them. */
export type ScriptType =
  /** Pay to public key: `<key> OP_CHECKSIG`. Has no address. */
  | 'P2PK'
  /** Pay to public key hash. */
  | 'P2PKH'
  /** Pay to script hash (BIP16), which includes nested segwit. */
  | 'P2SH'
  /** Pay to witness public key hash (BIP141): witness version 0, 20 bytes. */
  | 'P2WPKH'
  /** Pay to witness script hash (BIP141): witness version 0, 32 bytes. */
  | 'P2WSH'
  /** Pay to taproot (BIP341): witness version 1, 32 bytes. */
  | 'P2TR'
  /** Pay to anchor (P2A), which anyone can spend. */
  | 'P2A'
  /** Bare multisig: `m <keys> n OP_CHECKMULTISIG`. Has no address. */
  | 'P2MS'
  /** Starts with OP_RETURN: carries data and can never be spent. */
  | 'OP_RETURN'
  /** A witness program of version 1 to 16 without a defined meaning yet (BIP141). */
  | 'WITNESS_UNKNOWN'
  /** None of the other types. */
  | 'NONSTANDARD'
  /** An empty script. */
  | 'EMPTY';

/** The current state of a transaction. */
export type TxState =
  /** In the mempool, waiting for confirmation. */
  | 'MEMPOOL'
  /** In a block of the main chain. */
  | 'CONFIRMED'
  /** Left the mempool because another transaction replaced it or one of its ancestors. */
  | 'REPLACED'
  /** Left the mempool because the mempool was full, because it expired, or for a reason that the node did not report. */
  | 'EVICTED'
  /**
   * A main chain block contains a transaction that spends the same output, or an output that one of its ancestors
   * spends.
   */
  | 'CONFLICTED'
  /** Only in stale blocks, or a descendant of such a transaction. */
  | 'REORGED_OUT'
  /** Not known to this server, which has only the bytes given to `decodeTransaction`. */
  | 'UNKNOWN';

export type SearchQueryVariables = Exact<{
  text: string;
}>;


export type SearchQuery = { validateAddress: { error: { code: AddressErrorCode, message: string } | null } | null, search: { nodes: Array<
      | (
        { id: string, hash: string, height: number }
        & { __typename: 'Block' }
      )
      | (
        { id: string, txid: string, state: TxState }
        & { __typename: 'Transaction' }
      )
      | (
        { id: string, value: number, outpoint: { txid: string, vout: number } }
        & { __typename: 'Output' }
      )
      | (
        { id: string, address: string }
        & { __typename: 'Address' }
      )
      | (
        { id: string, scriptHash: string, scriptType: ScriptType | null }
        & { __typename: 'Script' }
      )
      | (
        { id: string, descriptor: string, isRanged: boolean }
        & { __typename: 'DescriptorAccount' }
      )
      | (
        { id: string, slug: string, name: string }
        & { __typename: 'Miner' }
      )
    > } | null };

export const SearchDocument = document<SearchQuery, SearchQueryVariables>(`# Whatever a text means to this server.
query Search($text: String!) {
  validateAddress(address: $text) {
    error {
      code
      message
    }
  }
  search(text: $text, first: 10) {
    nodes {
      __typename
      ... on Block {
        id
        hash
        height
      }
      ... on Transaction {
        id
        txid
        state
      }
      ... on Output {
        id
        outpoint {
          txid
          vout
        }
        value
      }
      ... on Address {
        id
        address
      }
      ... on Script {
        id
        scriptHash
        scriptType: type
      }
      ... on DescriptorAccount {
        id
        descriptor
        isRanged
      }
      ... on Miner {
        id
        slug
        name
      }
    }
  }
}
`);
