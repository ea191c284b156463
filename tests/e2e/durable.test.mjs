// The promise: an id that was printed belongs to a message that stays. And: one writer, any readers.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, fails, ids, lines, makeContext, ok, run, Running } from './helper.mjs';

const user = (text) => `${JSON.stringify({ role: 'user', text })}\n`;

test('each id is printed as soon as its message is durable, before the next line comes', async (t) => {
  const { data, ctx } = makeContext(t);
  const writer = new Running(t, data, ['add', ctx, '--jsonl', '-']);
  const printed = [];
  for (let i = 0; i < 20; i++) {
    await writer.write(user(`line ${i}`)); // the next one is not written before this one's id is there
    printed.push(await writer.next());
    assert.deepEqual(ids(data, ctx), printed, 'a reader sees every id already printed');
  }
  const end = await writer.end();
  assert.equal(end.status, 0, end.stderr);
  assert.deepEqual(ids(data, ctx), printed);
});

test('half a line is not a message until its newline or the end comes', async (t) => {
  const { data, ctx } = makeContext(t);
  const writer = new Running(t, data, ['add', ctx, '--jsonl', '-']);
  const line = user('in two pieces');
  await writer.write(user('whole') + line.slice(0, 10));
  const first = await writer.next();
  assert.deepEqual(ids(data, ctx), [first]);
  await writer.write(line.slice(10));
  const second = await writer.next();
  assert.deepEqual(ids(data, ctx), [first, second]);
  assert.equal((await writer.end()).status, 0);
});

test('a second writer is told who writes; readers go on', async (t) => {
  const { data, ctx } = makeContext(t);
  const writer = new Running(t, data, ['add', ctx, '--jsonl', '-']);
  await writer.write(user('held'));
  const first = await writer.next();
  const busy = new RegExp(`in use by process ${writer.child.pid}\\b`);
  for (const args of [
    ['add', ctx, '--text', 'x'],
    ['new'],
    ['branch', ctx, 'fork', 'alt'],
    ['prompt', 'create', '--content', 'x'],
    ['check', '--repair'],
    ['rm', ctx, '--yes'],
  ])
    assert.equal(fails(data, args, 'BUSY', busy).stdout, '');
  assert.deepEqual(ids(data, ctx), [first]);
  assert.match(ok(data, ['show', ctx]), / {4}held\n/);
  for (const args of [['ls'], ['size'], ['size', ctx], ['branch', ctx], ['prompt'], ['show', ctx, '--raw'], ['check']])
    ok(data, args);
  await writer.write(user('still there'));
  const second = await writer.next();
  assert.equal((await writer.end()).status, 0);
  assert.deepEqual(ids(data, ctx), [first, second]);
  add(data, ctx, 'and now a second writer may');
});

test('the lock goes with its process, also by kill -9', async (t) => {
  const { data, ctx } = makeContext(t);
  const writer = new Running(t, data, ['add', ctx, '--jsonl', '-']);
  await writer.write(user('one'));
  const first = await writer.next();
  writer.child.kill('SIGKILL');
  await writer.ended;
  const second = add(data, ctx, 'two');
  assert.deepEqual(ids(data, ctx), [first, second]);
});

test('what a crash left among the temporary files does not stop the recovery', async (t) => {
  const { data, ctx } = makeContext(t);
  const writer = new Running(t, data, ['add', ctx, '--jsonl', '-']);
  await writer.write(user('one'));
  const first = await writer.next();
  writer.child.kill('SIGKILL');
  await writer.ended;
  for (const name of ['apply-0', 'new-0', 'anything']) fs.writeFileSync(path.join(data, 'tmp', name), 'half a fi');
  assert.deepEqual(ids(data, ctx), [first]);
  const second = add(data, ctx, 'two');
  assert.deepEqual(ids(data, ctx), [first, second]);
  ok(data, ['check']);
});

for (const batch of [1, 7]) {
  test(`kill -9 in the middle loses nothing that was printed (batches of ${batch})`, async (t) => {
    const { data, ctx } = makeContext(t);
    const printed = [];
    for (let round = 0; round < 6; round++) {
      const writer = new Running(t, data, ['add', ctx, '--jsonl', '-', '--batch', String(batch)]);
      const stop = 5 + 13 * round;
      const input = Array.from({ length: 5000 }, (_, i) => user(`round ${round} line ${i}`)).join('');
      writer.child.stdin.write(input);
      while (writer.lines.length < stop) await writer.next();
      writer.child.kill('SIGKILL');
      const end = await writer.ended;
      assert.equal(end.signal, 'SIGKILL');
      printed.push(...end.lines);
      const stored = ids(data, ctx); // a reader, before any writer has mended anything
      assert.ok(stored.length >= printed.length);
      const there = new Set(stored);
      assert.deepEqual(printed.filter((id) => !there.has(id)), []);
    }
    ok(data, ['check', '--repair']);
    const stored = ids(data, ctx);
    const there = new Set(stored);
    assert.deepEqual(printed.filter((id) => !there.has(id)), []);
    assert.equal(lines(ok(data, ['show', ctx, '--raw'])).length, stored.length);
    ok(data, ['check']);
  });
}

test('a reader who begins while another process writes sees a whole prefix', async (t) => {
  const { data, ctx } = makeContext(t);
  const writer = new Running(t, data, ['add', ctx, '--jsonl', '-']);
  writer.child.stdin.write(Array.from({ length: 3000 }, (_, i) => user(`line ${i}`)).join(''));
  await writer.next();
  for (let i = 0; i < 10; i++) {
    const known = writer.lines.length;
    const raw = run(data, ['show', ctx, '--raw']);
    assert.equal(raw.status, 0, raw.stderr);
    const messages = lines(raw.stdout).map((line) => JSON.parse(line));
    assert.ok(messages.length >= known);
    messages.forEach((m, n) => assert.equal(m.content[0].text, `line ${n}`));
  }
  writer.child.kill('SIGKILL');
  await writer.ended;
});
