// The operations of the explorer as typed documents, which graphql-codegen makes of schema.graphql and of the .graphql
// files beside the pages: playground/src/explorer/pages/home.graphql becomes home.generated.ts.
//
//   usage: node explorer-types.js            compares the files with what the schema makes of them
//          node explorer-types.js --write    writes them
//
// Prints a line for each fault, and ends with exit code 1 if there is one.

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { codegen } from '@graphql-codegen/core';
import * as typescriptOperations from '@graphql-codegen/typescript-operations';
import { buildSchema, Kind, parse, validate } from 'graphql';
import { sdl } from './examples.js';
import { SCALARS } from './scalars.js';

const folder = fileURLToPath(new URL('../../playground/src/explorer/pages/', import.meta.url));

const schemaAst = buildSchema(sdl);

/** The operations of a document as exports: their text, from their comment to their last brace, and its types. */
function exportsOf(document, text) {
  const fragments = document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION);
  const operations = document.definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION);
  const commented = ({ loc }) => {
    const before = /(?:^#.*\n)*$/m.exec(text.slice(0, loc.start))[0];
    return before + text.slice(loc.start, loc.end);
  };
  return operations.map((operation) => {
    const own = commented(operation);
    const needed = fragments.filter(({ name }) => reaches(operation, name.value, fragments));
    const whole = [own, ...needed.map(commented)].join('\n\n').replaceAll('`', '\\`').replaceAll('${', '\\${');
    const [name, kind] = [operation.name.value, operation.operation];
    const type = name + kind[0].toUpperCase() + kind.slice(1);
    return `export const ${name}Document = document<${type}, ${type}Variables>(\`${whole}\n\`);\n`;
  });
}

/** Whether a definition spreads the fragment, itself or by others. */
function reaches(definition, fragment, fragments, seen = new Set()) {
  const names = [...JSON.stringify(definition).matchAll(/"kind":"FragmentSpread","name":\{"kind":"Name","value":"(\w+)"/g)];
  return names.some(([, name]) => {
    if (name === fragment) return true;
    if (seen.has(name)) return false;
    seen.add(name);
    const next = fragments.find((other) => other.name.value === name);
    return next !== undefined && reaches(next, fragment, fragments, seen);
  });
}

async function generated(file) {
  const text = readFileSync(path.join(folder, file), 'utf8');
  const document = parse(text);
  const faults = validate(schemaAst, document);
  if (faults.length > 0) throw new Error(faults.map(({ message }) => message).join('\n'));
  const types = await codegen({
    filename: file,
    schema: parse(sdl),
    schemaAst,
    documents: [{ location: file, document }],
    config: {
      strictScalars: true,
      // as the cache of Apollo Client has it
      scalars: { ...SCALARS, BigInt: 'bigint' },
      useTypeImports: true,
      enumsAsTypes: true,
      onlyOperationTypes: true,
      mergeFragmentTypes: true,
      dedupeFragments: true,
    },
    plugins: [{ typescriptOperations: {} }],
    pluginMap: { typescriptOperations },
  });
  const head = `// Written from ${file} and schema.graphql by tests/web/explorer-types.js.\n\nimport { document } from '../document';\n`;
  return [head, types.trim(), '', ...exportsOf(parse(text), text)].join('\n');
}

const write = process.argv.includes('--write');
let files = 0;
let faults = 0;
for (const file of readdirSync(folder).filter((name) => name.endsWith('.graphql')).sort()) {
  files += 1;
  const target = path.join(folder, file.replace(/\.graphql$/, '.generated.ts'));
  try {
    const wanted = await generated(file);
    const found = existsSync(target) ? readFileSync(target, 'utf8') : '';
    if (found === wanted) continue;
    if (write) {
      writeFileSync(target, wanted);
      continue;
    }
    console.log(`${path.basename(target)} is not what ${file} and the schema make: run node explorer-types.js --write`);
  } catch (error) {
    console.log(`${file}: ${error.message}`);
  }
  faults += 1;
}
if (faults === 0) console.log(`${files} files`);
process.exit(faults > 0 ? 1 : 0);
