#!/usr/bin/env node
// Every function of the public headers is used by the server, the command line or an example, or is
// tested as an embedder would use it (tests/embed). Every struct that begins with its size is in the
// table of tests/embed/test_sized.c. And the public headers include each other without a circle.
//
// One line "file:line: sentence" for each violation.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
let violations = 0;

function complain(file, line, sentence) {
  console.log(`${file}:${line}: ${sentence}`);
  violations++;
}

function list(dir, ending) {
  return fs
    .readdirSync(path.join(root, dir), { recursive: true })
    .filter((name) => name.endsWith(ending))
    .map((name) => `${dir}/${name}`)
    .sort();
}

// Without comments; line breaks stay.
const read = (file) =>
  fs.readFileSync(path.join(root, file), 'utf8').replace(/\/\*[^]*?\*\//g, (found) => found.replace(/[^\n]/g, ' '));

const headers = list('include', '.h').map((file) => ({ file, text: read(file) }));
const lineOf = (text, index) => text.slice(0, index).split('\n').length;

// ---- functions ----

const users = ['src/http', 'src/cli', 'examples', 'tests/embed'].flatMap((dir) => list(dir, '.c'));
const used = new Set(users.flatMap((file) => read(file).match(/\bqp_[a-z]\w*/g) ?? []));

for (const { file, text } of headers)
  for (const found of text.matchAll(/^QP_API\b[^;]*?\b(qp_\w+)\(/gm))
    if (!used.has(found[1]))
      complain(file, lineOf(text, found.index + found[0].length), `nothing uses ${found[1]}: use it, test it in tests/embed, or drop it`);

// ---- structs that grow ----

const table = read('tests/embed/test_sized.c');

for (const { file, text } of headers)
  for (const found of text.matchAll(/^struct (qp_\w+) \{\s*size_t size;/gm))
    if (!table.includes(`{ "${found[1]}",`))
      complain(file, lineOf(text, found.index), `struct ${found[1]} is not in the table of tests/embed/test_sized.c`);

// ---- circles ----

const includes = new Map(
  headers.map(({ file, text }) => [
    file,
    [...text.matchAll(/^#include "([^"]+)"/gm)].map((found) => `include/${found[1]}`),
  ]),
);

function visit(file, way) {
  if (way.includes(file)) {
    complain(file, 1, `includes itself: ${[...way.slice(way.indexOf(file)), file].join(' > ')}`);
    return;
  }
  for (const next of includes.get(file) ?? []) visit(next, [...way, file]);
}

visit('include/quipu.h', []);
for (const file of includes.keys())
  if (file !== 'include/quipu.h' && !includes.get('include/quipu.h').includes(file))
    complain(file, 1, 'include/quipu.h does not include it');

process.exitCode = violations > 0 ? 1 : 0;
