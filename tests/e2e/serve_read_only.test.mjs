// `quipu serve --read-only`: reads beside a process that writes, and changes nothing.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fails, makeContext, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

const readOnly = { args: ['--read-only'] };
const sentence = /^this server only reads: it was started with --read-only$/;

// Every file below a directory with its content's length and time of change.
const picture = (dir) =>
  fs
    .readdirSync(dir, { recursive: true })
    .toSorted()
    .map((name) => `${name} ${fs.statSync(path.join(dir, name)).mtimeNs} ${fs.statSync(path.join(dir, name)).size}`);

test('a server that only reads answers reads and refuses every write', async (t) => {
  const { data, ctx } = makeContext(t);
  const message = ok(data, ['add', ctx, '--text', 'a knot']).trim();
  const before = picture(data);
  const server = await serve(t, { data, ...readOnly });
  assert.deepEqual(await server.expect(200, 'GET', '/readyz'), { status: 'read-only', version: (await server.expect(200, 'GET', '/healthz')).version });
  const { messages } = await server.expect(200, 'GET', `/v1/contexts/${ctx}/messages`);
  assert.ok(messages.some(({ id }) => id === message));
  await server.expect(200, 'GET', '/v1/contexts');
  await server.expect(200, 'GET', `/v1/contexts/${ctx}/state`);
  await server.expect(200, 'GET', '/v1/search?q=knot');
  const at = `/v1/contexts/${ctx}`;
  const writes = [
    ['POST', '/v1/contexts', {}],
    ['PATCH', at, { title: 'x' }],
    ['DELETE', at],
    ['POST', `${at}/messages`, { role: 'user', text: 'x' }],
    ['POST', `${at}/actions/send_message`, { content: 'x' }],
    ['POST', `${at}/branches`, { name: 'b' }],
    ['POST', '/v1/system-prompts', { content: 'x' }],
    ['POST', '/v1/sessions', { id: 's' }],
  ];
  for (const [method, target, body] of writes) await server.refuses(503, 'READONLY', sentence, method, target, body);
  const { status } = await server.stop();
  assert.equal(status, 0);
  assert.deepEqual(picture(data), before, 'nothing was changed');
});

test('a server that only reads works beside one that writes and sees what that acknowledged', async (t) => {
  const writer = await serve(t);
  const reader = await serve(t, { data: writer.data, ...readOnly });
  const another = await serve(t, { data: writer.data, args: ['--read-only', 'yes'] });
  const { id } = await writer.expect(201, 'POST', '/v1/contexts', { title: 'first' });
  for (let i = 0; i < 20; i++) {
    const { message_id } = await writer.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: `knot ${i}` });
    await writer.expect(200, 'PATCH', `/v1/contexts/${id}`, { title: `title ${i}` });
    // Several at once: none may be shown what another one has loaded before.
    const seen = await Promise.all([reader, reader, another].map((server) => server.expect(200, 'GET', `/v1/contexts/${id}/state`)));
    for (const { messages } of seen) assert.equal(messages.at(-1).id, message_id);
    assert.equal((await reader.expect(200, 'GET', `/v1/contexts/${id}`)).title, `title ${i}`);
    assert.equal((await reader.expect(200, 'GET', '/v1/contexts')).contexts[0].title, `title ${i}`);
  }
  await writer.expect(201, 'POST', '/v1/sessions', { id: 'chat' });
  await reader.expect(200, 'GET', '/v1/sessions/chat');
  assert.equal(JSON.parse(fs.readFileSync(path.join(writer.data, 'quipu.lock'), 'utf8')).url, writer.url);
  await writer.expect(204, 'DELETE', `/v1/contexts/${id}`);
  await reader.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', `/v1/contexts/${id}`);
  await reader.stop();
  await writer.expect(201, 'POST', '/v1/contexts', {});
});

test('a server that only reads makes no data directory', (t) => {
  const data = path.join(tempDir(t), 'none');
  fails(data, ['serve', '--listen', '127.0.0.1:0', '--read-only'], 'NOTFOUND', /no quipu data/);
  assert.ok(!fs.existsSync(data));
});
