// The token estimator (src/compact/count.h) against the tokenizer itself, gpt-tokenizer's o200k_base.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import { counts, parts, words } from '../../tools/tokens.mjs';
import { build } from './helper.mjs';

const root = path.resolve(import.meta.dirname, '..', '..');
const fixtures = path.join(root, 'tests', 'fixtures', 'compact');
const probe = path.join(build, 'tests', 'compact_probe');

// Estimates of files, in their order.
function estimate(files) {
  const lines = execFileSync(probe, files, { encoding: 'utf8' }).trimEnd().split('\n');
  return lines.map((line) => Number(line.split(' ')[0]));
}

const textOf = (name) => fs.readFileSync(path.join(fixtures, `${name}.txt`), 'utf8');

// Ten kinds of text, and as many again that were written after the estimator (held/).
test('every kind of text is estimated within 10 % of the tokenizer', () => {
  const names = Object.keys(counts());
  const estimates = estimate(names.map((name) => path.join(fixtures, `${name}.txt`)));

  assert.equal(names.length, 20);
  names.forEach((name, i) => {
    const real = encode(textOf(name)).length;
    const off = Math.abs(estimates[i] / real - 1);
    assert.ok(off <= 0.1, `${name}: estimated ${estimates[i]}, is ${real}`);
  });
});

test('what is stored for the unit test and the estimator is that of the tokenizer', () => {
  const stored = (name) => JSON.parse(fs.readFileSync(path.join(fixtures, name), 'utf8'));
  assert.deepEqual(stored('counts.json'), counts());
  assert.deepEqual(stored('parts.json'), parts());
  assert.equal(fs.readFileSync(path.join(root, 'src/compact/count_words.h'), 'utf8'), words());
});

// The provider has reported the size of the first 80 %, and a fifth of the text is new.
test('with an anchor every kind of text is estimated within 2 % of the tokenizer', () => {
  for (const [name, { bytes, tokens }] of Object.entries(parts())) {
    const file = path.join(fixtures, `${name}.txt`);
    const real = encode(textOf(name)).length;
    const anchored = Number(execFileSync(probe, ['--anchor', `${tokens}`, `${bytes}`, file], { encoding: 'utf8' }));
    assert.ok(Math.abs(anchored / real - 1) <= 0.02, `${name}: estimated ${anchored}, is ${real}`);
    assert.ok(anchored > tokens, `${name}: the last message is not counted`);
  }
});

test('files of this repository are estimated within 10 %', () => {
  const files = ['CONTRIBUTING.md', 'src/base/json_read.c', 'api/openapi.json', 'tools/checksrc.mjs'];
  const paths = files.map((file) => path.join(root, file));
  const estimates = estimate(paths);

  paths.forEach((file, i) => {
    const real = encode(fs.readFileSync(file, 'utf8')).length;
    const off = Math.abs(estimates[i] / real - 1);
    assert.ok(off <= 0.1, `${files[i]}: estimated ${estimates[i]}, is ${real}`);
  });
});
