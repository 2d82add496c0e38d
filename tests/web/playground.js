// A visit to a page of the playground in a headless Chromium.
//
//   usage: node playground.js EXECUTABLE ORIGIN graphiql|plain
//
// It says, in lines of JSON:
//
//   "mine"           it needs a block, and reads the hash of that block from a line of stdin
//   { asked: … }     { query, variables, answer } of an example, as the page shows them
//   { seen: … }      last of all what it saw:
//     title        of the page
//     marked       what the editor takes for wrong in the examples (GraphiQL)
//     completions  what is offered for the beginning of a field (GraphiQL)
//     live         hashes of blocks that the example of a subscription received while they were mined
//     themes       what the page looks like: { <what the system prefers>: { system, light, dark } }
//     complaints   errors and warnings of the console, exceptions, and what the content security policy blocked
//     elsewhere    requests to any other host
//
// With PLAYGROUND_PICTURES it leaves pictures in that folder.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const [executablePath, origin, kind] = process.argv.slice(2);
const PATIENCE = 30_000;
/** How long a block may take to be shown before another is mined: a subscription begins some time after it was sent. */
const TELLING = 6_000;
/** Of a field. */
const BEGINNING = 'stripp';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function mine() {
  say('mine');
  return (await lines.next()).value;
}

const seen = { marked: [], completions: [], live: [], themes: {}, complaints: [], elsewhere: [] };

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
}

async function picture(page, name) {
  const folder = process.env.PLAYGROUND_PICTURES;
  if (folder) await page.screenshot({ path: path.join(folder, `${kind}-${name}.png`) });
}

/** Whether an element is light on dark or dark on light. */
const themeOf = (locator) =>
  locator.evaluate((element) => {
    const { backgroundColor, color } = getComputedStyle(element);
    const brightness = (text) => text.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
    return brightness(backgroundColor) < brightness(color) ? 'dark' : 'light';
  });

const graphiql = {
  path: '/playground',
  titles: { Tip: 'Tip', Block: 'Block', Address: 'Address', LiveBlocks: 'LiveBlocks' },
  ready: (page) => page.locator('.graphiql-query-editor .view-line').first().waitFor(),
  choose: (page, name) => page.getByRole('button', { name, exact: true }).click(),
  run: (page) => page.getByRole('button', { name: /Execute query/ }).click(),
  stop: (page) => page.getByRole('button', { name: /Stop query/ }).click(),
  // of a long text the editor keeps only what is in sight in the page
  text: (page, file) =>
    page.evaluate((file) => {
      const models = globalThis.__MONACO.editor.getModels();
      return models.find((model) => model.uri.path.endsWith(file)).getValue();
    }, file),
  query: (page) => graphiql.text(page, 'operation.graphql'),
  variables: (page) => graphiql.text(page, 'variables.json'),
  answer: (page) => graphiql.text(page, 'response.json'),
  reported: (page) => graphiql.answer(page),
  /** As a text; empty if there is nothing. */
  marked: (page) =>
    page.evaluate(() => globalThis.__MONACO.editor.getModelMarkers({}).map(({ message }) => message).join('\n')),
  surface: (page) => page.locator('.graphiql-container'),
  async useTheme(page, theme) {
    await page.getByRole('button', { name: 'Open settings dialog' }).click();
    await page.getByRole('button', { name: theme, exact: true }).click();
    await picture(page, `settings-${theme}`);
    await page.keyboard.press('Escape');
  },
};

const plain = {
  path: '/playground/plain',
  titles: { Tip: 'The tip', Block: 'A block', Address: 'An address', LiveBlocks: 'Live blocks' },
  ready: (page) => page.locator('#examples button').first().waitFor(),
  choose: (page, name) => page.getByRole('button', { name, exact: true }).click(),
  run: (page) => page.locator('#query').press('Control+Enter'),
  stop: (page) => page.getByRole('button', { name: 'Stop' }).click(),
  query: (page) => page.locator('#query').inputValue(),
  variables: (page) => page.locator('#variables').inputValue(),
  answer: (page) => page.locator('#answer').innerText(),
  reported: (page) => page.locator('#log').innerText(),
  marked: () => '',
  surface: (page) => page.locator('body'),
  useTheme: (page, theme) => page.getByLabel('Theme').selectOption(theme.toLowerCase()),
};

const site = { graphiql, plain }[kind];

/** Asks until there is something. */
async function until(look, patience = PATIENCE) {
  for (const end = Date.now() + patience; Date.now() < end; ) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return null;
}

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

/** Chooses the example with this operation, unless it is there already, and waits until it is. */
async function choose(page, operation) {
  const isThere = async () => new RegExp(`(query|subscription) ${operation}\\b`).test(await site.query(page));
  if (await isThere()) return;
  await site.choose(page, site.titles[operation]);
  await until(isThere);
}

/** Runs an example that is a query, waits for another answer than the one before, and tells it. */
async function ask(page, operation) {
  await choose(page, operation);
  const before = await site.answer(page);
  await site.run(page);
  const answer = await until(async () => {
    const text = await site.answer(page);
    return text !== before && parsed(text);
  });
  // what stood there before may be marked for a moment
  if (!(await until(async () => (await site.marked(page)) === ''))) seen.marked.push(await site.marked(page));
  await picture(page, `answer-${operation}`);
  say({ asked: { query: await site.query(page), variables: parsed(await site.variables(page)), answer } });
}

/** Types the beginning of a field into the first example, takes what is offered, and tells the offer. */
async function complete(page) {
  await choose(page, 'Tip');
  await page.locator('.graphiql-query-editor .view-line', { hasText: 'difficulty' }).click();
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await page.keyboard.type(BEGINNING, { delay: 40 });
  const offers = page.locator('.suggest-widget.visible .monaco-list-row .label-name');
  // what is offered narrows while it is typed
  await until(async () => {
    const names = await offers.allInnerTexts();
    return names.length > 0 && names.every((name) => name.startsWith(BEGINNING));
  });
  await picture(page, 'completion');
  const offered = await offers.allInnerTexts();
  await page.keyboard.press('Enter');
  await until(async () => (await site.query(page)).includes(offered[0]));
  return offered;
}

/** Mines until the page shows a block that was mined while it watched. */
async function nextBlock(page) {
  for (let tries = 0; tries < 5; tries += 1) {
    const hash = await mine();
    if (await until(async () => (await site.reported(page)).includes(hash), TELLING)) return hash;
  }
  throw new Error('the page showed no block');
}

async function listen(page) {
  await choose(page, 'LiveBlocks');
  await site.run(page);
  for (let blocks = 0; blocks < 2; blocks += 1) seen.live.push(await nextBlock(page));
  await picture(page, 'live');
  await site.stop(page);
}

/** What the page looks like as the system prefers it, and as its own switch says. */
async function themes(browser, colorScheme) {
  const page = await visit(browser, { colorScheme });
  const look = { system: await themeOf(site.surface(page)) };
  await picture(page, `system-${colorScheme}`);
  for (const theme of ['Light', 'Dark']) {
    await site.useTheme(page, theme);
    look[theme.toLowerCase()] = await themeOf(site.surface(page));
  }
  await page.context().close();
  return look;
}

async function visit(browser, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  watch(page);
  await page.goto(origin + site.path);
  await site.ready(page);
  return page;
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
  const page = await visit(browser, {});
  seen.title = await page.title();
  if (kind === 'graphiql') seen.completions = await complete(page);
  for (const operation of ['Tip', 'Block', 'Address']) await ask(page, operation);
  await listen(page);
  await page.context().close();
  for (const scheme of ['light', 'dark']) seen.themes[scheme] = await themes(browser, scheme);
  say({ seen });
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
process.exit();
