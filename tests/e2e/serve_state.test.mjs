// Polling, the dirty flag and the deprecated endpoint: the scenarios of spec 003 that concern them.

import assert from 'node:assert/strict';
import test from 'node:test';
import { serve } from './server.mjs';

async function withContext(t) {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  return { server, id, at: `/v1/contexts/${id}` };
}

const say = async (server, at, message) => (await server.expect(201, 'POST', `${at}/messages`, { role: 'user', text: 'x', ...message })).message_id;

async function counter(server, name) {
  const { text } = await server.ask('GET', '/metrics');
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)[1]);
}

test('Scenario: Poll for state updates', async (t) => {
  const { server, id, at } = await withContext(t);
  const ids = [await say(server, at, { text: 'a' }), await say(server, at, { role: 'assistant', text: 'b' })];
  const answer = await server.ask('GET', `/api/contexts/${id}/state`);
  assert.equal(answer.status, 200);
  assert.equal(answer.body.id, id);
  assert.equal(answer.body.state, 'Idle');
  assert.equal(answer.body.branch, 'main');
  assert.deepEqual(answer.body.messages.map((m) => [m.id, m.text]), [[ids[0], 'a'], [ids[1], 'b']]);
  assert.deepEqual(answer.body.pending_tool_calls, []);
  assert.equal(answer.body.updated_at, answer.body.messages[1].created_at);
  assert.match(answer.headers.get('etag'), /^"[0-9a-f]{32}"$/);
  assert.equal(answer.headers.get('cache-control'), 'private, no-cache');
  const newest = await server.expect(200, 'GET', `${at}/state?last=1`);
  assert.deepEqual(newest.messages.map((m) => m.id), [ids[1]]);
  assert.equal(newest.total, 2);
  assert.deepEqual((await server.expect(200, 'GET', `${at}/state?last=0`)).messages, []);
  await server.refuses(400, 'INVALID', /'last'/, 'GET', `${at}/state?last=x`);
});

test('Scenario: Poll non-existent context', async (t) => {
  const server = await serve(t);
  for (const id of ['0192f000-1234-7abc-8def-0123456789ab', 'invalid-id'])
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', `/api/contexts/${id}/state`);
});

test('Scenario: Poll with If-None-Match (efficient polling)', async (t) => {
  const { server, at } = await withContext(t);
  await say(server, at);
  const etag = (await server.ask('GET', `${at}/state`)).headers.get('etag');
  for (const known of [etag, `"other", ${etag}`, `W/${etag}`, '*']) {
    const again = await server.ask('GET', `${at}/state`, undefined, { 'if-none-match': known });
    assert.equal(again.status, 304, known);
    assert.equal(again.text, '');
    assert.equal(again.headers.get('etag'), etag);
  }
  assert.equal((await server.ask('GET', `${at}/state`, undefined, { 'if-none-match': '"other"' })).status, 200);
  await say(server, at);
  const changed = await server.ask('GET', `${at}/state`, undefined, { 'if-none-match': etag });
  assert.equal(changed.status, 200);
  assert.equal(changed.body.total, 2);
});

test('the validator changes with every visible change, and only then', async (t) => {
  const { server, at } = await withContext(t);
  const seen = new Map();
  const look = async (what) => {
    const { text, headers } = await server.ask('GET', `${at}/state`);
    const etag = headers.get('etag');
    if (seen.has(etag)) assert.equal(seen.get(etag), text, what);
    else assert.ok(![...seen.values()].includes(text), what);
    seen.set(etag, text);
    return etag;
  };
  const start = await look('start');
  assert.equal(await look('nothing'), start);
  await server.expect(200, 'PATCH', at, { title: 'new' });
  await look('metadata');
  const first = await say(server, at, { text: 'a' });
  const one = await look('message');
  await server.expect(201, 'POST', `${at}/branches`, { name: 'b', at: first });
  await look('fork');
  await say(server, at, { text: 'elsewhere', branch: 'b' });
  await look('a message of another branch');
  await server.expect(200, 'PUT', `${at}/branches/b`, { active: true });
  const other = await look('switch');
  assert.notEqual(other, one);
  await server.expect(200, 'PUT', `${at}/branches/b`, { head: null });
  assert.notEqual(await look('rewind'), other);
});

test('pending tool calls are those without a result', async (t) => {
  const { server, at } = await withContext(t);
  const call = (id, approval_status) => ({ id, tool_name: 'run', arguments: { a: [1] }, approval_status, display_preference: 'Default' });
  for (let i = 0; i < 3; i++) await say(server, at); // nothing of a tool in them
  await say(server, at, { role: 'assistant', text: 'I will', tool_calls: [call('c1', 'Pending'), call('c2', 'Approved'), call('c3', 'Pending')] });
  const pending = async (more = '') => (await server.expect(200, 'GET', `${at}/state${more}`)).pending_tool_calls.map((c) => c.id);
  assert.deepEqual(await pending(), ['c1', 'c3']);
  await say(server, at, { role: 'tool', text: '', tool_result: { request_id: 'c1', result: { ok: true } } });
  assert.deepEqual(await pending(), ['c3']);
  assert.deepEqual(await pending('?last=1'), ['c3'], 'also when the message is not shown');
  const { pending_tool_calls } = await server.expect(200, 'GET', `${at}/state`);
  assert.deepEqual(pending_tool_calls, [call('c3', 'Pending')]);
  for (let i = 0; i < 3; i++) await say(server, at);
  for (const last of [0, 1, 3, 4, 5, 8, 100]) assert.deepEqual(await pending(`?last=${last}`), ['c3'], `behind it, the last ${last}`);
});

test('a state is rendered once a version, however many poll it', async (t) => {
  const { server, at } = await withContext(t);
  await say(server, at);
  const before = await counter(server, 'quipu_state_renders_total');
  const hits = await counter(server, 'quipu_state_hits_total');
  await Promise.all(Array.from({ length: 50 }, () => server.expect(200, 'GET', `${at}/state`)));
  assert.equal((await counter(server, 'quipu_state_renders_total')) - before, 1);
  assert.equal((await counter(server, 'quipu_state_hits_total')) - hits, 49);
});

test('many who write and poll cost a rendering a finished action at most', async (t) => {
  const { server, at } = await withContext(t);
  const renders = await counter(server, 'quipu_state_renders_total');
  const hits = await counter(server, 'quipu_state_hits_total');
  let writing = 4;
  let polls = 0;
  const write = async () => {
    for (let i = 0; i < 15; i++) await say(server, at);
    writing--;
  };
  const poll = async () => {
    for (let enough = 0; writing || enough < 20; enough++, polls++) await server.expect(200, 'GET', `${at}/state`);
  };
  await Promise.all([...Array.from({ length: 4 }, write), ...Array.from({ length: 8 }, poll)]);
  const made = (await counter(server, 'quipu_state_renders_total')) - renders;
  assert.ok(made <= 60 + 1, `${made} renderings of 60 changes in ${polls} polls`);
  assert.equal((await counter(server, 'quipu_state_hits_total')) - hits, polls - made);
  assert.equal((await server.expect(200, 'GET', `${at}/state`)).total, 60);
});

test('pages of an allowed origin share what was rendered', async (t) => {
  const origin = 'https://chat.example';
  const server = await serve(t, { args: ['--allow-origin', origin] });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const at = `/v1/contexts/${id}/state`;
  const own = await server.ask('GET', at);
  assert.equal(own.headers.get('vary'), 'Origin');
  assert.equal(own.headers.get('access-control-allow-origin'), null);
  const renders = await counter(server, 'quipu_state_renders_total');
  const etag = own.headers.get('etag');
  for (let i = 0; i < 3; i++) {
    const page = await server.ask('GET', at, undefined, { origin });
    assert.equal(page.headers.get('access-control-allow-origin'), origin);
    assert.equal(page.headers.get('vary'), 'Origin');
    assert.equal(page.headers.get('etag'), etag);
    assert.equal(page.text, own.text);
    const again = await server.ask('GET', at, undefined, { origin, 'if-none-match': etag });
    assert.equal(again.status, 304);
    assert.equal(again.text, '');
    assert.equal(again.headers.get('access-control-allow-origin'), origin);
    assert.equal(again.headers.get('etag'), etag);
  }
  assert.equal(await counter(server, 'quipu_state_renders_total'), renders);
});

test('whoever finished an action sees it in the next poll, also while others write', async (t) => {
  const { server, at } = await withContext(t);
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 10; i++) {
        const id = await say(server, at);
        const { messages } = await server.expect(200, 'GET', `${at}/state`);
        assert.ok(messages.some((m) => m.id === id));
      }
    }),
  );
  assert.equal((await server.expect(200, 'GET', `${at}/state?last=0`)).total, 80);
});

test('Scenario: Skip save when no changes', async (t) => {
  const { server, at } = await withContext(t);
  await server.expect(200, 'PATCH', at, { title: 'same' });
  const commits = await counter(server, 'quipu_commits_total');
  const syncs = await counter(server, 'quipu_fsyncs_total');
  const etag = (await server.ask('GET', at)).headers.get('etag');
  for (let i = 0; i < 5; i++) {
    await server.expect(200, 'PATCH', at, { title: 'same' });
    await server.expect(200, 'GET', `${at}/state`);
    await server.expect(200, 'GET', at);
  }
  assert.equal(await counter(server, 'quipu_commits_total'), commits);
  assert.equal(await counter(server, 'quipu_fsyncs_total'), syncs);
  assert.equal((await server.ask('GET', at)).headers.get('etag'), etag);
});

test('Scenario: Save when dirty', async (t) => {
  const { server, at } = await withContext(t);
  const commits = await counter(server, 'quipu_commits_total');
  await say(server, at);
  assert.equal(await counter(server, 'quipu_commits_total'), commits + 1);
});

test('Scenario: Create message via deprecated CRUD (backward compat)', async (t) => {
  const { server, id, at } = await withContext(t);
  const answer = await server.ask('POST', `/api/contexts/${id}/messages`, { role: 'user', text: 'old way' });
  assert.equal(answer.status, 201);
  assert.equal(answer.headers.get('deprecation'), 'true');
  const [, link] = /^<([^>]+)>; rel="deprecation"/.exec(answer.headers.get('link'));
  const [target, pointer] = link.split('#').map(decodeURIComponent);
  const names = pointer.split('/').slice(1).map((name) => name.replaceAll('~1', '/'));
  const operation = names.reduce((node, name) => node[name], await server.expect(200, 'GET', target));
  assert.match(operation.description, /deprecated/, 'the link leads to what explains it');
  const current = await server.ask('POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'new way' });
  assert.equal(current.status, 201);
  assert.equal(current.headers.get('deprecation'), null);
  assert.equal(answer.body.messages[0].text, 'old way');
  assert.equal((await server.expect(200, 'GET', `${at}/messages`)).messages[0].id, answer.body.message_id);
  const { stderr } = await server.stop();
  assert.match(stderr, /level=warn feature=http msg="Deprecated endpoint used: POST \/api\/contexts\/[0-9a-f-]+\/messages"/);
});
