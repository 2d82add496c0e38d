// Written from miner.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/** Consecutive blocks of the main chain, given in exactly one of three ways. */
export type BlockRange =
  {   /** By their heights. */
  heights: HeightRange; times?: never; lastBlocks?: never; }
  |  { heights?: never;   /** By their median time past. */
  times: TimeRange; lastBlocks?: never; }
  |  { heights?: never; times?: never;   /** So many blocks up to the tip, at least 1. All blocks if the chain has fewer. */
  lastBlocks: number; };

/** Blocks from one height to another. Both ends are included, and both are optional. */
export type HeightRange = {
  /** The height of the first block; the genesis block if not given. */
  from?: number | null | undefined;
  /** The height of the last block; the tip if not given. */
  to?: number | null | undefined;
};

/** From one time to another. Both ends are included, and both are optional. Of blocks, the median time past counts. */
export type TimeRange = {
  /** Only what is at or after this time. */
  from?: string | null | undefined;
  /** Only what is at or before this time. */
  to?: string | null | undefined;
};

export type MinerPageQueryVariables = Exact<{
  slug: string;
  recent: BlockRange;
  first: number;
  after?: string | null | undefined;
}>;


export type MinerPageQuery = { chain: { id: string, miners: Array<{ share: number, hashrate: number | null, staleBlockCount: number | null, miner: { id: string } | null, stats: { blockCount: number, emptyBlockCount: number, fees: bigint, reward: bigint } }> | null, miner: { id: string, slug: string, name: string, link: string | null, stats: { blockCount: number, emptyBlockCount: number, fees: bigint, reward: bigint } | null, firstBlock: { id: string, hash: string, height: number, time: string } | null, lastBlock: { id: string, hash: string, height: number, time: string } | null, blocks: { totalCount: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, nodes: Array<{ id: string, hash: string, height: number, time: string, txCount: number, totalFees: number, coinbaseValue: number, weight: number }> } | null } | null } | null };

export type MinerBlocksSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type MinerBlocksSubscription = { newBlock: { id: string, height: number } };

export const MinerPageDocument = document<MinerPageQuery, MinerPageQueryVariables>(`# A mining pool, its part in the chain of late, and its blocks.
query MinerPage($slug: String!, $recent: BlockRange!, $first: Int!, $after: String) {
  chain {
    id
    miners(range: $recent) {
      miner {
        id
      }
      share
      hashrate
      stats {
        blockCount
        emptyBlockCount
        fees
        reward
      }
      staleBlockCount
    }
    miner(slug: $slug) {
      id
      slug
      name
      link
      stats {
        blockCount
        emptyBlockCount
        fees
        reward
      }
      firstBlock {
        id
        hash
        height
        time
      }
      lastBlock {
        id
        hash
        height
        time
      }
      blocks(first: $first, after: $after) {
        totalCount
        pageInfo {
          hasNextPage
          hasPreviousPage
          startCursor
          endCursor
        }
        nodes {
          id
          hash
          height
          time
          txCount
          totalFees
          coinbaseValue
          weight
        }
      }
    }
  }
}
`);

export const MinerBlocksDocument = document<MinerBlocksSubscription, MinerBlocksSubscriptionVariables>(`subscription MinerBlocks {
  newBlock {
    id
    height
  }
}
`);
