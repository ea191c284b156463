// The contracts of other protocols in api/ have exactly the routes of the server, with their scopes
// and query parameters; and no owner sees anything of another one through them.

import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { contracts, openai, serveFaces, thrown, told } from './face.mjs';
import { ok } from './helper.mjs';
import { routes } from './route_table.mjs';

test('routes, scopes and query parameters are those of the route table', () => {
  const rows = routes.filter((row) => /^\/(openai|anthropic|ai)\//.test(row.path))
    .map(({ method, path: route, scope, flags, query }) => `${method} ${route} ${scope.toLowerCase()} ${/QP__ROUTE_BODY/.test(flags) ? 'body' : '-'} ${query ?? ''}`.trim());
  const told = Object.values(contracts).flatMap((doc) =>
    Object.entries(doc.paths).flatMap(([route, item]) =>
      Object.entries(item).map(([method, op]) => `${method.toUpperCase()} ${route} ${op['x-scope']} ${op.requestBody ? 'body' : '-'} ${(op.parameters ?? []).map((one) => one.name).join(' ')}`.trim())));
  assert.ok(rows.length > 18);
  assert.deepEqual(rows.sort(), told.sort());
});

test('an owner sees nothing of another one', async (t) => {
  const first = await serveFaces(t);
  const { data } = first;
  await first.stop();
  const keys = Object.fromEntries(['alice', 'bob'].map((owner) => [owner, ok(data, ['key', 'create', '--owner', owner]).trim().split('\n').at(-1).split(/\s/).at(-1)]));
  const server = await serveFaces(t, { data, dir: path.dirname(data) });
  const [alice, bob] = ['alice', 'bob'].map((owner) => openai(server, { apiKey: keys[owner] }));
  assert.equal((await thrown(openai(server).models.list())).status, 401);
  const { data: chat, response } = await alice.chat.completions.create({ model: 'demo', messages: [{ role: 'user', content: 'hello' }] }, { headers: { 'X-Quipu-Context': 'same name' } }).withResponse();
  assert.ok(chat.id);
  const context = response.headers.get('x-quipu-context');
  const answer = await alice.responses.create({ model: 'demo', input: 'hello' });
  const conversation = await alice.conversations.create({ items: [{ type: 'message', role: 'user', content: 'mine' }] });
  const item = (await alice.conversations.items.list(conversation.id)).data[0];
  const asked = [
    () => bob.chat.completions.create({ model: 'demo', messages: [{ role: 'user', content: 'x' }] }, { headers: { 'X-Quipu-Context': context } }),
    () => bob.responses.retrieve(answer.id), () => bob.responses.delete(answer.id), () => bob.responses.cancel(answer.id), () => bob.responses.inputItems.list(answer.id),
    () => bob.conversations.retrieve(conversation.id), () => bob.conversations.update(conversation.id, { metadata: {} }), () => bob.conversations.delete(conversation.id),
    () => bob.conversations.items.list(conversation.id), () => bob.conversations.items.create(conversation.id, { items: [] }),
    () => bob.conversations.items.retrieve(item.id, { conversation_id: conversation.id }), () => bob.conversations.items.delete(item.id, { conversation_id: conversation.id }),
    () => bob.responses.create({ model: 'demo', input: 'x', conversation: conversation.id }),
  ];
  for (const one of asked) assert.equal((await thrown(one())).status, 404, String(one));
  // Every route of the contracts that names something: what is not Bob's does not exist for him.
  const body = { model: 'demo', max_tokens: 9, messages: [{ id: '1', role: 'user', content: 'x', parts: [{ type: 'text', text: 'x' }] }], items: [], metadata: {} };
  const headers = { authorization: `Bearer ${keys.bob}`, 'content-type': 'application/json' };
  let tried = 0;
  for (const doc of Object.values(contracts))
    for (const [pattern, route] of Object.entries(doc.paths)) {
      const id = pattern.includes('/responses/') ? answer.id : pattern.includes('/conversations/') ? conversation.id : context;
      if (!pattern.includes('{') || pattern.includes('/models/')) continue;
      for (const [method, op] of Object.entries(route)) {
        const url = `${server.url}${pattern.replace('{id}', id).replace('{item}', item.id)}`;
        const refused = await fetch(url, { method: method.toUpperCase(), headers, body: op.requestBody ? JSON.stringify(body) : undefined });
        // Nothing runs in a chat that does not exist: that is what the AI SDK asks for.
        assert.equal(refused.status, pattern.endsWith('/stream') ? 204 : 404, `${method} ${pattern}: ${await refused.text()}`);
        tried++;
      }
    }
  assert.equal(tried, 14);
  for (const [route, more] of [['/anthropic/v1/messages', { 'x-quipu-context': context }], ['/openai/v1/chat/completions', { 'x-quipu-context': context }]])
    assert.equal((await fetch(`${server.url}${route}`, { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify(body) })).status, 404, route);
  // A chat of the AI SDK by the id of another owner's context is not that context.
  await (await fetch(`${server.url}/ai/chat`, { method: 'POST', headers, body: JSON.stringify({ id: context, ...body }) })).text();
  assert.equal((await told(server, context, '', { authorization: `Bearer ${keys.alice}` })).length, 2);
  assert.equal((await thrown(bob.responses.create({ model: 'demo', input: 'x', previous_response_id: answer.id }))).code, 'previous_response_not_found');
  assert.equal((await thrown(bob.responses.compact({ model: 'demo', previous_response_id: answer.id }))).code, 'previous_response_not_found');
  const { output } = await alice.responses.compact({ model: 'demo', previous_response_id: answer.id });
  for (const store of [true, false]) assert.match((await thrown(bob.responses.create({ model: 'demo', store, input: [...output, { role: 'user', content: 'x' }] }))).message, /not made by this server, or its conversation was deleted/);
  // The same name is another context.
  const other = await bob.chat.completions.create({ model: 'demo', messages: [{ role: 'user', content: 'hello' }] }, { headers: { 'X-Quipu-Context': 'same name' } }).withResponse();
  assert.notEqual(other.response.headers.get('x-quipu-context'), context);
  assert.equal((await alice.responses.retrieve(answer.id)).output_text, 'Knots, and knots.');
});
