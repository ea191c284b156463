// Lists and searches by the catalogue: with and without catalogue.db, after damage, beside a writer.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, fails, jsonLines, lines, makeContext, ok, onTerminal } from './helper.mjs';

const file = (data) => path.join(data, 'catalogue.db');
const contextsOf = (data, ...words) => lines(ok(data, ['search', ...words])).map((l) => l.split('\t')[0]);

test('search finds messages by their words, in three forms', (t) => {
  const { data, ctx } = makeContext(t, '--title', 'Fish');
  const message = add(data, ctx, 'A smoked trout\nfor dinner');
  add(data, ctx, 'Salmon is fine too');
  const [hit, ...rest] = jsonLines(ok(data, ['search', 'TROUT', '--json']));
  assert.deepEqual(rest, []);
  assert.deepEqual(Object.keys(hit), ['context', 'title', 'message', 'role', 'created_at', 'snippet', 'rank']);
  assert.deepEqual([hit.context, hit.title, hit.role], [ctx, 'Fish', 'user']);
  assert.equal(hit.snippet.trim(), 'A smoked \u0002trout\u0003\nfor dinner');
  if (message) assert.ok(String(message).includes(hit.message));
  assert.match(ok(data, ['search', 'trout']), /^\S+\t\S+\tuser\t\S+Z\tA smoked trout for dinner\n$/);
  assert.match(onTerminal(data, ['search', 'trout']).output, /^\S+  \d{4}-\S+ \S+  user       Fish\r?\n  A smoked \x1b\[1mtrout\x1b\[0m for dinner\r?\n$/);
  assert.deepEqual(contextsOf(data, 'smoked', 'trout'), [ctx]);
  assert.deepEqual(contextsOf(data, '"trout smoked"'), []);
  assert.deepEqual(contextsOf(data, 'sal*'), [ctx]);
  assert.deepEqual(contextsOf(data, '--', 'trout', '-dinner'), []);
  assert.equal(lines(ok(data, ['search', 'smoked* trout', '-n1'])).length, 1);
  assert.ok(!fs.existsSync(file(data)), 'a search writes nothing');
});

test('search says what is wrong', (t) => {
  const { data } = makeContext(t);
  fails(data, ['search', ''], 'INVALID', /the search has no words/);
  fails(data, ['search', '--', '-x'], 'INVALID', /the search has no words/);
  fails(data, ['search'], 'INVALID', /./);
  fails(data, ['search', 'x', '--limit', '0'], 'INVALID', /--limit must be/);
  fails(data, ['search', 'x'.repeat(5000)], 'TOOBIG', /at most 4096 bytes/);
  fails(`${data}-none`, ['search', 'x'], 'NOTFOUND', /./);
  fails(data, ['reindex', 'x'], 'INVALID', /unexpected argument/);
});

test('reindex makes the catalogue, and every command keeps it right', (t) => {
  const { data, ctx } = makeContext(t, '--title', 'One');
  add(data, ctx, 'first words');
  assert.equal(ok(data, ['reindex', '--json']), '{"contexts":1}\n');
  assert.equal(fs.statSync(file(data)).mode & 0o777, 0o600);
  add(data, ctx, 'second words');
  const other = ok(data, ['new', '--title', 'Two']).trim();
  add(data, other, 'third words');
  assert.deepEqual(lines(ok(data, ['ls'])).map((l) => l.split('\t')[0]), [other, ctx]);
  assert.equal(lines(ok(data, ['search', 'words'])).length, 3);
  ok(data, ['rm', ctx, '--yes']);
  assert.deepEqual(contextsOf(data, 'words'), [other]);
  assert.equal(lines(ok(data, ['ls'])).length, 1);
  assert.match(ok(data, ['check']), /no problems/);
});

test('a damaged, old or missing catalogue is no trouble', (t) => {
  const { data, ctx } = makeContext(t);
  add(data, ctx, 'first words');
  ok(data, ['reindex']);
  const old = fs.readFileSync(file(data));
  const saved = ['', '-wal', '-shm'].filter((end) => fs.existsSync(file(data) + end)).map((end) => [end, fs.readFileSync(file(data) + end)]);
  add(data, ctx, 'second words');
  const expected = ok(data, ['ls']);
  const remove = () => ['', '-wal', '-shm'].forEach((end) => fs.rmSync(file(data) + end, { force: true }));
  const states = [
    () => remove(),
    () => { remove(); for (const [end, bytes] of saved) fs.writeFileSync(file(data) + end, bytes); },
    () => { remove(); fs.writeFileSync(file(data), 'this is no database at all, just text '.repeat(100)); },
    () => { remove(); fs.writeFileSync(file(data), ''); },
    () => { remove(); fs.writeFileSync(file(data), old.subarray(0, 4096)); },
    () => { remove(); fs.mkdirSync(file(data)); },
    () => { fs.rmdirSync(file(data)); fs.symlinkSync('/etc/passwd', file(data)); },
  ];
  for (const [i, make] of states.entries()) {
    make();
    assert.equal(ok(data, ['ls']), expected, `state ${i}`);
    assert.equal(lines(ok(data, ['search', 'words'])).length, 2, `state ${i}`);
  }
  assert.ok(fs.readFileSync('/etc/passwd', 'utf8').includes(':'));
});
