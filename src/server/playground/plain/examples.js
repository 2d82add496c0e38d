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
 */

/** The tip, and outputs of the newest blocks: somewhere in them is an address, on a chain that has any. */
const NEWEST = `{
  tip { height }
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
  };
}

/**
 * @param {Subjects} subjects
 * @returns {Example[]}
 */
export function examples({ height, address }) {
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
    ready
  }
}
`,
      variables: '',
    },
    {
      title: 'A block',
      query: `# A block with its first transactions, the coins
# they spend and whom they pay.
query Block($height: Int!) {
  block(height: $height) {
    hash
    time
    size
    weight
    confirmations
    coinbaseValue
    transactions(first: 5) {
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
    previous { hash }
  }
}
`,
      variables: '',
    },
  ];
}
