// graphql-inspector on what changed between tests/web/baseline.graphql, the schema that clients were written for, and
// schema.graphql: nothing that breaks them.
//
//   usage: node compatibility.js            whether a change breaks clients
//          node compatibility.js --accept   makes today's schema the one to compare with
//
// Prints a line for each change that breaks, and ends with exit code 1 if there is one.

import { copyFileSync, readFileSync } from 'node:fs';
import { CriticalityLevel, diff } from '@graphql-inspector/core';
import { buildSchema } from 'graphql';
import { sdl } from './examples.js';

const file = new URL('baseline.graphql', import.meta.url);
if (process.argv[2] === '--accept') copyFileSync(new URL('../../schema.graphql', import.meta.url), file);
const baseline = readFileSync(file, 'utf8');

/** What breaks clients of one schema with another. */
async function breaking(from, to) {
  const changes = await diff(buildSchema(from), buildSchema(to));
  return changes.filter(({ criticality }) => criticality.level === CriticalityLevel.Breaking);
}

const faults = (await breaking(baseline, sdl)).map(({ path, message }) => `${path}: ${message}`);
if (faults.length > 0) {
  faults.push('These break clients. Keep what was there and mark it @deprecated with a reason; or, if it is meant, accept it by');
  faults.push('  (cd tests/web && node compatibility.js --accept)');
}

// the comparison itself: a field renamed, a type changed, an argument demanded
for (const [from, to] of [
  ['  strippedSize: Int!\n', '  strippedBytes: Int!\n'],
  ['  weight: Int!\n', '  weight: Float!\n'],
  ['    index: Int!\n', '    index: Int!\n    hash: BlockHash!\n'],
]) {
  if (!sdl.includes(from)) faults.push(`the schema has no "${from}" to change`);
  else if ((await breaking(sdl, sdl.replace(from, to))).length === 0) faults.push(`not seen: "${from}" became "${to}"`);
}

console.log(faults.length === 0 ? `${Object.keys(buildSchema(baseline).getTypeMap()).length} types` : faults.join('\n'));
process.exitCode = faults.length === 0 ? 0 : 1;
