#!/usr/bin/env node
// Builds the web page: TypeScript and CSS of web/src into files with hashed names.
//
//   node web/build.mjs OUTDIR [--watch]     write OUTDIR/index.html, OUTDIR/favicon.svg, OUTDIR/assets/*
//   node web/build.mjs OUTDIR --sizes       the same, and print the sizes as JSON
//   node web/build.mjs --types [--check]    write web/src/gen/api.d.ts from api/openapi.yaml, or check it
//
// OUTDIR/assets is emptied first.

import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(here);
const types = path.join(here, 'src', 'gen', 'api.d.ts');

// The types of every request and answer.
async function generateTypes(check) {
  const { default: openapi, astToString } = await import('openapi-typescript');
  const ast = await openapi(new URL(`file://${path.join(root, 'api', 'openapi.yaml')}`));
  const text = `// Generated from api/openapi.yaml by web/build.mjs.\n${astToString(ast)}`;
  fs.mkdirSync(path.dirname(types), { recursive: true });
  if (fs.existsSync(types) && fs.readFileSync(types, 'utf8') === text) return;
  if (check) {
    process.stderr.write('web/src/gen/api.d.ts:1: out of date; run node web/build.mjs --types\n');
    process.exit(1);
  }
  fs.writeFileSync(types, text);
}

// Leaves out what the page does not use: the finder of bare links in markdown-it (off by default) and
// the packages for chemistry, physics and MediaWiki in temml.
const leaner = {
  name: 'leaner',
  setup(build) {
    build.onResolve({ filter: /^linkify-it$/ }, () => ({ path: 'linkify-it', namespace: 'unused' }));
    build.onLoad({ filter: /.*/, namespace: 'unused' }, () => ({ contents: 'export class LinkifyIt {}' }));
    build.onLoad({ filter: /temml\.mjs$/ }, ({ path: file }) => {
      const text = fs.readFileSync(file, 'utf8');
      const from = text.search(/\/\*{20,}\s+\*\s+\*\s+Temml mhchem\.js/);
      const to = text.indexOf('\n// Helper functions\n', from);
      if (from < 0 || to < 0) throw new Error(`${file}: its packages are not where they were; look at "leaner"`);
      return { contents: text.slice(0, from) + text.slice(to) };
    });
  },
};

// What the page loads at first is one file, and a conversation two more: chat and text. Each part that is loaded
// when needed imports all of the first file, and all of chat if it belongs to a conversation, so esbuild has no
// reason to cut them further. text is an entry, so that it is a file of its own.
const main = path.join(here, 'src', 'main.tsx');
const chat = path.join(here, 'src', 'chat', 'chat.tsx');
const text = path.join(here, 'src', 'lib', 'markdown.tsx');
const fewFiles = {
  name: 'few files',
  setup(build) {
    build.onResolve({ filter: /.*/ }, async ({ kind, path: file, resolveDir, pluginData }) => {
      const isPart = kind === 'dynamic-import' || (kind === 'entry-point' && file === text);
      if (!isPart || pluginData === 'found') return undefined;
      const found = await build.resolve(file, { kind, resolveDir, pluginData: 'found' });
      return { path: path.relative(root, found.path), namespace: 'lazy' };
    });
    build.onLoad({ filter: /.*/, namespace: 'lazy' }, ({ path: name }) => {
      const file = path.join(root, name);
      const first = [main, ...(path.dirname(file) === path.dirname(chat) ? [chat] : [])].filter((one) => one !== file);
      return { contents: `${first.map((one) => `import ${JSON.stringify(one)};`).join('')}export * from ${JSON.stringify(file)};`, resolveDir: here };
    });
  },
};

async function bundle(out, watch) {
  const esbuild = await import('esbuild');
  const assets = path.join(out, 'assets');
  fs.rmSync(assets, { recursive: true, force: true });
  const options = {
    absWorkingDir: root,
    entryPoints: { quipu: main, text, early: path.join(here, 'src', 'early.ts'), style: path.join(here, 'src', 'style', 'main.css') },
    outdir: assets,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    target: ['es2022', 'chrome115', 'firefox120', 'safari17'],
    minify: !watch,
    sourcemap: watch ? 'inline' : false,
    legalComments: 'none',
    drop: ['console', 'debugger'],
    metafile: true,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: { '.svg': 'file' },
    logLevel: 'warning',
    plugins: [leaner, fewFiles, { name: 'page', setup: (build) => void build.onEnd((result) => result.metafile && writePage(out, result.metafile)) }],
  };
  if (!watch) return void (await esbuild.build(options));
  const context = await esbuild.context(options);
  await context.watch();
}

// index.html names the first scripts and the style sheet; nothing in it is inline, so the strict policy holds.
function writePage(out, metafile) {
  const outputs = Object.entries(metafile.outputs).map(([file, about]) => ({ file: path.resolve(root, file), ...about }));
  const entry = (source) => outputs.find((one) => one.entryPoint === source);
  const holder = (source) => outputs.find((one) => path.relative(root, source) in one.inputs);
  const urlOf = (one) => `/assets/${path.basename(one.file)}`;
  const early = entry('web/src/early.ts');
  const style = entry('web/src/style/main.css');
  // These entries only import the file that holds what they name: the page asks for that file at once.
  for (const one of [entry('web/src/main.tsx'), entry('lazy:web/src/lib/markdown.tsx')]) fs.rmSync(one.file, { force: true });
  const script = holder(main);
  const chatScripts = [entry('lazy:web/src/chat/chat.tsx'), holder(chat), holder(text)];
  fs.copyFileSync(path.join(here, 'icon.svg'), path.join(out, 'favicon.svg'));
  const page = fs
    .readFileSync(path.join(here, 'index.html'), 'utf8')
    .replace('{{script}}', urlOf(script))
    .replace('{{chat}}', chatScripts.map(urlOf).join(' '))
    .replace('{{early}}', urlOf(early))
    .replace('{{style}}', urlOf(style));
  fs.writeFileSync(path.join(out, 'index.html'), page);
  if (flags.includes('--sizes')) printSizes(out, [early, script, ...chatScripts]);
}

// The first load is what an address of a conversation needs before anything is clicked.
function printSizes(out, scripts) {
  const first = new Set(scripts.map((one) => one.file));
  const sizes = fs.readdirSync(path.join(out, 'assets')).sort().map((name) => {
    const bytes = fs.readFileSync(path.join(out, 'assets', name));
    return { name, first: name.endsWith('.css') || first.has(path.resolve(out, 'assets', name)), bytes: bytes.length, gzip: zlib.gzipSync(bytes, { level: 9 }).length };
  });
  process.stdout.write(`${JSON.stringify(sizes, null, 2)}\n`);
}

const [out, ...flags] = process.argv.slice(2);
if (!out || (out.startsWith('-') && out !== '--types')) {
  process.stderr.write('usage: node web/build.mjs OUTDIR [--watch|--sizes] | --types [--check]\n');
  process.exit(2);
}
if (out === '--types') await generateTypes(flags.includes('--check'));
else {
  fs.mkdirSync(out, { recursive: true });
  await bundle(path.resolve(out), flags.includes('--watch'));
}
