// The example programs of the library, as a user of the library would build and run them.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { build, ids, lines, ok, tempDir } from './helper.mjs';

const storeOnly = path.join(build, 'examples', 'store_only');
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

test('examples/agent runs a turn with a tool of its own', (t) => {
  const result = spawnSync(path.join(build, 'examples', 'agent'), [path.join(tempDir(t), 'data')], { encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
  assert.match(result.stdout, /^the model calls count_knots with \{"cord":"o-o--o"\}$/m);
  assert.match(result.stdout, /^the context is Idle$/m);
  assert.match(result.stdout, /"result":\{"knots":3\}/);
  assert.match(result.stdout, /It has three knots\./);
});

test('examples/engine runs a turn with a tool call that it approves', (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  fs.mkdirSync(path.join(dir, 'workspace'));
  const args = [data, path.join(dir, 'workspace'), 'Note this, please.'];
  const result = spawnSync(path.join(build, 'examples', 'engine'), args, { encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
  assert.equal(result.stderr, '');
  assert.match(result.stdout, /^a turn has at most 200 tool calls$/m);
  const events = [...result.stdout.matchAll(/^(\w[\w.]*) (\{.*\})$/gm)].map(([, type, json]) => ({ type, ...JSON.parse(json) }));
  const states = events.filter((event) => event.type === 'state').map((event) => event.state);
  assert.equal(states.at(-1), 'Idle');
  assert.ok(states.includes('AwaitingToolApproval') && states.includes('ExecutingTools'), states.join(' '));
  assert.match(result.stdout, /^the engine asks whether call-1 may run: yes$/m);
  assert.match(result.stdout, /^the context is Idle$/m);
  assert.equal(fs.readFileSync(path.join(dir, 'workspace', 'notes.txt'), 'utf8'), 'a knot\n');
  const roles = [...result.stdout.matchAll(/^saved (\w+): /gm)].map((found) => found[1]);
  assert.deepEqual(roles, ['user', 'assistant', 'tool', 'assistant']);
});

// ---- linking ----

const optional = /lib(curl|uv|sqlite3|pcre2-8)\b/;

// A build with sanitizers can only be linked with their flags.
function isSanitized() {
  const options = JSON.parse(fs.readFileSync(path.join(build, 'meson-info', 'intro-buildoptions.json'), 'utf8'));
  return options.find((option) => option.name === 'b_sanitize').value !== 'none';
}

function link(dir, name, ...flags) {
  const program = path.join(dir, name);
  const linked = spawnSync('cc', ['-Iinclude', '-o', program, `examples/${name}.c`, ...flags], { encoding: 'utf8' });
  assert.equal(linked.status, 0, linked.stderr);
  return program;
}

// The flags for static linking that the pkg-config file `name` gives, with the library in `dir`.
function pkgConfig(dir, name) {
  fs.copyFileSync(path.join(build, `lib${name}.a`), path.join(dir, `lib${name}.a`));
  const file = fs.readFileSync(path.join(build, 'meson-private', `${name}.pc`), 'utf8');
  fs.writeFileSync(path.join(dir, `${name}.pc`), file.replace(/^libdir=.*$/m, `libdir=${dir}`).replace(/^includedir=.*$/m, `includedir=${path.resolve('include')}`));
  const env = { ...process.env, PKG_CONFIG_PATH: dir };
  const flags = spawnSync('pkg-config', ['--static', '--cflags', '--libs', name], { encoding: 'utf8', env });
  assert.equal(flags.status, 0, flags.stderr);
  return flags.stdout.trim().split(/\s+/);
}

// All libraries that a program loads, directly and indirectly.
const loaded = (program) => spawnSync('ldd', [program], { encoding: 'utf8' }).stdout;

function store(program, data, ...texts) {
  const result = spawnSync(program, [data], { encoding: 'utf8', input: texts.map((text) => `${text}\n`).join('') });
  assert.equal(result.status, 0, result.stderr);
  return result.stdout.trim();
}

test('a program links the static library with the flags of pkg-config', (t) => {
  if (isSanitized()) return t.skip('a build with sanitizers needs their flags too');
  const dir = tempDir(t);
  const program = link(dir, 'tour', ...pkgConfig(dir, 'quipu'));
  const result = spawnSync(program, [path.join(dir, 'data')], { encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
});

test('a program that only stores loads neither curl, uv, PCRE2 nor SQLite', (t) => {
  assert.match(loaded(storeOnly), /libquipu-store\.so/);
  assert.doesNotMatch(loaded(storeOnly), optional);
  assert.match(loaded(tour), optional, 'libquipu.so, to compare: it needs them');
  const data = path.join(tempDir(t), 'data');
  const ctx = store(storeOnly, data, 'What is a quipu?', 'A record kept in knotted cords.');
  assert.equal(ids(data, ctx).length, 2, 'the command line sees the same');
});

test('a program that only stores links libquipu.a without curl, uv, PCRE2 and SQLite', (t) => {
  if (isSanitized()) return t.skip('a build with sanitizers needs their flags too');
  for (const pie of ['-pie', '-no-pie']) {
    const dir = tempDir(t);
    const program = link(dir, 'store_only', pie, path.join(build, 'libquipu.a'), '-ljansson', '-lpq', '-lsodium', '-lzstd', '-pthread');
    assert.doesNotMatch(loaded(program), optional);
    assert.equal(ids(path.join(dir, 'data'), store(program, path.join(dir, 'data'), 'hello')).length, 1);
  }
});

test('a program that only stores links with the flags of quipu-store.pc', (t) => {
  if (isSanitized()) return t.skip('a build with sanitizers needs their flags too');
  const dir = tempDir(t);
  const program = link(dir, 'store_only', ...pkgConfig(dir, 'quipu-store'));
  assert.doesNotMatch(loaded(program), optional);
  assert.equal(ids(path.join(dir, 'data'), store(program, path.join(dir, 'data'), 'hello')).length, 1);
});

// ---- a store that both kinds of programs use ----

const found = (data, word) => lines(ok(data, ['search', word])).filter((line) => line.includes(word)).length;

test('what a program without the database stores is found by one with it', (t) => {
  const data = path.join(tempDir(t), 'data');
  ok(data, ['new']);
  ok(data, ['reindex']);
  assert.equal(found(data, 'knotted'), 0);
  const ctx = store(storeOnly, data, 'What is knotted?');
  assert.equal(found(data, 'knotted'), 1);
  assert.ok(ok(data, ['ls']).includes(ctx));
});

test('a program without the database erases text from the database too', (t) => {
  const data = path.join(tempDir(t), 'data');
  const keep = store(storeOnly, data, 'sisal rope');
  const gone = store(storeOnly, data, 'llama wool');
  ok(data, ['reindex']);
  const database = fs.readdirSync(data).filter((name) => /^catalogue\.db(-wal)?$/.test(name));
  assert.ok(database.some((name) => fs.readFileSync(path.join(data, name)).includes('llama')), 'the text is in the database before');
  const result = spawnSync(storeOnly, [data, 'erase', gone], { encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
  for (const name of fs.readdirSync(data, { recursive: true, withFileTypes: true }))
    if (name.isFile()) assert.ok(!fs.readFileSync(path.join(name.parentPath ?? name.path, name.name)).includes('llama'), name.name);
  assert.equal(found(data, 'llama'), 0);
  assert.equal(found(data, 'sisal'), 1);
  assert.ok(ok(data, ['ls']).includes(keep));
});
