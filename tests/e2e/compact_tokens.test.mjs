// The token estimator (src/compact/count.h) against the tokenizer itself, gpt-tokenizer's o200k_base.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import { counts, parts } from '../../tools/tokens.mjs';
import { build } from './helper.mjs';

const root = path.resolve(import.meta.dirname, '..', '..');
const fixtures = path.join(root, 'tests', 'fixtures', 'compact');
const probe = path.join(build, 'tests', 'compact_probe');

// Estimates of files, in their order.
function estimate(files) {
  const lines = execFileSync(probe, files, { encoding: 'utf8' }).trimEnd().split('\n');
  return lines.map((line) => Number(line.split(' ')[0]));
}

test('every kind of text is estimated within 10 % of the tokenizer', () => {
  const names = fs.readdirSync(fixtures).filter((name) => name.endsWith('.txt'));
  const files = names.map((name) => path.join(fixtures, name));
  const estimates = estimate(files);

  assert.equal(names.length, 10);
  files.forEach((file, i) => {
    const real = encode(fs.readFileSync(file, 'utf8')).length;
    const off = Math.abs(estimates[i] / real - 1);
    assert.ok(off <= 0.1, `${names[i]}: estimated ${estimates[i]}, is ${real}`);
  });
});

test('the stored counts, which the unit test uses, are those of the tokenizer', () => {
  const stored = JSON.parse(fs.readFileSync(path.join(fixtures, 'counts.json'), 'utf8'));
  assert.deepEqual(stored, counts());
  assert.deepEqual(JSON.parse(fs.readFileSync(path.join(fixtures, 'parts.json'), 'utf8')), parts());
});

// As in a conversation of 20 messages: the provider has reported the size of the first 19. With a
// larger share of new text it is less exact; bench/RESULTS.md has the figures.
test('with an anchor every kind of text is estimated within 2 % of the tokenizer', () => {
  const split = parts();

  assert.equal(Object.keys(split).length, 10);
  for (const [name, shares] of Object.entries(split)) {
    const { bytes, tokens } = shares[95];
    const file = path.join(fixtures, `${name}.txt`);
    const real = encode(fs.readFileSync(file, 'utf8')).length;
    const anchored = Number(execFileSync(probe, ['--anchor', `${tokens}`, `${bytes}`, file], { encoding: 'utf8' }));
    assert.ok(Math.abs(anchored / real - 1) <= 0.02, `${name}: estimated ${anchored}, is ${real}`);
    assert.ok(anchored > tokens, `${name}: the last message is not counted`);
  }
});

test('texts that were not written for this test are estimated within 10 %', () => {
  const files = ['CONTRIBUTING.md', 'src/base/json_read.c', 'api/openapi.json', 'tools/checksrc.mjs'];
  const paths = files.map((file) => path.join(root, file));
  const estimates = estimate(paths);

  paths.forEach((file, i) => {
    const real = encode(fs.readFileSync(file, 'utf8')).length;
    const off = Math.abs(estimates[i] / real - 1);
    assert.ok(off <= 0.1, `${files[i]}: estimated ${estimates[i]}, is ${real}`);
  });
});
