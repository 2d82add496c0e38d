// Written from ledger.graphql and schema.graphql by tests/web/explorer-types.js.

import { document } from '../document';

/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
/**
 * A block of the main chain, identified in exactly one of three ways. The field returns the state right after that
 * block.
 */
export type BlockAt =
  {   /** The block at this height. */
  height: number; hash?: never; time?: never; }
  |  { height?: never;   /** The block with this hash. The block must be on the main chain. */
  hash: string; time?: never; }
  |  { height?: never; hash?: never;   /** The newest block whose median time past is at or before this time. The tip if the time is later than the tip's. */
  time: string; };

/** Consecutive blocks of the main chain, given in exactly one of three ways. */
export type BlockRange =
  {   /** By their heights. */
  heights: HeightRange; times?: never; lastBlocks?: never; }
  |  { heights?: never;   /** By their median time past. */
  times: TimeRange; lastBlocks?: never; }
  |  { heights?: never; times?: never;   /** So many blocks up to the tip, at least 1. All blocks if the chain has fewer. */
  lastBlocks: number; };

/** A descriptor of a wallet. */
export type DescriptorInput = {
  /** An output descriptor with public keys, or an extended public key alone, as in `descriptor(text:)`. */
  text: string;
  /** The number of unused scripts in a row at which a branch ends, from 1 to `server.limits.pages.gapLimit`. */
  gapLimit?: number | null | undefined;
};

/** The direction of a ledger transaction. */
export type Direction =
  /** Transactions with an output to the ledger, including change. */
  | 'IN'
  /** Transactions that spend an output of the ledger. */
  | 'OUT'
  /** All transactions. */
  | 'BOTH';

/** Blocks from one height to another. Both ends are included, and both are optional. */
export type HeightRange = {
  /** The height of the first block; the genesis block if not given. */
  from?: number | null | undefined;
  /** The height of the last block; the tip if not given. */
  to?: number | null | undefined;
};

/** What happened to a transaction of a ledger. */
export type LedgerEventKind =
  /** The transaction entered the mempool: it is new, or it returned after a reorg disconnected its block. */
  | 'SEEN'
  /**
   * The transaction left the mempool because another transaction replaced it or one of its ancestors. If the
   * replacement pays or spends the ledger, its SEEN event follows. With `isCorrection` it had left before, as EVICTED.
   */
  | 'REPLACED'
  /**
   * The transaction left the mempool because a block contains one that spends the same output, or an output that an
   * unconfirmed ancestor spends. With `isCorrection` it had left before, as EVICTED.
   */
  | 'CONFLICTED'
  /**
   * The transaction left the mempool because it expired, because the mempool was full, or for an UNKNOWN reason, and is in no
   * block. If it returns, a SEEN event follows. When a reason that was UNKNOWN becomes known, REPLACED or CONFLICTED follows
   * with `isCorrection`.
   */
  | 'EVICTED'
  /**
   * The transaction left the mempool because a reorg removed an ancestor from the chain, or moved the chain back to where
   * it is not final.
   */
  | 'REORGED_OUT'
  /** A block of the main chain contains the transaction: its first confirmation. */
  | 'CONFIRMED'
  /**
   * The transaction has one of the requested numbers of confirmations. The event repeats after a reorg in which the
   * transaction keeps its block but loses confirmations.
   */
  | 'DEPTH_REACHED'
  /**
   * The block that contained the transaction left the main chain. SEEN follows if the transaction returns to the
   * mempool, CONFIRMED if another block contains it.
   */
  | 'UNCONFIRMED_BY_REORG'
  /**
   * The coinbase outputs that the transaction created are mature: it has 100 confirmations, and the next block may
   * spend them.
   */
  | 'MATURED'
  /**
   * Earlier mempool events are missing because the server no longer has them: the client was away for longer than
   * the server stores events, or resumes from before a restart or from another server. Discard all unconfirmed
   * transactions: any of them may be gone. SEEN events for the whole current mempool follow, then GAP_END. No block
   * events are missing. `entry` is null.
   */
  | 'GAP'
  /**
   * All unconfirmed transactions are reported, and no events are missing from here on. A transaction that left
   * between GAP and GAP_END may have no SEEN event, but may have an event of its departure after GAP_END. `entry`
   * is null.
   */
  | 'GAP_END';

/**
 * Conditions on the transactions of a ledger; a transaction must meet all of them. A range of blocks uses the index.
 * The other conditions scan row by row, at most `server.limits.pages.scanRows` rows per page; three rows that are read cost 1,
 * whether they are returned or not.
 */
export type LedgerFilter = {
  /** Only transactions in this direction. */
  direction?: Direction | null | undefined;
  /**
   * Only transactions in these blocks. A range with a last height, which may be above the tip, or a last time excludes
   * unconfirmed transactions.
   */
  range?: BlockRange | null | undefined;
  /** Only transactions that change the balance by at least this many satoshis in either direction. */
  minAbsNet?: number | null | undefined;
  /** Whether to include mempool transactions. */
  includeMempool?: boolean | null | undefined;
  /** Only coinbases that pay the ledger. They spend nothing, so `direction: OUT` with it is BAD_USER_INPUT. */
  coinbaseOnly?: boolean | null | undefined;
};

/**
 * Addresses, scripts and descriptors: at least one of the lists, and at most `server.limits.pages.idsPerList` entries in all of them
 * together. In a subscription at most `watchedItems` addresses and scripts and `watchedDescriptors` descriptors, which have at most
 * `watchedBranches` branches (`server.limits.subscriptions`) and `server.limits.pages.derivedScripts` scripts together.
 */
export type LedgerInput = {
  /**
   * Addresses of this server's network. In `ledgers` and `ledgerSet` the entry of an invalid address says why, and adds
   * nothing; everything else fails on it.
   */
  addresses?: Array<string> | null | undefined;
  /** Full scriptPubKeys, including those without an address. */
  scripts?: Array<string> | null | undefined;
  /** Descriptors: their scripts up to the gap limit. In a subscription the end moves on by itself as scripts are used. */
  descriptors?: Array<DescriptorInput> | null | undefined;
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

/** A reason why an output cannot be safely spent in the next block. */
export type SpendObstacle =
  /** No block contains it yet, so it may never be confirmed. */
  | 'UNCONFIRMED'
  /** A coinbase created it, and it is not mature enough for the next block to spend it. */
  | 'IMMATURE'
  /** A mempool transaction spends it. */
  | 'SPENT_IN_MEMPOOL';

/** From one time to another. Both ends are included, and both are optional. Of blocks, the median time past counts. */
export type TimeRange = {
  /** Only what is at or after this time. */
  from?: string | null | undefined;
  /** Only what is at or before this time. */
  to?: string | null | undefined;
};

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

export type AddressPageQueryVariables = Exact<{
  address: string;
  at?: BlockAt | null | undefined;
  filter?: LedgerFilter | null | undefined;
  range?: BlockRange | null | undefined;
  group: SeriesGroup;
  first: number;
  moreEntries?: string | null | undefined;
  moreUtxos?: string | null | undefined;
}>;


export type AddressPageQuery = { snapshot: { cursor: string, height: number } | null, address: { id: string, address: string, type: ScriptType, publicKey: string | null, script: { id: string, hex: string | null, asm: string | null, scriptHash: string, electrumScriptHash: string }, p2pkScripts: Array<{ id: string, scriptHash: string }>, stats: { txCount: number | null, mempoolTxCount: number, receivedCount: number, received: bigint, spentCount: number, spent: bigint, utxoCount: number, used: boolean, minedBlockCount: number | null, firstSeenBlock: { id: string, hash: string, height: number, time: string } | null, lastSeenBlock: { id: string, hash: string, height: number, time: string } | null } | null, balance: { confirmed: number, immature: number, spendable: number, total: number, pendingIn: number, spentInMempool: number, unconfirmedDelta: number } | null, balanceHistory: Array<{ startAt: string, balanceAfter: number, net: number }> | null, transactions: { totalCount: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { net: number, received: number, spent: number, balanceAfter: number | null, sentToSelf: boolean, transaction: { id: string, txid: string, state: TxState, isCoinbase: boolean, firstSeenAt: string | null, block: { id: string, hash: string, height: number, time: string } | null } } }> } | null, utxos: { totalCount: number | null, totalValue: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { value: number, height: number | null, confirmations: number, isCoinbase: boolean, spendability: { isSpendable: boolean, reasons: Array<SpendObstacle>, notBeforeHeight: number | null }, outpoint: { txid: string, vout: number } } }> } | null } | null };

export type ScriptPageQueryVariables = Exact<{
  scriptHash?: string | null | undefined;
  scriptPubKey?: string | null | undefined;
  at?: BlockAt | null | undefined;
  filter?: LedgerFilter | null | undefined;
  range?: BlockRange | null | undefined;
  group: SeriesGroup;
  first: number;
  moreEntries?: string | null | undefined;
  moreUtxos?: string | null | undefined;
}>;


export type ScriptPageQuery = { snapshot: { cursor: string, height: number } | null, script: { id: string, hex: string | null, asm: string | null, scriptHash: string, electrumScriptHash: string, address: string | null, scriptType: ScriptType | null, stats: { txCount: number | null, mempoolTxCount: number, receivedCount: number, received: bigint, spentCount: number, spent: bigint, utxoCount: number, used: boolean, minedBlockCount: number | null, firstSeenBlock: { id: string, hash: string, height: number, time: string } | null, lastSeenBlock: { id: string, hash: string, height: number, time: string } | null } | null, balance: { confirmed: number, immature: number, spendable: number, total: number, pendingIn: number, spentInMempool: number, unconfirmedDelta: number } | null, balanceHistory: Array<{ startAt: string, balanceAfter: number, net: number }> | null, transactions: { totalCount: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { net: number, received: number, spent: number, balanceAfter: number | null, sentToSelf: boolean, transaction: { id: string, txid: string, state: TxState, isCoinbase: boolean, firstSeenAt: string | null, block: { id: string, hash: string, height: number, time: string } | null } } }> } | null, utxos: { totalCount: number | null, totalValue: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { value: number, height: number | null, confirmations: number, isCoinbase: boolean, spendability: { isSpendable: boolean, reasons: Array<SpendObstacle>, notBeforeHeight: number | null }, outpoint: { txid: string, vout: number } } }> } | null } | null };

export type WalletPageQueryVariables = Exact<{
  text: string;
  at?: BlockAt | null | undefined;
  filter?: LedgerFilter | null | undefined;
  range?: BlockRange | null | undefined;
  group: SeriesGroup;
  first: number;
  moreEntries?: string | null | undefined;
  moreUtxos?: string | null | undefined;
}>;


export type WalletPageQuery = { snapshot: { cursor: string, height: number } | null, descriptor: { id: string, descriptor: string, checksum: string, scriptType: ScriptType | null, isRanged: boolean, gapLimit: number, usedCount: number, branches: Array<{ index: number, path: string | null, isChange: boolean, usedCount: number, derivedCount: number, nextUnused: { index: number, address: string | null } | null }>, addresses: { nodes: Array<{ branch: number, index: number, path: string | null, address: string | null, used: boolean }> } | null, stats: { txCount: number | null, mempoolTxCount: number, receivedCount: number, received: bigint, spentCount: number, spent: bigint, utxoCount: number, used: boolean, minedBlockCount: number | null, firstSeenBlock: { id: string, hash: string, height: number, time: string } | null, lastSeenBlock: { id: string, hash: string, height: number, time: string } | null } | null, balance: { confirmed: number, immature: number, spendable: number, total: number, pendingIn: number, spentInMempool: number, unconfirmedDelta: number } | null, balanceHistory: Array<{ startAt: string, balanceAfter: number, net: number }> | null, transactions: { totalCount: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { net: number, received: number, spent: number, balanceAfter: number | null, sentToSelf: boolean, transaction: { id: string, txid: string, state: TxState, isCoinbase: boolean, firstSeenAt: string | null, block: { id: string, hash: string, height: number, time: string } | null } } }> } | null, utxos: { totalCount: number | null, totalValue: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { value: number, height: number | null, confirmations: number, isCoinbase: boolean, spendability: { isSpendable: boolean, reasons: Array<SpendObstacle>, notBeforeHeight: number | null }, outpoint: { txid: string, vout: number } } }> } | null } | null };

export type FiguresFragment = { stats: { txCount: number | null, mempoolTxCount: number, receivedCount: number, received: bigint, spentCount: number, spent: bigint, utxoCount: number, used: boolean, minedBlockCount: number | null, firstSeenBlock: { id: string, hash: string, height: number, time: string } | null, lastSeenBlock: { id: string, hash: string, height: number, time: string } | null } | null, balance: { confirmed: number, immature: number, spendable: number, total: number, pendingIn: number, spentInMempool: number, unconfirmedDelta: number } | null, balanceHistory: Array<{ startAt: string, balanceAfter: number, net: number }> | null, transactions: { totalCount: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { net: number, received: number, spent: number, balanceAfter: number | null, sentToSelf: boolean, transaction: { id: string, txid: string, state: TxState, isCoinbase: boolean, firstSeenAt: string | null, block: { id: string, hash: string, height: number, time: string } | null } } }> } | null, utxos: { totalCount: number | null, totalValue: number | null, pageInfo: { hasNextPage: boolean, hasPreviousPage: boolean, startCursor: string | null, endCursor: string | null }, edges: Array<{ cursor: string, node: { value: number, height: number | null, confirmations: number, isCoinbase: boolean, spendability: { isSpendable: boolean, reasons: Array<SpendObstacle>, notBeforeHeight: number | null }, outpoint: { txid: string, vout: number } } }> } | null };

export type LedgerChangesSubscriptionVariables = Exact<{
  watch: LedgerInput;
  after?: string | null | undefined;
}>;


export type LedgerChangesSubscription = { ledgerEvents: { seq: number, cursor: string, kind: LedgerEventKind, entry: { net: number, transaction: { id: string, txid: string } } | null } };

export type WalletChangesSubscriptionVariables = Exact<{
  after?: string | null | undefined;
}>;


export type WalletChangesSubscription = { chainEvents: { seq: number, cursor: string } };

export const AddressPageDocument = document<AddressPageQuery, AddressPageQueryVariables>(`# An address, now or right after a block.
query AddressPage($address: String!, $at: BlockAt, $filter: LedgerFilter, $range: BlockRange, $group: SeriesGroup!, $first: Int!, $moreEntries: String, $moreUtxos: String) {
  snapshot {
    cursor
    height
  }
  address(address: $address) {
    id
    address
    type
    publicKey
    script {
      id
      hex
      asm
      scriptHash
      electrumScriptHash
    }
    p2pkScripts {
      id
      scriptHash
    }
    ...Figures
  }
}

fragment Figures on Ledger {
  stats(at: $at) {
    txCount
    mempoolTxCount
    receivedCount
    received
    spentCount
    spent
    utxoCount
    used
    minedBlockCount
    firstSeenBlock {
      id
      hash
      height
      time
    }
    lastSeenBlock {
      id
      hash
      height
      time
    }
  }
  balance(at: $at) {
    confirmed
    immature
    spendable
    total
    pendingIn
    spentInMempool
    unconfirmedDelta
  }
  balanceHistory(range: $range, group: $group) {
    startAt
    balanceAfter
    net
  }
  transactions(filter: $filter, first: $first, after: $moreEntries) {
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
        net
        received
        spent
        balanceAfter
        sentToSelf
        transaction {
          id
          txid
          state
          isCoinbase
          firstSeenAt
          block {
            id
            hash
            height
            time
          }
        }
      }
    }
  }
  utxos(at: $at, first: 12, after: $moreUtxos) {
    totalCount
    totalValue
    pageInfo {
      hasNextPage
      hasPreviousPage
      startCursor
      endCursor
    }
    edges {
      cursor
      node {
        value
        height
        confirmations
        isCoinbase
        spendability {
          isSpendable
          reasons
          notBeforeHeight
        }
        outpoint {
          txid
          vout
        }
      }
    }
  }
}
`);

export const ScriptPageDocument = document<ScriptPageQuery, ScriptPageQueryVariables>(`query ScriptPage($scriptHash: Hex, $scriptPubKey: Hex, $at: BlockAt, $filter: LedgerFilter, $range: BlockRange, $group: SeriesGroup!, $first: Int!, $moreEntries: String, $moreUtxos: String) {
  snapshot {
    cursor
    height
  }
  script(scriptHash: $scriptHash, scriptPubKey: $scriptPubKey) {
    id
    hex
    asm
    scriptType: type
    scriptHash
    electrumScriptHash
    address
    ...Figures
  }
}

fragment Figures on Ledger {
  stats(at: $at) {
    txCount
    mempoolTxCount
    receivedCount
    received
    spentCount
    spent
    utxoCount
    used
    minedBlockCount
    firstSeenBlock {
      id
      hash
      height
      time
    }
    lastSeenBlock {
      id
      hash
      height
      time
    }
  }
  balance(at: $at) {
    confirmed
    immature
    spendable
    total
    pendingIn
    spentInMempool
    unconfirmedDelta
  }
  balanceHistory(range: $range, group: $group) {
    startAt
    balanceAfter
    net
  }
  transactions(filter: $filter, first: $first, after: $moreEntries) {
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
        net
        received
        spent
        balanceAfter
        sentToSelf
        transaction {
          id
          txid
          state
          isCoinbase
          firstSeenAt
          block {
            id
            hash
            height
            time
          }
        }
      }
    }
  }
  utxos(at: $at, first: 12, after: $moreUtxos) {
    totalCount
    totalValue
    pageInfo {
      hasNextPage
      hasPreviousPage
      startCursor
      endCursor
    }
    edges {
      cursor
      node {
        value
        height
        confirmations
        isCoinbase
        spendability {
          isSpendable
          reasons
          notBeforeHeight
        }
        outpoint {
          txid
          vout
        }
      }
    }
  }
}
`);

export const WalletPageDocument = document<WalletPageQuery, WalletPageQueryVariables>(`query WalletPage($text: String!, $at: BlockAt, $filter: LedgerFilter, $range: BlockRange, $group: SeriesGroup!, $first: Int!, $moreEntries: String, $moreUtxos: String) {
  snapshot {
    cursor
    height
  }
  descriptor(text: $text) {
    id
    descriptor
    checksum
    scriptType
    isRanged
    gapLimit
    usedCount
    branches {
      index
      path
      isChange
      usedCount
      derivedCount
      nextUnused {
        index
        address
      }
    }
    addresses(used: true, first: 20) {
      nodes {
        branch
        index
        path
        address
        used
      }
    }
    ...Figures
  }
}

fragment Figures on Ledger {
  stats(at: $at) {
    txCount
    mempoolTxCount
    receivedCount
    received
    spentCount
    spent
    utxoCount
    used
    minedBlockCount
    firstSeenBlock {
      id
      hash
      height
      time
    }
    lastSeenBlock {
      id
      hash
      height
      time
    }
  }
  balance(at: $at) {
    confirmed
    immature
    spendable
    total
    pendingIn
    spentInMempool
    unconfirmedDelta
  }
  balanceHistory(range: $range, group: $group) {
    startAt
    balanceAfter
    net
  }
  transactions(filter: $filter, first: $first, after: $moreEntries) {
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
        net
        received
        spent
        balanceAfter
        sentToSelf
        transaction {
          id
          txid
          state
          isCoinbase
          firstSeenAt
          block {
            id
            hash
            height
            time
          }
        }
      }
    }
  }
  utxos(at: $at, first: 12, after: $moreUtxos) {
    totalCount
    totalValue
    pageInfo {
      hasNextPage
      hasPreviousPage
      startCursor
      endCursor
    }
    edges {
      cursor
      node {
        value
        height
        confirmations
        isCoinbase
        spendability {
          isSpendable
          reasons
          notBeforeHeight
        }
        outpoint {
          txid
          vout
        }
      }
    }
  }
}
`);

export const LedgerChangesDocument = document<LedgerChangesSubscription, LedgerChangesSubscriptionVariables>(`subscription LedgerChanges($watch: LedgerInput!, $after: String) {
  ledgerEvents(watch: $watch, after: $after) {
    seq
    cursor
    kind
    entry {
      net
      transaction {
        id
        txid
      }
    }
  }
}
`);

export const WalletChangesDocument = document<WalletChangesSubscription, WalletChangesSubscriptionVariables>(`subscription WalletChanges($after: String) {
  chainEvents(after: $after) {
    seq
    cursor
  }
}
`);
