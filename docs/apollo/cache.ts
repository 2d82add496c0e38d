// The cache of Apollo Client for this API: see docs/frontend.md. Written from schema.graphql by tests/web/cache.js.

import { InMemoryCache, type InMemoryCacheConfig, type TypePolicies } from '@apollo/client';
import type { FieldFunctionOptions, FieldPolicy, FieldReadFunction } from '@apollo/client/cache';
import { relayStylePagination } from '@apollo/client/utilities';

type PageInfo = { startCursor?: string | null; endCursor?: string | null; [field: string]: unknown };

/** Nodes that were asked for together. */
type Page = { nodes: readonly any[]; pageInfo: PageInfo };

/** What is kept of a connection: the edges as relayStylePagination keeps them, and pages of nodes. */
type Stored = { edges?: unknown[]; pageInfo?: PageInfo; pages?: Page[]; [field: string]: unknown };

const NOTHING = { edges: [], pageInfo: { hasPreviousPage: false, hasNextPage: true, startCursor: '', endCursor: '' } };

/** The pages with one more, put behind the page that its cursor ends, or before the one that its cursor begins. */
function joined(pages: Page[], page: Page, args: Record<string, any> | null): Page[] {
  if (args?.after) {
    const last = pages.findIndex(({ pageInfo }) => pageInfo.endCursor === args.after);
    return last < 0 ? pages : [...pages.slice(0, last + 1), page];
  }
  if (args?.before) {
    const first = pages.findIndex(({ pageInfo }) => pageInfo.startCursor === args.before);
    return first < 0 ? pages : [page, ...pages.slice(first)];
  }
  return [page];
}

/**
 * A connection, which is another one for each value of these arguments. Pages of `edges` are put together by
 * relayStylePagination, and pages of `nodes` in the same way. What was not asked for yet is missing, not empty.
 */
function connection(...keyArgs: string[]): FieldPolicy {
  const { read, merge, ...policy } = relayStylePagination(keyArgs.length > 0 ? keyArgs : false);
  const [readEdges, mergeEdges] = [read as FieldReadFunction, merge as (...all: any[]) => Stored];
  return {
    ...policy,
    read(existing: Stored | undefined, options: FieldFunctionOptions) {
      if (!existing) return undefined;
      const { pages, ...stored } = existing;
      // a node may be a txid, which is no object that could be gone from the cache
      const canRead = (value: any) => typeof value === 'string' || options.canRead(value);
      const { edges, pageInfo, ...rest } = readEdges({ ...NOTHING, ...stored }, { ...options, canRead }) as Stored;
      const nodes = pages?.flatMap(({ nodes }) => nodes).filter(canRead);
      const whole = { ...rest, ...(stored.edges && { edges }), ...(nodes && { nodes }) };
      const [first, last] = [pages?.[0], pages?.[pages.length - 1]];
      if (stored.edges || !first || !last) return { ...whole, ...(stored.pageInfo && { pageInfo }) };
      const { hasPreviousPage, startCursor } = first.pageInfo;
      return { ...whole, pageInfo: { ...last.pageInfo, hasPreviousPage, startCursor } };
    },
    merge(existing: Stored | undefined, incoming: Stored, options: FieldFunctionOptions) {
      const { nodes, ...others } = incoming;
      const { pages = [], ...before } = existing ?? {};
      const merged: Stored = mergeEdges({ ...NOTHING, ...before }, others, options);
      if (!before.edges && !incoming.edges) delete merged.edges;
      if (!before.pageInfo && !incoming.pageInfo) delete merged.pageInfo;
      const page = { nodes: nodes as any[], pageInfo: incoming.pageInfo ?? {} };
      const kept = nodes ? joined(pages, page, options.args) : pages;
      return kept.length > 0 ? { ...merged, pages: kept } : merged;
    },
  };
}

/** A sum without an upper bound, which JSON has as text. */
const bigInt: FieldPolicy = { read: (text?: string | null) => (text == null ? text : BigInt(text)) };

export const possibleTypes: Record<string, string[]> = {
  ChainEvent: ['BlockConnected', 'BlockDisconnected'],
  Ledger: ['Address', 'AddressSet', 'Script'],
  MempoolEvent: ['TransactionAdded', 'TransactionRemoved'],
  Node: ['Address', 'Block', 'Chain', 'Mempool', 'Output', 'Reorg', 'Script', 'ServerInfo', 'Transaction'],
};

export const typePolicies: TypePolicies = {
  AcceptResult: { keyFields: false, merge: true },
  Address: {
    keyFields: ['id'],
    fields: {
      utxos: connection('filter', 'at'),
      transactions: connection('filter', 'order'),
      coinbaseBlocks: connection(),
    },
  },
  AddressLookup: { keyFields: false, merge: true },
  AddressSet: {
    keyFields: false,
    merge: true,
    fields: {
      utxos: connection('filter', 'at'),
      transactions: connection('filter', 'order'),
      coinbaseBlocks: connection(),
    },
  },
  Balance: { keyFields: false, merge: true },
  BitcoinNode: { keyFields: false, merge: true },
  Block: {
    keyFields: ['id'],
    fields: {
      transactions: connection('filter'),
    },
  },
  BlockConnected: { keyFields: false, merge: true },
  BlockConnection: { keyFields: false, merge: true },
  BlockDisconnected: { keyFields: false, merge: true },
  BlockEdge: { keyFields: false, merge: true },
  BlockFeeStats: { keyFields: false, merge: true },
  BlockHeader: { keyFields: false, merge: true },
  BlockStats: {
    keyFields: false,
    merge: true,
    fields: {
      inputValue: bigInt,
      outputValue: bigInt,
    },
  },
  BlockTemplate: { keyFields: false, merge: true },
  BroadcastResult: { keyFields: false, merge: true },
  Chain: {
    keyFields: ['id'],
    fields: {
      epochs: connection('order'),
    },
  },
  ChainSummary: {
    keyFields: false,
    merge: true,
    fields: {
      outputValue24h: bigInt,
    },
  },
  ChainTip: { keyFields: false, merge: true },
  ConflictedTransaction: { keyFields: false, merge: true },
  CumulativeStats: {
    keyFields: false,
    merge: true,
    fields: {
      outputValue: bigInt,
      fees: bigInt,
    },
  },
  DatabaseInfo: { keyFields: false, merge: true },
  DecodedTransaction: { keyFields: false, merge: true },
  DifficultyAdjustment: { keyFields: false, merge: true },
  DifficultyEpoch: { keyFields: false, merge: true },
  DifficultyEpochConnection: { keyFields: false, merge: true },
  DifficultyEpochEdge: { keyFields: false, merge: true },
  DiskShortage: { keyFields: false, merge: true },
  FeeBin: { keyFields: false, merge: true },
  FeeEstimate: { keyFields: false, merge: true },
  Input: { keyFields: false, merge: true },
  InputConnection: { keyFields: false, merge: true },
  InputEdge: { keyFields: false, merge: true },
  LedgerEntry: { keyFields: false, merge: true },
  LedgerEntryConnection: { keyFields: false, merge: true },
  LedgerEntryEdge: { keyFields: false, merge: true },
  LedgerEvent: { keyFields: false, merge: true },
  LedgerStats: {
    keyFields: false,
    merge: true,
    fields: {
      received: bigInt,
      spent: bigInt,
    },
  },
  Limits: { keyFields: false, merge: true },
  LockTime: { keyFields: false, merge: true },
  Mempool: {
    keyFields: ['id'],
    fields: {
      txids: connection(),
      transactions: connection('order', 'filter'),
      balanceChanges: connection(),
    },
  },
  MempoolEntry: { keyFields: false, merge: true },
  MempoolSample: { keyFields: false, merge: true },
  MempoolStats: { keyFields: false, merge: true },
  MerkleProof: { keyFields: false, merge: true },
  OpReturn: { keyFields: false, merge: true },
  Output: { keyFields: ['id'] },
  OutputConnection: { keyFields: false, merge: true },
  OutputEdge: { keyFields: false, merge: true },
  OutputSpentEvent: { keyFields: false, merge: true },
  PackageResult: { keyFields: false, merge: true },
  PageInfo: { keyFields: false, merge: true },
  ProjectedBlock: {
    keyFields: false,
    merge: true,
    fields: {
      transactions: connection(),
    },
  },
  ProjectedBlockDelta: { keyFields: false, merge: true },
  Query: {
    fields: {
      blocks: connection('order', 'fromHeight', 'toHeight', 'fromTime', 'toTime'),
      staleBlocks: connection(),
      reorgs: connection(),
      transactions: connection('order', 'fromHeight', 'toHeight', 'filter'),
    },
  },
  RangeStats: {
    keyFields: false,
    merge: true,
    fields: {
      outputValue: bigInt,
      fees: bigInt,
    },
  },
  RbfNode: { keyFields: false, merge: true },
  RecommendedFees: { keyFields: false, merge: true },
  RejectInfo: { keyFields: false, merge: true },
  Reorg: { keyFields: ['id'] },
  ReorgConnection: { keyFields: false, merge: true },
  ReorgEdge: { keyFields: false, merge: true },
  Script: {
    keyFields: ['id'],
    fields: {
      utxos: connection('filter', 'at'),
      transactions: connection('filter', 'order'),
      coinbaseBlocks: connection(),
    },
  },
  ScriptDelta: { keyFields: false, merge: true },
  ScriptDeltaConnection: { keyFields: false, merge: true },
  ScriptDeltaEdge: { keyFields: false, merge: true },
  ScriptTypeCount: {
    keyFields: false,
    merge: true,
    fields: {
      value: bigInt,
    },
  },
  ServerInfo: { keyFields: ['id'] },
  Snapshot: { keyFields: false, merge: true },
  Spendability: { keyFields: false, merge: true },
  Supply: { keyFields: false, merge: true },
  SyncProgress: { keyFields: false, merge: true },
  TableInfo: { keyFields: false, merge: true },
  Transaction: {
    keyFields: ['id'],
    fields: {
      inputs: connection(),
      outputs: connection(),
    },
  },
  TransactionAdded: { keyFields: false, merge: true },
  TransactionConnection: { keyFields: false, merge: true },
  TransactionEdge: { keyFields: false, merge: true },
  TransactionRemoved: { keyFields: false, merge: true },
  TransactionStatusEvent: { keyFields: false, merge: true },
  TxOccurrence: { keyFields: false, merge: true },
  TxidConnection: { keyFields: false, merge: true },
  TxidEdge: { keyFields: false, merge: true },
  Utxo: { keyFields: false, merge: true },
  UtxoConnection: { keyFields: false, merge: true },
  UtxoEdge: { keyFields: false, merge: true },
};

/** Settings for a cache of your own. */
export const cacheConfig: InMemoryCacheConfig = { possibleTypes, typePolicies };

/** An empty cache. */
export const createCache = (): InMemoryCache => new InMemoryCache(cacheConfig);
