// Written from send.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/** The result of submitting a transaction. */
export type BroadcastOutcome =
  /** The node accepted the transaction into its mempool and relays it to the network. */
  | 'ACCEPTED'
  /** The transaction was already in the mempool, possibly with a different witness. The node relays it again. */
  | 'ALREADY_IN_MEMPOOL'
  /** The transaction is already in a block of the main chain. */
  | 'ALREADY_CONFIRMED'
  /** The node rejected the transaction; `reject` says why. */
  | 'REJECTED'
  /**
   * The node may have received the transaction but did not respond, so the outcome is unknown. Submit it again. If
   * the transaction was certainly not sent, the mutation fails with NODE_UNAVAILABLE instead.
   */
  | 'NODE_UNREACHABLE';

/** An optional feature of the server. */
export type FeatureName =
  /** The mutations submit transactions to the node. */
  | 'BROADCAST'
  /** Confirmed transactions are found by their wtxids. */
  | 'WTXIDS'
  /** `Query.search` finds used addresses by their beginnings. */
  | 'ADDRESS_PREFIXES'
  /** `Query.opReturns` finds OP_RETURN outputs by the beginning of their data. */
  | 'OP_RETURNS'
  /** The server computes compact block filters itself. Without it they are those of the node, if that has an index of them. */
  | 'BLOCK_FILTERS'
  /** `Mempool.nextBlockTemplate` asks the node for its next block. */
  | 'BLOCK_TEMPLATE'
  /** `Query.rate`, and the values of amounts in other currencies. */
  | 'RATES';

/** Who has to act next on a PSBT, or on an input of one (BIP174). */
export type PsbtRole =
  /** Spent outputs, scripts or keys have to be added. */
  | 'UPDATER'
  /** Signatures are missing. */
  | 'SIGNER'
  /** There are enough signatures, which have to be put into scriptSig or witness. */
  | 'FINALIZER'
  /** Everything is final. */
  | 'EXTRACTOR';

/** Why the node rejects a transaction, the same for all its versions. */
export type RejectCode =
  /** The bytes are no transaction. */
  | 'DECODE_FAILED'
  /** It spends outputs that do not exist, or that another transaction spends. */
  | 'MISSING_INPUTS'
  /** A block of the main chain contains it. */
  | 'ALREADY_CONFIRMED'
  /** The mempool has it, perhaps with another witness. */
  | 'ALREADY_IN_MEMPOOL'
  /** Its fee is below the minimum for its size. */
  | 'FEE_TOO_LOW'
  /** Its fee is too low to replace the transactions that it conflicts with. */
  | 'REPLACEMENT_FEE_TOO_LOW'
  /** It conflicts with transactions that cannot be replaced, or not by it. */
  | 'REPLACEMENT_NOT_ALLOWED'
  /** Its feerate is above `maxFeeRate`. */
  | 'FEE_TOO_HIGH'
  /** It pays more than `maxBurn` to unspendable outputs. */
  | 'BURN_TOO_HIGH'
  /** It is a coinbase, which only a block may contain. */
  | 'COINBASE'
  /** It spends a coinbase output that is not mature. */
  | 'IMMATURE_COINBASE'
  /** Its lock time, or the relative lock time of an input, has not passed. */
  | 'NON_FINAL'
  /** It pays more than it spends. */
  | 'OUTPUTS_EXCEED_INPUTS'
  /** A signature or script does not allow the spend. */
  | 'SCRIPT_FAILED'
  /** It is larger than the node relays. */
  | 'TOO_LARGE'
  /** It is smaller than the node relays. */
  | 'TOO_SMALL'
  /** It has too many unconfirmed ancestors or descendants. */
  | 'TOO_LONG_CHAIN'
  /** It breaks a rule of transactions of version 3 (BIP431). */
  | 'TRUC_VIOLATION'
  /** An output has a value below the dust limit. */
  | 'DUST'
  /** The node does not relay its form. */
  | 'NON_STANDARD'
  /** The mempool is full, and its feerate is too low. */
  | 'MEMPOOL_FULL'
  /** It breaks another consensus rule. */
  | 'INVALID'
  /** The transactions that came with it are no package that the node accepts. */
  | 'PACKAGE_INVALID'
  /** The node did not test it, because of other transactions of the package. */
  | 'NOT_TRIED'
  /** Any other reason: read `rejectReason`. */
  | 'OTHER';

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

export type DecodeQueryVariables = Exact<{
  hex: string;
  hexes: Array<string> | string;
}>;


export type DecodeQuery = { decodeTransaction: { isResolved: boolean, alreadyKnown: TxState | null, missingInputs: Array<{ text: string }>, transaction: { id: string, txid: string, wtxid: string, version: number, size: number, vsize: number, weight: number, fee: number | null, feeRate: number | null, totalInputValue: number | null, totalOutputValue: number, inputCount: number, outputCount: number, isSignalingRbf: boolean, lockTime: { raw: number, height: number | null, time: string | null, isFinalAtNextBlock: boolean }, inputs: { nodes: Array<{ index: number, outpoint: { txid: string, vout: number } | null, prevout: { id: string, value: number, address: string | null } | null }> } | null, outputs: { nodes: Array<{ id: string, vout: number, value: number, address: string | null, scriptType: ScriptType }> } | null } } | null, testTransactions: Array<{ txid: string, allowed: boolean, vsize: number | null, fee: number | null, effectiveFeeRate: number | null, reject: { code: RejectCode, rejectReason: string, details: string | null } | null }> | null };

export type BroadcastMutationVariables = Exact<{
  hex: string;
}>;


export type BroadcastMutation = { broadcastTransaction: { outcome: BroadcastOutcome, txid: string | null, replaced: Array<string>, reject: { code: RejectCode, rejectReason: string, details: string | null, requiredFee: number | null } | null } | null };

export type SendPageQueryVariables = Exact<{ [key: string]: never; }>;


export type SendPageQuery = { server: { id: string, features: Array<{ name: FeatureName, enabled: boolean, setting: string }> } };

export type DecodePsbtQueryVariables = Exact<{
  psbt: string;
}>;


export type DecodePsbtQuery = { decodePsbt: { nextRole: PsbtRole, isFinalized: boolean, fee: number | null, estimatedVsize: number | null, estimatedFeeRate: number | null, unsignedTransaction: { id: string, txid: string, totalOutputValue: number, inputCount: number, outputCount: number }, finalTransaction: { id: string, hex: string } | null, inputs: { nodes: Array<{ index: number, value: number | null, isUtxoConsistent: boolean | null, isFinalized: boolean, requiredSignatureCount: number | null, nextRole: PsbtRole, outpoint: { txid: string, vout: number }, signatures: Array<{ publicKey: string | null }>, script: { id: string, address: string | null } | null }> } | null, outputs: { nodes: Array<{ index: number, value: number, isChange: boolean, script: { id: string, address: string | null, scriptType: ScriptType | null } }> } | null } | null };

export type DecodeScriptQueryVariables = Exact<{
  hex: string;
}>;


export type DecodeScriptQuery = { decodeScript: { publicKeys: Array<string>, requiredSignatureCount: number | null, isUnspendable: boolean, script: { id: string, asm: string | null, scriptHash: string, address: string | null, scriptType: ScriptType | null }, p2sh: { id: string, address: string } | null, segwit: { id: string, address: string } | null, p2shSegwit: { id: string, address: string } | null } | null };

export const DecodeDocument = document<DecodeQuery, DecodeQueryVariables>(`# What a serialised transaction says, and whether the node would take it.
query Decode($hex: Hex!, $hexes: [Hex!]!) {
  decodeTransaction(hex: $hex) {
    isResolved
    alreadyKnown
    missingInputs {
      text
    }
    transaction {
      id
      txid
      wtxid
      version
      size
      vsize
      weight
      fee
      feeRate
      totalInputValue
      totalOutputValue
      inputCount
      outputCount
      isSignalingRbf
      lockTime {
        raw
        height
        time
        isFinalAtNextBlock
      }
      inputs(first: 50) {
        nodes {
          index
          outpoint {
            txid
            vout
          }
          prevout {
            id
            value
            address
          }
        }
      }
      outputs(first: 50) {
        nodes {
          id
          vout
          value
          address
          scriptType
        }
      }
    }
  }
  testTransactions(hexes: $hexes) {
    txid
    allowed
    vsize
    fee
    effectiveFeeRate
    reject {
      code
      rejectReason
      details
    }
  }
}
`);

export const BroadcastDocument = document<BroadcastMutation, BroadcastMutationVariables>(`mutation Broadcast($hex: Hex!) {
  broadcastTransaction(hex: $hex) {
    outcome
    txid
    replaced
    reject {
      code
      rejectReason
      details
      requiredFee
    }
  }
}
`);

export const SendPageDocument = document<SendPageQuery, SendPageQueryVariables>(`query SendPage {
  server {
    id
    features {
      name
      enabled
      setting
    }
  }
}
`);

export const DecodePsbtDocument = document<DecodePsbtQuery, DecodePsbtQueryVariables>(`query DecodePsbt($psbt: String!) {
  decodePsbt(psbt: $psbt) {
    nextRole
    isFinalized
    fee
    estimatedVsize
    estimatedFeeRate
    unsignedTransaction {
      id
      txid
      totalOutputValue
      inputCount
      outputCount
    }
    finalTransaction {
      id
      hex
    }
    inputs(first: 50) {
      nodes {
        index
        outpoint {
          txid
          vout
        }
        value
        isUtxoConsistent
        isFinalized
        requiredSignatureCount
        signatures {
          publicKey
        }
        nextRole
        script {
          id
          address
        }
      }
    }
    outputs(first: 50) {
      nodes {
        index
        value
        isChange
        script {
          id
          scriptType: type
          address
        }
      }
    }
  }
}
`);

export const DecodeScriptDocument = document<DecodeScriptQuery, DecodeScriptQueryVariables>(`query DecodeScript($hex: Hex!) {
  decodeScript(hex: $hex) {
    script {
      id
      asm
      scriptType: type
      scriptHash
      address
    }
    publicKeys
    requiredSignatureCount
    isUnspendable
    p2sh {
      id
      address
    }
    segwit {
      id
      address
    }
    p2shSegwit {
      id
      address
    }
  }
}
`);
