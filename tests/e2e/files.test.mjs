// The files: readable by anyone, checked, mended, and never outside the data directory.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, bin, environment, exit, fails, ids, jsonLines, lines, makeContext, messageFile, ok, run, tempDir } from './helper.mjs';

const user = (text) => JSON.stringify({ role: 'user', text });

// Every file below a directory, relative to it.
function walk(dir) {
  return fs
    .readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(dir, path.join(entry.parentPath ?? entry.path, entry.name)))
    .sort();
}

function filled(t, n = 5) {
  const made = makeContext(t, '--title', 'Files');
  const input = Array.from({ length: n }, (_, i) => user(`message ${i}`)).join('\n');
  made.ids = lines(ok(made.data, ['add', made.ctx, '--jsonl', '-'], { input }));
  return made;
}

test('every file is valid JSON, as a whole or line by line', (t) => {
  const { data, ctx } = filled(t, 300);
  ok(data, ['branch', ctx, 'fork', 'a/b "quoted" 🧶']);
  add(data, ctx, 'ünï\ncödé', '--branch', 'a/b "quoted" 🧶');
  ok(data, ['branch', ctx, 'rewind', 'main', '--to', 'none']);
  ok(data, ['prompt', 'create', '--id', 'p', '--content', 'x']);
  let seen = 0;
  for (const name of walk(data)) {
    const text = () => fs.readFileSync(path.join(data, name), 'utf8');
    if (/\.json(\.bak)?$/.test(name)) JSON.parse(text());
    else if (name.endsWith('.jsonl') || name.endsWith('index.log')) {
      assert.match(text(), /^$|\n$/, `${name} ends with a line break`);
      for (const line of lines(text())) JSON.parse(line);
    } else {
      assert.match(name, /^(quipu\.lock|journal\/([^/]+\.qj|reserve))$/, `an unexpected file: ${name}`);
      continue;
    }
    seen++;
  }
  assert.ok(seen >= 304, `${seen} files were read`);
});

test('check of a healthy store', (t) => {
  const { data, ctx } = filled(t);
  assert.match(ok(data, ['check']), /^checked 1 context, 5 messages, \d+(\.\d)? k?B: no problems\n$/);
  assert.match(ok(data, ['check', ctx]), /^checked 1 context, 5 messages, .*: no problems\n$/);
  assert.match(ok(data, ['check', '--repair']), /: no problems\n$/);
  const [{ summary }] = jsonLines(ok(data, ['check', '--json']));
  assert.deepEqual([summary.contexts, summary.messages, summary.problems, summary.repaired], [1, 5, 0, 0]);
  fails(data, ['check', '01920000-0000-7000-8000-000000000000'], 'NOTFOUND', /./);
});

test('check writes nothing without --repair', (t) => {
  const { data, dir, ids: all } = filled(t);
  fs.writeFileSync(messageFile(dir, all[1]), 'garbage');
  fs.writeFileSync(path.join(dir, 'stray.txt'), 'not ours');
  const picture = () => walk(data).map((name) => [name, fs.readFileSync(path.join(data, name), 'latin1')]);
  const before = picture();
  run(data, ['check']);
  assert.deepEqual(picture(), before);
});

for (const [what, spoil, kind] of [
  ['changed', (file) => fs.appendFileSync(file, ' '), 'MESSAGE_CORRUPT'],
  ['deleted', (file) => fs.unlinkSync(file), 'MESSAGE_MISSING'],
]) {
  test(`a message file that was ${what} is found, and the rest is still shown`, (t) => {
    const { data, ctx, dir, ids: all } = filled(t);
    spoil(messageFile(dir, all[2]));
    const checked = run(data, ['check']);
    assert.ok([0, exit.CORRUPT].includes(checked.status), checked.stderr);
    assert.match(checked.stdout, new RegExp(`^(${kind}|note) contexts/${ctx}/.*: \\S`, 'm'));
    const shown = run(data, ['show', ctx]);
    assert.equal(shown.status, 0, shown.stderr);
    for (const i of [0, 1, 3, 4]) assert.match(shown.stdout, new RegExp(`^ {4}message ${i}$`, 'm'));
    const lost = /\[unavailable\]/.test(shown.stdout);
    assert.equal(/^ {4}message 2$/m.test(shown.stdout), !lost, 'either there or marked');
    const raw = run(data, ['show', ctx, '--raw']);
    assert.equal(raw.status, lost ? exit.UNAVAILABLE : 0);
    assert.equal(lines(raw.stdout).length, lost ? 4 : 5);
    const json = JSON.parse(run(data, ['show', ctx, '--json']).stdout);
    assert.deepEqual(json.messages.map((m) => m.id), all);
    if (lost) {
      assert.match(shown.stderr, new RegExp(`warning: .*${all[2]}`));
      assert.equal(json.messages[2].status, 'unavailable');
      assert.equal(checked.status, exit.CORRUPT);
    }
    const next = run(data, ['add', ctx, '--text', 'life goes on']);
    assert.equal(next.status, 0, next.stderr);
    assert.deepEqual(lines(run(data, ['show', ctx, '--ids']).stdout).slice(0, 5), all);
  });
}

test('check --json names each problem', (t) => {
  const { data, ctx, dir, ids: all } = filled(t);
  fs.writeFileSync(messageFile(dir, all[0]), '{"id":"someone else"}');
  const result = run(data, ['check', '--json']);
  const rows = jsonLines(result.stdout);
  const { summary } = rows.pop();
  const found = rows.filter((row) => row.problem === 'MESSAGE_CORRUPT');
  assert.equal(found.length, 1);
  assert.equal(found[0].context, ctx);
  assert.ok(found[0].path.includes(all[0]));
  assert.equal(typeof found[0].repaired, 'boolean');
  assert.equal(summary.problems, rows.filter((row) => !row.harmless).length);
  if (result.status === exit.CORRUPT) assert.equal(JSON.parse(lines(result.stderr).at(-1)).error.code, 'CORRUPT');
});

test('check --repair mends a lost index, and nothing is missing afterwards', (t) => {
  const { data, ctx, dir, ids: all } = filled(t);
  for (const name of ['index.json', 'index.log']) fs.rmSync(path.join(dir, name), { force: true });
  const repaired = run(data, ['check', '--repair']);
  assert.equal(repaired.status, 0, repaired.stdout + repaired.stderr);
  assert.deepEqual(ids(data, ctx), all);
  assert.match(ok(data, ['check']), /5 messages, .*: no problems\n$/);
});

// ---- what is not a store ----

test('a file where a directory should be', (t) => {
  const dir = tempDir(t);
  const file = path.join(dir, 'file');
  fs.writeFileSync(file, 'precious');
  for (const args of [['new'], ['ls'], ['check']]) {
    const result = run(file, args);
    assert.notEqual(result.status, 0);
    assert.match(result.stderr, /^quipu: [^\n]+\n$/);
  }
  assert.equal(fs.readFileSync(file, 'utf8'), 'precious');
  const data = path.join(dir, 'data');
  fs.mkdirSync(data);
  fs.writeFileSync(path.join(data, 'contexts'), 'precious');
  const result = run(data, ['new']);
  assert.notEqual(result.status, 0);
  assert.match(result.stderr, /^quipu: [^\n]+\n$/);
  assert.equal(fs.readFileSync(path.join(data, 'contexts'), 'utf8'), 'precious');
});

test('a file where the directory of a branch should be', (t) => {
  const { data, ctx, dir } = makeContext(t);
  ok(data, ['branch', ctx, 'fork', 'alt']);
  fs.mkdirSync(path.join(dir, 'messages'), { recursive: true });
  fs.rmSync(path.join(dir, 'messages', 'branch-alt'), { recursive: true, force: true });
  fs.writeFileSync(path.join(dir, 'messages', 'branch-alt'), 'precious');
  const result = run(data, ['add', ctx, '--text', 'x', '--branch', 'alt']);
  if (result.status === 0) assert.deepEqual(ids(data, ctx, '--branch', 'alt'), lines(result.stdout));
  else assert.match(result.stderr, /^quipu: [^\n]+\n/);
  const checked = run(data, ['check']);
  assert.match(checked.stdout, /branch-alt/);
});

test('a data directory that cannot be made', () => {
  for (const data of ['/proc/quipu', '/nonexistent/deep/down', '/dev/null/x']) {
    const result = run(data, ['new']);
    assert.ok([exit.NOTFOUND, exit.READONLY, exit.DENIED, exit.IO].includes(result.status), `${data}: ${result.status}`);
    assert.match(result.stderr, /^quipu: [^\n]+\n$/);
    assert.equal(result.stdout, '');
  }
});

test('a data directory that may be read and not written', (t) => {
  const { data, ctx, dir, ids: all } = filled(t);
  // Root passes over modes unless it gives up the right to.
  const bounded = ['--bounding-set=-dac_override,-dac_read_search', '--inh-caps=-dac_override,-dac_read_search'];
  const as = process.getuid() === 0 ? ['setpriv', ...bounded] : ['env'];
  const weak = (...args) => spawnSync(as[0], [...as.slice(1), ...args], { encoding: 'utf8', env: environment(data) });
  if (weak('true').status !== 0) return t.skip('root that cannot give up its rights');
  const modes = (directory, file) => {
    for (const name of ['.', ...fs.readdirSync(data, { recursive: true })]) {
      const full = path.join(data, name);
      fs.chmodSync(full, fs.statSync(full).isDirectory() ? directory : file);
    }
  };
  try {
    modes(0o555, 0o444);
    const shown = weak(bin, 'show', ctx, '--ids');
    assert.equal(shown.status, 0, shown.stderr);
    assert.deepEqual(lines(shown.stdout), all);
    for (const args of [['ls'], ['size'], ['check'], ['branch', ctx]]) {
      const result = weak(bin, ...args);
      assert.equal(result.status, 0, result.stderr);
    }
    for (const args of [['new'], ['add', ctx, '--text', 'x'], ['branch', ctx, 'fork', 'alt'], ['check', '--repair'], ['rm', ctx, '--yes']]) {
      const result = weak(bin, ...args);
      assert.ok([exit.DENIED, exit.READONLY].includes(result.status), `${args[0]}: ${result.status} ${result.stderr}`);
      assert.match(result.stderr, /^quipu: [^\n]+\n$/);
      assert.equal(result.stdout, '');
    }
  } finally {
    modes(0o755, 0o644);
  }
  fs.chmodSync(dir, 0o555); // the store can be written, this conversation not
  fs.chmodSync(path.join(dir, 'messages', 'branch-main'), 0o555);
  const halfway = weak(bin, 'add', ctx, '--text', 'x');
  fs.chmodSync(dir, 0o755);
  fs.chmodSync(path.join(dir, 'messages', 'branch-main'), 0o755);
  const after = ids(data, ctx);
  assert.deepEqual(after.slice(0, 5), all);
  for (const id of lines(halfway.stdout)) assert.ok(after.includes(id), 'what was printed is there');
  ok(data, ['check']);
  return undefined;
});

// ---- links ----

test('links inside a context are not followed, and nothing outside is read or written', (t) => {
  const outside = tempDir(t);
  const secret = path.join(outside, 'secret.json');
  fs.writeFileSync(secret, '{"role":"user","text":"secret"}\n');
  const before = fs.readFileSync(secret, 'utf8');

  const one = filled(t);
  const file = messageFile(one.dir, one.ids[1]);
  fs.unlinkSync(file);
  fs.symlinkSync(secret, file);
  const shown = run(one.data, ['show', one.ctx]);
  assert.doesNotMatch(shown.stdout, /secret/);
  assert.match(run(one.data, ['check']).stdout, /./);
  run(one.data, ['check', '--repair']);
  assert.equal(fs.readFileSync(secret, 'utf8'), before);

  const two = filled(t);
  fs.rmSync(path.join(two.dir, 'messages'), { recursive: true });
  fs.symlinkSync(outside, path.join(two.dir, 'messages'));
  const added = run(two.data, ['add', two.ctx, '--text', 'escape?']);
  run(two.data, ['show', two.ctx]);
  run(two.data, ['check']);
  run(two.data, ['check', '--repair']);
  run(two.data, ['add', two.ctx, '--text', 'escape again?']);
  assert.deepEqual(fs.readdirSync(outside), ['secret.json'], added.stderr);

  const three = filled(t);
  for (const name of ['metadata.json', 'index.log', 'index.json']) {
    const target = path.join(three.dir, name);
    fs.rmSync(target, { force: true });
    fs.symlinkSync(secret, target);
  }
  for (const args of [['show', three.ctx], ['add', three.ctx, '--text', 'x'], ['branch', three.ctx, 'fork', 'y'], ['check', '--repair']]) {
    const result = run(three.data, args);
    assert.equal(result.signal, null);
    assert.doesNotMatch(result.stdout, /secret"/);
  }
  assert.equal(fs.readFileSync(secret, 'utf8'), before);

  const four = filled(t);
  fs.renameSync(four.dir, path.join(outside, 'moved'));
  fs.symlinkSync(path.join(outside, 'moved'), four.dir);
  const picture = () => walk(path.join(outside, 'moved')).map((name) => fs.readFileSync(path.join(outside, 'moved', name), 'latin1'));
  const untouched = picture();
  for (const args of [['add', four.ctx, '--text', 'x'], ['show', four.ctx], ['rm', four.ctx, '--yes'], ['check', '--repair']])
    run(four.data, args);
  assert.deepEqual(picture(), untouched);
});

test('the data directory itself may be a link', (t) => {
  const { data, ctx, ids: all } = filled(t);
  const link = path.join(path.dirname(data), 'link');
  fs.symlinkSync(data, link);
  assert.deepEqual(ids(link, ctx), all);
  add(link, ctx, 'through the link');
  assert.equal(ids(data, ctx).length, 6);
});
