// Pictures of the explorer for README.md, taken in a headless Chromium.
//
//   usage: node screenshots.js EXECUTABLE ORIGIN FOLDER
//
// ORIGIN is a server whose chain grows, such as `btcgraph demo`. Waits until its pages have something to show.

import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const [executablePath, origin, folder] = process.argv.slice(2);

/** Unconfirmed transactions and blocks with several transactions that a picture needs. */
const ENOUGH = { unconfirmed: 40, transactions: 15 };
const PATIENCE_MS = 300_000;

async function ask(query) {
  const response = await fetch(`${origin}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
  });
  const { data, errors } = await response.json();
  if (errors) throw new Error(JSON.stringify(errors));
  return data;
}

const STATE = `{
  blocks(first: 12) {
    nodes { hash txCount transactions(first: 100) { nodes { txid inputs { totalCount } outputs { totalCount nodes { address } } } } }
  }
  mempool { stats { txCount } }
}`;

/** A block, a transaction and an address with much to see, as soon as there are any. */
async function subjects() {
  for (const end = Date.now() + PATIENCE_MS; ; await sleep(1_000)) {
    const { blocks, mempool } = await ask(STATE);
    const full = blocks.nodes.filter(({ txCount }) => txCount >= ENOUGH.transactions);
    if (full.length >= 6 && mempool.stats.txCount >= ENOUGH.unconfirmed) {
      const transactions = full.flatMap((block) => block.transactions.nodes.slice(1));
      const wide = ({ inputs, outputs }) => Math.min(inputs.totalCount, 4) + Math.min(outputs.totalCount, 4);
      transactions.sort((a, b) => wide(b) - wide(a));
      const addresses = transactions.flatMap(({ outputs }) => outputs.nodes.map(({ address }) => address)).filter(Boolean);
      return { block: full[1].hash, txid: transactions[0].txid, address: await busiest([...new Set(addresses)]) };
    }
    if (Date.now() > end) throw new Error('the chain has nothing to show');
  }
}

async function busiest(addresses) {
  const counts = new Map();
  for (const address of addresses.slice(0, 200)) {
    const { found } = await ask(`{ found: address(address: "${address}") { stats { txCount } } }`);
    counts.set(address, found.stats.txCount);
  }
  return [...counts].reduce((most, next) => (next[1] > most[1] ? next : most))[0];
}

const { block, txid, address } = await subjects();
const PICTURES = [
  { name: 'chain', at: '/', colorScheme: 'light', height: 790 },
  { name: 'block', at: `/block/${block}`, colorScheme: 'dark', height: 900 },
  { name: 'transaction', at: `/tx/${txid}`, colorScheme: 'light', height: 900 },
  { name: 'address', at: `/address/${address}`, colorScheme: 'light', height: 900 },
  { name: 'charts', at: '/charts', colorScheme: 'dark', height: 900 },
  { name: 'playground', at: '/playground', colorScheme: 'dark', height: 700 },
];

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const browser = await chromium.launch({ executablePath, headless: true, args: flags });
for (const { name, at, colorScheme, height } of PICTURES) {
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height }, colorScheme });
  const page = await context.newPage();
  await page.goto(origin + at, { waitUntil: 'load' });
  // what is live keeps the network busy, so there is no idle moment to wait for
  await page.waitForTimeout(5_000);
  await page.screenshot({ path: path.join(folder, `${name}.png`) });
  await context.close();
}
await browser.close();
