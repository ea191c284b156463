// One process writes to a data directory, whatever happens to its lock file and to its name.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fails, ids, ok } from './helper.mjs';
import { serve } from './server.mjs';
import { until } from './turns.mjs';

const lockOf = (server) => path.join(server.data, 'quipu.lock');

// A server with a context in which it has acknowledged a few messages.
async function writer(t) {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: 'one writer' });
  const acknowledged = [];
  const say = async (text) => server.ask('POST', `/v1/contexts/${id}/messages`, { role: 'user', text });
  for (let i = 0; i < 5; i++) {
    const answer = await say(`before ${i}`);
    assert.equal(answer.status, 201);
    acknowledged.push(answer.body.message_id);
  }
  return { server, id, acknowledged, say };
}

// The server takes no more writes, says why, and goes on reading.
async function expectStopped({ server, id, acknowledged, say }, sentence) {
  const refused = await say('too late');
  assert.equal(refused.status, 500, JSON.stringify(refused.body));
  assert.match(refused.body.error.message, sentence);
  const ready = await server.expect(503, 'GET', '/readyz');
  assert.match(ready.error.message, sentence);
  await server.expect(200, 'GET', '/healthz');
  const { messages } = await server.expect(200, 'GET', `/v1/contexts/${id}/messages`);
  assert.deepEqual(messages.map((message) => message.id), acknowledged);
}

const swaps = {
  deleted: (file) => fs.rmSync(file),
  replaced: (file) => {
    fs.writeFileSync(`${file}.new`, '{"format":"quipu-store","version":1,"pid":1}\n');
    fs.renameSync(`${file}.new`, file);
  },
};

for (const [how, swap] of Object.entries(swaps))
  test(`a lock file that is ${how} lets no second writer in, and the first one notices`, async (t) => {
    const first = await writer(t);
    const { server, id } = first;
    swap(lockOf(server));
    for (const command of [['new'], ['add', id, '--text', 'second'], ['rm', id, '--yes'], ['gc'], ['serve', '--listen', '127.0.0.1:0']])
      fails(server.data, command, 'BUSY', /is in use by|holds/);
    await expectStopped(first, /lock file 'quipu\.lock' was deleted or replaced while in use; stop every quipu process/);
    await server.stop();
    assert.deepEqual(ids(server.data, id), first.acknowledged);
    const second = await serve(t, { data: server.data });
    await second.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'after' });
    ok(server.data, ['check']);
  });

test('a data directory that is replaced is noticed, and taken again when it is back', async (t) => {
  const first = await writer(t);
  const { server, id, acknowledged, say } = first;
  fs.renameSync(server.data, `${server.data}.old`);
  await expectStopped(first, /was moved, removed or replaced while in use; move it back, or start again/);
  ok(server.data, ['new', '--title', 'another store']);
  await expectStopped(first, /was moved, removed or replaced while in use/);
  fails(`${server.data}.old`, ['new'], 'BUSY', /holds/);
  fs.rmSync(server.data, { recursive: true });
  fs.renameSync(`${server.data}.old`, server.data);
  await until(async () => (await server.ask('GET', '/readyz')).status === 200);
  const answer = await say('back again');
  assert.equal(answer.status, 201);
  assert.deepEqual(ids(server.data, id), [...acknowledged, answer.body.message_id]);
  ok(server.data, ['check']);
});
