// The TypeScript that applications copy from docs/clients, and the examples of docs/frontend.md that use it: those blocks
// of code whose first line is the name of a file, as in "// apollo/client.ts", which is one beside the others.
//
//   usage: node clients.js     whether the compiler, strict, takes all of it
//
// Prints a line for each fault, and ends with exit code 1 if there is one.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const shipped = here('../../docs/clients/');
const page = readFileSync(here('../../docs/frontend.md'), 'utf8');

/** The documents in docs/frontend.md. */
export const documents = [...page.matchAll(/^```graphql\n(.*?)^```$/gms)].map(([, document]) => document);

const examples = [...page.matchAll(/^```ts\n\/\/ (\S+\.ts)\n(.*?)^```$/gms)].map(([, path, text]) => [path, text]);

/** What is shipped, text by path. */
export const files = new Map(
  readdirSync(shipped, { recursive: true })
    .filter((path) => path.endsWith('.ts'))
    .sort()
    .map((path) => [path, readFileSync(shipped + path, 'utf8')]),
);

/** What is shipped, and the examples. */
const sources = new Map([...files, ...examples]);

/** What the compiler, strict, has against files as if they stood here, where the packages are that they import. */
function compilerFaults() {
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    noUnusedLocals: true,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: [],
  };
  const folder = here('clients/');
  const textOf = (path) => (path.startsWith(folder) ? sources.get(path.slice(folder.length)) : undefined);
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, directoryExists } = host;
  host.fileExists = (path) => textOf(path) !== undefined || fileExists(path);
  host.readFile = (path) => textOf(path) ?? readFile(path);
  // where no file is on the disk the compiler looks no further
  host.directoryExists = (path) => `${path}/`.startsWith(folder) || directoryExists(path);
  const paths = [...sources.keys()].map((path) => folder + path);
  return ts.getPreEmitDiagnostics(ts.createProgram(paths, options, host)).map(({ file, start, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, '\n  ');
    if (file === undefined) return `tsc: ${message}`;
    return `${file.fileName.replace(folder, '')}:${file.getLineAndCharacterOfPosition(start).line + 1}: ${message}`;
  });
}

/** The module of one of these files, with its imports, each as JavaScript; `change` may change the text of each. */
export async function load(path, change = (text) => text) {
  const around = here('node_modules/.btcgraph/');
  mkdirSync(around, { recursive: true });
  const folder = mkdtempSync(around);
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const [path, text] of sources) {
    const { outputText } = ts.transpileModule(change(text), {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
    });
    const file = `${folder}/${path.replace(/\.ts$/, '.mjs')}`;
    mkdirSync(dirname(file), { recursive: true });
    // Node.js wants the names of files in full
    writeFileSync(file, outputText.replace(/(from ')(\.\.?\/[^']*)'/g, "$1$2.mjs'"));
  }
  return import(`${folder}/${path.replace(/\.ts$/, '.mjs')}`);
}

if (process.argv[1] === here('clients.js')) {
  const faults = compilerFaults();
  console.log(faults.length === 0 ? `${sources.size} files` : faults.join('\n'));
  process.exitCode = faults.length === 0 ? 0 : 1;
}
