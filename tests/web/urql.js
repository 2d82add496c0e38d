// urql's normalised cache with the settings that are shipped (docs/clients/urql/cache.ts), and without them: what it warns
// of when it has the answer to every documented example, with `id` asked for of every object that has one, and whether it
// gives the same answer back.
//
//   usage: node urql.js
//
// The answers are made up from the schema, so that nothing in them is null. Prints how many examples there were, or the
// first fault, and ends with exit code 1 if there is one.

import assert from 'node:assert/strict';
import { Client, createRequest } from '@urql/core';
import { cacheExchange } from '@urql/exchange-graphcache';
import * as graphql from 'graphql';
import { filter, fromPromise, map, mergeMap, pipe, take, toPromise } from 'wonka';
import { load } from './clients.js';
import { examples, sdl } from './examples.js';

const { normalisedCache } = await load('urql/cache.ts');
const schema = graphql.buildSchema(sdl);

/** The document, asking for the id of everything that has one. */
function withIds(document) {
  const types = new graphql.TypeInfo(schema);
  const id = { kind: graphql.Kind.FIELD, name: { kind: graphql.Kind.NAME, value: 'id' } };
  const [{ selectionSet: { selections: [onNode] } }] = graphql.parse('{ ... on Node { id } }').definitions;
  const leave = (set) => {
    const type = types.getParentType();
    // what a union finds has its id behind the interface of all that have one
    if (graphql.isUnionType(type)) return { ...set, selections: [...set.selections, onNode] };
    const hasId = graphql.isInterfaceType(type) || graphql.isObjectType(type) ? 'id' in type.getFields() : false;
    return hasId ? { ...set, selections: [...set.selections, id] } : undefined;
  };
  return graphql.visit(graphql.parse(document), graphql.visitWithTypeInfo(types, { SelectionSet: { leave } }));
}

const SCALARS = { Boolean: true, Float: 0.5, Int: 1, Int53: 1, Sats: 1, SignedSats: 1, UInt53: 1 };
let made = 0;

/** A value of a type: two of each list, and of an interface or a union one type after another. */
function valueOf(type) {
  const nullable = graphql.getNullableType(type);
  if (graphql.isListType(nullable)) return [valueOf(nullable.ofType), valueOf(nullable.ofType)];
  made += 1;
  if (graphql.isEnumType(nullable)) return nullable.getValues()[0].value;
  if (graphql.isInputObjectType(nullable)) {
    const required = Object.values(nullable.getFields()).filter(graphql.isRequiredInputField);
    return Object.fromEntries(required.map(({ name, type }) => [name, valueOf(type)]));
  }
  if (graphql.isAbstractType(nullable)) {
    const types = schema.getPossibleTypes(nullable);
    return { __typename: types[made % types.length].name };
  }
  if (graphql.isObjectType(nullable)) return { __typename: nullable.name };
  return SCALARS[nullable.name] ?? `${nullable.name}${made}`;
}

function variablesOf({ variableDefinitions }) {
  const entries = variableDefinitions.map(({ variable, type }) => [variable.name.value, valueOf(graphql.typeFromAST(schema, type))]);
  return Object.fromEntries(entries);
}

/** What stands where a server would: answers to documents, made up. */
const server = () => (operations) => {
  const answer = async ({ query: document, variables: variableValues }) => {
    const fieldResolver = (_, __, ___, { returnType }) => valueOf(returnType);
    const { data, errors } = await graphql.execute({ schema, document, variableValues, fieldResolver });
    assert.equal(errors, undefined, `${errors}`);
    // objects as JSON has them
    return JSON.parse(JSON.stringify(data));
  };
  const result = (operation) => answer(operation).then((data) => ({ operation, data, hasNext: false, stale: false }));
  return pipe(
    operations,
    filter(({ kind }) => kind !== 'teardown'),
    mergeMap((operation) => fromPromise(result(operation))),
  );
};

/** What a cache warns of over all examples. */
async function warningsOf(cache) {
  const client = new Client({ url: 'http://127.0.0.1', exchanges: [cache, server] });
  const { warn } = console;
  const warnings = [];
  console.warn = (message) => warnings.push(message);
  for (const { page, line, document } of examples) {
    const named = withIds(document);
    const [operation] = named.definitions;
    const request = createRequest(graphql.print(named), variablesOf(operation));
    const ask = (requestPolicy) => {
      const asked = client.createRequestOperation(operation.operation, request, { requestPolicy });
      return pipe(client.executeRequestOperation(asked), take(1), map(({ data }) => data), toPromise);
    };
    const answer = await ask('network-only');
    assert.ok(answer, `${page}:${line} is answered`);
    if (operation.operation === 'query') assert.deepEqual(await ask('cache-only'), answer, `${page}:${line} is kept`);
  }
  console.warn = warn;
  return warnings;
}

// without the whole schema urql looks for the fields of all fragments on a union or interface in each answer
const abstractTypes = Object.values(schema.getTypeMap()).filter(graphql.isAbstractType);
const members = new Set(abstractTypes.flatMap((type) => schema.getPossibleTypes(type)).map(({ name }) => name));
const OF_AN_ABSTRACT_TYPE = new RegExp(`^Invalid undefined: .*Inline Fragment on "(${[...members].join('|')})"`, 's');

// what was warned of once is not warned of again, so this comes first
const warnings = await warningsOf(normalisedCache());
assert.deepEqual(warnings.filter((warning) => !OF_AN_ABSTRACT_TYPE.test(warning)), []);
const without = await warningsOf(cacheExchange());
assert.ok(without.filter((warning) => warning.startsWith('Invalid key')).length > 40, `${without.length} warnings`);
assert.ok(without.some((warning) => warning.startsWith('Heuristic Fragment Matching')), `${without.length} warnings`);
console.log(`${examples.length} examples`);
