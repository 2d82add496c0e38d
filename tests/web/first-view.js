// How soon the first view of the explorer can be used, in a headless Chromium with nothing cached.
//
//   usage: node first-view.js EXECUTABLE ORIGIN [LOADS]
//
// For each load and for their medians it prints, in milliseconds from the beginning of the navigation, when the search box
// was there, when the first block was shown, and when the last task ended that kept the page from reacting for more than
// 50 ms. Whoever searches at once waits for the first; the page is interactive when all three are over.

import { chromium } from 'playwright-core';

const [executablePath, origin, loads = '9'] = process.argv.slice(2);

/** How long after the first block tasks of the page are watched, in milliseconds. */
const QUIET = 2_000;

function watch() {
  const marks = { search: null, block: null, busy: 0 };
  globalThis.marks = marks;
  const look = () => {
    for (const [name, selector] of [['search', 'input'], ['block', '[data-hash]']]) {
      if (marks[name] === null && document.querySelector(selector)) marks[name] = performance.now();
    }
    if (marks.search === null || marks.block === null) requestAnimationFrame(look);
  };
  look();
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) marks.busy = Math.max(marks.busy, startTime + duration);
  }).observe({ type: 'longtask', buffered: true });
}

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const seen = [];
for (let load = 0; load < Number(loads); load += 1) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.addInitScript(watch);
  await page.goto(origin);
  await page.waitForFunction(() => globalThis.marks.block !== null);
  await page.waitForTimeout(QUIET);
  seen.push(await page.evaluate(() => globalThis.marks));
  await context.close();
}
await browser.close();

const median = (name) => seen.map((marks) => marks[name]).sort((a, b) => a - b)[Math.floor(seen.length / 2)];
const print = (title, { search, block, busy }) =>
  console.log(`${title.padEnd(8)} search box ${search.toFixed(0)}, first block ${block.toFixed(0)}, busy until ${busy.toFixed(0)} ms`);
seen.forEach((marks, load) => print(`load ${load + 1}`, marks));
print('median', { search: median('search'), block: median('block'), busy: median('busy') });
