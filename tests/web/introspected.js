// The schema as tools read it from a running server, by introspection over HTTP with the fetch that they bring along, and
// with that of Node.js: graphql-codegen makes of it what it makes of schema.graphql, and graphql-inspector finds no
// difference between the two.
//
//   usage: node introspected.js URL
//
// Prints a line for each fault, and ends with exit code 1 if there is one. No file is written.

import { fileURLToPath } from 'node:url';
import { generate } from '@graphql-codegen/cli';
import { diff } from '@graphql-inspector/core';
import loader from '@graphql-inspector/url-loader';
import { buildSchema, printSchema } from 'graphql';
import { sdl } from './examples.js';

const [url] = process.argv.slice(2);

/** Asks for what graphql-tools leaves out by default. */
const WHOLE = { oneOf: true, specifiedByUrl: true, schemaDescription: true, inputValueDeprecation: true };

/** What graphql-codegen writes for a schema. Of scalars that come from a URL it leaves out the descriptions. */
async function types(schema) {
  const generates = { 'schema.ts': { plugins: ['typescript'], config: { disableDescriptions: true } } };
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const [{ content }] = await generate({ schema, generates, silent: true, cwd }, false);
  return content;
}

const faults = [];
const ofFile = await types(fileURLToPath(new URL('../../schema.graphql', import.meta.url)));
if (!ofFile.includes('export type Block ')) faults.push('graphql-codegen made nothing of schema.graphql');
for (const customFetch of [undefined, fetch]) {
  const ofServer = await types({ [url]: { ...WHOLE, customFetch } });
  if (ofServer === ofFile) continue;
  const [lines, expected] = [ofServer.split('\n'), ofFile.split('\n')];
  const at = lines.findIndex((line, index) => line !== expected[index]);
  faults.push(`graphql-codegen: line ${at + 1} is "${lines[at]}", and "${expected[at]}" from schema.graphql`);
}

const [{ schema }] = await loader.load(url, WHOLE);
// graphql-inspector compares directives as they are written, which what is introspected is not
const changes = await diff(buildSchema(sdl), buildSchema(printSchema(schema)));
faults.push(...changes.map(({ path, message }) => `graphql-inspector: ${path}: ${message}`));

console.log(faults.length === 0 ? `${Object.keys(schema.getTypeMap()).length} types` : faults.join('\n'));
process.exitCode = faults.length === 0 ? 0 : 1;
