// The documents in the text for readers: each block of GraphQL in docs/api and README.md.

import { readdirSync, readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);
const PAGES = [...readdirSync(new URL('docs/api/', root)).sort().map((page) => `docs/api/${page}`), 'README.md'];

/** The committed schema, as text. */
export const sdl = readFileSync(new URL('schema.graphql', root), 'utf8');

/** [{ page, line, document }], where `line` is that of the page on which the document begins. */
export const examples = PAGES.flatMap((page) => {
  const text = readFileSync(new URL(page, root), 'utf8');
  return [...text.matchAll(/^```graphql\n(.*?)^```$/gms)].map(({ index, 1: document }) => ({
    page,
    line: text.slice(0, index).split('\n').length + 1,
    document,
  }));
});
