// Written from block.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/** Whether a block is on the chain that this server follows. */
export type ChainStatus =
  /** The block is on the main chain, the chain with the most work. */
  | 'MAIN'
  /**
   * The block is beside the main chain: a reorg disconnected it, or the Bitcoin node has it on another branch, whose
   * scripts it need not have verified.
   */
  | 'STALE';

/** What a mining pool is recognised by in a coinbase. */
export type MinerEvidence =
  /** A text of the pool in the scriptSig. Anybody can write it there. */
  | 'COINBASE_TAG'
  /** An output pays a script of the pool. Pools with the same custodian share scripts. */
  | 'PAYOUT_SCRIPT';

export type BlockPageQueryVariables = Exact<{
  hash?: string | null | undefined;
  height?: number | null | undefined;
  first: number;
  after?: string | null | undefined;
}>;


export type BlockPageQuery = { snapshot: { cursor: string } | null, block: { id: string, hash: string, height: number, chainStatus: ChainStatus, confirmations: number, time: string, medianTime: string, version: number, merkleRoot: string, bits: number, nonce: number, difficulty: number, size: number, strippedSize: number, weight: number, txCount: number, subsidy: number, totalFees: number, coinbaseValue: number, unclaimedReward: number, headerHex: string, chainwork: string, miner: { id: string, slug: string, name: string } | null, coinbase: { text: string, minerEvidence: MinerEvidence | null } | null, feeStats: { averageFee: number, medianFee: number, minFee: number, maxFee: number, medianFeeRate: number, averageFeeRate: number, feeRatePercentiles: Array<number> | null }, stats: { inputCount: number, outputCount: number, totalOutputValue: number | null, segwitTxCount: number, taprootOutputCount: number, opReturnCount: number, utxoDelta: number | null }, previousBlock: { id: string, hash: string, height: number } | null, nextBlock: { id: string, hash: string, height: number } | null, siblings: Array<{ id: string, hash: string, height: number, chainStatus: ChainStatus, txCount: number }>, reorg: { id: string, observedAt: string, depth: number, forkHeight: number, isComplete: boolean, disconnected: { totalCount: number | null, nodes: Array<{ hash: string, height: number }> } | null, connected: { totalCount: number | null, nodes: Array<{ hash: string, height: number }> } | null, returnedToMempool: { totalCount: number | null, nodes: Array<string> } | null, conflicted: { totalCount: number | null, nodes: Array<{ txid: string }> } | null } | null, transactions: { totalCount: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, nodes: Array<{ id: string, txid: string, vsize: number, fee: number | null, feeRate: number | null, isCoinbase: boolean, indexInBlock: number | null, inputCount: number, outputCount: number, totalOutputValue: number }> } | null } | null };

export type BlockSummaryQueryVariables = Exact<{
  hash: string;
}>;


export type BlockSummaryQuery = { block: { id: string, firstSeenAt: string | null, audit: { projectedTxCount: number, totalProjectedFees: number, matchRate: number, missing: Array<string>, fresh: Array<string>, unexpected: Array<string>, unseen: Array<string>, prioritised: Array<string> | null } | null, summary: { txids: Array<string>, vsizes: Array<number>, effectiveFeeRates: Array<number | null> } | null } | null };

export type BlockChangesSubscriptionVariables = Exact<{
  after?: string | null | undefined;
}>;


export type BlockChangesSubscription = { chainEvents: { seq: number, cursor: string, block: { id: string, height: number } } };

export const BlockPageDocument = document<BlockPageQuery, BlockPageQueryVariables>(`# A block by its hash or height, with a page of its transactions.
query BlockPage($hash: BlockHash, $height: Int, $first: Int!, $after: String) {
  snapshot {
    cursor
  }
  block(hash: $hash, height: $height) {
    id
    hash
    height
    chainStatus
    confirmations
    time
    medianTime
    version
    merkleRoot
    bits
    nonce
    difficulty
    size
    strippedSize
    weight
    txCount
    subsidy
    totalFees
    coinbaseValue
    unclaimedReward
    miner {
      id
      slug
      name
    }
    coinbase {
      text
      minerEvidence
    }
    headerHex
    chainwork
    feeStats {
      averageFee
      medianFee
      minFee
      maxFee
      medianFeeRate
      averageFeeRate
      feeRatePercentiles
    }
    stats {
      inputCount
      outputCount
      totalOutputValue
      segwitTxCount
      taprootOutputCount
      opReturnCount
      utxoDelta
    }
    previousBlock {
      id
      hash
      height
    }
    nextBlock {
      id
      hash
      height
    }
    siblings {
      id
      hash
      height
      chainStatus
      txCount
    }
    reorg {
      id
      observedAt
      depth
      forkHeight
      isComplete
      disconnected(first: 3) {
        totalCount
        nodes {
          hash
          height
        }
      }
      connected(first: 3) {
        totalCount
        nodes {
          hash
          height
        }
      }
      returnedToMempool(first: 25) {
        totalCount
        nodes
      }
      conflicted(first: 25) {
        totalCount
        nodes {
          txid
        }
      }
    }
    transactions(first: $first, after: $after) {
      totalCount
      pageInfo {
        hasNextPage
        hasPreviousPage
        startCursor
        endCursor
      }
      nodes {
        id
        txid
        vsize
        fee
        feeRate
        isCoinbase
        indexInBlock
        inputCount
        outputCount
        totalOutputValue
      }
    }
  }
}
`);

export const BlockSummaryDocument = document<BlockSummaryQuery, BlockSummaryQueryVariables>(`query BlockSummary($hash: BlockHash!) {
  block(hash: $hash) {
    id
    firstSeenAt
    audit {
      projectedTxCount
      totalProjectedFees
      matchRate
      missing
      fresh
      unexpected
      unseen
      prioritised
    }
    summary {
      txids
      vsizes
      effectiveFeeRates
    }
  }
}
`);

export const BlockChangesDocument = document<BlockChangesSubscription, BlockChangesSubscriptionVariables>(`subscription BlockChanges($after: String) {
  chainEvents(after: $after) {
    seq
    cursor
    ... on BlockConnected {
      block {
        id
        height
      }
    }
    ... on BlockDisconnected {
      block {
        id
        height
      }
    }
  }
}
`);
