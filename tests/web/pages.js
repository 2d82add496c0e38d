// How pages become one list in the cache of docs/clients/apollo: tables of what happens to a list when a page comes again,
// and random histories of a list that grows and is reorganised while its pages are read, in any order and again.
//
//   usage: node pages.js
//
// Prints how many histories there were, or the first fault, and ends with exit code 1 if there is one.

import assert from 'node:assert/strict';
import { gql } from '@apollo/client';
import { load } from './clients.js';

const { createCache } = await load('apollo/cache.ts');

const INFO = 'pageInfo { hasNextPage hasPreviousPage startCursor endCursor }';
const LISTS = [
  // objects with an id, and value objects
  { field: 'blocks', owner: (list) => list, type: 'Block', row: (n) => ({ id: `Block:${n}`, height: n }), number: 'height' },
  {
    field: 'balanceChanges',
    owner: (list) =>
      typeof list === 'string' ? `mempool { id ${list} }` : { mempool: { __typename: 'Mempool', id: 'Mempool:main', ...list } },
    type: 'ScriptDelta',
    row: (n) => ({ txCount: n }),
    number: 'txCount',
  },
];
const KINDS = LISTS.flatMap((list) => ['edges', 'nodes'].map((rows) => ({ ...list, rows })));

/** A reader of a list of numbers, and the list at the server. */
class Reader {
  constructor({ field, owner, type, row, rows, number }, list) {
    Object.assign(this, { field, owner, type, row, rows, number, list, cache: createCache() });
    const paging = '(first: $first, after: $after, last: $last, before: $before)';
    const selection = rows === 'edges' ? `edges { cursor node { ${Object.keys(row(0)).join(' ')} } }` : `nodes { ${Object.keys(row(0)).join(' ')} }`;
    const document = owner(`${field} ${paging} { ${selection} ${INFO} }`);
    this.query = gql(`query ($first: Int, $after: String, $last: Int, $before: String) { ${document} }`);
  }

  /** What the server answers; `undefined` if it does not know the cursor. */
  answer({ first, after, last, before }) {
    const place = this.list.indexOf(Number((after ?? before)?.slice(1)));
    if ((after ?? before) && place < 0) return undefined;
    const whole = this.list;
    const begin = after ? place + 1 : 0;
    const end = before ? place : whole.length;
    const [from, to] = last ? [Math.max(begin, end - last), end] : [begin, Math.min(end, begin + first)];
    return { from, to, numbers: whole.slice(from, to) };
  }

  /** Reads a page from the server into the cache. */
  read(variables) {
    const page = this.answer(variables);
    if (!page) return false;
    const { from, to, numbers } = page;
    const node = (number) => ({ __typename: this.type, ...this.row(number) });
    const edge = (number) => ({ __typename: `${this.type}Edge`, cursor: `c${number}`, node: node(number) });
    const pageInfo = {
      __typename: 'PageInfo',
      hasNextPage: to < this.list.length,
      hasPreviousPage: from > 0,
      startCursor: numbers.length > 0 ? `c${numbers[0]}` : null,
      endCursor: numbers.length > 0 ? `c${numbers.at(-1)}` : null,
    };
    const rows = numbers.map(this.rows === 'edges' ? edge : node);
    this.write(variables, { __typename: `${this.type}Connection`, [this.rows]: rows, pageInfo });
    return true;
  }

  /** Writes a connection into the cache, or that the server had none. */
  write(variables, connection) {
    this.cache.writeQuery({ query: this.query, variables, data: this.owner({ [this.field]: connection }) });
  }

  /** What a query for the list finds in the cache. */
  seen() {
    const data = this.cache.readQuery({ query: this.query, variables: { first: 3 } });
    const connection = (data.mempool ?? data)[this.field];
    const nodes = connection.nodes ?? connection.edges.map(({ node }) => node);
    return { numbers: nodes.map((node) => node[this.number]), ...connection.pageInfo };
  }
}

/** Numbers downwards, the newest first. */
const down = (from, to) => Array.from({ length: from - to + 1 }, (_, index) => from - index);
const numbers = (reader) => reader.seen().numbers;

for (const kind of KINDS) {
  const name = (what) => `${kind.field} by ${kind.rows}: ${what}`;
  const byEdge = kind.rows === 'edges';

  for (const [way, size, cursor, end] of [['forwards', 'first', 'after', 'endCursor'], ['backwards', 'last', 'before', 'startCursor']]) {
    const reader = new Reader(kind, down(20, 1));
    const pages = [{ [size]: 5 }];
    for (let page = 0; page < 3; page += 1) {
      reader.read(pages[page]);
      pages.push({ [size]: 5, [cursor]: reader.seen()[end] });
    }
    const seen = reader.seen();
    assert.equal(seen.numbers.length, 15);
    for (const page of pages.slice(0, 3)) {
      reader.read(page);
      assert.deepEqual(reader.seen(), seen, name(`${way}, a page that comes again`));
    }
    const whole = new Reader(kind, down(15, 1));
    for (const page of pages) whole.read(page);
    const ends = whole.seen();
    assert.deepEqual([ends.numbers, ends.hasNextPage, ends.hasPreviousPage], [down(15, 1), false, false]);
    for (const page of pages.slice(0, 3)) {
      whole.read(page);
      assert.deepEqual(whole.seen(), ends, name(`${way}, a page of a whole list that comes again`));
    }
    // what is beyond a page that ends elsewhere
    reader.read({ ...pages[1], [size]: 6 });
    assert.equal(numbers(reader).length, byEdge ? 15 : 11, name(`${way}, a longer page in the middle`));
    reader.read({ ...pages[1], [size]: 2 });
    assert.equal(numbers(reader).length, byEdge ? 15 : 7, name(`${way}, a shorter page in the middle`));
    assert.equal(reader.read({ [size]: 5, [cursor]: 'c1' }), true);
    assert.equal(numbers(reader).length, byEdge ? 15 : 7, name(`${way}, a page behind a row that is not there`));
  }

  // rows that come in front of the first page
  const grown = new Reader(kind, down(20, 1));
  for (const after of [undefined, 'c16', 'c11']) grown.read({ first: 5, after });
  grown.list = down(22, 1);
  grown.read({ first: 5 });
  assert.deepEqual(numbers(grown), byEdge ? down(22, 6) : down(22, 18), name('rows in front of the first page'));
  assert.deepEqual([grown.seen().startCursor, grown.seen().hasNextPage], ['c22', true]);

  // as many rows as the first page has
  grown.list = down(27, 1);
  grown.read({ first: 5 });
  assert.deepEqual(numbers(grown), down(27, 23), name('a first page of new rows'));

  // a reorganisation within the first page, and one that reaches into the second
  for (const [depth, kept] of [[2, true], [7, false]]) {
    const reorganised = new Reader(kind, down(20, 1));
    for (const after of [undefined, 'c16', 'c11']) reorganised.read({ first: 5, after });
    const fresh = down(100 + depth, 101);
    reorganised.list = [...fresh, ...down(20 - depth, 1)];
    reorganised.read({ first: 5 });
    const first = reorganised.list.slice(0, 5);
    assert.deepEqual(numbers(reorganised), kept ? [...first, ...down(15, 6)] : first, name(`${depth} blocks reorganised`));
  }

  // an empty page is the end
  const ended = new Reader(kind, down(10, 1));
  for (const after of [undefined, 'c6', 'c1']) ended.read({ first: 5, after });
  assert.deepEqual([numbers(ended), ended.seen().endCursor, ended.seen().hasNextPage], [down(10, 1), 'c1', false]);

  // a page that the server refused
  const refused = new Reader(kind, down(10, 1));
  refused.write({ first: 3 }, null);
  const nothing = refused.cache.readQuery({ query: refused.query, variables: { first: 3 } });
  assert.equal((nothing.mempool ?? nothing)[kind.field], null, name('a refused list is null, not missing'));
  refused.read({ first: 3 });
  refused.write({ first: 3, after: 'c8' }, null);
  assert.deepEqual(numbers(refused), [10, 9, 8], name('a refused page takes nothing away'));

  // both ends of one list
  const both = new Reader(kind, down(10, 1));
  for (const variables of [{ last: 4 }, { last: 4, before: 'c4' }, { first: 2 }]) both.read(variables);
  assert.deepEqual(numbers(both), [10, 9], name('the front does not meet the back'));
  for (const variables of [{ last: 4 }, { last: 4, before: 'c4' }]) both.read(variables);
  both.read({ first: 3 });
  assert.deepEqual(numbers(both), byEdge ? down(10, 1) : [10, 9, 8], name('the front meets the back'));
}

// a row that moved to the front is not behind it, too
const moved = new Reader(KINDS[0], [9, 8, 7, 6, 5, 4]);
for (const after of [undefined, 'c7']) moved.read({ first: 3, after });
moved.list = [5, 9, 8, 7, 6, 4];
moved.read({ first: 3 });
assert.deepEqual(numbers(moved), [5, 9, 8]);

// one that moved to the back, behind a page that is not read again, does not lead back to the front
const fell = new Reader(KINDS[2], [9, 8, 7, 6, 5, 4]);
for (const after of [undefined, 'c7']) fell.read({ first: 3, after });
fell.list = [8, 7, 6, 5, 9, 4];
fell.read({ first: 3, after: 'c7' });
assert.deepEqual(numbers(fell), [9, 8, 7, 6, 5, 9]);

const page = (rows, n, cursors, pageInfo) => {
  const node = { __typename: 'Block', id: `Block:${n}` };
  const edge = { __typename: 'BlockEdge', cursor: `c${n}`, node };
  const list = n === undefined ? [] : [rows === 'edges' ? edge : node];
  const info = { __typename: 'PageInfo', ...cursors, ...pageInfo };
  return { blocks: { __typename: 'BlockConnection', [rows]: list, pageInfo: info } };
};
const asking = (rows, info) =>
  gql`query ($first: Int, $after: String, $last: Int, $before: String) { blocks(first: $first, after: $after, last: $last, before: $before) { ${rows === 'edges' ? 'edges { cursor node { id } }' : 'nodes { id }'} pageInfo { ${info} } } }`;
for (const rows of ['edges', 'nodes']) {
  const count = ({ blocks }) => (blocks[rows] ?? []).length;

  // which page information an answer has is its own
  const cache = createCache();
  cache.writeQuery({ query: asking(rows, 'endCursor'), data: page(rows, 2, { endCursor: 'c2' }) });
  cache.writeQuery({ query: asking(rows, 'hasNextPage hasPreviousPage'), variables: { after: 'c2' }, data: page(rows, 1, {}, { hasNextPage: false, hasPreviousPage: true }) });
  const known = cache.readQuery({ query: asking(rows, 'hasNextPage') });
  assert.deepEqual([count(known), known.blocks.pageInfo.hasNextPage], [2, false]);
  for (const other of ['hasPreviousPage', ...(rows === 'nodes' ? ['endCursor'] : [])]) {
    assert.equal(cache.readQuery({ query: asking(rows, other) }), null, `${other} of one page is not that of another`);
  }

  // pages that end beyond their last row, under a filter, one of them without any row
  for (const [size, cursor, near, far] of [['first', 'after', 'endCursor', 'startCursor'], ['last', 'before', 'startCursor', 'endCursor']]) {
    const filtered = createCache();
    const query = asking(rows, 'startCursor endCursor hasNextPage hasPreviousPage');
    const pages = [[undefined, 9, 'c7'], ['c7', undefined, 'c5'], ['c5', 4, 'c2']];
    const read = () => {
      for (const [from, n, to] of pages) {
        const data = page(rows, n, { [far]: n ? `c${n}` : to, [near]: to }, { hasNextPage: true, hasPreviousPage: true });
        filtered.writeQuery({ query, variables: { [size]: 1, [cursor]: from }, data });
      }
    };
    read();
    const once = filtered.readQuery({ query });
    assert.deepEqual([count(once), once.blocks.pageInfo[near]], [2, 'c2']);
    pages.pop();
    read();
    assert.deepEqual(filtered.readQuery({ query }), once);
  }
}

/** Numbers that a seed leads to, from 0 to below 1 (mulberry32). */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const counts = { kept: 0, dropped: 0, ignored: 0 };

/**
 * A history: whatever is read, two rows that stand side by side in the cache stood side by side at the server once, and
 * none is there twice; and who reads the first page and goes on to the end has the list of the server.
 */
function history(kind, seed) {
  const chance = random(seed);
  const upTo = (most) => Math.floor(chance() * most);
  let newest = 30;
  const reader = new Reader(kind, down(newest, 1));
  const neighbours = new Set();
  const note = () => reader.list.forEach((number, index) => neighbours.add(`${number} ${reader.list[index + 1]}`));
  const asked = [];
  const ask = (variables) => {
    const before = asked.length > 0 ? reader.seen().numbers.length : 0;
    if (!reader.read(variables)) return false;
    asked.push(variables);
    const after = reader.seen().numbers.length;
    counts[after > before ? 'kept' : after < before ? 'dropped' : 'ignored'] += 1;
    return true;
  };
  note();
  ask({ first: 1 + upTo(6) });
  for (let step = 0; step < 40; step += 1) {
    const { endCursor, startCursor } = reader.seen();
    const size = chance() < 0.7 ? 4 : 1 + upTo(7);
    const what = upTo(10);
    if (what === 0) {
      // the chain grows, or other blocks take the place of some
      const left = chance() < 0.5 ? 0 : upTo(6);
      const fresh = left + 1 + upTo(3);
      reader.list = [...down(newest + fresh, newest + 1), ...reader.list.slice(left)];
      newest += fresh;
      note();
    } else if (what < 4) {
      if (!ask({ first: size, after: endCursor })) ask({ first: size });
    } else if (what < 6) {
      if (!ask({ last: size, before: startCursor })) ask({ first: size });
    } else if (what < 9) {
      ask(asked[upTo(asked.length)]);
    } else {
      ask(chance() < 0.7 ? { first: size } : { last: size });
    }
    const { numbers } = reader.seen();
    assert.equal(new Set(numbers).size, numbers.length, `seed ${seed}, ${kind.rows}: ${numbers}`);
    numbers.slice(1).forEach((number, index) => {
      assert.ok(neighbours.has(`${numbers[index]} ${number}`), `seed ${seed}, ${kind.rows}: ${numbers}`);
    });
  }
  ask({ first: 3 });
  for (let turned = 0; reader.seen().hasNextPage; turned += 1) {
    assert.ok(turned < 100, `seed ${seed}: the end is reached`);
    if (!ask({ first: 3, after: reader.seen().endCursor })) ask({ first: 3 });
  }
  assert.deepEqual(numbers(reader), reader.list, `seed ${seed}, ${kind.rows}`);
}

const HISTORIES = 500;
for (let seed = 0; seed < HISTORIES; seed += 1) history(KINDS[seed % KINDS.length], seed);
assert.ok(Object.values(counts).every((count) => count > HISTORIES), JSON.stringify(counts));
console.log(`${HISTORIES} histories`);
