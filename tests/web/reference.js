// What graphql-js answers to documents over resolvers that fail, wait and answer null at random.
//
// Reads from stdin { sdl, infallible, fixed, cases: [{ document, variables, seed, percent }] } and prints, for each case, one line:
//
//   { data, errors, failures }
//
// `data` is the JSON text of the answer, `errors` are [{ message, path }] as graphql-js reports them, and `failures` are
// all that happened, reported or not, as [{ message, path, nulled }]: `nulled` is the path of the position that the
// spec's propagation makes null, [] for the data as a whole.
//
// What a resolver does is a function of the seed and of its place in the response. tests/it/api/reference/schema.rs holds
// the same function; the two must stay equal.

import { readFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import {
  buildSchema,
  execute,
  getNullableType,
  isAbstractType,
  isListType,
  isNonNullType,
  isObjectType,
  parse,
  validate,
} from 'graphql';

const { sdl, infallible, fixed, cases } = JSON.parse(readFileSync(0, 'utf8'));
const schema = buildSchema(sdl);

/** FNV-1a, then the last steps of MurmurHash3: 32 bits that differ in all places for paths that differ in one. */
function roll(seed, purpose, path) {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(`${seed}/${purpose}/${path.join('/')}`)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

const pathOf = (info) => {
  const keys = [];
  for (let place = info.path; place; place = place.prev) keys.unshift(place.key);
  return keys;
};

async function answer({ document, variables, seed, percent }) {
  const parsed = parse(document);
  const invalid = validate(schema, parsed);
  if (invalid.length > 0) return { invalid: invalid.map(String).join('\n') };

  const failures = [];
  const nullable = new Map(); // by the JSON of the path
  let running = 0;

  // The value at a place. Throws what the resolver there fails with.
  function make(type, path, field, fails) {
    nullable.set(JSON.stringify(path), !isNonNullType(type));
    if (fails && roll(seed, 'fail', path) % 100 < percent) {
      const message = `failed at ${path.join('/')}`;
      failures.push({ message, path });
      throw new Error(message);
    }
    if (fails && !isNonNullType(type) && roll(seed, 'null', path) % 100 < 10) return null;
    const bare = getNullableType(type);
    if (isListType(bare)) {
      const length = fixed[field] ?? roll(seed, 'length', path) % 4;
      return Array.from({ length }, (_, index) => {
        try {
          return make(bare.ofType, [...path, index], '', fails);
        } catch (error) {
          // rejected, not thrown, so that the items behind it are executed as well
          const rejected = Promise.reject(error);
          rejected.catch(() => {});
          return rejected;
        }
      });
    }
    if (isObjectType(bare)) return { __typename: bare.name };
    if (isAbstractType(bare)) {
      const types = schema.getPossibleTypes(bare).map(String).sort();
      return { __typename: types[roll(seed, 'type', path) % types.length] };
    }
    if (field in fixed) return fixed[field];
    const value = roll(seed, 'value', path);
    switch (bare.name) {
      case 'Int':
        return (value % 1000) - 500;
      case 'Boolean':
        return value % 2 === 1;
      default:
        return `${bare.name} ${value % 1000}`;
    }
  }

  function fieldResolver(_source, _args, _context, info) {
    const field = `${info.parentType.name}.${info.fieldName}`;
    const path = pathOf(info);
    if (infallible.includes(field) || field in fixed) return make(info.returnType, path, field, false);
    running += 1;
    return (async () => {
      try {
        for (let turns = roll(seed, 'wait', path) % 4; turns > 0; turns -= 1) await turn();
        return make(info.returnType, path, field, true);
      } finally {
        running -= 1;
      }
    })();
  }

  const result = await execute({ schema, document: parsed, fieldResolver, variableValues: variables });
  // what runs below places that are null already goes on behind the answer
  do await turn();
  while (running > 0);

  for (const failure of failures) {
    failure.nulled = [...failure.path];
    while (failure.nulled.length > 0 && !nullable.get(JSON.stringify(failure.nulled))) failure.nulled.pop();
  }
  const errors = (result.errors ?? []).map(({ message, path }) => ({ message, path }));
  return { data: JSON.stringify(result.data), errors, failures };
}

for (const one of cases) {
  process.stdout.write(`${JSON.stringify(await answer(one))}\n`);
}
