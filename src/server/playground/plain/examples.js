// The examples that both pages of the playground begin with.

/**
 * @typedef {object} Example
 * @property {string} title
 * @property {string} query
 * @property {string} variables JSON, or empty
 */

/**
 * What the examples are about.
 * @typedef {object} Subjects
 * @property {number} height of a block
 * @property {string} address
 * @property {string} cursor of the newest event
 */

/** The tip, and outputs of the newest blocks: somewhere in them is an address, on a chain that has any. */
const NEWEST = `{
  tip { height }
  snapshot { cursor }
  blocks(first: 10) {
    nodes { transactions(first: 2) { nodes { outputs(first: 3) { nodes { address } } } } }
  }
}`;

/** How long they may be looked for before a page goes on without them, in milliseconds. */
const PATIENCE = 1500;

/**
 * The tip, and an address that one of the newest blocks pays, so that the examples have an answer on every network.
 * @returns {Promise<Subjects>}
 */
export async function newest() {
  let text = '';
  try {
    const response = await fetch('/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: NEWEST }),
      signal: AbortSignal.timeout(PATIENCE),
    });
    text = await response.text();
  } catch {
    // the page says at the first request that the server is away
  }
  return {
    height: Number(/"height":(\d+)/.exec(text)?.[1] ?? 0),
    address: /"address":"([^"]+)"/.exec(text)?.[1] ?? '',
    cursor: /"cursor":"([^"]+)"/.exec(text)?.[1] ?? '',
  };
}

/**
 * @param {Subjects} subjects
 * @returns {Example[]}
 */
export function examples({ height, address, cursor }) {
  const past = Math.max(0, height - 10);
  return [
    {
      title: 'The tip',
      query: `# The newest block, and how far the index is.
query Tip {
  tip {
    height
    hash
    time
    txCount
    totalFees
    difficulty
  }
  sync {
    phase
    indexedHeight
    targetHeight
    isReady
  }
}
`,
      variables: '',
    },
    {
      title: 'A block',
      query: `# A block with the first transactions that spend coins,
# these coins, and whom they pay.
query Block($height: Int!) {
  block(height: $height) {
    hash
    time
    size
    weight
    confirmations
    coinbaseValue
    transactions(first: 5, filter: { isCoinbase: false }) {
      nodes {
        txid
        fee
        feeRate
        inputs(first: 5) {
          nodes { prevout { value address } }
        }
        outputs(first: 5) {
          nodes { value address spentHeight }
        }
      }
      pageInfo { hasNextPage endCursor }
    }
  }
}
`,
      variables: JSON.stringify({ height }, null, 2),
    },
    {
      title: 'An address',
      query: `# What an address holds, its coins, and its history
# with the balance after each transaction.
query Address($address: String!) {
  address(address: $address) {
    type
    balance { confirmed immature spendable }
    utxos(first: 5) {
      nodes { outpoint { text } value confirmations }
    }
    transactions(first: 10) {
      totalCount
      nodes {
        net
        balanceAfter
        transaction {
          txid
          fee
          block { height time }
        }
      }
      pageInfo { hasNextPage endCursor }
    }
  }
}
`,
      variables: JSON.stringify({ address }, null, 2),
    },
    {
      title: 'Live blocks',
      query: `# Every block as it joins the chain.
# Run it, and wait for the next one.
subscription LiveBlocks {
  newBlock {
    height
    hash
    time
    txCount
    totalFees
    previousBlock { hash }
  }
}
`,
      variables: '',
    },
    {
      title: 'A balance in the past',
      query: `# What an address had right after a block of the past,
# and what it has now. A block is a height, a hash or a time.
query PastBalance($address: String!, $at: BlockAt!) {
  address(address: $address) {
    then: balance(at: $at) { confirmed immature spendable }
    now: balance { confirmed immature spendable }
    utxos(at: $at, first: 5) {
      totalCount
      nodes { outpoint { text } value height }
    }
  }
}
`,
      variables: JSON.stringify({ address, at: { height: past } }, null, 2),
    },
    {
      title: 'Mempool and fees',
      query: `# What to pay now, what waits at which feerate, and the
# blocks that miners would build of it.
query MempoolAndFees {
  recommendedFees { within1Block within3Blocks within6Blocks economy minimum }
  mempool {
    stats { txCount totalVsize vbytesPerSecond minFeeRate }
    feeHistogram(bins: [1, 2, 5, 10, 20, 50]) { fromRate toRate totalVsize txCount }
    projectedBlocks(first: 3) { index txCount vsize medianFeeRate totalFees }
  }
}
`,
      variables: '',
    },
    {
      title: 'Events of an address',
      query: `# What happens to an address: payments as they arrive,
# their confirmation, replacements and reorgs.
subscription AddressEvents($watch: LedgerInput!, $after: String) {
  ledgerEvents(watch: $watch, after: $after) {
    seq
    cursor
    kind
    entry { net transaction { txid state } }
    balance { confirmed unconfirmedDelta total }
  }
}
`,
      variables: JSON.stringify({ watch: { addresses: [address] } }, null, 2),
    },
    {
      title: 'A stream that resumes',
      query: `# Every block that joined or left the chain since the
# cursor, also those of the time without a connection:
# give the cursor of the last event that you have.
subscription ResumedBlocks($after: String) {
  chainEvents(after: $after) {
    seq
    cursor
    ... on BlockConnected { block { height hash } }
    ... on BlockDisconnected { block { height hash } reorg { depth } }
  }
}
`,
      variables: JSON.stringify({ after: cursor }, null, 2),
    },
    {
      title: 'Effects of reorgs',
      query: `# The newest reorgs, and which transactions they returned
# to the mempool or put in conflict with the new chain.
query Reorgs {
  reorgs(first: 3) {
    nodes {
      observedAt
      depth
      forkHeight
      disconnected(first: 5) { nodes { height hash } }
      connected(first: 5) { nodes { height hash } }
      returnedToMempool(first: 5) { totalCount nodes }
      conflicted(first: 5) { totalCount nodes { txid conflictingTxids } }
    }
  }
}
`,
      variables: '',
    },
    {
      title: 'A wallet by descriptor',
      query: `# All addresses of a descriptor as one wallet. Try
# wpkh(xpub…/<0;1>/*) with your own key: it stays here.
query Wallet($text: String!) {
  descriptor(text: $text) {
    scriptType
    isRanged
    usedCount
    balance { confirmed unconfirmedDelta total spendable }
    branches { isChange usedCount nextUnused { path address } }
    transactions(first: 5) {
      totalCount
      nodes { net balanceAfter transaction { txid block { height } } }
    }
  }
}
`,
      variables: JSON.stringify({ text: address ? `addr(${address})` : '' }, null, 2),
    },
  ];
}
