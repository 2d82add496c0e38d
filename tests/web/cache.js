// The settings of caches that are shipped with the API, which are written from schema.graphql:
//
//   docs/clients/apollo/cache.ts
//     possibleTypes   the types of each interface and union, without which fragments on these match nothing
//     typePolicies    what identifies an object of each type, how pages of each connection are put together, and which
//                     strings are numbers
//   docs/clients/urql/cache.ts
//     possibleTypes   as above
//     keys            which types have no id, for the normalised cache of urql
//
//   usage: node cache.js            compares the files with what the schema makes of them
//          node cache.js --write    writes them
//
// Prints a line for each fault, and ends with exit code 1 if there is one.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildSchema, getNamedType, isInterfaceType, isObjectType, isUnionType } from 'graphql';
import { sdl } from './examples.js';

const folder = fileURLToPath(new URL('../../docs/clients/', import.meta.url));

/** Arguments that say which page of a connection is meant. All others say which connection. */
const PAGING = ['first', 'after', 'last', 'before'];

const quoted = (names) => names.map((name) => `'${name}'`).join(', ');

const writtenBy = (client) =>
  `// The cache of ${client} for this API: see docs/frontend.md. Written from schema.graphql by tests/web/cache.js.\n\n`;

/** All types of a schema but its introspection, by name. */
function typesOf(schema) {
  const types = Object.values(schema.getTypeMap()).filter(({ name }) => !name.startsWith('__'));
  return types.sort((a, b) => (a.name < b.name ? -1 : 1));
}

const rootsOf = (schema) => [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
const hasId = (type) => type.getInterfaces().some(({ name }) => name === 'Node');

/** The types of each interface and union. */
function possibleTypes(schema) {
  const abstract = typesOf(schema).filter((type) => isInterfaceType(type) || isUnionType(type));
  const names = (type) => schema.getPossibleTypes(type).map(({ name }) => name).sort();
  const lines = abstract.map((type) => `  ${type.name}: [${quoted(names(type))}],\n`);
  return `export const possibleTypes: Record<string, string[]> = {\n${lines.join('')}};\n`;
}

/** The policy of a field, `undefined` if it needs none. */
function policyOf(type, field) {
  const named = getNamedType(field.type);
  if (named.name === 'BigInt') return 'bigInt';
  if (!isObjectType(named) || !('pageInfo' in named.getFields())) return undefined;
  const args = field.args.map(({ name }) => name);
  const missing = PAGING.filter((name) => !args.includes(name));
  if (missing.length > 0) throw new Error(`${type.name}.${field.name} is a connection without ${missing}`);
  return `connection(${quoted(args.filter((name) => !PAGING.includes(name)))})`;
}

/** The cache of Apollo Client. */
function apollo(schema) {
  const policies = typesOf(schema).filter(isObjectType).flatMap((type) => {
    const identity = hasId(type) ? ["keyFields: ['id']"] : ['keyFields: false', 'merge: true'];
    const policies = Object.values(type.getFields()).flatMap((field) => {
      const policy = policyOf(type, field);
      return policy === undefined ? [] : [`      ${field.name}: ${policy},\n`];
    });
    const fields = policies.length > 0 ? [`fields: {\n${policies.join('')}    }`] : [];
    const parts = rootsOf(schema).includes(type) ? fields : [...identity, ...fields];
    if (parts.length === 0) return [];
    return [fields.length > 0 ? `  ${type.name}: {\n    ${parts.join(',\n    ')},\n  },\n` : `  ${type.name}: { ${parts.join(', ')} },\n`];
  });
  return `${writtenBy('Apollo Client')}import { InMemoryCache, type InMemoryCacheConfig, type TypePolicies } from '@apollo/client';
import type { FieldPolicy } from '@apollo/client/cache';
import { connection } from './pagination';

/** A sum without an upper bound, which JSON has as text. */
const bigInt: FieldPolicy = { read: (text?: string | null) => (text == null ? text : BigInt(text)) };

${possibleTypes(schema)}
export const typePolicies: TypePolicies = {
${policies.join('')}};

/** Settings for a cache of your own. */
export const cacheConfig: InMemoryCacheConfig = { possibleTypes, typePolicies };

/** An empty cache. */
export const createCache = (): InMemoryCache => new InMemoryCache(cacheConfig);
`;
}

/** The settings of urql's normalised cache. */
function urql(schema) {
  const isValue = (type) => isObjectType(type) && !hasId(type) && !rootsOf(schema).includes(type);
  const lines = typesOf(schema).filter(isValue).map(({ name }) => `  ${name}: isPart,\n`);
  return `${writtenBy('urql')}import { cacheExchange, type KeyingConfig } from '@urql/exchange-graphcache';

/** Of what has no id: it is kept as a part of the object around it. */
const isPart = () => null;

${possibleTypes(schema)}
export const keys: KeyingConfig = {
${lines.join('')}};

/** The exchange that keeps objects once, to stand before those that send. */
export const normalisedCache = () => cacheExchange({ keys, possibleTypes });
`;
}

const FILES = { 'apollo/cache.ts': apollo, 'urql/cache.ts': urql };

/** What is wrong with a file for this schema. */
function faultsFor(schema, path, text) {
  if (text === FILES[path](schema)) return [];
  return [`docs/clients/${path} is not that of the schema. If the change of the schema is meant: node cache.js --write`];
}

const schema = buildSchema(sdl);
const faults = [];
// changes that a file must not be the same with: a type, a connection's argument and a member of a union
const CHANGES = {
  'apollo/cache.ts': [
    ['type Balance {', 'type News {\n  text: String!\n}\n\ntype Balance {'],
    ['\n  staleBlocks(', '\n  staleBlocks(\n    minHeight: Int,'],
    ['type BlockConnected implements ChainEvent {', 'type BlockConnected {'],
  ],
  'urql/cache.ts': [
    ['type Balance {', 'type News {\n  text: String!\n}\n\ntype Balance {'],
    ['type BlockConnected implements ChainEvent {', 'type BlockConnected {'],
  ],
};
for (const path of Object.keys(FILES)) {
  if (process.argv[2] === '--write') writeFileSync(folder + path, FILES[path](schema));
  const text = readFileSync(folder + path, 'utf8');
  faults.push(...faultsFor(schema, path, text));
  for (const [from, to] of CHANGES[path]) {
    if (!sdl.includes(from)) faults.push(`the schema has no "${from}" to change`);
    if (faultsFor(buildSchema(sdl.replace(from, to)), path, text).length === 0) faults.push(`${path} stays the same with ${to}`);
  }
}
console.log(faults.length === 0 ? `${Object.keys(schema.getTypeMap()).length} types` : faults.join('\n'));
process.exitCode = faults.length === 0 ? 0 : 1;
