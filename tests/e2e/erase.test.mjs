// What `?erase=true` and `rm --erase` promise: when they have answered, no file of the data directory
// holds the text any more, while the server runs, after it has stopped, and after it was killed. What
// others have is untouched.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { add, filesBelow, ids, jsonLines, makeContext, ok, run, tempDir } from './helper.mjs';
import { serve } from './server.mjs';
import { Chat, makeWorkspace, restart, serveTurns } from './turns.mjs';

// As the index of words has it too, where a word may lack its first letters.
const word = 'Zqxmarker9f3a';
const trace = 'xmarker9f3a';

// The files that have the word in them, packs unpacked.
function traces(data) {
  const found = [];
  for (let [file, bytes] of filesBelow(data)) {
    if (file.endsWith('.zst')) {
      const dict = path.join(path.dirname(file), 'messages.dict');
      const more = path.basename(file) === 'messages.jsonl.zst' && fs.existsSync(dict) ? ['-D', dict] : [];
      const unpacked = spawnSync('zstd', ['-dcq', ...more, file], { maxBuffer: 1 << 28 });
      if (unpacked.status === 0) bytes = unpacked.stdout;
    }
    if (file.includes(trace) || bytes.toString('latin1').toLowerCase().includes(trace)) found.push(path.relative(data, file));
  }
  return found;
}

const nothingIn = (data, when) => assert.deepEqual(traces(data), [], `${when}: files with text that was erased`);

// A context with the word wherever text can be, and another one without it.
async function fill(server, work) {
  fs.writeFileSync(work.file('notes.txt'), `a tool reads ${word}\n`);
  const chat = await Chat.create(server, { title: `title ${word}` });
  const other = await Chat.create(server, { title: 'kept' });
  await other.send('a message that stays');
  await chat.send(`question ${word}`);
  await server.expect(200, 'PATCH', chat.at, { title: `second ${word}` });
  await server.expect(201, 'POST', `${chat.at}/branches`, { name: 'side' });
  for (let i = 0; i < 20; i++) await server.expect(201, 'POST', `${chat.at}/messages`, { role: 'user', text: `text ${i} ${word}${i}` });
  const found = await server.expect(200, 'GET', `/v1/search?q=${word}*`);
  assert.ok(found.hits.length > 0, 'the index of words has it');
  await server.expect(200, 'GET', '/v1/contexts');
  return { chat, other };
}

// The model has a file read and tells what it read.
const steps = [
  { match: 'question', after_tool: 'read_file', times: 9, play: [{ text: `I have read ${word}` }] },
  { match: 'question', times: 9, play: [{ thinking: `hm ${word}` }, { text: `I read ${word}` }, { call: 'read_file', arguments: { path: 'notes.txt' }, id: 'call_r' }] },
  { match: 'stays', times: 9, play: [{ text: 'So be it.' }] },
];

test('after DELETE with erase=true no file has the text: live, stopped, and killed', async (t) => {
  const work = makeWorkspace(t);
  let server = await serveTurns(t, { work: work.work, steps });
  let { chat, other } = await fill(server, work);
  const kept = await other.state();
  assert.ok(traces(server.data).length > 3, 'many files have it before');
  await server.expect(204, 'DELETE', `${chat.at}?erase=true`);
  nothingIn(server.data, 'live');
  assert.deepEqual((await other.state()).messages, kept.messages);
  await server.refuses(404, 'NOTFOUND', /./, 'DELETE', `${chat.at}?erase=true`);
  await server.refuses(400, 'INVALID', /'erase' must be 'true' or 'false'/, 'DELETE', `${other.at}?erase=yes`);

  ({ chat } = await fill(server, work));
  await server.expect(204, 'DELETE', `${chat.at}?erase=true`);
  server = await restart(t, server, 'SIGTERM');
  nothingIn(server.data, 'after a clean stop');

  ({ chat } = await fill(server, work));
  await server.expect(204, 'DELETE', `${chat.at}?erase=true`);
  await server.stop('SIGKILL');
  nothingIn(server.data, 'after kill -9');
  server = await serve(t, { data: server.data });
  nothingIn(server.data, 'after kill -9 and a start');
  const found = await server.expect(200, 'GET', `/v1/search?q=stays`);
  assert.equal(new Set(found.hits.map((hit) => hit.context_id)).size, 3, 'others are found as before');
  await server.stop();
  assert.match(ok(server.data, ['check']), /no problems/);
});

test('a session that is erased leaves nothing, and others stay', async (t) => {
  const server = await serve(t);
  for (const id of ['kept', `bot-${word}`]) {
    await server.expect(201, 'POST', '/v1/sessions', { id, title: id });
    for (let i = 0; i < 5; i++) await server.expect(201, 'POST', `/v1/sessions/${id}/messages`, { role: 'user', content: `${id} says ${i}` });
  }
  assert.ok(traces(server.data).length > 1);
  await server.expect(204, 'DELETE', `/v1/sessions/bot-${word}?erase=true`);
  nothingIn(server.data, 'live');
  await server.refuses(404, 'NOTFOUND', /./, 'DELETE', `/v1/sessions/bot-${word}?erase=true`);
  await server.stop('SIGKILL');
  nothingIn(server.data, 'after kill -9');
  ok(server.data, ['session', 'append', 'kept', '--text', 'once more']);
  assert.equal(jsonLines(ok(server.data, ['session', 'read', 'kept', '--json'])).length, 6);
  ok(server.data, ['session', 'new', '--id', `cli-${word}`]);
  ok(server.data, ['session', 'append', `cli-${word}`, '--text', word]);
  assert.equal(ok(server.data, ['session', 'rm', `cli-${word}`, '--yes', '--erase']), `erased cli-${word}\n`);
  nothingIn(server.data, 'after the command');
});

test('quipu rm --erase: archived, compressed, deleted and indexed text, while a backup keeps its own', (t) => {
  const { data, ctx } = makeContext(t, '--title', `about ${word}`);
  const other = ok(data, ['new', '--title', 'kept']).trim();
  const kept = add(data, other, 'this one stays');
  for (let i = 0; i < 12; i++) add(data, ctx, `${word}${i} and ${word}`);
  const old = { role: 'user', text: `${word} long ago`, created_at: '2020-01-02T03:04:05.000Z' };
  ok(data, ['add', ctx, '--jsonl', '-'], { input: `${JSON.stringify(old)}\n` });
  ok(data, ['archive', ctx, '--older-than', '1y']);
  ok(data, ['compress', ctx]);
  for (let i = 0; i < 12; i++) add(data, ctx, `later ${word}${i}`);
  ok(data, ['reindex']);
  assert.match(ok(data, ['search', word]), new RegExp(ctx));
  assert.ok(traces(data).some((name) => name.startsWith('catalogue.db')));
  const backups = path.join(tempDir(t), 'backups');
  ok(data, ['backup', backups]);
  assert.deepEqual(JSON.parse(ok(data, ['rm', ctx, '--yes', '--erase', '--json'])), { id: ctx, erased: true });
  nothingIn(data, 'after the command');
  assert.deepEqual(ids(data, other), [kept]);
  assert.match(ok(data, ['search', 'stays']), new RegExp(other));
  assert.match(ok(data, ['check']), /no problems/);
  const restored = path.join(tempDir(t), 'restored');
  ok(data, ['restore', backups, restored]);
  assert.equal(ids(restored, ctx).length, 25, 'a backup is not touched, though it shares files');
});

test('a plain deletion leaves nothing in the journal after a clean stop', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: word });
  await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: word });
  await server.expect(204, 'DELETE', `/v1/contexts/${id}`);
  await server.stop();
  assert.deepEqual(traces(path.join(server.data, 'journal')), []);
});

test('an erasing that a crash cut short is finished by the next start', (t) => {
  const { data, ctx } = makeContext(t, '--title', word);
  add(data, ctx, word);
  ok(data, ['reindex']);
  ok(data, ['rm', ctx, '--yes']);
  assert.notDeepEqual(traces(data), [], 'the catalogue still has it, else this shows nothing');
  fs.writeFileSync(path.join(data, 'journal', `${ctx}.erase`), '');
  ok(data, ['new']);
  nothingIn(data, 'after the next command that writes');
  assert.ok(!fs.existsSync(path.join(data, 'journal', `${ctx}.erase`)));
  assert.equal(run(data, ['rm', ctx, '--yes', '--erase']).status, 3, 'and nothing is left to do');
});
