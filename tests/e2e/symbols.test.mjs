// The shared libraries export what the headers in include/ declare, and nothing else.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';

import { build } from './helper.mjs';

// Names that the dynamic linker gives to others. Sanitizers add some of their own.
function exported(library = 'libquipu.so') {
  const out = execFileSync('nm', ['-D', '--defined-only', '--format=posix', path.join(build, library)], {
    encoding: 'utf8',
  });
  return out
    .split('\n')
    .map((line) => line.split(' ')[0])
    .filter((name) => name && !/^(__[at]san_|__odr_asan|_fini$|_init$)/.test(name));
}

// Functions that the headers promise, by the name before their first parenthesis.
function declared(isWanted = () => true) {
  const text = fs
    .readdirSync('include', { recursive: true })
    .filter((name) => name.endsWith('.h') && isWanted(name))
    .map((file) => fs.readFileSync(path.join('include', file), 'utf8').replace(/\/\*[^]*?\*\//g, ''))
    .join('\n');
  return [...text.matchAll(/^QP_API\b([^;]*);/gm)].map((found) => /(\w+)\(/.exec(found[1].replace('QP_MUST_CHECK', ''))[1]);
}

test('the library exports only names of the public interface', () => {
  const names = exported();
  assert.ok(names.length > 0);
  for (const name of names) assert.match(name, /^qp_[a-z]/);
});

test('every function of quipu.h is exported, and no other', () => {
  const functions = declared();
  assert.ok(functions.length > 60, `${functions.length} functions were found in the header`);
  assert.equal(new Set(functions).size, functions.length);
  assert.deepEqual(exported().sort(), [...functions].sort());
});

test('libquipu-store exports everything but lists, search and the engine', () => {
  const functions = declared((name) => !/(catalogue|compaction|queue|tools|turns)\.h$/.test(name));
  assert.ok(functions.length > 60);
  assert.deepEqual(exported('libquipu-store.so').sort(), functions.sort());
});
