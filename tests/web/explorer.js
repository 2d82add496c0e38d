// A visit to the explorer in a headless Chromium.
//
//   usage: node explorer.js EXECUTABLE ORIGIN
//
// It says, in lines of JSON, what it needs, and reads a line of JSON from stdin for each:
//
//   { need: "block" }              the hash of a new block
//   { need: "payment", to: … }     the txid of a new transaction that pays the address, or any address if that is null
//   { need: "restart", to: … }     the txid of a transaction that pays the address, made and confirmed while the server is away
//   { need: "entries", count: … }  an address with this number of transactions
//   { need: "reorg" }              the hash of the block that left the chain
//   { need: "stuck" }              a transaction that waits for a block after the next: its txid, the feerate of the next
//                                  block in whole sat/vB, and the fee in satoshis of a replacement that pays it
//   { need: "balance", of, at }    the balance of an address in satoshis, as a string
//
// and { seen: … } last of all what it saw:
//
//   bytes        of the first view, compressed
//   violations   of accessibility, by axe: "page at width in scheme: rule: element"
//   overflows    pages that are wider than the window
//   hidden       how many cells of the tables of the mempool are not in sight, by width
//   shares       of the types of new outputs in the newest period, in percent, added up
//   reorg        what the page of reorgs says of the one that was made
//   stuck        what the page of the stuck transaction says of its wait
//   complaints   errors and warnings of the console, exceptions, and what the content security policy blocked
//   elsewhere    requests to any other host
//   loads        how often the page was loaded
//
// With PLAYGROUND_PICTURES it leaves pictures in that folder.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const [executablePath, origin] = process.argv.slice(2);
const PATIENCE = 30_000;
/** How long a connection is away, in milliseconds. */
const CUT = 10_000;

/** Transactions of the longest history. */
const ENTRIES = 1_000;

const WIDTHS = [320, 360, 768, 1440];

/** What a browser says of a server that is away. */
const AWAY = /ERR_CONNECTION|ERR_EMPTY_RESPONSE|WebSocket connection to/;

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function need(request) {
  say(request);
  return JSON.parse((await lines.next()).value);
}

const seen = { bytes: 0, violations: [], overflows: [], hidden: {}, complaints: [], elsewhere: [], loads: 0 };

function watch(page) {
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) seen.complaints.push(message.text());
  });
  page.on('pageerror', (error) => seen.complaints.push(String(error)));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) seen.elsewhere.push(url);
  });
  page.on('websocket', (socket) => {
    if (socket.url() !== `${origin.replace('http', 'ws')}/graphql`) seen.elsewhere.push(socket.url());
  });
  page.on('load', () => { seen.loads += 1; });
}

async function open(browser, at, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  watch(page);
  await page.goto(origin + at);
  return page;
}

const search = async (page, text) => {
  await page.getByRole('textbox', { name: 'Search the chain' }).fill(text);
  await page.keyboard.press('Enter');
};
const title = (page, text) => page.getByRole('heading', { level: 1, name: text }).waitFor();
const live = (page) => page.getByText('live', { exact: true }).waitFor();
const row = (page, txid) => page.locator(`main a[href="/tx/${txid}"]`).first().waitFor();

/** The value beside a name of a list of facts, and that of a figure above its name. */
const fact = (within, name) => within.locator('dl > div', { hasText: name }).locator('dd').innerText();
const figure = (page, name) => page.locator('.figure', { hasText: name }).locator('.value').innerText();

/** The balance that an address page shows, in satoshis. */
const balance = async (page) => (await page.locator('.balance .amount').innerText()).replace(/[^\d]/g, '');

/** Waits until the page shows this balance. */
const shows = (page, sats) =>
  page.waitForFunction((sats) => document.querySelector('.balance .amount')?.textContent.replace(/[^\d]/g, '').replace(/^0+(?=.)/, '') === sats, sats);

/** Follows blocks and payments without a reload: from the chain to a transaction, an address, and back. */
async function journey(browser) {
  const page = await open(browser, '/');
  await title(page, 'Chain');
  await live(page);
  seen.bytes = await page.evaluate(() =>
    performance.getEntriesByType('resource').filter(({ name }) => name.includes('/assets/')).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
  );

  const block = await need({ need: 'block' });
  await page.locator(`[data-hash="${block}"]`).waitFor();
  const payment = await need({ need: 'payment', to: null });
  await row(page, payment);

  await search(page, payment);
  await page.waitForURL(`${origin}/tx/${payment}`);
  await page.getByText('unconfirmed', { exact: true }).waitFor();
  await need({ need: 'block' });
  await page.getByText('1 confirmation', { exact: true }).waitFor();

  const link = page.locator('main .sides a[href^="/address/"]').last();
  const address = (await link.getAttribute('href')).split('/').pop();
  await link.click();
  await title(page, 'Address');
  await row(page, payment);
  const another = await need({ need: 'payment', to: address });
  await row(page, another);

  const missed = await need({ need: 'restart', to: address });
  await row(page, missed);
  await live(page);
  seen.complaints = seen.complaints.filter((text) => !AWAY.test(text));

  const past = 104;
  const before = await need({ need: 'balance', of: address, at: past });
  await page.getByLabel('At a past day or block').fill(String(past));
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByText(`as it was after block ${past}`).waitFor();
  await page.getByRole('heading', { name: `Balance after block ${past}` }).waitFor();
  await shows(page, before);
  await page.getByRole('button', { name: 'Now', exact: true }).click();
  await shows(page, await need({ need: 'balance', of: address, at: null }));

  await page.goBack();
  await page.goBack();
  await page.goBack();
  await page.waitForURL(`${origin}/tx/${payment}`);
  await title(page, 'Transaction');
  await page.goBack();
  await title(page, 'Chain');
  await live(page);
  const stale = await need({ need: 'reorg' });
  await page.locator('.notice', { hasText: 'left the chain in a reorg' }).waitFor();
  await page.locator(`.reorg a[href="/block/${stale}"]`).waitFor();
  await page.getByRole('link', { name: 'All reorgs' }).click();
  await title(page, 'Status');
  const left = page.locator('#reorgs li', { has: page.locator(`a[href="/block/${stale}"]`) });
  seen.reorg = { left: await fact(left, 'Left the chain'), joined: await fact(left, 'Replaced by') };
  await search(page, stale);
  await title(page, /^Block/);
  await page.getByText('This block left the chain.').waitFor();
  await page.getByRole('heading', { name: 'The reorg that replaced it' }).waitFor();

  const stuck = await need({ need: 'stuck' });
  await search(page, stuck.txid);
  await page.getByRole('heading', { name: 'Why it is not confirmed yet' }).waitFor();
  const bump = page.locator('.help li', { hasText: `which makes ${stuck.target} sat/vB` });
  await bump.waitFor();
  seen.stuck = { block: await figure(page, 'projected block'), rate: await figure(page, 'feerate that miners count'), lowest: await figure(page, 'lowest of the next block'), isEnough: (await bump.locator('.amount').first().getAttribute('title')).replace(/\D/g, '') === String(stuck.fee) };
  await page.context().close();
  return { payment, address, block, stale, stuck: stuck.txid };
}

/** Looks at each page at each width, in light and in dark. */
async function look(browser, { payment, address, block, stale, stuck }) {
  const pages = ['/', `/block/${block}`, `/block/${stale}`, `/tx/${payment}`, `/tx/${stuck}`, `/address/${address}`, `/wallet#addr(${address})`, '/mempool', '/charts', '/pool/f2pool', '/send', '/status', '/search#nothing'];
  for (const colorScheme of ['light', 'dark']) {
    const page = await open(browser, '/', { colorScheme, reducedMotion: 'reduce' });
    await page.evaluate(axe);
    for (const at of pages) {
      // as a link within the page would, so that axe stays
      await page.evaluate((at) => { history.pushState(null, '', at); dispatchEvent(new PopStateEvent('popstate')); }, at);
      await page.locator('.loading').waitFor({ state: 'detached' });
      await page.locator('h1').waitFor();
      const name = at.split(/[/?#]/)[1] || 'chain';
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        if (await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)) {
          seen.overflows.push(`${name} at ${width}`);
        }
        if (name === 'mempool') seen.hidden[width] = await page.locator('.rows td:not(:empty)').evaluateAll((cells) => cells.filter((cell) => cell.offsetParent === null).length);
        if (name === 'charts') {
          const legend = page.locator('.panel', { hasText: 'Types of new outputs' }).locator('.u-series .u-value');
          await legend.filter({ hasText: '%' }).first().waitFor();
          const shares = (await legend.allTextContents()).filter((text) => text.endsWith('%'));
          seen.shares = shares.reduce((sum, share) => sum + parseFloat(share), 0);
        }
        const folder = process.env.PLAYGROUND_PICTURES;
        if (folder) await page.screenshot({ path: path.join(folder, `explorer-${name}-${width}-${colorScheme}.png`), fullPage: true });
        // colours do not depend on the width, nor the layout on the colours
        if (width !== (colorScheme === 'light' ? 360 : 1440)) continue;
        // a page that is read again is pale until its new answer is there
        await page.waitForFunction(() => [...document.querySelectorAll('.page-body')].every((body) => getComputedStyle(body).opacity === '1'));
        const { violations } = await page.evaluate(() => axe.run());
        for (const { id, nodes } of violations) {
          seen.violations.push(`${name} at ${width} in ${colorScheme}: ${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' ')}`);
        }
      }
    }
    await page.context().close();
  }
}

/** A connection of its own to the server, which can be cut. */
async function cable() {
  const { hostname, port } = new URL(origin);
  const ends = new Set();
  let isCut = false;
  const proxy = createServer((near) => {
    if (isCut) return near.destroy();
    const far = connect(Number(port), hostname);
    for (const [end, other] of [[near, far], [far, near]]) {
      ends.add(end);
      end.pipe(other);
      end.on('error', () => other.destroy());
      end.on('close', () => { ends.delete(end); other.destroy(); });
    }
  });
  await new Promise((resolve) => proxy.listen(0, hostname, resolve));
  return {
    origin: `http://${hostname}:${proxy.address().port}`,
    cut() {
      isCut = true;
      for (const end of ends) end.destroy();
    },
    mend() { isCut = false; },
    close() {
      this.cut();
      proxy.close();
    },
  };
}

/** Waits until the server knows a transaction. */
async function known(txid) {
  const query = `{ transaction(txid: "${txid}") { txid } }`;
  const ask = () => fetch(`${origin}/graphql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query }) });
  for (const end = Date.now() + PATIENCE; (await (await ask()).json()).data.transaction === null; ) {
    if (Date.now() > end) throw new Error(`the server does not know ${txid}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** A connection that is away for ten seconds costs no event: the page shows what happened meanwhile. */
async function interrupted(browser, { address }) {
  const line = await cable();
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  let loads = 0;
  page.on('load', () => { loads += 1; });
  await page.goto(`${line.origin}/address/${address}`);
  await live(page);
  const reported = (txid, what) => page.locator('.activity li', { has: page.locator(`a[href="/tx/${txid}"]`), hasText: what }).waitFor();
  const before = await need({ need: 'payment', to: address });
  await reported(before, 'entered the mempool');
  line.cut();
  await page.getByText('reconnecting', { exact: true }).waitFor();
  const during = await need({ need: 'payment', to: address });
  // a block that comes at once takes it before the server has seen it
  await known(during);
  await need({ need: 'block' });
  await new Promise((resolve) => setTimeout(resolve, CUT));
  line.mend();
  await live(page);
  await reported(during, 'entered the mempool');
  await reported(before, 'was confirmed');
  await reported(during, 'was confirmed');
  await row(page, during);
  assert.equal(loads, 1);
  await context.close();
  line.close();
}

/** A refused subscription is tried again less and less often, one attempt after another, while its page is there. */
async function refused(browser) {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const attempts = [];
  await page.routeWebSocket(/\/graphql$/, (socket) => {
    const answer = (message) => socket.send(JSON.stringify(message));
    socket.onMessage((text) => {
      const { id, type } = JSON.parse(text);
      if (type === 'connection_init') answer({ type: 'connection_ack' });
      if (type === 'ping') answer({ type: 'pong' });
      if (type !== 'subscribe') return;
      attempts.push(Date.now());
      answer({ id, type: 'error', payload: [{ message: 'not today', extensions: { code: 'FORBIDDEN' } }] });
    });
  });
  await page.goto(`${origin}/status`);
  for (const end = Date.now() + PATIENCE; attempts.length < 4; ) {
    assert.ok(Date.now() < end, `${attempts.length} attempts`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  // pauses of a second, of two and of four, each up to half a second less
  assert.ok(attempts[3] - attempts[0] > 5_100, `${attempts}`);
  await page.getByRole('link', { name: 'Send', exact: true }).click();
  await title(page, 'Send & decode');
  const before = attempts.length;
  await new Promise((resolve) => setTimeout(resolve, CUT));
  assert.equal(attempts.length, before);
  await context.close();
}

/** What the page shows and can send is the transaction in its box, also if a visitor types there before it is decoded. */
async function overtyped(browser, { payment }) {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  let ask;
  const asked = new Promise((resolve) => { ask = resolve; });
  await page.route('**/graphql', async (route) => {
    if (route.request().postData()?.includes('decodeTransaction')) {
      ask();
      await released;
    }
    await route.continue();
  });
  const body = JSON.stringify({ query: `{ transaction(txid: "${payment}") { hex } }` });
  const answer = await fetch(`${origin}/graphql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const { hex } = (await answer.json()).data.transaction;
  await page.goto(`${origin}/send`);
  const box = page.locator('#hex');
  await box.fill(hex);
  await page.getByRole('button', { name: 'Decode and test' }).click();
  await asked;
  await box.press('End');
  await page.keyboard.type('00');
  release();
  await page.locator('button:enabled', { hasText: 'Decode and test' }).waitFor();
  const isShown = (await page.getByRole('heading', { name: 'Would the node take it?' }).count()) > 0;
  assert.ok(!isShown || (await box.inputValue()) === hex, await box.inputValue());
  await context.close();
}

/** Reads a history of a thousand transactions to its end, page by page. */
async function long(browser) {
  const address = await need({ need: 'entries', count: ENTRIES });
  const page = await open(browser, `/address/${address}`);
  const selector = '.ledger table.rows tbody tr';
  const rows = page.locator(selector);
  await page.getByText(`${ENTRIES.toLocaleString('en').replace(',', '\u2009')} transactions`).first().waitFor();
  const more = page.getByRole('button', { name: 'More transactions' });
  for (let shown = await rows.count(); shown < ENTRIES; ) {
    await more.click();
    await page.waitForFunction(([selector, shown]) => document.querySelectorAll(selector).length > shown, [selector, shown]);
    shown = await rows.count();
  }
  await more.waitFor({ state: 'detached' });
  const links = await rows.locator('a').evaluateAll((found) => found.map(({ href }) => href));
  assert.equal(new Set(links).size, ENTRIES);
  await page.context().close();
}

/** What visitors do wrong, and what breaks under them, is said, and leaves them the way on. */
async function wrongTurns(browser, { address }) {
  const page = await open(browser, '/');
  const complaints = seen.complaints.length;
  const at = (text) => page.goto(`${origin}/address/${address}?at=${encodeURIComponent(text)}`);

  // before the first block, and above the tip
  for (const text of ['2009-01-03', '99999999']) {
    await at(text);
    await page.getByText('The server refused a part of this page.').waitFor();
    await page.getByLabel('At a past day or block').waitFor();
    assert.equal(await page.locator('.balance').count(), 0, page.url());
  }
  // what never was, and what is still to come: the state of now
  for (const [text, said] of [['-5', 'neither a date'], ['600.5', 'neither a date'], ['2026-02-30', 'neither a date'], ['2099-01-01', 'has not come yet']]) {
    await at(text);
    await page.getByRole('alert').filter({ hasText: said }).waitFor();
    await page.getByRole('heading', { name: 'Balance now' }).waitFor();
  }

  // the subject of the page is in the fragment of its URL
  const wallet = `/wallet#${encodeURIComponent(`addr(${address})`)}`;
  await page.goto(origin + wallet);
  await title(page, 'Wallet');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  assert.ok(page.url().endsWith(wallet), page.url());

  for (const nowhere of ['/nowhere', '/block/', '/block/0/1']) {
    const response = await page.goto(origin + nowhere);
    assert.equal(response.status(), 404);
    await title(page, 'No such page');
  }
  await page.goto(`${origin}/block/abc`);
  await page.getByText('neither the height of a block nor its hash').waitFor();
  await search(page, `${'0'.repeat(63)}1:7`);
  await page.getByText('No transaction that this server knows has this output.').waitFor();
  await search(page, 'bcrt1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq');
  await page.getByText('checksum').first().waitFor();

  // a page that is opened without a connection comes with it
  await page.goto(origin);
  await title(page, 'Chain');
  await page.context().setOffline(true);
  await page.getByRole('link', { name: 'Charts' }).click();
  await page.locator('.loading').waitFor();
  await page.context().setOffline(false);
  await title(page, 'Charts');
  // of the paths that are not there, and of the time without a connection
  seen.complaints.length = complaints;
  await page.context().close();
}

/** Opens the query of a page in the playground, which answers it. */
async function openQuery(browser) {
  const page = await open(browser, '/status');
  await page.getByRole('link', { name: 'See the query' }).click();
  await page.waitForURL(`${origin}/playground`);
  const text = (page, file) => page.evaluate((file) => globalThis.__MONACO?.editor.getModels().find((model) => model.uri.path.endsWith(file))?.getValue() ?? '', file);
  for (const end = Date.now() + PATIENCE; !(await text(page, 'response.json')).includes('"isReachable": true'); ) {
    if (Date.now() > end) throw new Error('the playground does not answer the query of the page');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await page.context().close();
}

const profile = mkdtempSync(path.join(tmpdir(), 'btcgraph-chromium-'));
const browser = await chromium.launch({
  executablePath,
  env: { ...process.env, HOME: profile },
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
  ],
});
try {
  const subjects = await journey(browser);
  const { loads } = seen;
  await wrongTurns(browser, subjects);
  await interrupted(browser, subjects);
  await refused(browser);
  await overtyped(browser, subjects);
  await look(browser, subjects);
  await openQuery(browser);
  await long(browser);
  say({ seen: { ...seen, loads } });
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
process.exit();
