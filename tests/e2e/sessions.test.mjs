// `quipu session`: what a bot and its keeper see of sessions, on real files and with real kills.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { exit, fails, jsonLines, lines, ok, onTerminal, run, Running, tempDir, uuid } from './helper.mjs';

const message = (content, role = 'user') => `${JSON.stringify({ role, content })}\n`;

function makeSession(t, ...args) {
  const data = path.join(tempDir(t), 'data');
  assert.equal(ok(data, ['session', 'new', '--id', 'bot', ...args]), 'bot\n');
  return { data, dir: path.join(data, 'sessions') };
}

const contents = (data, id, n = 1000) =>
  jsonLines(ok(data, ['session', 'read', id, '-n', String(n), '--json'])).map((m) => m.content);

test('a session from its first message to its end', (t) => {
  const { data, dir } = makeSession(t, '--chunk-size', '2', '--agent', 'a7', '--source', 'cli');
  assert.equal(ok(data, ['session', 'append', 'bot', '--text', 'Hello']), '1\n');
  assert.equal(ok(data, ['session', 'append', 'bot', '--role', 'Assistant', '--text', '-'], { input: 'Hi\nthere\n' }), '2\n');
  assert.equal(ok(data, ['session', 'append', 'bot', '--text', 'Bye', '--json']), '{"message":3}\n');
  assert.deepEqual(fs.readdirSync(dir).sort(), ['index.jsonl', 'session-bot.1.jsonl', 'session-bot.2.jsonl']);
  assert.match(
    ok(data, ['session', 'read', 'bot']),
    /^user {2}\S+Z\n {4}Hello\nassistant {2}\S+Z\n {4}Hi\n {4}there\nuser {2}\S+Z\n {4}Bye\n$/,
  );
  assert.deepEqual(contents(data, 'bot', 2), ['Hi\nthere', 'Bye']);
  assert.equal(ok(data, ['session', 'read', 'bot', '-n', '0']), '');
  const [session] = jsonLines(ok(data, ['session', 'ls', '--json']));
  assert.deepEqual(
    { ...session, created_at: '', updated_at: '' },
    { id: 'bot', agent_id: 'a7', source: 'cli', title: 'Hello', messages: 3, chunks: 2, chunk_size: 2, created_at: '', updated_at: '' },
  );
  assert.match(ok(data, ['session']), /^bot\t\S+Z\t\S+Z\t3\t2\tHello\n$/);
  assert.match(ok(data, ['check']), /no problems/);
  fails(data, ['session', 'rm', 'bot'], 'INVALID', /cannot ask for confirmation/);
  assert.equal(ok(data, ['session', 'rm', 'bot', '--yes']), 'deleted bot\n');
  assert.deepEqual(fs.readdirSync(dir), ['index.jsonl']);
  assert.equal(ok(data, ['session', 'ls']), '');
  fails(data, ['session', 'rm', 'bot', '--yes'], 'NOTFOUND', /no session 'bot'/);
});

test('the question before a deletion', (t) => {
  const { data } = makeSession(t);
  const kept = onTerminal(data, ['session', 'rm', 'bot'], { input: 'n\n' });
  assert.equal(kept.status, exit.STOPPED);
  assert.match(kept.output, /Delete session bot with 0 messages for good\? \[y\/N\]/);
  assert.equal(onTerminal(data, ['session', 'rm', 'bot'], { input: 'y\n' }).status, 0);
  assert.equal(ok(data, ['session', 'ls']), '');
});

test('ids are made, and taken as they are', (t) => {
  const { data } = makeSession(t);
  const made = ok(data, ['session', 'new']).trim();
  assert.match(made, uuid);
  for (const id of ['a', 'a.b', 'a.1', '[x]*?', '...', 'ä b', '%41', 'x'.repeat(128)]) {
    assert.equal(ok(data, ['session', 'new', '--id', id, '--chunk-size', '1']), `${id}\n`);
    ok(data, ['session', 'append', id, '--text', `first of ${id}`]);
    ok(data, ['session', 'append', id, '--text', `second of ${id}`]);
  }
  for (const id of ['a', 'a.b', 'a.1', '[x]*?', '...', 'ä b', '%41', 'x'.repeat(128)])
    assert.deepEqual(contents(data, id), [`first of ${id}`, `second of ${id}`]);
  fails(data, ['session', 'new', '--id', 'a'], 'EXISTS', /'a' exists already/);
  for (const id of ['', 'a/b', 'a\nb', 'x'.repeat(129)])
    fails(data, ['session', 'new', '--id', id], 'INVALID', /the id of a session must/);
});

test('an unknown session reads as empty; a write to it fails', (t) => {
  const { data } = makeSession(t);
  const result = run(data, ['session', 'read', 'nobody']);
  assert.equal(result.status, 0);
  assert.equal(result.stdout, '');
  assert.match(result.stderr, /warning: there is no session 'nobody'/);
  fails(data, ['session', 'append', 'nobody', '--text', 'x'], 'NOTFOUND', /no session 'nobody'/);
});

test('lines: the first bad one ends it, or is passed over', (t) => {
  const { data } = makeSession(t);
  const input = `${message('one')}\n{"role":"robot","content":"x"}\n${message('two')}`;
  const first = fails(data, ['session', 'append', 'bot', '--jsonl', '-'], 'INVALID', /line 3: .*"role"/, { input });
  assert.equal(first.stdout, '1\n');
  const second = fails(data, ['session', 'append', 'bot', '--jsonl', '-', '-k', '--json'], 'INVALID', /1 of 3 lines/, { input });
  assert.deepEqual(jsonLines(second.stdout), [
    { line: 1, message: 2 },
    { line: 4, message: 3 },
  ]);
  assert.deepEqual(contents(data, 'bot'), ['one', 'one', 'two']);
  for (const args of [[], ['--text', 'x', '--jsonl', '-'], ['--jsonl', '-', '--role', 'user'], ['--text', 'x', '-k']])
    fails(data, ['session', 'append', 'bot', ...args], 'INVALID', /.+/);
});

test('a window never begins with a result whose call is left out', (t) => {
  const { data } = makeSession(t, '--chunk-size', '2');
  const call = { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'ls', arguments: '{"p":1}' } }] };
  const input = `${message('q')}${JSON.stringify(call)}\n${JSON.stringify({ role: 'tool', content: 'r', tool_call_id: 'c' })}\n${message('a', 'assistant')}`;
  ok(data, ['session', 'append', 'bot', '--jsonl', '-'], { input });
  assert.deepEqual(contents(data, 'bot', 2), ['a']);
  assert.deepEqual(contents(data, 'bot', 3), [null, 'r', 'a']);
  assert.match(ok(data, ['session', 'read', 'bot']), /assistant {2}\S+\n {4}calls ls \{"p":1\}\n/);
});

test('files of the old program are read, and taken over by the first write', (t) => {
  const { data, dir } = makeSession(t);
  const old = (content) =>
    `{"timestamp": "2026-02-03T10:20:30.123456", "role": "user", "content": "${content}", "tool_calls": null, "tool_call_id": null}\n`;
  fs.writeFileSync(path.join(dir, 'session-old.jsonl'), `${old('eins')}${old('zwei')}{"timest`);
  fs.appendFileSync(
    path.join(dir, 'index.jsonl'),
    '{"id": "old", "agent_id": "bot", "source": "cli", "title": null, "message_count": 2, "created_at": "2026-02-03T10:20:30.123456", "updated_at": "2026-02-03T10:20:31.5"}\n',
  );
  assert.deepEqual(contents(data, 'old'), ['eins', 'zwei']);
  assert.equal(fs.existsSync(path.join(dir, 'session-old.jsonl')), true);
  const taken = run(data, ['session', 'append', 'old', '--text', 'drei']);
  assert.equal(taken.stdout, '3\n');
  assert.match(taken.stderr, /^quipu: warning: session 'old' ends in a half-written line of 8 bytes[^\n]+\n$/);
  assert.equal(fs.existsSync(path.join(dir, 'session-old.jsonl')), false);
  const stored = lines(fs.readFileSync(path.join(dir, 'session-old.1.jsonl'), 'utf8'));
  assert.deepEqual(stored.slice(0, 2).map((line) => `${line}\n`), [old('eins'), old('zwei')]);
  assert.equal(stored.length, 3);
  assert.match(ok(data, ['check']), /no problems/);
});

test('damage is told, and torn tails are cut by a repair', (t) => {
  const { data, dir } = makeSession(t);
  ok(data, ['session', 'append', 'bot', '--text', 'one']);
  fs.appendFileSync(path.join(dir, 'session-bot.1.jsonl'), 'nonsense\n{"role":');
  const read = run(data, ['session', 'read', 'bot']);
  assert.equal(read.status, 0);
  assert.match(read.stderr, /^quipu: warning: session 'bot': skipped 1 [^\n]+\n$/);
  const found = run(data, ['check', '--repair']);
  assert.match(found.stdout, /SESSION_DAMAGED sessions\/session-bot\.1\.jsonl: .*half-written line \(repaired\)/);
  assert.match(found.stdout, /SESSION_DAMAGED sessions\/session-bot\.1\.jsonl: 1 of its lines/);
  assert.match(fs.readFileSync(path.join(dir, 'session-bot.1.jsonl'), 'utf8'), /\nnonsense\n$/);
});

test('a number that was printed stays, also by kill -9', async (t) => {
  const { data } = makeSession(t, '--chunk-size', '3');
  let total = 0;
  for (let round = 0; round < 5; round++) {
    const writer = new Running(t, data, ['session', 'append', 'bot', '--jsonl', '-']);
    for (let i = 0; i < 7; i++) {
      await writer.write(message(`${total + 1}`)); // not before the last one was acknowledged
      assert.equal(await writer.next(), String(++total));
      assert.equal(contents(data, 'bot').length, total, 'a reader beside it sees it already');
    }
    await writer.write(message('perhaps').repeat(50));
    await writer.next();
    writer.child.kill('SIGKILL');
    const end = await writer.ended;
    const acknowledged = Number(end.lines.at(-1));
    const there = contents(data, 'bot');
    assert.ok(there.length >= acknowledged && there.length <= total + 50);
    assert.match(ok(data, ['check']), /no problems/);
    total = there.length;
    assert.equal(ok(data, ['session', 'append', 'bot', '--text', `${total + 1}`]), `${++total}\n`);
  }
});
