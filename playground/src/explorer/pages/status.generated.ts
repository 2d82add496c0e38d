// Written from status.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/** The validation status of a branch of the block tree, as reported by the Bitcoin node. */
export type ChainTipStatus =
  /** The node's main chain. */
  | 'ACTIVE'
  /** Fully validated, but not on the node's main chain. */
  | 'VALID_FORK'
  /** The node has all blocks of the branch but never fully validated them. */
  | 'VALID_HEADERS'
  /** The headers are valid, but the node does not have all blocks of the branch. */
  | 'HEADERS_ONLY'
  /** The branch contains at least one invalid block. */
  | 'INVALID';

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

export type StatusPageQueryVariables = Exact<{ [key: string]: never; }>;


export type StatusPageQuery = { snapshot: { height: number, hash: string, takenAt: string, nodeHeight: number | null, nodeHeaderHeight: number | null, isInSync: boolean, isMempoolInSync: boolean } | null, sync: { phase: SyncPhase, indexedHeight: number | null, targetHeight: number | null, progress: number | null, blocksPerSecond: number | null, etaSeconds: number | null, isReady: boolean, diskShortage: { neededBytes: number, freeBytes: number } | null, lostBlock: { height: number, hash: string } | null }, bitcoinNode: { isReachable: boolean, softwareVersion: string | null, subversion: string | null, network: Network | null, height: number | null, headerHeight: number | null, verificationProgress: number | null, isInitialBlockDownload: boolean | null, pruned: boolean | null, peerCount: number | null, warnings: Array<string> | null } | null, server: { id: string, softwareVersion: string, gitCommit: string | null, startedAt: string, subscriptionCount: number, database: { formatVersion: number, fileBytes: number | null }, features: Array<{ name: FeatureName, enabled: boolean, setting: string }> }, chainTips: Array<{ hash: string, height: number, branchLength: number, status: ChainTipStatus | null }> | null, reorgs: { nodes: Array<{ id: string, observedAt: string, depth: number, forkHeight: number, isComplete: boolean, disconnected: { totalCount: number | null, nodes: Array<{ hash: string, height: number }> } | null, connected: { totalCount: number | null, nodes: Array<{ hash: string, height: number }> } | null, returnedToMempool: { totalCount: number | null, nodes: Array<string> } | null, conflicted: { totalCount: number | null, nodes: Array<{ txid: string }> } | null }> } | null };

export type SyncChangesSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type SyncChangesSubscription = { syncProgress: { phase: SyncPhase, indexedHeight: number | null, targetHeight: number | null, progress: number | null, blocksPerSecond: number | null, etaSeconds: number | null, isReady: boolean } };

export const StatusPageDocument = document<StatusPageQuery, StatusPageQueryVariables>(`# The node, the index, the server and the tips of the chain.
query StatusPage {
  snapshot {
    height
    hash
    takenAt
    nodeHeight
    nodeHeaderHeight
    isInSync
    isMempoolInSync
  }
  sync {
    phase
    indexedHeight
    targetHeight
    progress
    blocksPerSecond
    etaSeconds
    isReady
    diskShortage {
      neededBytes
      freeBytes
    }
    lostBlock {
      height
      hash
    }
  }
  bitcoinNode {
    isReachable
    softwareVersion
    subversion
    network
    height
    headerHeight
    verificationProgress
    isInitialBlockDownload
    pruned
    peerCount
    warnings
  }
  server {
    id
    softwareVersion
    gitCommit
    startedAt
    subscriptionCount
    database {
      formatVersion
      fileBytes
    }
    features {
      name
      enabled
      setting
    }
  }
  chainTips {
    hash
    height
    branchLength
    status
  }
  reorgs(first: 10) {
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
  }
}
`);

export const SyncChangesDocument = document<SyncChangesSubscription, SyncChangesSubscriptionVariables>(`subscription SyncChanges {
  syncProgress {
    phase
    indexedHeight
    targetHeight
    progress
    blocksPerSecond
    etaSeconds
    isReady
  }
}
`);
