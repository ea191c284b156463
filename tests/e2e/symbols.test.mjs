// The shared library shows what include/quipu.h and the headers that it includes declare, and nothing
// else.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';

import { build } from './helper.mjs';

// Names that the dynamic linker gives to others. Sanitizers add some of their own.
function exported() {
  const out = execFileSync('nm', ['-D', '--defined-only', '--format=posix', path.join(build, 'libquipu.so')], {
    encoding: 'utf8',
  });
  return out
    .split('\n')
    .map((line) => line.split(' ')[0])
    .filter((name) => name && !/^(__[at]san_|__odr_asan|_fini$|_init$)/.test(name));
}

// Functions that the headers promise, by the name before their first parenthesis.
function declared() {
  const text = ['include/quipu.h', 'include/quipu_events.h', 'include/quipu_turns.h', 'include/quipu_backup.h', 'include/quipu_catalogue.h']
    .map((file) => fs.readFileSync(file, 'utf8').replace(/\/\*[^]*?\*\//g, ''))
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
