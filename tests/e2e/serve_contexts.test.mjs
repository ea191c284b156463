// Contexts, branches, prompts, messages and sessions over HTTP: the scenarios of spec 004, and what
// a client can get wrong.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { uuid } from './helper.mjs';
import { serve } from './server.mjs';

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const nobody = '0192f000-1234-7abc-8def-0123456789ab';

async function withContext(t, spec = {}) {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', spec);
  return { server, id, at: `/v1/contexts/${id}` };
}

const say = async (server, at, text, more = {}) =>
  (await server.expect(201, 'POST', `${at}/messages`, { role: 'user', text, ...more })).message_id;

// ---- Requirement: Context CRUD REST API ----

test('Scenario: Create new context', async (t) => {
  const server = await serve(t);
  const answer = await server.ask('POST', '/v1/contexts', { model_id: 'm1', mode: 'plan', title: 'Knots ü', parameters: { temperature: 0.5 } });
  assert.equal(answer.status, 201);
  const { id, ...context } = answer.body;
  assert.match(id, uuid);
  assert.equal(answer.headers.get('location'), `/v1/contexts/${id}`);
  assert.match(answer.headers.get('etag'), /^"[0-9a-f]{32}"$/);
  assert.match(context.created_at, time);
  assert.match(context.updated_at, time);
  assert.equal(context.state, 'Idle');
  assert.equal(context.title, 'Knots ü');
  assert.deepEqual(context.config, { model_id: 'm1', mode: 'plan', agent_role: 'actor', parameters: { temperature: 0.5 }, system_prompt_id: null });
  assert.equal(context.active_branch, 'main');
  assert.equal(context.branches.length, 1);
  assert.equal(context.branches[0].name, 'main');
  assert.equal(context.branches[0].messages, 0);
  assert.ok(fs.existsSync(path.join(server.data, 'contexts', id, 'metadata.json')));
});

test('a context and a session can be created without a body', async (t) => {
  const server = await serve(t);
  const context = await server.expect(201, 'POST', '/v1/contexts');
  assert.deepEqual(context.branches.map((branch) => branch.name), ['main']);
  await server.expect(201, 'POST', '/v1/sessions');
});

test('a message must have content', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  await server.refuses(400, 'INVALID', /"content" is missing/, 'POST', `/v1/contexts/${id}/messages`, { role: 'user' });
  assert.equal((await server.expect(200, 'GET', `/v1/contexts/${id}/messages`)).total, 0);
});

test('Scenario: Get context', async (t) => {
  const { server, id, at } = await withContext(t);
  const first = await say(server, at, 'one');
  const second = await say(server, at, 'two');
  await server.expect(201, 'POST', `${at}/branches`, { name: 'other', at: first });
  const third = await say(server, at, 'three', { branch: 'other' });
  for (const prefix of ['/v1', '/api']) {
    const context = await server.expect(200, 'GET', `${prefix}/contexts/${id}`);
    assert.deepEqual(context.branches.map((b) => [b.name, b.active, b.head, b.message_ids]), [
      ['main', true, second, [first, second]],
      ['other', false, third, [first, third]],
    ]);
    assert.deepEqual(Object.keys(context.message_pool), [first, second, third]);
    assert.equal(context.message_pool[third].text, 'three');
    assert.equal(context.message_pool[third].parent_id, first);
    assert.equal(context.state, 'Idle');
  }
  const bare = await server.expect(200, 'GET', `${at}?messages=none`);
  assert.equal(bare.message_pool, undefined);
  assert.equal(bare.branches[0].message_ids, undefined);
  await server.refuses(400, 'INVALID', /'messages'/, 'GET', `${at}?messages=some`);
});

test('Scenario: Update context', async (t) => {
  const { server, id, at } = await withContext(t, { model_id: 'm1' });
  for (const method of ['PUT', 'PATCH']) {
    const changed = await server.expect(200, method, at, { title: method, model_id: 'm2', config: { color: 'red' } });
    assert.equal(changed.title, method);
    assert.equal(changed.config.model_id, 'm2');
    assert.equal(changed.config.color, 'red');
    assert.equal(changed.config.mode, 'chat');
  }
  const stored = JSON.parse(fs.readFileSync(path.join(server.data, 'contexts', id, 'metadata.json'), 'utf8'));
  assert.equal(stored.title, 'PATCH');
  await server.refuses(400, 'INVALID', /unknown field "colour"/, 'PATCH', at, { colour: 1 });
  await server.refuses(400, 'INVALID', /unknown field "current_state"/, 'PATCH', at, { current_state: 'Failed' });
  await server.refuses(400, 'INVALID', /"title" must be a string, or null/, 'PATCH', at, { title: 1 });
  await server.refuses(400, 'INVALID', /"config" must be an object/, 'PUT', at, { config: [] });
  await server.refuses(400, 'INVALID', /nope/, 'PATCH', at, { system_prompt_id: 'nope' });
  assert.equal((await server.expect(200, 'PATCH', at, { title: null })).title, null);
});

test('If-Match: a change is made only to what the client has seen', async (t) => {
  const { server, at } = await withContext(t);
  const get = (more = '') => server.ask('GET', at + more);
  const seen = (await get('?messages=none')).headers.get('etag');
  const full = (await get()).headers.get('etag');
  const changed = await server.ask('PATCH', at, { title: 'a' }, { 'if-match': seen });
  assert.equal(changed.status, 200);
  const now = changed.headers.get('etag');
  assert.notEqual(now, seen);
  assert.equal((await get('?messages=none')).headers.get('etag'), now);
  for (const old of [seen, full, '"nonsense"', `W/${now}`])
    await server.refuses(412, 'PRECONDITION_FAILED', /meantime/, 'PATCH', at, { title: 'b' }, { 'if-match': old });
  await server.refuses(412, 'PRECONDITION_FAILED', /meantime/, 'DELETE', at, undefined, { 'if-match': seen });
  await server.expect(200, 'PATCH', at, { title: 'b' }, { 'if-match': `"x", ${now}` });
  await server.expect(200, 'PATCH', at, { title: 'c' }, { 'if-match': '*' });
  const last = await get();
  await server.expect(200, 'PATCH', at, { title: 'd' }, { 'if-match': last.headers.get('etag') });
  const same = await server.ask('GET', at, undefined, { 'if-none-match': (await get()).headers.get('etag') });
  assert.equal(same.status, 304);
  assert.equal(same.text, '');
});

test('If-Match: of many who saw the same, one wins', async (t) => {
  const { server, at } = await withContext(t);
  const seen = (await server.ask('GET', `${at}?messages=none`)).headers.get('etag');
  const tries = Array.from({ length: 20 }, (_, i) => server.ask('PATCH', at, { title: `t${i}` }, { 'if-match': seen }));
  const won = (await Promise.all(tries)).filter((answer) => answer.status === 200);
  assert.equal(won.length, 1);
  assert.equal((await server.expect(200, 'GET', at)).title, won[0].body.title);
});

test('Scenario: Delete context', async (t) => {
  const { server, id, at } = await withContext(t);
  await say(server, at, 'one');
  await server.expect(200, 'GET', `${at}/state`);
  const answer = await server.ask('DELETE', at);
  assert.equal(answer.status, 204);
  assert.equal(answer.text, '');
  assert.ok(!fs.existsSync(path.join(server.data, 'contexts', id)));
  for (const more of ['', '/state', '/messages', '/branches', '/size'])
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', at + more);
  await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'DELETE', at);
});

test('a context that many use is deleted once, and everybody gets an answer', async (t) => {
  const { server, at } = await withContext(t);
  await say(server, at, 'one');
  const polls = Array.from({ length: 40 }, (_, i) => (i % 4 === 3 ? server.ask('DELETE', at) : server.ask('GET', `${at}/state`)));
  const all = (await Promise.all(polls)).map((answer) => answer.status);
  assert.equal(all.filter((status) => status === 204).length, 1);
  assert.ok(all.every((status) => [200, 204, 404].includes(status)), all.join(' '));
});

test('a field of the config is said once, as such or in "config"', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const twice = { config: { model_id: 'x', system_prompt_id: { a: 1 } }, system_prompt_id: null };
  await server.refuses(400, 'INVALID', /"system_prompt_id" is set twice/, 'PATCH', `/v1/contexts/${id}`, twice);
  const once = { config: { mode: 'plan' }, model_id: 'm' };
  const { config } = await server.expect(200, 'PATCH', `/v1/contexts/${id}`, once);
  assert.equal(config.mode, 'plan');
  assert.equal(config.model_id, 'm');
});

test('what create refuses leaves nothing behind', async (t) => {
  const server = await serve(t);
  const post = (body) => ['POST', '/v1/contexts', body];
  await server.refuses(400, 'INVALID', /unknown field "modle"; the fields are: id, parent_id/, ...post({ modle: 'x' }));
  await server.refuses(400, 'INVALID', /"model_id" must be a string/, ...post({ model_id: 7 }));
  await server.refuses(400, 'INVALID', /"mode" must be a string/, ...post({ mode: null }));
  await server.refuses(400, 'INVALID', /"parameters" must be an object/, ...post({ parameters: [1] }));
  await server.refuses(400, 'INVALID', /"id" must be an id/, ...post({ id: '../../etc' }));
  await server.refuses(400, 'INVALID', /NUL/, ...post({ title: 'a\u0000b' }));
  await server.refuses(400, 'INVALID', /nope/, ...post({ system_prompt_id: 'nope' }));
  assert.deepEqual(fs.readdirSync(path.join(server.data, 'contexts')), []);
  const { id } = await server.expect(201, ...post({ id: nobody }));
  assert.equal(id, nobody);
  await server.refuses(409, 'EXISTS', /./, ...post({ id: nobody }));
});

test('every route of a context that is not there answers "Context not found"', async (t) => {
  const server = await serve(t);
  for (const id of [nobody, 'x', '..%2f..%2fetc', `${nobody}0`]) {
    const at = `/v1/contexts/${id}`;
    for (const more of ['', '/state', '/messages', '/branches', '/branches/main', '/size'])
      await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', at + more);
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'PATCH', at, { title: 'x' });
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'POST', `${at}/messages`, { role: 'user', text: 'x' });
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'POST', `${at}/branches`, { name: 'x' });
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'PUT', `${at}/branches/main`, { active: true });
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'DELETE', `${at}/branches/main`);
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'DELETE', at);
  }
});

// ---- Requirement: Message Management API ----

test('Scenario: Get messages for branch', async (t) => {
  const { server, at } = await withContext(t);
  const ids = [];
  for (let i = 0; i < 12; i++) ids.push(await say(server, at, `m${i}`));
  const page = (query) => server.expect(200, 'GET', `${at}/messages?${query}`);
  const shown = (answer) => answer.messages.map((m) => m.id);

  const all = await page('branch=main');
  assert.deepEqual(shown(all), ids);
  assert.equal(all.total, 12);
  assert.equal(all.next_cursor, null);
  assert.deepEqual(shown(await page('limit=3&offset=4')), ids.slice(4, 7));
  assert.deepEqual(shown(await page('limit=3&offset=4&order=newest')), ids.toReversed().slice(4, 7));
  assert.deepEqual(await page('offset=12').then((p) => [p.messages, p.total, p.next_cursor]), [[], 12, null]);

  for (const order of ['oldest', 'newest']) {
    const got = [];
    let cursor = '';
    let late;
    do {
      const next = await page(`limit=5&order=${order}${cursor}`);
      got.push(...shown(next));
      late ??= await say(server, at, `late ${order}`); // does not shift the pages
      cursor = next.next_cursor && `&cursor=${next.next_cursor}`;
    } while (cursor);
    assert.deepEqual(got, order === 'oldest' ? [...ids, late] : ids.toReversed());
    ids.push(late);
  }
});

test('pages that cannot be', async (t) => {
  const { server, at } = await withContext(t);
  const first = await say(server, at, 'one');
  const second = await say(server, at, 'two');
  await server.expect(201, 'POST', `${at}/branches`, { name: 'short', at: first });
  const bad = (query, sentence, status = 400, code = 'INVALID') => server.refuses(status, code, sentence, 'GET', `${at}/messages?${query}`);
  for (const limit of ['0', '1001', '-1', 'x', '', '1e3', '99999999999999999999999']) await bad(`limit=${limit}`, /'limit' must be a whole number/);
  await bad('offset=-1', /'offset'/);
  await bad('order=up', /'order'/);
  await bad('cursor=x', /'cursor'/);
  await bad(`cursor=o${nobody}`, /does not have/);
  await bad(`cursor=o${second}&branch=short`, /does not have/);
  await bad(`cursor=o${first}&order=newest`, /other order/);
  await bad(`cursor=o${first}&offset=1`, /not both/);
  await bad('branch=nope', /^Branch not found$/, 404, 'NOTFOUND');
  await bad('limit=1&limit=2', /duplicate query parameter 'limit'/);
});

test('Scenario: Add message to branch', async (t) => {
  const { server, at } = await withContext(t);
  const first = await say(server, at, 'one');
  const added = await server.expect(201, 'POST', `${at}/messages?branch=main`, { role: 'assistant', text: 'two' });
  assert.equal(added.state, 'Idle');
  assert.equal(added.total, 2);
  assert.equal(added.messages[0].id, added.message_id);
  assert.equal(added.messages[0].text, 'two');
  const context = await server.expect(200, 'GET', at);
  assert.ok(context.message_pool[added.message_id]);
  assert.deepEqual(context.branches[0].message_ids, [first, added.message_id]);

  const bad = (body, sentence, status = 400, code = 'INVALID') => server.refuses(status, code, sentence, 'POST', `${at}/messages`, body);
  await bad({ text: 'x' }, /"role" is missing/);
  await bad({ role: 'king', text: 'x' }, /role/);
  await bad({ role: 'user', txt: 'x' }, /unknown field "txt"/);
  await bad({ role: 'user', text: 7 }, /text/);
  await bad({ role: 'user', text: 'x', branch: 'nope' }, /nope/, 404, 'NOTFOUND');
  await bad({ role: 'user', text: 'x', parent_id: first }, /./, 409, 'CONFLICT');
  await bad({ role: 'user', text: 'x', id: first }, /./, 409, 'EXISTS');
  assert.equal((await server.expect(200, 'GET', `${at}/state`)).total, 2);
});

// ---- Requirement: DTO Adapter Layer, Tool Call Display Metadata ----

test('Scenario: Convert message types', async (t) => {
  const { server, at } = await withContext(t);
  const message = {
    role: 'assistant',
    content: [
      { type: 'text', text: 'Look: "ü" \\ \u0001' },
      { type: 'thinking', text: 'hm', signature: 's' },
      { type: 'image', url: 'https://example.org/a.png', detail: 'low' },
      { type: 'text', text: 'and\nthere' },
      { type: 'hologram', depth: [1, { text: '}' }] },
    ],
    tool_calls: [{ id: 'c1', tool_name: 'list', arguments: { path: '.' }, approval_status: 'Pending', display_preference: 'Collapsible', ui_hints: { icon: 'folder' } }],
    metadata: { tokens: { completion_tokens: 3 } },
  };
  const { message_id } = await server.expect(201, 'POST', `${at}/messages`, message);
  const [dto] = (await server.expect(200, 'GET', `${at}/messages`)).messages;
  const { created_at, ...rest } = dto;
  assert.match(created_at, time);
  assert.deepEqual(rest, {
    id: message_id,
    role: 'assistant',
    type: 'tool_call',
    text: 'Look: "ü" \\ \u0001\nand\nthere',
    thinking: 'hm',
    images: [{ url: 'https://example.org/a.png', detail: 'low' }],
    tool_calls: message.tool_calls,
    tool_result: null,
    parent_id: null,
    metadata: message.metadata,
    other: [message.content[4]],
  });
});

test('Scenario: Tool call with display preference', async (t) => {
  const { server, at } = await withContext(t);
  for (const display_preference of ['Default', 'Collapsible', 'Hidden']) {
    const call = { id: display_preference, tool_name: 'x', arguments: {}, display_preference, ui_hints: { a: 1 } };
    await server.expect(201, 'POST', `${at}/messages`, { role: 'assistant', text: '', tool_calls: [call] });
  }
  const { messages } = await server.expect(200, 'GET', `${at}/messages`);
  assert.deepEqual(messages.map((m) => m.tool_calls[0].display_preference), ['Default', 'Collapsible', 'Hidden']);
  assert.deepEqual(messages[0].tool_calls[0].ui_hints, { a: 1 });
});

test('a message whose content is lost is shown as such, and the rest as ever', async (t) => {
  const { server, at, id } = await withContext(t);
  const lost = await say(server, at, 'lost');
  await say(server, at, 'kept');
  await server.stop();
  fs.rmSync(path.join(server.data, 'contexts', id, 'messages', 'branch-main', `${lost}.json`));
  const again = await serve(t, { data: server.data });
  const { messages } = await again.expect(200, 'GET', `${at}/messages`);
  assert.equal(messages[0].id, lost);
  assert.equal(messages[0].status, 'unavailable');
  assert.equal(messages[0].text, null);
  assert.equal(messages[1].text, 'kept');
});

// ---- branches ----

test('branches: fork, read, rename, switch, rewind, delete', async (t) => {
  const { server, at } = await withContext(t);
  const first = await say(server, at, 'one');
  const second = await say(server, at, 'two');
  const name = 'a/b ü%';
  const encoded = encodeURIComponent(name);
  const forked = await server.ask('POST', `${at}/branches`, { name, from: 'main', at: first });
  assert.equal(forked.status, 201);
  assert.equal(forked.headers.get('location'), `${at}/branches/${encoded}`);
  assert.equal(forked.body.head, first);
  assert.equal((await server.expect(200, 'GET', `${at}/branches/${encoded}`)).name, name);
  await server.refuses(409, 'EXISTS', /./, 'POST', `${at}/branches`, { name });
  await server.refuses(400, 'INVALID', /./, 'POST', `${at}/branches`, { name: 'x', at: nobody });
  await server.refuses(400, 'INVALID', /./, 'POST', `${at}/branches`, { name: '' });
  await server.refuses(400, 'INVALID', /"name" is missing/, 'POST', `${at}/branches`, {});

  const put = (body) => ['PUT', `${at}/branches/${encoded}`, body];
  await server.refuses(400, 'INVALID', /one thing at a time/, ...put({ name: 'x', active: true }));
  await server.refuses(400, 'INVALID', /one thing at a time/, ...put({}));
  await server.refuses(400, 'INVALID', /can only be set to true/, ...put({ active: false }));
  await server.refuses(400, 'INVALID', /"head" must be an id/, ...put({ head: 'x' }));
  assert.equal((await server.expect(200, ...put({ head: second }))).head, second);
  assert.equal((await server.expect(200, ...put({ head: null }))).messages, 0);
  assert.equal((await server.expect(200, ...put({ active: true }))).active, true);
  await server.refuses(409, 'CONFLICT', /./, 'DELETE', `${at}/branches/${encoded}`);
  assert.equal((await server.expect(200, ...put({ name: 'plain' }))).name, 'plain');
  await server.refuses(404, 'NOTFOUND', /^Branch not found$/, ...put({ name: 'plain' }));
  await server.expect(204, 'DELETE', `${at}/branches/main`);
  await server.refuses(404, 'NOTFOUND', /^Branch not found$/, 'DELETE', `${at}/branches/main`);
  await server.refuses(404, 'NOTFOUND', /^Branch not found$/, 'GET', `${at}/branches/main`);
  const { branches } = await server.expect(200, 'GET', `${at}/branches`);
  assert.deepEqual(branches.map((b) => [b.name, b.active]), [['plain', true]]);
});

// ---- Requirement: System Prompt CRUD via API ----

test('Scenario: Create prompt via API, Read prompts via API', async (t) => {
  const server = await serve(t);
  const made = await server.ask('POST', '/v1/system-prompts', { name: 'Brief', description: 'd', content: 'Be brief.' });
  assert.equal(made.status, 201);
  assert.equal(made.headers.get('location'), `/v1/system-prompts/${made.body.id}`);
  await server.expect(201, 'POST', '/v1/system-prompts', { id: 'terse', content: 'Terse.' });
  const { prompts } = await server.expect(200, 'GET', '/api/system-prompts');
  assert.deepEqual(prompts.map((p) => p.content).sort(), ['Be brief.', 'Terse.']);
  assert.deepEqual(await server.expect(200, 'GET', `/v1/system-prompts/${made.body.id}`), made.body);
  await server.refuses(409, 'EXISTS', /terse/, 'POST', '/v1/system-prompts', { id: 'terse', content: 'x' });
  await server.refuses(400, 'INVALID', /"content" is missing/, 'POST', '/v1/system-prompts', { name: 'x' });
  await server.refuses(400, 'INVALID', /./, 'POST', '/v1/system-prompts', { id: '../x', content: 'x' });
  for (const id of ['nope', '..%2f..%2fetc', '.hidden', 'a%20b'])
    for (const method of ['GET', 'DELETE']) await server.refuses(404, 'NOTFOUND', /^Prompt not found$/, method, `/v1/system-prompts/${id}`);
});

test('Scenario: Update prompt via API', async (t) => {
  const server = await serve(t);
  await server.expect(201, 'POST', '/v1/system-prompts', { id: 'p', name: 'P', content: 'old' });
  const contexts = [];
  for (let i = 0; i < 3; i++) {
    const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
    contexts.push(`/v1/contexts/${id}`);
    const branch = await server.expect(200, 'PUT', `${contexts[i]}/branches/main`, { system_prompt_id: 'p' });
    assert.equal(branch.system_prompt.content, 'old');
  }
  const before = (await server.ask('GET', contexts[0])).headers.get('etag');
  const updated = await server.expect(200, 'PUT', '/v1/system-prompts/p', { content: 'new' });
  assert.equal(updated.content, 'new');
  assert.equal(updated.name, 'P');
  for (const at of contexts)
    assert.deepEqual((await server.expect(200, 'GET', at)).branches[0].system_prompt, { id: 'p', name: 'P', description: null, content: 'new' });
  assert.notEqual((await server.ask('GET', contexts[0])).headers.get('etag'), before);
  await server.refuses(404, 'NOTFOUND', /^Prompt not found$/, 'PUT', '/v1/system-prompts/nope', { content: 'x' });
  await server.refuses(400, 'INVALID', /unknown field "text"/, 'PUT', '/v1/system-prompts/p', { text: 'x' });
  await server.refuses(400, 'INVALID', /nope/, 'PUT', `${contexts[0]}/branches/main`, { system_prompt_id: 'nope' });
});

test('Scenario: Delete prompt via API', async (t) => {
  const server = await serve(t);
  await server.expect(201, 'POST', '/v1/system-prompts', { id: 'p', content: 'x' });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { system_prompt_id: 'p' });
  const at = `/v1/contexts/${id}`;
  await server.expect(200, 'PUT', `${at}/branches/main`, { system_prompt_id: 'p' });
  await server.expect(204, 'DELETE', '/v1/system-prompts/p');
  const context = await server.expect(200, 'GET', at);
  assert.equal(context.config.system_prompt_id, null);
  assert.equal(context.branches[0].system_prompt_id, null);
  assert.equal(context.branches[0].system_prompt, null);
  assert.deepEqual((await server.expect(200, 'GET', '/v1/system-prompts')).prompts, []);
  await server.refuses(404, 'NOTFOUND', /^Prompt not found$/, 'DELETE', '/v1/system-prompts/p');
});

// ---- sessions, size ----

test('ids that no address can name are refused', async (t) => {
  const server = await serve(t);
  for (const id of ['.', '..']) {
    await server.refuses(400, 'INVALID', /must not be '\.' or '\.\.'/, 'POST', '/v1/sessions', { id });
    await server.refuses(400, 'INVALID', /must not be '\.' or '\.\.'/, 'POST', '/v1/system-prompts', { id, content: 'x' });
  }
});

test('sessions: create, append, read the last ones, delete', async (t) => {
  const server = await serve(t);
  const made = await server.ask('POST', '/v1/sessions', { id: 'bot:1', agent_id: 'a', chunk_size: 2 });
  assert.equal(made.status, 201);
  assert.equal(made.headers.get('location'), '/v1/sessions/bot%3A1');
  assert.equal(made.body.messages, 0);
  for (let i = 0; i < 5; i++)
    await server.expect(201, 'POST', '/v1/sessions/bot%3A1/messages', { role: 'user', content: `m${i}`, custom: { i } });
  const got = await server.expect(200, 'GET', '/v1/sessions/bot%3A1/messages?last=3');
  assert.deepEqual(got.messages.map((m) => [m.content, m.custom.i]), [['m2', 2], ['m3', 3], ['m4', 4]]);
  assert.equal(got.total, 5);
  assert.equal((await server.expect(200, 'PATCH', '/v1/sessions/bot%3A1', { chunk_size: 9 })).chunk_size, 9);
  assert.deepEqual((await server.expect(200, 'GET', '/v1/sessions')).sessions.map((s) => s.id), ['bot:1']);
  assert.equal((await server.expect(200, 'GET', '/v1/sessions/bot%3A1')).title, 'm0');
  await server.refuses(409, 'EXISTS', /./, 'POST', '/v1/sessions', { id: 'bot:1' });
  await server.refuses(400, 'INVALID', /./, 'POST', '/v1/sessions/bot%3A1/messages', { content: 'no role' });
  await server.expect(204, 'DELETE', '/v1/sessions/bot%3A1');
  for (const [method, more, body] of [['GET', '', undefined], ['GET', '/messages', undefined], ['DELETE', '', undefined], ['POST', '/messages', { role: 'user', content: 'x' }]])
    await server.refuses(404, 'NOTFOUND', /^Session not found$/, method, `/v1/sessions/bot%3A1${more}`, body);
});

test('size tells what a context takes', async (t) => {
  const { server, at } = await withContext(t);
  await say(server, at, 'one');
  const size = await server.expect(200, 'GET', `${at}/size`);
  assert.equal(size.messages, 1);
  assert.ok(size.message_bytes > 100 && size.metadata_bytes > 100);
});

test('a restart keeps everything', async (t) => {
  const { server, at } = await withContext(t, { title: 'kept' });
  await say(server, at, 'one');
  const before = await server.ask('GET', at);
  const state = await server.ask('GET', `${at}/state`);
  await server.stop('SIGKILL');
  const again = await serve(t, { data: server.data });
  const after = await again.ask('GET', at);
  assert.equal(after.text, before.text);
  assert.equal(after.headers.get('etag'), before.headers.get('etag'));
  const same = await again.ask('GET', `${at}/state`, undefined, { 'if-none-match': state.headers.get('etag') });
  assert.equal(same.status, 304, 'validators outlive the process');
});
