// The cache of Apollo Client that is shipped with the API, docs/apollo/cache.ts, which is written from schema.graphql:
//
//   possibleTypes   the types of each interface and union, without which fragments on these match nothing
//   typePolicies    what identifies an object of each type, how pages of each connection are put together, and which
//                   strings are numbers
//
//   usage: node cache.js            whether the file is that of the schema and the compiler, strict, takes it
//          node cache.js --write    writes it
//
// Prints a line for each fault, and ends with exit code 1 if there is one.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildSchema, getNamedType, isInterfaceType, isObjectType, isUnionType } from 'graphql';
import ts from 'typescript';
import { sdl } from './examples.js';

const file = fileURLToPath(new URL('../../docs/apollo/cache.ts', import.meta.url));

/** Arguments that say which page of a connection is meant. All others say which connection. */
const PAGING = ['first', 'after', 'last', 'before'];

const HEAD = `// The cache of Apollo Client for this API: see docs/frontend.md. Written from schema.graphql by tests/web/cache.js.

import { InMemoryCache, type InMemoryCacheConfig, type TypePolicies } from '@apollo/client';
import type { FieldFunctionOptions, FieldPolicy, FieldReadFunction } from '@apollo/client/cache';
import { relayStylePagination } from '@apollo/client/utilities';

type PageInfo = { startCursor?: string | null; endCursor?: string | null; [field: string]: unknown };

/** Nodes that were asked for together. */
type Page = { nodes: readonly any[]; pageInfo: PageInfo };

/** What is kept of a connection: the edges as relayStylePagination keeps them, and pages of nodes. */
type Stored = { edges?: unknown[]; pageInfo?: PageInfo; pages?: Page[]; [field: string]: unknown };

const NOTHING = { edges: [], pageInfo: { hasPreviousPage: false, hasNextPage: true, startCursor: '', endCursor: '' } };

/** The pages with one more, put behind the page that its cursor ends, or before the one that its cursor begins. */
function joined(pages: Page[], page: Page, args: Record<string, any> | null): Page[] {
  if (args?.after) {
    const last = pages.findIndex(({ pageInfo }) => pageInfo.endCursor === args.after);
    return last < 0 ? pages : [...pages.slice(0, last + 1), page];
  }
  if (args?.before) {
    const first = pages.findIndex(({ pageInfo }) => pageInfo.startCursor === args.before);
    return first < 0 ? pages : [page, ...pages.slice(first)];
  }
  return [page];
}

/**
 * A connection, which is another one for each value of these arguments. Pages of \`edges\` are put together by
 * relayStylePagination, and pages of \`nodes\` in the same way. What was not asked for yet is missing, not empty.
 */
function connection(...keyArgs: string[]): FieldPolicy {
  const { read, merge, ...policy } = relayStylePagination(keyArgs.length > 0 ? keyArgs : false);
  const [readEdges, mergeEdges] = [read as FieldReadFunction, merge as (...all: any[]) => Stored];
  return {
    ...policy,
    read(existing: Stored | undefined, options: FieldFunctionOptions) {
      if (!existing) return undefined;
      const { pages, ...stored } = existing;
      // a node may be a txid, which is no object that could be gone from the cache
      const canRead = (value: any) => typeof value === 'string' || options.canRead(value);
      const { edges, pageInfo, ...rest } = readEdges({ ...NOTHING, ...stored }, { ...options, canRead }) as Stored;
      const nodes = pages?.flatMap(({ nodes }) => nodes).filter(canRead);
      const whole = { ...rest, ...(stored.edges && { edges }), ...(nodes && { nodes }) };
      const [first, last] = [pages?.[0], pages?.[pages.length - 1]];
      if (stored.edges || !first || !last) return { ...whole, ...(stored.pageInfo && { pageInfo }) };
      const { hasPreviousPage, startCursor } = first.pageInfo;
      return { ...whole, pageInfo: { ...last.pageInfo, hasPreviousPage, startCursor } };
    },
    merge(existing: Stored | undefined, incoming: Stored, options: FieldFunctionOptions) {
      const { nodes, ...others } = incoming;
      const { pages = [], ...before } = existing ?? {};
      const merged: Stored = mergeEdges({ ...NOTHING, ...before }, others, options);
      if (!before.edges && !incoming.edges) delete merged.edges;
      if (!before.pageInfo && !incoming.pageInfo) delete merged.pageInfo;
      const page = { nodes: nodes as any[], pageInfo: incoming.pageInfo ?? {} };
      const kept = nodes ? joined(pages, page, options.args) : pages;
      return kept.length > 0 ? { ...merged, pages: kept } : merged;
    },
  };
}

/** A sum without an upper bound, which JSON has as text. */
const bigInt: FieldPolicy = { read: (text?: string | null) => (text == null ? text : BigInt(text)) };
`;

const TAIL = `
/** Settings for a cache of your own. */
export const cacheConfig: InMemoryCacheConfig = { possibleTypes, typePolicies };

/** An empty cache. */
export const createCache = (): InMemoryCache => new InMemoryCache(cacheConfig);
`;

const quoted = (names) => names.map((name) => `'${name}'`).join(', ');

/** The policy of a field, \`undefined\` if it needs none. */
function policyOf(type, field) {
  const named = getNamedType(field.type);
  if (named.name === 'BigInt') return 'bigInt';
  if (!isObjectType(named) || !('pageInfo' in named.getFields())) return undefined;
  const args = field.args.map(({ name }) => name);
  const missing = PAGING.filter((name) => !args.includes(name));
  if (missing.length > 0) throw new Error(`${type.name}.${field.name} is a connection without ${missing}`);
  return `connection(${quoted(args.filter((name) => !PAGING.includes(name)))})`;
}

/** The file for a schema. */
function cacheOf(schema) {
  const types = Object.values(schema.getTypeMap()).filter(({ name }) => !name.startsWith('__'));
  types.sort((a, b) => (a.name < b.name ? -1 : 1));
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
  const lines = [HEAD, 'export const possibleTypes: Record<string, string[]> = {'];
  for (const type of types.filter((type) => isInterfaceType(type) || isUnionType(type))) {
    lines.push(`  ${type.name}: [${quoted(schema.getPossibleTypes(type).map(({ name }) => name).sort())}],`);
  }
  lines.push('};', '', 'export const typePolicies: TypePolicies = {');
  for (const type of types.filter(isObjectType)) {
    const isNode = type.getInterfaces().some(({ name }) => name === 'Node');
    const identity = isNode ? ["keyFields: ['id']"] : ['keyFields: false', 'merge: true'];
    const policies = Object.values(type.getFields()).flatMap((field) => {
      const policy = policyOf(type, field);
      return policy === undefined ? [] : [`      ${field.name}: ${policy},\n`];
    });
    const fields = policies.length > 0 ? [`fields: {\n${policies.join('')}    }`] : [];
    const parts = roots.includes(type) ? fields : [...identity, ...fields];
    if (parts.length === 0) continue;
    lines.push(fields.length > 0 ? `  ${type.name}: {\n    ${parts.join(',\n    ')},\n  },` : `  ${type.name}: { ${parts.join(', ')} },`);
  }
  lines.push('};');
  return `${lines.join('\n')}\n${TAIL}`;
}

/** What the compiler has against the file, as if it stood here, where Apollo Client is installed. */
function faultsOf(text) {
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: [],
  };
  const here = fileURLToPath(new URL('cache.ts', import.meta.url));
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (path) => path === here || fileExists(path);
  host.readFile = (path) => (path === here ? text : readFile(path));
  return ts.getPreEmitDiagnostics(ts.createProgram([here], options, host)).map((diagnostic) => {
    const { file, start, messageText } = diagnostic;
    const line = file === undefined ? '' : `:${file.getLineAndCharacterOfPosition(start).line + 1}`;
    return `docs/apollo/cache.ts${line}: ${ts.flattenDiagnosticMessageText(messageText, '\n  ')}`;
  });
}

/** What is wrong with the file for this schema. */
function faultsFor(schema, text) {
  if (text === cacheOf(schema)) return [];
  return ['docs/apollo/cache.ts is not that of the schema. If the change of the schema is meant: node cache.js --write'];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const schema = buildSchema(sdl);
  if (process.argv[2] === '--write') writeFileSync(file, cacheOf(schema));
  const text = readFileSync(file, 'utf8');
  const faults = [...faultsFor(schema, text), ...faultsOf(text)];
  // the comparison itself: a type, a connection's argument and a member of a union that the file does not know
  const changes = [
    ['type Balance {', 'type News {\n  text: String!\n}\n\ntype Balance {'],
    ['staleBlocks(', 'staleBlocks(\n    minHeight: Int,'],
    ['= BlockConnected |', '= PageInfo | BlockConnected |'],
  ];
  for (const [from, to] of changes) {
    if (!sdl.includes(from)) faults.push(`the schema has no "${from}" to change`);
    if (faultsFor(buildSchema(sdl.replace(from, to)), text).length === 0) faults.push(`it stays the same with ${to}`);
  }
  console.log(faults.length === 0 ? `${Object.keys(schema.getTypeMap()).length} types` : faults.join('\n'));
  process.exitCode = faults.length === 0 ? 0 : 1;
}
