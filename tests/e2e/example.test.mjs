// The example program of the library, as a user of the library would build and run it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { build, ids, lines, ok, tempDir } from './helper.mjs';

const tour = path.join(build, 'examples', 'tour');
const runTour = (...args) => spawnSync(tour, args, { encoding: 'utf8' });

test('examples/tour writes, forks, reads back and checks', (t) => {
  const data = path.join(tempDir(t), 'data');
  const result = runTour(data);
  assert.equal(result.status, 0, result.stderr);
  assert.equal(result.stderr, '');
  const ctx = /^created context (\S+)$/m.exec(result.stdout)[1];
  const saved = [...result.stdout.matchAll(/^saved (\S+) {2}(\w+): (.*)$/gm)];
  assert.deepEqual(saved.map((found) => found[2]), ['user', 'assistant', 'assistant']);
  assert.match(result.stdout, /^ {2}\* main: 2 messages$/m);
  assert.match(result.stdout, /^ {4}second-try: 2 messages$/m);
  assert.match(result.stdout, /^checked 1 contexts and 3 messages: 0 problems$/m);
  assert.deepEqual(ids(data, ctx), [saved[0][1], saved[1][1]], 'the command line sees the same');
  assert.deepEqual(ids(data, ctx, '--branch', 'second-try'), [saved[0][1], saved[2][1]]);
  const bytes = Number(/^main holds (\d+) bytes/m.exec(result.stdout)[1]);
  const main = JSON.parse(ok(data, ['size', ctx, '--json'])).branches.find((b) => b.name === 'main');
  assert.equal(bytes, main.message_bytes);
});

test('a second run adds a second conversation', (t) => {
  const data = path.join(tempDir(t), 'data');
  assert.equal(runTour(data).status, 0);
  assert.equal(runTour(data).status, 0);
  assert.equal(lines(ok(data, ['ls'])).length, 2);
  assert.equal(lines(ok(data, ['prompt'])).length, 1);
});

test('it says what is wrong', () => {
  assert.equal(runTour().status, 2);
  const result = runTour('/proc/quipu');
  assert.notEqual(result.status, 0);
  assert.match(result.stderr, /^tour: [A-Z]+: \S/);
});

test('a program links the static library with the flags of pkg-config', (t) => {
  const options = JSON.parse(fs.readFileSync(path.join(build, 'meson-info', 'intro-buildoptions.json'), 'utf8'));
  if (options.find((option) => option.name === 'b_sanitize').value !== 'none') return t.skip('a build with sanitizers needs their flags too');
  const dir = tempDir(t);
  fs.copyFileSync(path.join(build, 'libquipu.a'), path.join(dir, 'libquipu.a'));
  const file = fs.readFileSync(path.join(build, 'meson-private', 'quipu.pc'), 'utf8');
  fs.writeFileSync(path.join(dir, 'quipu.pc'), file.replace(/^libdir=.*$/m, `libdir=${dir}`).replace(/^includedir=.*$/m, `includedir=${path.resolve('include')}`));
  const env = { ...process.env, PKG_CONFIG_PATH: dir };
  const flags = spawnSync('pkg-config', ['--static', '--cflags', '--libs', 'quipu'], { encoding: 'utf8', env });
  assert.equal(flags.status, 0, flags.stderr);
  const program = path.join(dir, 'tour');
  const linked = spawnSync('cc', ['-o', program, 'examples/tour.c', ...flags.stdout.trim().split(/\s+/)], { encoding: 'utf8' });
  assert.equal(linked.status, 0, linked.stderr);
  const result = spawnSync(program, [path.join(dir, 'data')], { encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
});
