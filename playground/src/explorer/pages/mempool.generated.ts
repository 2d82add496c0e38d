// Written from mempool.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/** The order of unconfirmed transactions. Equal transactions are ordered by arrival, earliest first. */
export type MempoolOrder =
  /** By the transaction's own feerate, highest first. */
  | 'FEE_RATE'
  /**
   * By effective feerate, the feerate of the package with which the transaction is mined, highest first. Roughly the
   * order of upcoming blocks.
   */
  | 'EFFECTIVE_FEE_RATE'
  /** By time of arrival, newest first. */
  | 'ARRIVAL'
  /** By the sum of the outputs, highest first. */
  | 'VALUE';

export type MempoolPageQueryVariables = Exact<{
  from: string;
  to: string;
  step: number;
  order: MempoolOrder;
  first: number;
  after?: string | null | undefined;
}>;


export type MempoolPageQuery = { mempool: { id: string, stats: { txCount: number, totalVsize: number, totalFees: number, memoryUsage: number, maxMemory: number, minFeeRate: number, minRelayFeeRate: number, incrementalFeeRate: number, txPerSecond: number, vbytesPerSecond: number, outputCount: number, loaded: boolean }, feeHistogram: Array<{ fromRate: number, toRate: number | null, totalVsize: number, txCount: number }> | null, projectedBlocks: Array<{ index: number, maxWeight: number, txCount: number, vsize: number, weight: number, totalFees: number, medianFeeRate: number, feeRatePercentiles: Array<number> }> | null, history: Array<{ startAt: string, sample: { takenAt: string, txCount: number, totalVsize: number, vbytesPerSecond: number, vsizeByFeeRate: Array<{ fromRate: number, toRate: number | null, totalVsize: number }> } | null }> | null, replacements: { nodes: Array<{ txid: string, fee: number | null, vsize: number | null, seenAt: string | null, isFullRbf: boolean, isMined: boolean, replacedNodes: Array<{ txid: string, fee: number | null, vsize: number | null }> }> } | null, transactions: { totalCount: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { id: string, txid: string, vsize: number, fee: number | null, feeRate: number | null, effectiveFeeRate: number | null, inputCount: number, outputCount: number, totalOutputValue: number, firstSeenAt: string | null, mempoolEntry: { projectedBlockIndex: number | null } | null } }> } | null } | null };

export type MempoolChangesSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type MempoolChangesSubscription = { mempoolStats: { txCount: number, totalVsize: number, totalFees: number, memoryUsage: number, maxMemory: number, minFeeRate: number, minRelayFeeRate: number, incrementalFeeRate: number, txPerSecond: number, vbytesPerSecond: number, outputCount: number, loaded: boolean } };

export const MempoolPageDocument = document<MempoolPageQuery, MempoolPageQueryVariables>(`# The mempool: its fees and its history, the next blocks, the transactions that pay best, and replacements.
query MempoolPage($from: DateTime!, $to: DateTime!, $step: Int!, $order: MempoolOrder!, $first: Int!, $after: String) {
  mempool {
    id
    stats {
      txCount
      totalVsize
      totalFees
      memoryUsage
      maxMemory
      minFeeRate
      minRelayFeeRate
      incrementalFeeRate
      txPerSecond
      vbytesPerSecond
      outputCount
      loaded
    }
    feeHistogram(bins: [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500]) {
      fromRate
      toRate
      totalVsize
      txCount
    }
    projectedBlocks(first: 8) {
      index
      maxWeight
      txCount
      vsize
      weight
      totalFees
      medianFeeRate
      feeRatePercentiles
    }
    history(range: { times: { from: $from, to: $to } }, stepSeconds: $step, includeEmpty: true) {
      startAt
      sample {
        takenAt
        txCount
        totalVsize
        vbytesPerSecond
        vsizeByFeeRate {
          fromRate
          toRate
          totalVsize
        }
      }
    }
    replacements(first: 8) {
      nodes {
        txid
        fee
        vsize
        seenAt
        isFullRbf
        isMined
        replacedNodes {
          txid
          fee
          vsize
        }
      }
    }
    transactions(order: $order, first: $first, after: $after) {
      totalCount
      pageInfo {
        hasNextPage
        hasPreviousPage
        startCursor
        endCursor
      }
      edges {
        cursor
        node {
          id
          txid
          vsize
          fee
          feeRate
          effectiveFeeRate
          inputCount
          outputCount
          totalOutputValue
          firstSeenAt
          mempoolEntry {
            projectedBlockIndex
          }
        }
      }
    }
  }
}
`);

export const MempoolChangesDocument = document<MempoolChangesSubscription, MempoolChangesSubscriptionVariables>(`subscription MempoolChanges {
  mempoolStats(everySeconds: 2) {
    txCount
    totalVsize
    totalFees
    memoryUsage
    maxMemory
    minFeeRate
    minRelayFeeRate
    incrementalFeeRate
    txPerSecond
    vbytesPerSecond
    outputCount
    loaded
  }
}
`);
