// What a program in TypeScript makes of the API: graphql-codegen over schema.graphql and every documented example, and
// the compiler, strict, over what comes of it.
//
//   usage: node types.js
//
// Prints a line for each fault, and ends with exit code 1 if there is one. No file is written.

import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { codegen } from '@graphql-codegen/core';
import * as typedDocumentNode from '@graphql-codegen/typed-document-node';
import * as typescript from '@graphql-codegen/typescript';
import * as typescriptOperations from '@graphql-codegen/typescript-operations';
import { buildSchema, Kind, parse, visit } from 'graphql';
import ts from 'typescript';
import { examples, sdl } from './examples.js';
import { SCALARS } from './scalars.js';

/** `docs/api/blocks.md` and 7 as `DocsApiBlocks7`. */
const nameOf = ({ page, line }) => {
  const words = page.replace(/\.md$/, '').toLowerCase().split('/');
  return words.map((word) => word[0].toUpperCase() + word.slice(1)).join('') + line;
};

/** The document with a name for its operation, which programs need and readers do not. */
function named(example) {
  const { page, line, document } = example;
  const name = { kind: Kind.NAME, value: nameOf(example) };
  const rename = { OperationDefinition: (operation) => ({ ...operation, name }) };
  return { location: `${page}:${line}`, document: visit(parse(document), rename) };
}

const CONFIG = { strictScalars: true, scalars: SCALARS, useTypeImports: true };

/** What graphql-codegen makes with some of its plugins. */
function generate(filename, documents, pluginMap) {
  const plugins = Object.keys(pluginMap).map((name) => ({ [name]: {} }));
  return codegen({ filename, schema: parse(sdl), schemaAst: buildSchema(sdl), documents, config: CONFIG, plugins, pluginMap });
}

/** What the compiler has against these files, [path, text] each. */
function faultsOf(files) {
  const options = {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: [],
  };
  const texts = new Map(files);
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (path) => texts.has(path) || fileExists(path);
  host.readFile = (path) => texts.get(path) ?? readFile(path);
  return ts.getPreEmitDiagnostics(ts.createProgram([...texts.keys()], options, host)).map(({ file, start, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, '\n  ');
    if (file === undefined) return `tsc: ${message}`;
    const line = file.text.split('\n')[file.getLineAndCharacterOfPosition(start).line];
    return `${basename(file.fileName)}: ${message}\n  in: ${line.slice(0, 200)}`;
  });
}

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const types = await generate(path('schema.ts'), [], { typescript });
// the plugins for documents bring the enums and inputs that they need, so these stand in a file of their own
const documents = await generate(path('documents.ts'), examples.map(named), { typescriptOperations, typedDocumentNode });
const faults = faultsOf([[path('schema.ts'), types], [path('documents.ts'), documents]]);
for (const example of examples) {
  const begin = `export const ${nameOf(example)}Document`;
  if (!documents.includes(begin)) faults.push(`${example.page}:${example.line}: nothing came of it`);
}
console.log(faults.length === 0 ? `${examples.length} examples` : faults.join('\n'));
process.exitCode = faults.length === 0 ? 0 : 1;
