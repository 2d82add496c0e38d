// The rules of graphql-eslint for schemas, over schema.graphql: those it recommends, and those of Relay.
//
//   usage: node lint.js
//
// Prints a line for each fault, `LINE:COLUMN  rule  what is wrong`, and ends with exit code 1 if there is one.

import graphqlEslint from '@graphql-eslint/eslint-plugin';
import { Linter } from 'eslint';
import { buildSchema, isInterfaceType, isObjectType } from 'graphql';
import { sdl } from './examples.js';

const schema = buildSchema(sdl);

const isNode = (type) => type.name === 'Node' || type.getInterfaces().some(({ name }) => name === 'Node');
/** Value objects, connections and events: by the rules of the API they have no id. */
const withoutId = Object.values(schema.getTypeMap())
  .filter((type) => (isObjectType(type) || isInterfaceType(type)) && !isNode(type))
  .map(({ name }) => name);

const rules = {
  ...graphqlEslint.configs['flat/schema-recommended'].rules,
  ...graphqlEslint.configs['flat/schema-relay'].rules,
  '@graphql-eslint/strict-id-in-types': ['error', { exceptions: { types: withoutId } }],
  // a connection has `nodes` beside `edges`, and an edge may hold a value object (LedgerEntry, Utxo), which has no id
  '@graphql-eslint/relay-edge-types': ['error', { listTypeCanWrapOnlyEdgeType: false, shouldImplementNode: false }],
  // fields are named as the field of Bitcoin names them: `Script.scriptPubKey`
  '@graphql-eslint/no-typename-prefix': 'off',
};

const linter = new Linter({ configType: 'flat' });
const config = {
  files: ['**/*.graphql'],
  plugins: { '@graphql-eslint': graphqlEslint },
  languageOptions: { parser: graphqlEslint.parser, parserOptions: { graphQLConfig: { schema: sdl } } },
  rules,
};
const faults = linter.verify(sdl, [config], { filename: 'schema.graphql' });
for (const { line, column, ruleId, message } of faults) {
  console.log(`schema.graphql:${line}:${column}  ${ruleId?.replace('@graphql-eslint/', '') ?? 'parser'}  ${message}`);
}
if (faults.length === 0) console.log(`${Object.keys(schema.getTypeMap()).length} types`);
process.exitCode = faults.length === 0 ? 0 : 1;
