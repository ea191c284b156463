// `quipu import` on dumps of a browser's LocalStorage.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { bin, environment, exit, fails, jsonLines, lines, ok, onTerminal, run, tempDir } from './helper.mjs';

const fixture = (name) => path.resolve('tests/fixtures/localstorage', name);
const newData = (t) => path.join(tempDir(t), 'data');
const titles = (data) =>
  jsonLines(ok(data, ['ls', '--json']))
    .map((context) => context.title)
    .sort();

// What a browser's console gives: copy(JSON.stringify(localStorage)).
const dump = (keys) => JSON.stringify(Object.fromEntries(Object.entries(keys).map(([key, value]) => [key, JSON.stringify(value)])));

test('a dump becomes conversations, prompts and blobs; a second time nothing happens', (t) => {
  const data = newData(t);
  const text = ok(data, ['import', fixture('v2.json')]);
  assert.match(text, /^imported: prompt p1\n/);
  assert.match(text, /\nimported: chat c-1 as ed02ca90-7377-8f9f-876d-367c0181da95, 5 messages, 1\.7 kB\n/);
  assert.match(text, /\nimported: chat 0197c0de-1111-7222-8333-444455556666, 2 messages, /);
  assert.match(text, /\nimported 3 chats with 7 messages and 2 prompts; 0 already there, 0 left out\n/);
  assert.match(text, /\n2 notes; --verbose shows them\n$/);
  assert.deepEqual(titles(data), ['Files', 'New Chat', 'Terse talk']);

  const shown = JSON.parse(ok(data, ['show', 'ed02ca90', '--json']));
  assert.equal(shown.pinned, true);
  assert.equal(shown.config.mode, 'file_operations');
  assert.equal(shown.localstorage.id, 'c-1');
  assert.equal(shown.messages[1].tool_calls[0].tool_name, 'read_file');
  assert.equal(shown.messages[2].tool_result.result, 'int x;');
  const image = shown.messages[4].content[1];
  const blob = path.join(data, image.url.replace('quipu:', ''));
  assert.equal(fs.readFileSync(blob).subarray(1, 4).toString(), 'PNG');
  assert.equal(fs.statSync(blob).size, image.size);

  const again = ok(data, ['import', fixture('v2.json')]);
  assert.match(again, /\nimported 0 chats with 0 messages and 0 prompts; 3 already there, 0 left out\n/);
  assert.match(ok(data, ['check']), /no problems/);
});

test('--dry-run tells the same and makes not even a data directory', (t) => {
  const data = newData(t);
  const text = ok(data, ['import', fixture('v3.json'), '--dry-run']);
  assert.match(text, /^would import: prompt builder\nwould import: chat chat-7 as [-0-9a-f]{36}, 4 messages, /);
  assert.match(text, /\nwould import 1 chat with 4 messages and 1 prompt; /);
  assert.equal(fs.existsSync(data), false);
  ok(data, ['import', fixture('v3.json')]);
  assert.match(ok(data, ['import', fixture('v3.json'), '-n']), /1 already there/);
});

test('what cannot be taken is told, the rest goes on, and the exit code says so', (t) => {
  const data = newData(t);
  const result = fails(data, ['import', fixture('mixed.json')], 'INVALID', /^quipu: 12 items were left out\n$/);
  assert.match(result.stdout, /\nleft out: chat both, message 2: "role" is missing\n/);
  assert.match(result.stdout, /\nleft out: key copilot_messages_v2_lost: 1 message of a chat that does not exist\n/);
  assert.deepEqual(titles(data), ['Early messages', 'New title', 'Only old']);
  const verbose = run(data, ['import', fixture('mixed.json'), '--verbose']);
  assert.match(verbose.stdout, /\n {2}note: message 6: an image cannot be read: its base64 is broken; /);
});

test('--json: a line for each item, and a summary', (t) => {
  const data = newData(t);
  const result = run(data, ['import', fixture('mixed.json'), '--json']);
  const rows = jsonLines(result.stdout);
  const { summary } = rows.pop();
  assert.equal(result.status, exit.INVALID);
  assert.equal(JSON.parse(lines(result.stderr).at(-1)).error.code, 'INVALID');
  assert.deepEqual(summary, { dry_run: false, chats: 3, already: 0, prompts: 1, messages: 5, left_out: 12, notes: 2 });
  const chat = rows.find((row) => row.item === 'chat both');
  assert.equal(chat.outcome, 'done');
  assert.equal(chat.file, fixture('mixed.json'));
  assert.match(chat.context, /^[0-9a-f]{8}-/);
  assert.equal(chat.messages, 3);
  assert.equal(chat.notes.length, 2);
  assert.equal(chat.error, null);
  const left = rows.find((row) => row.item === 'chat both, message 2');
  assert.deepEqual(left.error, { code: 'INVALID', message: '"role" is missing' });
  assert.equal(left.context, null);
});

test('a later dump adds what is new; a conversation that was changed is left alone', (t) => {
  const data = newData(t);
  const file = path.join(tempDir(t), 'dump.json');
  const chat = { id: 'c', title: 'Talk', createdAt: 1761980000000, config: {} };
  const messages = [{ id: '1', role: 'user', content: 'one' }];
  const write = () => fs.writeFileSync(file, dump({ copilot_chats_v2: [chat], copilot_messages_v2_c: messages }));
  write();
  ok(data, ['import', file]);
  messages.push({ id: '2', role: 'assistant', type: 'text', content: 'two' });
  chat.title = 'Talk of knots';
  write();
  assert.match(ok(data, ['import', file, '-v']), /, 1 message, .*\n {2}note: 1 message is added to the 1 of an earlier import\n/);
  assert.deepEqual(titles(data), ['Talk of knots']);
  const [{ id }] = jsonLines(ok(data, ['ls', '--json']));
  ok(data, ['add', id, '--text', 'mine']);
  messages.push({ id: '3', role: 'user', content: 'three' });
  write();
  fails(data, ['import', file], 'EXISTS', /1 item was left out/);
  assert.equal(lines(ok(data, ['show', id, '--ids'])).length, 3);
});

test('standard input, pipes, links and several files', (t) => {
  const data = newData(t);
  const dir = tempDir(t);
  const spool = tempDir(t);
  ok(data, ['import', '-'], { input: fs.readFileSync(fixture('v1.json')), env: { TMPDIR: spool } });
  const command = `"$0" import <(cat "$1")`;
  const piped = spawnSync('bash', ['-c', command, bin, fixture('v2.json')], { encoding: 'utf8', env: environment(data, { TMPDIR: spool }) });
  assert.equal(piped.status, 0, piped.stderr);
  fs.symlinkSync(fixture('v3.json'), path.join(dir, 'link.json'));
  const result = fails(data, ['import', path.join(dir, 'link.json'), path.join(dir, 'none'), fixture('backup.json')], 'NOTFOUND', /none/);
  assert.match(result.stderr, /\nquipu: 1 of 3 files could not be read\n$/);
  assert.match(result.stdout, /imported 2 chats with 5 messages and 2 prompts/);
  assert.equal(titles(data).length, 7);
  assert.deepEqual(fs.readdirSync(spool), []);
});

test('files that are something else', (t) => {
  const data = newData(t);
  const dir = tempDir(t);
  const write = (name, text) => {
    fs.writeFileSync(path.join(dir, name), text);
    return path.join(dir, name);
  };
  fails(data, ['import', write('a', '')], 'INVALID', /has no format that quipu can import/);
  fails(data, ['import', write('b', '{"title":"x"}')], 'INVALID', /has no format that quipu can import/);
  fails(data, ['import', write('c', '{"copilot_chats_v2":')], 'INVALID', /^quipu: c: not valid JSON: unexpected end of input/);
  fails(data, ['import', write('d', '{"id":"x","message_pool":{}}')], 'INVALID', /'quipu migrate'/);
  fails(data, ['import', dir], 'INVALID', /is a directory/);
  fails(data, ['import'], 'INVALID', /FILE/);
  // The word that tells the format lies across the border of what is read at once.
  const late = write('e', `{"x":"${'x'.repeat(65530)}","copilot_chats_v3":[]}`);
  assert.match(ok(data, ['import', late]), /imported 0 chats/);
});

test('stored text cannot drive a terminal', (t) => {
  const file = path.join(tempDir(t), 'dump.json');
  fs.writeFileSync(file, dump({ copilot_chats_v2: [{ id: 'a\u001b[31m', title: 't', createdAt: 5 }, { id: '\u0007' }] }));
  const { output } = onTerminal(newData(t), ['import', file]);
  assert.match(output, /chat a\\x1b\[31m as/);
  assert.doesNotMatch(output, /[\u001b\u0007]/);
});
