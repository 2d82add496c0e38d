// The cache of Apollo Client for this API: see docs/frontend.md. Written from schema.graphql by tests/web/cache.js.

import { InMemoryCache, type InMemoryCacheConfig, type TypePolicies } from '@apollo/client';
import type { FieldPolicy } from '@apollo/client/cache';
import { connection } from './pagination';

/** A sum without an upper bound, which JSON has as text. */
const bigInt: FieldPolicy = { read: (text?: string | null) => (text == null ? text : BigInt(text)) };

export const possibleTypes: Record<string, string[]> = {
  ChainEvent: ['BlockConnected', 'BlockDisconnected'],
  Ledger: ['Address', 'AddressSet', 'DescriptorAccount', 'Script'],
  MempoolEvent: ['TransactionAdded', 'TransactionRemoved'],
  Node: ['Address', 'AddressSet', 'Block', 'Chain', 'DescriptorAccount', 'DifficultyEpoch', 'Mempool', 'Output', 'Reorg', 'Script', 'ServerInfo', 'Transaction'],
  SearchResult: ['Address', 'Block', 'DescriptorAccount', 'Output', 'Script', 'Transaction'],
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
  AddressError: { keyFields: false, merge: true },
  AddressLookup: { keyFields: false, merge: true },
  AddressSet: {
    keyFields: ['id'],
    fields: {
      utxos: connection('filter', 'at'),
      transactions: connection('filter', 'order'),
      coinbaseBlocks: connection(),
    },
  },
  AddressValidation: { keyFields: false, merge: true },
  Balance: { keyFields: false, merge: true },
  BalancePoint: { keyFields: false, merge: true },
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
  BlockStats: { keyFields: false, merge: true },
  BlockTemplate: { keyFields: false, merge: true },
  BroadcastResult: { keyFields: false, merge: true },
  Chain: {
    keyFields: ['id'],
    fields: {
      epochs: connection('order'),
    },
  },
  ChainSummary: { keyFields: false, merge: true },
  ChainTip: { keyFields: false, merge: true },
  ConflictedTransaction: { keyFields: false, merge: true },
  ConflictedTransactionConnection: { keyFields: false, merge: true },
  ConflictedTransactionEdge: { keyFields: false, merge: true },
  ConnectionLimits: { keyFields: false, merge: true },
  CumulativeTotals: {
    keyFields: false,
    merge: true,
    fields: {
      outputValue: bigInt,
      fees: bigInt,
      subsidy: bigInt,
      unspendable: bigInt,
    },
  },
  CurrencyValue: { keyFields: false, merge: true },
  DatabaseInfo: { keyFields: false, merge: true },
  DecodedPsbt: {
    keyFields: false,
    merge: true,
    fields: {
      inputs: connection(),
      outputs: connection(),
    },
  },
  DecodedTransaction: { keyFields: false, merge: true },
  DerivedAddress: { keyFields: false, merge: true },
  DerivedAddressConnection: { keyFields: false, merge: true },
  DerivedAddressEdge: { keyFields: false, merge: true },
  DescriptorAccount: {
    keyFields: ['id'],
    fields: {
      addresses: connection('branch', 'used'),
      utxos: connection('filter', 'at'),
      transactions: connection('filter', 'order'),
      coinbaseBlocks: connection(),
    },
  },
  DescriptorBranch: { keyFields: false, merge: true },
  DescriptorError: { keyFields: false, merge: true },
  DescriptorInfo: { keyFields: false, merge: true },
  DescriptorMatch: { keyFields: false, merge: true },
  DifficultyAdjustment: { keyFields: false, merge: true },
  DifficultyEpoch: { keyFields: ['id'] },
  DifficultyEpochConnection: { keyFields: false, merge: true },
  DifficultyEpochEdge: { keyFields: false, merge: true },
  DiskShortage: { keyFields: false, merge: true },
  Feature: { keyFields: false, merge: true },
  FeeBin: { keyFields: false, merge: true },
  FeeEstimate: { keyFields: false, merge: true },
  Input: { keyFields: false, merge: true },
  InputConnection: { keyFields: false, merge: true },
  InputEdge: { keyFields: false, merge: true },
  LedgerEntry: {
    keyFields: false,
    merge: true,
    fields: {
      inputs: connection(),
      outputs: connection(),
    },
  },
  LedgerEntryConnection: { keyFields: false, merge: true },
  LedgerEntryEdge: { keyFields: false, merge: true },
  LedgerEvent: { keyFields: false, merge: true },
  LedgerTotals: {
    keyFields: false,
    merge: true,
    fields: {
      received: bigInt,
      spent: bigInt,
    },
  },
  Limits: { keyFields: false, merge: true },
  LockTime: { keyFields: false, merge: true },
  LostBlock: { keyFields: false, merge: true },
  Mempool: {
    keyFields: ['id'],
    fields: {
      txids: connection(),
      transactions: connection('filter', 'order'),
      balanceChanges: connection(),
      replacements: connection('fullRbfOnly'),
    },
  },
  MempoolEntry: { keyFields: false, merge: true },
  MempoolSample: { keyFields: false, merge: true },
  MempoolStats: { keyFields: false, merge: true },
  MerkleProof: { keyFields: false, merge: true },
  NetEffect: { keyFields: false, merge: true },
  OpReturn: { keyFields: false, merge: true },
  OutPoint: { keyFields: false, merge: true },
  Output: { keyFields: ['id'] },
  OutputConnection: { keyFields: false, merge: true },
  OutputEdge: { keyFields: false, merge: true },
  OutputSpentEvent: { keyFields: false, merge: true },
  PackageResult: { keyFields: false, merge: true },
  PageInfo: { keyFields: false, merge: true },
  PageLimits: { keyFields: false, merge: true },
  ProjectedBlock: {
    keyFields: false,
    merge: true,
    fields: {
      transactions: connection(),
    },
  },
  ProjectedBlockDelta: { keyFields: false, merge: true },
  PsbtDerivation: { keyFields: false, merge: true },
  PsbtInput: { keyFields: false, merge: true },
  PsbtInputConnection: { keyFields: false, merge: true },
  PsbtInputEdge: { keyFields: false, merge: true },
  PsbtOutput: { keyFields: false, merge: true },
  PsbtOutputConnection: { keyFields: false, merge: true },
  PsbtOutputEdge: { keyFields: false, merge: true },
  PsbtSignature: { keyFields: false, merge: true },
  Query: {
    fields: {
      blocks: connection('range', 'order'),
      staleBlocks: connection(),
      reorgs: connection(),
      transactions: connection('filter', 'range', 'order'),
      search: connection('text'),
    },
  },
  RangeTotals: {
    keyFields: false,
    merge: true,
    fields: {
      outputValue: bigInt,
      fees: bigInt,
      subsidy: bigInt,
    },
  },
  Rate: { keyFields: false, merge: true },
  RbfNode: { keyFields: false, merge: true },
  RbfNodeConnection: { keyFields: false, merge: true },
  RbfNodeEdge: { keyFields: false, merge: true },
  RecommendedFees: { keyFields: false, merge: true },
  RejectInfo: { keyFields: false, merge: true },
  Reorg: {
    keyFields: ['id'],
    fields: {
      disconnected: connection(),
      connected: connection(),
      returnedToMempool: connection(),
      conflicted: connection(),
    },
  },
  ReorgBlock: { keyFields: false, merge: true },
  ReorgBlockConnection: { keyFields: false, merge: true },
  ReorgBlockEdge: { keyFields: false, merge: true },
  ReorgConnection: { keyFields: false, merge: true },
  ReorgEdge: { keyFields: false, merge: true },
  RequestLimits: { keyFields: false, merge: true },
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
  ScriptInfo: { keyFields: false, merge: true },
  ScriptTypeCount: { keyFields: false, merge: true },
  SearchResultConnection: { keyFields: false, merge: true },
  SearchResultEdge: { keyFields: false, merge: true },
  ServerInfo: { keyFields: ['id'] },
  Snapshot: { keyFields: false, merge: true },
  Spendability: { keyFields: false, merge: true },
  SubscriptionLimits: { keyFields: false, merge: true },
  SupplyTotals: {
    keyFields: false,
    merge: true,
    fields: {
      subsidyIssued: bigInt,
      circulating: bigInt,
      unspendable: bigInt,
      genesis: bigInt,
      bip30: bigInt,
      unspendableScripts: bigInt,
      unclaimedRewards: bigInt,
      immatureCoinbase: bigInt,
    },
  },
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
  TurnoverTotals: {
    keyFields: false,
    merge: true,
    fields: {
      received: bigInt,
      spent: bigInt,
    },
  },
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
