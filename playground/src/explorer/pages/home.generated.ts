// Written from home.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/** A network of Bitcoin nodes with a chain of its own. */
export type Network =
  /** The network whose coins have a value. */
  | 'MAINNET'
  /** The third test network. */
  | 'TESTNET_3'
  /** The fourth test network (BIP94). */
  | 'TESTNET_4'
  /** A test network whose blocks are signed (BIP325). */
  | 'SIGNET'
  /** A private network for tests, whose blocks need no work. */
  | 'REGTEST';

/** The phase of following the Bitcoin node. */
export type SyncPhase =
  /**
   * The node is not connected yet, is unreachable or silent, or the disk has no space for new blocks. Queries are still
   * answered from the index, unless a crash lost a block that was announced to clients: then the server waits for that
   * block first, for a bounded time, and `lostBlock` names it.
   */
  | 'WAITING_FOR_NODE'
  /** The index is empty, or at least twelve blocks behind the node's newest block. */
  | 'CATCHING_UP'
  /** The index is at the node's newest block, or a few blocks behind it. */
  | 'FOLLOWING';

export type HomeQueryVariables = Exact<{ [key: string]: never; }>;


export type HomeQuery = { snapshot: { height: number, cursor: string, isInSync: boolean, isMempoolInSync: boolean } | null, sync: { phase: SyncPhase, indexedHeight: number | null, targetHeight: number | null, progress: number | null, etaSeconds: number | null, isReady: boolean }, chain: { id: string, network: Network, difficultyAdjustment: { progress: number, minedBlockCount: number, remainingBlockCount: number, estimatedChange: number | null, estimatedAt: string | null, nextHeight: number, averageInterval: number | null, previousChange: number | null, epoch: { id: string, index: number, difficulty: number } }, recent: { averageInterval: number | null } | null, halving: { index: number, subsidy: number, nextHeight: number, remainingBlockCount: number, estimatedAt: string | null } | null } | null, blocks: { nodes: Array<{ id: string, hash: string, height: number, time: string, txCount: number, size: number, weight: number, totalFees: number, subsidy: number, header: { previousBlockHash: string | null }, feeStats: { medianFeeRate: number }, miner: { id: string, name: string } | null }> } | null, mempool: { id: string, stats: { txCount: number, totalVsize: number, totalFees: number, memoryUsage: number, maxMemory: number, minFeeRate: number, txPerSecond: number, vbytesPerSecond: number, loaded: boolean }, feeHistogram: Array<{ fromRate: number, toRate: number | null, totalVsize: number, txCount: number }> | null, projectedBlocks: Array<{ index: number, maxWeight: number, txCount: number, vsize: number, weight: number, totalFees: number, medianFeeRate: number }> | null, newest: { nodes: Array<{ id: string, txid: string, vsize: number, fee: number | null, feeRate: number | null, totalOutputValue: number, inputCount: number, outputCount: number, firstSeenAt: string | null }> } | null } | null, recommendedFees: { within1Block: number, within3Blocks: number, within6Blocks: number, economy: number, minimum: number } | null, reorgs: { nodes: Array<{ id: string, observedAt: string, depth: number, forkHeight: number, isComplete: boolean, disconnected: { totalCount: number | null, nodes: Array<{ hash: string, height: number }> } | null, connected: { totalCount: number | null, nodes: Array<{ hash: string, height: number }> } | null, returnedToMempool: { totalCount: number | null, nodes: Array<string> } | null, conflicted: { totalCount: number | null, nodes: Array<{ txid: string }> } | null }> } | null };

export type StripBlockFragment = { id: string, hash: string, height: number, time: string, txCount: number, size: number, weight: number, totalFees: number, subsidy: number, header: { previousBlockHash: string | null }, feeStats: { medianFeeRate: number }, miner: { id: string, name: string } | null };

export type StripProjectionFragment = { index: number, maxWeight: number, txCount: number, vsize: number, weight: number, totalFees: number, medianFeeRate: number };

export type ChainChangesSubscriptionVariables = Exact<{
  after?: string | null | undefined;
}>;


export type ChainChangesSubscription = { chainEvents:
    | { seq: number, cursor: string, block: { id: string, hash: string, height: number, time: string, txCount: number, size: number, weight: number, totalFees: number, subsidy: number, header: { previousBlockHash: string | null }, feeStats: { medianFeeRate: number }, miner: { id: string, name: string } | null } }
    | { seq: number, cursor: string, block: { id: string, hash: string, height: number }, reorg: { id: string, depth: number } | null }
   };

export type NextBlocksSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type NextBlocksSubscription = { projectedBlocks: Array<{ index: number, maxWeight: number, txCount: number, vsize: number, weight: number, totalFees: number, medianFeeRate: number }> };

export const HomeDocument = document<HomeQuery, HomeQueryVariables>(`# All that the home page shows.
query Home {
  snapshot {
    height
    cursor
    isInSync
    isMempoolInSync
  }
  sync {
    phase
    indexedHeight
    targetHeight
    progress
    etaSeconds
    isReady
  }
  chain {
    id
    network
    difficultyAdjustment {
      epoch {
        id
        index
        difficulty
      }
      progress
      minedBlockCount
      remainingBlockCount
      estimatedChange
      estimatedAt
      nextHeight
      averageInterval
      previousChange
    }
    recent: range(of: { lastBlocks: 144 }) {
      averageInterval
    }
    halving {
      index
      subsidy
      nextHeight
      remainingBlockCount
      estimatedAt
    }
  }
  blocks(first: 12) {
    nodes {
      ...StripBlock
    }
  }
  mempool {
    id
    stats {
      txCount
      totalVsize
      totalFees
      memoryUsage
      maxMemory
      minFeeRate
      txPerSecond
      vbytesPerSecond
      loaded
    }
    feeHistogram(bins: [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500]) {
      fromRate
      toRate
      totalVsize
      txCount
    }
    projectedBlocks(first: 6) {
      ...StripProjection
    }
    newest: transactions(order: ARRIVAL, first: 12) {
      nodes {
        id
        txid
        vsize
        fee
        feeRate
        totalOutputValue
        inputCount
        outputCount
        firstSeenAt
      }
    }
  }
  recommendedFees {
    within1Block
    within3Blocks
    within6Blocks
    economy
    minimum
  }
  reorgs(first: 1) {
    nodes {
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
      returnedToMempool(first: 10) {
        totalCount
        nodes
      }
      conflicted(first: 10) {
        totalCount
        nodes {
          txid
        }
      }
    }
  }
}

fragment StripBlock on Block {
  id
  hash
  height
  header {
    previousBlockHash
  }
  time
  txCount
  size
  weight
  totalFees
  subsidy
  feeStats {
    medianFeeRate
  }
  miner {
    id
    name
  }
}

fragment StripProjection on ProjectedBlock {
  index
  maxWeight
  txCount
  vsize
  weight
  totalFees
  medianFeeRate
}
`);

export const ChainChangesDocument = document<ChainChangesSubscription, ChainChangesSubscriptionVariables>(`subscription ChainChanges($after: String) {
  chainEvents(after: $after) {
    seq
    cursor
    ... on BlockConnected {
      block {
        ...StripBlock
      }
    }
    ... on BlockDisconnected {
      block {
        id
        hash
        height
      }
      reorg {
        id
        depth
      }
    }
  }
}

fragment StripBlock on Block {
  id
  hash
  height
  header {
    previousBlockHash
  }
  time
  txCount
  size
  weight
  totalFees
  subsidy
  feeStats {
    medianFeeRate
  }
  miner {
    id
    name
  }
}
`);

export const NextBlocksDocument = document<NextBlocksSubscription, NextBlocksSubscriptionVariables>(`subscription NextBlocks {
  projectedBlocks(first: 6) {
    ...StripProjection
  }
}

fragment StripProjection on ProjectedBlock {
  index
  maxWeight
  txCount
  vsize
  weight
  totalFees
  medianFeeRate
}
`);
