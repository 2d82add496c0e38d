// graphql-inspector over schema.graphql, the documented examples and those of the playground: the schema is valid by the
// specification, and each example is valid against it and uses nothing that is deprecated.
//
//   usage: node validity.js
//
// Prints a line for each fault, and ends with exit code 1 if there is one.

import { readFileSync } from 'node:fs';
import { validate } from '@graphql-inspector/core';
import { buildSchema, Source, validateSchema } from 'graphql';
import { examples, sdl } from './examples.js';

const schema = buildSchema(sdl);
const faults = validateSchema(schema).map(({ message }) => `schema.graphql: ${message}`);

// a browser takes every script of its page for a module; Node.js does so without an instruction only in newer versions
const playground = readFileSync(new URL('../../src/server/playground/plain/examples.js', import.meta.url), 'utf8');
const offered = await import(`data:text/javascript,${encodeURIComponent(playground)}`);
const tabs = offered.examples({ height: 1, address: 'a', cursor: 'c' }).map(({ title, query }) => ({ page: `the playground: ${title}`, line: 1, document: query }));

for (const { page, line, document } of [...examples, ...tabs]) {
  const source = new Source(document, page, { line, column: 1 });
  for (const { errors, deprecated } of validate(schema, [source])) {
    for (const { message } of [...errors, ...deprecated]) faults.push(`${page}:${line}: ${message}`);
  }
}

console.log(faults.length === 0 ? `${examples.length} examples` : faults.join('\n'));
process.exitCode = faults.length === 0 ? 0 : 1;
