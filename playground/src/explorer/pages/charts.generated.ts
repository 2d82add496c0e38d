// Written from charts.graphql and schema.graphql by tests/web/explorer-types.js.

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

/** What a point of a series stands for. Periods of time are in UTC, and a block belongs to the one that has its median time past. */
export type SeriesGroup =
  /** A block. */
  | 'BLOCK'
  /** The blocks of an hour. */
  | 'HOUR'
  /** The blocks of a day. */
  | 'DAY'
  /** The blocks of a week, from Monday on (ISO 8601). */
  | 'WEEK'
  /** The blocks of a month. */
  | 'MONTH'
  /** The blocks of a difficulty epoch: 2,016. */
  | 'EPOCH'
  /** The blocks from one halving to the next: 210,000, or 150 on regtest. */
  | 'HALVING';

/** From one time to another. Both ends are included, and both are optional. Of blocks, the median time past counts. */
export type TimeRange = {
  /** Only what is at or after this time. */
  from?: string | null | undefined;
  /** Only what is at or before this time. */
  to?: string | null | undefined;
};

export type ChartsPageQueryVariables = Exact<{
  range?: BlockRange | null | undefined;
  group: SeriesGroup;
}>;


export type ChartsPageQuery = { chain: { id: string, series: Array<{ startAt: string, endAt: string, blockCount: number, difficulty: number, utxoSet: { height: number, unspentCount: number, totalValue: number }, stats: { txCount: number, outputCount: number, fees: bigint, size: number, hashrate: number | null, averageFeeRatePercentiles: Array<number> | null, totalsByType: Array<{ type: ScriptType, createdCount: number }> } | null }> | null, miners: Array<{ share: number, hashrate: number | null, miner: { id: string, slug: string, name: string } | null, stats: { blockCount: number, emptyBlockCount: number } }> | null } | null };

export type ChartsBlocksSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type ChartsBlocksSubscription = { newBlock: { id: string, height: number } };

export const ChartsPageDocument = document<ChartsPageQuery, ChartsPageQueryVariables>(`# The chain over time: a point for each period, of its blocks and of the state at its end.
query ChartsPage($range: BlockRange, $group: SeriesGroup!) {
  chain {
    id
    series(range: $range, group: $group) {
      startAt
      endAt
      blockCount
      difficulty
      utxoSet {
        height
        unspentCount
        totalValue
      }
      stats {
        txCount
        outputCount
        fees
        size
        hashrate
        averageFeeRatePercentiles
        totalsByType {
          type
          createdCount
        }
      }
    }
    miners(range: $range) {
      miner {
        id
        slug
        name
      }
      share
      hashrate
      stats {
        blockCount
        emptyBlockCount
      }
    }
  }
}
`);

export const ChartsBlocksDocument = document<ChartsBlocksSubscription, ChartsBlocksSubscriptionVariables>(`subscription ChartsBlocks {
  newBlock {
    id
    height
  }
}
`);
