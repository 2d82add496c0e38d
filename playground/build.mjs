// Bundles the playground and the explorer into dist/, as src/server/playground/mod.rs embeds and serves them.
//
//   dist/index.html     the page of the playground, which is GraphiQL
//   dist/explorer.html  the page of the explorer
//   dist/licenses.txt   what the bundled packages are licensed under
//   dist/assets/…       scripts, styles, fonts and workers, with a hash of their content in the name
//
// and beside each of them, if that is smaller, the same compressed: .br and .gz.

import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const BASE = '/playground/';
const here = path.dirname(fileURLToPath(import.meta.url));
const unfinished = path.join(here, 'dist.unfinished');

/** The fonts that a stylesheet holds as data URLs become files, of which a page loads what it uses. */
const fontsApart = {
  name: 'fonts-apart',
  setup(bundler) {
    bundler.onLoad({ filter: /graphiql[\\/]dist[\\/]style\.css$/ }, async ({ path: file }) => {
      const styles = await readFile(file, 'utf8');
      const contents = styles.replace(/url\("?data:font\/(\w+);base64,([^)"]+)"?\)/g, (_, kind, data) => {
        const bytes = Buffer.from(data, 'base64');
        const name = `font-${createHash('sha256').update(bytes).digest('hex').slice(0, 8)}.${kind}`;
        fonts.set(name, bytes);
        return `url("${BASE}assets/${name}")`;
      });
      return { contents, loader: 'css' };
    });
    // GraphiQL's stylesheet holds Monaco's
    bundler.onLoad({ filter: /monaco-editor[\\/].*\.css$/ }, () => ({ contents: '', loader: 'empty' }));
  },
};
const fonts = new Map();

const bundle = (options) =>
  build({
    absWorkingDir: here,
    bundle: true,
    format: 'esm',
    splitting: true,
    minify: true,
    target: 'es2022',
    // graphiql-explorer requires it, the others import it: one copy, or types of one are unknown to the other
    alias: { graphql: 'graphql/index.mjs' },
    outdir: path.join(unfinished, 'assets'),
    publicPath: `${BASE}assets/`,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    define: { 'process.env.NODE_ENV': '"production"' },
    legalComments: 'none', // licenses.txt has them whole
    external: [`${BASE}*`],
    metafile: true,
    logLevel: 'warning',
    ...options,
  });

/** Where the outputs are served that were made of these sources. */
function urls({ outputs }) {
  const found = new Map();
  for (const [output, { entryPoint }] of Object.entries(outputs)) {
    if (entryPoint) found.set(path.basename(entryPoint), `${BASE}assets/${path.basename(output)}`);
  }
  return found;
}

/** The scripts that these entry points stand on, themselves included, as far as they are known before they run. */
function scripts({ outputs }, entryPoints) {
  const found = new Set();
  const add = (output) => {
    if (found.has(output)) return;
    found.add(output);
    for (const { path: imported, kind } of outputs[output].imports) if (kind === 'import-statement') add(imported);
  };
  for (const [output, { entryPoint }] of Object.entries(outputs)) if (entryPoints.includes(entryPoint)) add(output);
  return [...found].map((output) => `${BASE}assets/${path.basename(output)}`);
}

/** The licence texts of all packages that are in the bundles. */
async function licenses(metafiles) {
  const inputs = metafiles.flatMap(({ inputs }) => Object.keys(inputs));
  const packages = new Set(inputs.map((input) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0]).filter(Boolean));
  const texts = new Map();
  for (const folder of packages) {
    const { name, version, license } = JSON.parse(await readFile(path.join(here, folder, 'package.json'), 'utf8'));
    const files = (await readdir(path.join(here, folder))).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file));
    const parts = await Promise.all(files.map((file) => readFile(path.join(here, folder, file), 'utf8')));
    texts.set(`${name} ${version}`, `${name} ${version}: ${license}\n\n${parts.join('\n').trim()}\n`);
  }
  return [...texts.entries()].sort().map(([, text]) => text).join(`\n${'-'.repeat(80)}\n\n`);
}

async function compress(folder) {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath ?? entry.path, entry.name);
    const bytes = await readFile(file);
    const brotli = { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length, [constants.BROTLI_PARAM_LGWIN]: 24 } };
    for (const [extension, compressed] of [
      ['br', brotliCompressSync(bytes, brotli)],
      ['gz', gzipSync(bytes, { level: 9 })],
    ]) {
      if (compressed.length < bytes.length * 0.95) await writeFile(`${file}.${extension}`, compressed);
    }
  }
}

await rm(unfinished, { recursive: true, force: true });
await mkdir(path.join(unfinished, 'assets'), { recursive: true });

const workers = await bundle({
  entryPoints: [
    'monaco-editor/esm/vs/editor/editor.worker.js',
    'monaco-editor/esm/vs/language/json/json.worker.js',
    'monaco-graphql/esm/graphql.worker.js',
  ],
});
const worker = urls(workers.metafile);
const byLabel = {
  '': worker.get('editor.worker.js'),
  json: worker.get('json.worker.js'),
  graphql: worker.get('graphql.worker.js'),
};
const page = await bundle({
  entryPoints: ['src/main.tsx', 'src/main.css'],
  plugins: [fontsApart],
  define: { 'process.env.NODE_ENV': '"production"', WORKERS: JSON.stringify(byLabel) },
});
const explorer = await bundle({
  entryPoints: ['src/explorer/main.tsx', 'src/explorer/explorer.css'],
  entryNames: 'explorer-[hash]',
  chunkNames: 'explorer-[name]-[hash]',
});

/** Writes a page whose head loads these files. */
async function write(name, template, { style, script, ahead }) {
  const head = [
    `<link rel="stylesheet" href="${style}">`,
    ...ahead.filter((url) => url !== script).map((url) => `<link rel="modulepreload" href="${url}">`),
    `<script type="module" src="${script}"></script>`,
  ].join('\n  ');
  const text = await readFile(path.join(here, template), 'utf8');
  await writeFile(path.join(unfinished, name), text.replace('<!-- assets -->', head));
}

for (const [name, bytes] of fonts) await writeFile(path.join(unfinished, 'assets', name), bytes);
// the editor is imported by what main.tsx imports, and would be asked for only when all of that runs
const EDITOR = ['monaco-editor.js', 'lite.js'].map((file) => `node_modules/monaco-graphql/esm/${file}`);
const main = urls(page.metafile);
await write('index.html', 'src/index.html', {
  style: main.get('main.css'),
  script: main.get('main.tsx'),
  ahead: scripts(page.metafile, ['src/main.tsx', ...EDITOR]),
});
const first = urls(explorer.metafile);
await write('explorer.html', 'src/explorer/index.html', {
  style: first.get('explorer.css'),
  script: first.get('main.tsx'),
  ahead: scripts(explorer.metafile, ['src/explorer/main.tsx']),
});
const metafiles = [workers, page, explorer].map(({ metafile }) => metafile);
await writeFile(path.join(unfinished, 'licenses.txt'), await licenses(metafiles));
await compress(unfinished);

// in one step, so that an interrupted build leaves no half of a playground
await rm(path.join(here, 'dist'), { recursive: true, force: true });
await rename(unfinished, path.join(here, 'dist'));
