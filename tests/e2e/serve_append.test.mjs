// Appending messages as they are: one or a list, in the forms of other APIs; and Idempotency-Key on
// every change.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';
import { stored } from './turns.mjs';

const openai = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'What is this?' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } }] },
  { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"deep":true}' } }, { id: 'call_2', type: 'function', function: { name: 'guess', arguments: 'not json' } }] },
  { role: 'tool', tool_call_id: 'call_1', content: 'a knot' },
  { role: 'assistant', content: 'A knot.' },
];
const anthropic = [
  { role: 'assistant', content: [{ type: 'thinking', thinking: 'hm', signature: 's' }, { type: 'text', text: 'I look.' }, { type: 'tool_use', id: 'toolu_1', name: 'look', input: { deep: true } }, { type: 'tool_use', id: 'toolu_2', name: 'look', input: {} }] },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'a knot' }, { type: 'tool_result', tool_use_id: 'toolu_2', content: [{ type: 'text', text: 'no' }], is_error: true }, { type: 'text', text: 'And?' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }] },
];

// What matters of messages.
const gist = (messages) =>
  messages.map((one) => [one.role, one.text, ...one.images.map((image) => image.url), ...one.tool_calls.map((call) => [call.id, call.tool_name, call.arguments, call.approval_status]), ...(one.tool_result ? [[one.tool_result.request_id, one.tool_result.result, one.tool_result.is_error]] : [])]);

const wanted = [
  ['system', 'Be brief.'],
  ['user', 'What is this?', 'data:image/png;base64,AAAA'],
  ['assistant', '', ['call_1', 'look', { deep: true }, 'Approved'], ['call_2', 'guess', 'not json', 'Approved']],
  ['tool', '', ['call_1', 'a knot', false]],
  ['assistant', 'A knot.'],
  ['assistant', 'I look.', ['toolu_1', 'look', { deep: true }, 'Approved'], ['toolu_2', 'look', {}, 'Approved']],
  ['tool', '', ['toolu_1', 'a knot', false]],
  ['tool', '', ['toolu_2', [{ type: 'text', text: 'no' }], true]],
  ['user', 'And?', 'data:image/png;base64,AAAA'],
];

test('messages of other APIs are stored alike over HTTP and by quipu add', async (t) => {
  const data = path.join(tempDir(t), 'data');
  const context = ok(data, ['new']).trim();
  ok(data, ['add', context, '--jsonl', '-'], { input: [...openai, ...anthropic].map((one) => JSON.stringify(one)).join('\n') });
  const server = await serve(t, { data });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const answer = await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, [...openai, ...anthropic]);
  assert.equal(answer.message_ids.length, wanted.length);
  assert.equal(answer.message_ids.at(-1), answer.message_id);
  assert.equal(answer.total, wanted.length);
  assert.deepEqual(gist(answer.messages), wanted);
  assert.deepEqual(answer.pending_tool_calls, []);
  const added = await server.expect(200, 'GET', `/v1/contexts/${context}/messages`);
  assert.deepEqual(gist(added.messages), wanted);
});

test('a list is one commit: all of it or nothing', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const at = `/v1/contexts/${id}/messages`;
  const say = (text) => ({ role: 'user', text });
  const commits = async () => Number(/^quipu_commits_total (\d+)/m.exec((await server.ask('GET', '/metrics')).text)[1]);
  const before = await commits();
  await server.expect(201, 'POST', at, [say('a'), say('b'), say('c')]);
  assert.equal(await commits(), before + 1);
  await server.refuses(400, 'INVALID', /message 2 of the list/, 'POST', at, [say('d'), { role: 'nobody', text: 'e' }]);
  await server.refuses(400, 'INVALID', /message 1 of the list.*query/, 'POST', at, [{ ...say('d'), branch: 'main' }]);
  await server.refuses(400, 'INVALID', /at least one/, 'POST', at, []);
  await server.refuses(400, 'INVALID', /at least one/, 'POST', at, 7);
  await server.refuses(413, 'TOOBIG', /256/, 'POST', at, Array.from({ length: 257 }, () => say('x')));
  assert.equal((await server.expect(200, 'GET', at)).total, 3);
});

test('Idempotency-Key on every change, also over a kill and a restart', async (t) => {
  const data = path.join(tempDir(t), 'data');
  let server = await serve(t, { data });
  const key = (name) => ({ 'idempotency-key': name });
  const ask = (method, target, body, name) => server.ask(method, target, body, key(name));
  // Twice the same: the same response, done once.
  const twice = async (status, method, target, body, name) => {
    const first = await ask(method, target, body, name);
    const second = await ask(method, target, body, name);
    assert.equal(first.status, status, first.text);
    assert.equal(second.status, status, second.text);
    assert.equal(first.headers.get('idempotency-replayed'), null);
    assert.equal(second.headers.get('idempotency-replayed'), 'true');
    assert.equal(second.text, first.text);
    for (const header of ['location', 'etag']) assert.equal(second.headers.get(header), first.headers.get(header));
    return first;
  };
  const { id } = (await twice(201, 'POST', '/v1/contexts', { title: 'once' }, 'create')).body;
  const at = `/v1/contexts/${id}`;
  assert.equal((await server.expect(200, 'GET', '/v1/contexts')).contexts.length, 1);
  const message = { role: 'user', text: 'an unusual sentence' };
  await twice(201, 'POST', `${at}/messages`, message, 'message');
  await twice(201, 'POST', `${at}/messages`, [message, message], 'list');
  assert.equal((await server.expect(200, 'GET', `${at}/messages`)).total, 3);
  await twice(200, 'PATCH', at, { title: 'changed' }, 'patch');
  await twice(201, 'POST', `${at}/branches`, { name: 'side' }, 'fork');
  await twice(204, 'DELETE', `${at}/branches/side`, undefined, 'branch');
  await twice(201, 'POST', '/v1/system-prompts', { id: 'p', content: 'x' }, 'prompt');
  await twice(204, 'DELETE', '/v1/system-prompts/p', undefined, 'no prompt');

  // Another request with the key, and keys that are none.
  for (const [method, target, body] of [['POST', `${at}/messages`, { ...message, text: 'other' }], ['PATCH', at, message], ['POST', `${at}/messages?last=2`, message], ['DELETE', at, undefined]]) {
    const refused = await ask(method, target, body, 'message');
    assert.equal(refused.status, 409, refused.text);
    assert.match(refused.body.error.message, /used for another request/);
  }
  assert.equal((await ask('POST', `${at}/messages`, message, 'x'.repeat(256))).status, 400);

  // What failed may be repeated.
  assert.equal((await ask('POST', `${at}/messages`, { role: 'nobody', text: 'x' }, 'failed')).status, 400);
  assert.equal((await ask('POST', `${at}/messages`, message, 'failed')).status, 201);

  // Many at once: one is carried out, the others get its response or are told to wait.
  const many = await Promise.all(Array.from({ length: 8 }, () => ask('POST', `${at}/messages`, message, 'many')));
  assert.ok(many.every(({ status }) => status === 201 || status === 409));
  assert.equal(new Set(many.filter(({ status }) => status === 201).map(({ body }) => body.message_id)).size, 1);
  const { total } = await server.expect(200, 'GET', `${at}/messages`);
  assert.equal(total, 5);

  await server.stop('SIGKILL');
  server = await serve(t, { data });
  const again = await ask('POST', `${at}/messages`, message, 'message');
  assert.equal(again.status, 201);
  assert.equal(again.headers.get('idempotency-replayed'), 'true');
  assert.equal((await server.expect(200, 'GET', `${at}/messages`)).total, total);

  // Erased text is in no file, and a torn end of the list of keys harms nothing.
  await server.expect(204, 'DELETE', `${at}?erase=true`, undefined, key('erase'));
  await server.stop();
  assert.ok(fs.existsSync(path.join(data, 'requests.log')));
  assert.ok(!stored(data, 'unusual sentence'));
  fs.appendFileSync(path.join(data, 'requests.log'), 'torn');
  server = await serve(t, { data });
  assert.equal((await ask('DELETE', `${at}?erase=true`, undefined, 'erase')).status, 204);
  assert.equal((await ask('DELETE', `${at}?erase=true`, undefined, 'other')).status, 404);
});
