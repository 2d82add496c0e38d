// Written from transaction.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
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

/** Whether and where an output is spent. */
export type SpendStatus =
  /** No transaction of the main chain or of the mempool spends it. A coinbase output may not be mature yet. */
  | 'UNSPENT'
  /** A mempool transaction spends it, and no main chain transaction does. */
  | 'SPENT_IN_MEMPOOL'
  /** A main chain transaction spends it. */
  | 'SPENT'
  /** No transaction can ever spend it; see `unspendableReason`. */
  | 'UNSPENDABLE';

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

/** The reason why an output can never be spent. */
export type UnspendableReason =
  /** The script starts with OP_RETURN. */
  | 'OP_RETURN'
  /** The script is longer than 10,000 bytes. */
  | 'OVERSIZE_SCRIPT'
  /** The output belongs to the genesis coinbase, which never entered the UTXO set. */
  | 'GENESIS_COINBASE'
  /** A later transaction with the same txid overwrote the output before it was spent (BIP30). */
  | 'BIP30_OVERWRITTEN';

export type TransactionPageQueryVariables = Exact<{
  txid: string;
  feeRate: number;
  moreInputs?: string | null | undefined;
  moreOutputs?: string | null | undefined;
}>;


export type TransactionPageQuery = { snapshot: { cursor: string, height: number } | null, chain: { id: string, recent: { averageInterval: number | null } | null } | null, mempool: { id: string, projectedBlocks: Array<{ index: number, feeRatePercentiles: Array<number> }> | null } | null, recommendedFees: { within1Block: number } | null, transaction: { id: string, txid: string, wtxid: string, version: number, size: number, vsize: number, weight: number, isCoinbase: boolean, state: TxState, confirmations: number, indexInBlock: number | null, inputCount: number, outputCount: number, totalInputValue: number | null, totalOutputValue: number, fee: number | null, feeRate: number | null, effectiveFeeRate: number | null, firstSeenAt: string | null, confirmedAfterSeconds: number | null, isSignalingRbf: boolean, conflicts: Array<string>, lockTime: { raw: number, height: number | null, time: string | null, isFinalAtNextBlock: boolean }, block: { id: string, hash: string, height: number, time: string } | null, occurrences: Array<{ index: number, isOnMainChain: boolean, block: { id: string, hash: string, height: number } }>, merkleProof: { blockHash: string, position: number, merkleBranch: Array<string>, root: string } | null, mempoolEntry: { addedAt: string, ancestorCount: number, totalAncestorVsize: number, totalAncestorFees: number, descendantCount: number, totalDescendantVsize: number, projectedBlockIndex: number | null, totalVsizeAhead: number | null, isReplaceable: boolean, bumpFeeTo: number | null, parents: Array<{ id: string, txid: string, feeRate: number | null, mempoolEntry: { projectedBlockIndex: number | null } | null }>, children: Array<{ id: string, txid: string, feeRate: number | null, mempoolEntry: { projectedBlockIndex: number | null } | null }> } | null, replacedBy: { id: string, txid: string } | null, rbfTree: { txid: string, fee: number | null, vsize: number | null, seenAt: string | null, isFullRbf: boolean, isMined: boolean, replacedNodes: Array<{ txid: string, fee: number | null, vsize: number | null, seenAt: string | null, isFullRbf: boolean, isMined: boolean, replacedNodes: Array<{ txid: string, fee: number | null, vsize: number | null, seenAt: string | null, isFullRbf: boolean, isMined: boolean, replacedNodes: Array<{ txid: string, fee: number | null, vsize: number | null, seenAt: string | null, isFullRbf: boolean, isMined: boolean }> }> }> } | null, inputs: { pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, nodes: Array<{ index: number, sequence: number, isCoinbase: boolean, scriptSigHex: string, witness: Array<string>, outpoint: { txid: string, vout: number } | null, prevout: { id: string, value: number, address: string | null, scriptType: ScriptType, script: { id: string, scriptHash: string } } | null }> } | null, outputs: { pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, nodes: Array<{ id: string, vout: number, value: number, address: string | null, scriptType: ScriptType, scriptPubKey: string, asm: string, spendStatus: SpendStatus | null, unspendableReason: UnspendableReason | null, isMature: boolean, matureAtHeight: number | null, spentHeight: number | null, script: { id: string, scriptHash: string }, opReturn: { utf8: string | null, payload: string } | null, spentBy: { index: number, transaction: { id: string, txid: string } } | null, spentInMempoolBy: Array<{ index: number, transaction: { id: string, txid: string } }> }> } | null } | null };

export type RelativeFragment = { id: string, txid: string, feeRate: number | null, mempoolEntry: { projectedBlockIndex: number | null } | null };

export type ReplacementFragment = { txid: string, fee: number | null, vsize: number | null, seenAt: string | null, isFullRbf: boolean, isMined: boolean };

export type TransactionStateSubscriptionVariables = Exact<{
  txids: Array<string> | string;
}>;


export type TransactionStateSubscription = { transactionStatus: { txid: string, state: TxState | null, confirmations: number, projectedBlockIndex: number | null, replacedByTxid: string | null } };

export type TransactionBlocksSubscriptionVariables = Exact<{
  after?: string | null | undefined;
}>;


export type TransactionBlocksSubscription = { chainEvents: { seq: number, cursor: string } };

export const TransactionPageDocument = document<TransactionPageQuery, TransactionPageQueryVariables>(`# A transaction with its inputs and outputs, where it stands, and the proof of its block.
query TransactionPage($txid: Txid!, $feeRate: Float!, $moreInputs: String, $moreOutputs: String) {
  snapshot {
    cursor
    height
  }
  chain {
    id
    recent: range(of: { lastBlocks: 144 }) {
      averageInterval
    }
  }
  mempool {
    id
    projectedBlocks(first: 2) {
      index
      feeRatePercentiles
    }
  }
  recommendedFees {
    within1Block
  }
  transaction(txid: $txid) {
    id
    txid
    wtxid
    version
    size
    vsize
    weight
    isCoinbase
    state
    confirmations
    indexInBlock
    inputCount
    outputCount
    totalInputValue
    totalOutputValue
    fee
    feeRate
    effectiveFeeRate
    firstSeenAt
    confirmedAfterSeconds
    isSignalingRbf
    conflicts
    lockTime {
      raw
      height
      time
      isFinalAtNextBlock
    }
    block {
      id
      hash
      height
      time
    }
    occurrences {
      index
      isOnMainChain
      block {
        id
        hash
        height
      }
    }
    merkleProof {
      blockHash
      position
      merkleBranch
      root
    }
    mempoolEntry {
      addedAt
      ancestorCount
      totalAncestorVsize
      totalAncestorFees
      descendantCount
      totalDescendantVsize
      projectedBlockIndex
      totalVsizeAhead
      isReplaceable
      bumpFeeTo(feeRate: $feeRate, minimal: false)
      parents {
        ...Relative
      }
      children {
        ...Relative
      }
    }
    replacedBy {
      id
      txid
    }
    rbfTree {
      ...Replacement
      replacedNodes {
        ...Replacement
        replacedNodes {
          ...Replacement
          replacedNodes {
            ...Replacement
          }
        }
      }
    }
    inputs(first: 50, after: $moreInputs) {
      pageInfo {
        hasNextPage
        hasPreviousPage
        startCursor
        endCursor
      }
      nodes {
        index
        sequence
        isCoinbase
        scriptSigHex
        witness
        outpoint {
          txid
          vout
        }
        prevout {
          id
          value
          address
          scriptType
          script {
            id
            scriptHash
          }
        }
      }
    }
    outputs(first: 50, after: $moreOutputs) {
      pageInfo {
        hasNextPage
        hasPreviousPage
        startCursor
        endCursor
      }
      nodes {
        id
        vout
        value
        address
        scriptType
        scriptPubKey
        asm
        spendStatus
        unspendableReason
        isMature
        matureAtHeight
        spentHeight
        script {
          id
          scriptHash
        }
        opReturn {
          utf8
          payload
        }
        spentBy {
          index
          transaction {
            id
            txid
          }
        }
        spentInMempoolBy {
          index
          transaction {
            id
            txid
          }
        }
      }
    }
  }
}

fragment Relative on Transaction {
  id
  txid
  feeRate
  mempoolEntry {
    projectedBlockIndex
  }
}

fragment Replacement on RbfNode {
  txid
  fee
  vsize
  seenAt
  isFullRbf
  isMined
}
`);

export const TransactionStateDocument = document<TransactionStateSubscription, TransactionStateSubscriptionVariables>(`subscription TransactionState($txids: [Txid!]!) {
  transactionStatus(txids: $txids, untilConfirmations: 6) {
    txid
    state
    confirmations
    projectedBlockIndex
    replacedByTxid
  }
}
`);

export const TransactionBlocksDocument = document<TransactionBlocksSubscription, TransactionBlocksSubscriptionVariables>(`subscription TransactionBlocks($after: String) {
  chainEvents(after: $after) {
    seq
    cursor
  }
}
`);
