// Who may call `quipu serve`: keys, scopes and owners. Every row of the route table is asked by
// every kind of caller.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { Running, fails, jsonLines, lines, ok, run, tempDir } from './helper.mjs';
import { routes as table } from './route_table.mjs';
import { serve, statuses } from './server.mjs';
import { Model } from './model.mjs';
import { Chat, Stream, serveTurns, until as holds } from './turns.mjs';

const ghostId = '01a1e0fb-d331-73c1-92f9-3f51430500eb';
const bearer = (key) => (key === undefined ? {} : { authorization: `Bearer ${key}` });
const newData = (t) => path.join(tempDir(t), 'data');
const createKey = (data, ...args) => ok(data, ['key', 'create', ...args]).trim();
const idOf = (key) => key.slice(3, 11);

function editKeys(data, change) {
  const file = path.join(data, 'keys.json');
  const root = JSON.parse(fs.readFileSync(file, 'utf8'));
  change(root);
  fs.writeFileSync(`${file}.edited`, JSON.stringify(root));
  fs.renameSync(`${file}.edited`, file);
}

// One key of each kind.
function makeKeys(data) {
  const keys = {
    read: createKey(data, '--scope', 'read'),
    write: createKey(data),
    admin: createKey(data, '--scope', 'admin'),
    alice: createKey(data, '--owner', 'alice'),
    aliceRead: createKey(data, '--owner', 'alice', '--scope', 'read'),
    bob: createKey(data, '--owner', 'bob', '--scope', 'admin'),
    expired: createKey(data, '--scope', 'admin', '--expires', '1h'),
    revoked: createKey(data, '--scope', 'admin'),
  };
  ok(data, ['key', 'revoke', idOf(keys.revoked)]);
  editKeys(data, (root) => {
    root.keys.find((key) => key.id === idOf(keys.expired)).expires_at = '2020-01-01T00:00:00.000Z';
  });
  keys.wrong = keys.admin.slice(0, -6) + (keys.admin.endsWith('AAAAAA') ? 'BBBBBB' : 'AAAAAA');
  return keys;
}

// The rows of src/http/route.c.
const routes = table.map(({ method, path, scope }) => ({ name: `${method} ${path}`, method, path, scope }))
  .filter(({ path }) => !/^\/(openai|anthropic|ai)\//.test(path)); // face_contract has them: their errors have other forms

// What each row with a scope is asked with, and the answer that a caller with the right gets.
// `things` are ids as the caller says them.
const message = { role: 'user', text: 'and alicemark again' };
const requests = {
  'GET /metrics': () => ['/metrics', undefined, 200],
  'POST /mcp': () => ['/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search_conversations', arguments: { query: 'alicemark' } } }, 200],
  'GET /v1/search': () => ['/v1/search?q=alicemark', undefined, 200],
  'GET /v1/models': () => ['/v1/models', undefined, 200],
  'GET /v1/tools': () => ['/v1/tools', undefined, 200],
  'GET /v1/tools/rules': () => ['/v1/tools/rules', undefined, 200],
  'DELETE /v1/tools/rules/{id}': () => ['/v1/tools/rules/00000000', undefined, 404],
  'GET /v1/usage': (x) => [x.prompt.includes(':') ? '/v1/usage?owner=alice' : '/v1/usage', undefined, 200],
  'GET /v1/usage/report': () => ['/v1/usage/report', undefined, 200],
  'GET /v1/sizes': () => ['/v1/sizes', undefined, 200],
  'GET /v1/contexts': () => ['/v1/contexts', undefined, 200],
  'POST /v1/contexts': () => ['/v1/contexts', { title: 'new' }, 201],
  'GET /v1/contexts/{id}': (x) => [`/v1/contexts/${x.context}`, undefined, 200],
  'PATCH /v1/contexts/{id}': (x) => [`/v1/contexts/${x.context}`, { title: 'changed' }, 200],
  'PUT /v1/contexts/{id}': (x) => [`/v1/contexts/${x.context}`, { title: 'changed' }, 200],
  'DELETE /v1/contexts/{id}': (x) => [`/v1/contexts/${x.context}`, undefined, 204],
  'GET /v1/contexts/{id}/size': (x) => [`/v1/contexts/${x.context}/size`, undefined, 200],
  'GET /v1/contexts/{id}/trash': (x) => [`/v1/contexts/${x.context}/trash`, undefined, 200],
  'GET /v1/contexts/{id}/outline': (x) => [`/v1/contexts/${x.context}/outline`, undefined, 200],
  'GET /v1/contexts/{id}/previews': (x) => [`/v1/contexts/${x.context}/previews?ids=${x.message}`, undefined, 200],
  'GET /v1/contexts/{id}/find': (x) => [`/v1/contexts/${x.context}/find?q=alicemark`, undefined, 200],
  'GET /v1/contexts/{id}/queue': (x) => [`/v1/contexts/${x.context}/queue`, undefined, 200],
  'POST /v1/contexts/{id}/queue': (x) => [`/v1/contexts/${x.context}/queue`, { content: 'more of alicemark' }, 202],
  'PATCH /v1/contexts/{id}/queue/{item}': (x) => [`/v1/contexts/${x.context}/queue/${ghostId}`, { text: 'other' }, 404],
  'DELETE /v1/contexts/{id}/queue/{item}': (x) => [`/v1/contexts/${x.context}/queue/${ghostId}`, undefined, 404],
  'POST /v1/contexts/{id}/queue/{item}/send': (x) => [`/v1/contexts/${x.context}/queue/${ghostId}/send`, undefined, 404],
  'GET /v1/contexts/{id}/messages': (x) => [`/v1/contexts/${x.context}/messages`, undefined, 200],
  'POST /v1/contexts/{id}/messages': (x) => [`/v1/contexts/${x.context}/messages`, message, 201],
  'GET /v1/contexts/{id}/state': (x) => [`/v1/contexts/${x.context}/state`, undefined, 200],
  'GET /v1/contexts/{id}/events': (x) => [`/v1/contexts/${x.context}/events`, undefined, 200],
  'POST /v1/contexts/{id}/actions/send_message': (x) => [`/v1/contexts/${x.context}/actions/send_message`, { content: 'more of alicemark' }, 200],
  'POST /v1/contexts/{id}/actions/approve_tools': (x) => [`/v1/contexts/${x.context}/actions/approve_tools`, { approved: ['call_1'] }, 400],
  'POST /v1/contexts/{id}/actions/submit_tool_results': (x) => [`/v1/contexts/${x.context}/actions/submit_tool_results`, { results: [{ tool_call_id: 'call_1', result: 1 }] }, 409],
  'POST /v1/contexts/{id}/actions/cancel': (x) => [`/v1/contexts/${x.context}/actions/cancel`, {}, 409],
  'POST /v1/contexts/{id}/actions/retry': (x) => [`/v1/contexts/${x.context}/actions/retry`, {}, 200],
  'POST /v1/contexts/{id}/actions/regenerate': (x) => [`/v1/contexts/${x.context}/actions/regenerate`, {}, 200],
  'POST /v1/contexts/{id}/actions/edit_message': (x) => [`/v1/contexts/${x.context}/actions/edit_message`, { message_id: x.message, content: 'other' }, 200],
  'POST /v1/contexts/{id}/actions/switch_branch': (x) => [`/v1/contexts/${x.context}/actions/switch_branch`, { branch: 'side' }, 200],
  'POST /v1/contexts/{id}/actions/compact': (x) => [`/v1/contexts/${x.context}/actions/compact`, { dry_run: true }, 200],
  'POST /v1/contexts/{id}/actions/undo_compact': (x) => [`/v1/contexts/${x.context}/actions/undo_compact`, {}, 404],
  'POST /v1/contexts/{id}/actions/redo_compact': (x) => [`/v1/contexts/${x.context}/actions/redo_compact`, {}, 404],
  'POST /v1/contexts/{id}/actions/edit_summary': (x) => [`/v1/contexts/${x.context}/actions/edit_summary`, { text: 'other' }, 404],
  'POST /v1/contexts/{id}/actions/expand': (x) => [`/v1/contexts/${x.context}/actions/expand`, { from: x.message, to: x.message }, 404],
  'POST /v1/contexts/{id}/actions/pin': (x) => [`/v1/contexts/${x.context}/actions/pin`, { message_id: x.message }, 200],
  'POST /v1/contexts/{id}/actions/unpin': (x) => [`/v1/contexts/${x.context}/actions/unpin`, { message_id: x.message }, 404],
  'GET /v1/contexts/{id}/compactions': (x) => [`/v1/contexts/${x.context}/compactions`, undefined, 200],
  'GET /v1/contexts/{id}/view': (x) => [`/v1/contexts/${x.context}/view`, undefined, 200],
  'POST /v1/contexts/{id}/tools/approve': (x) => [`/v1/contexts/${x.context}/tools/approve`, { denied: ['call_1'] }, 400],
  'GET /v1/contexts/{id}/branches': (x) => [`/v1/contexts/${x.context}/branches`, undefined, 200],
  'POST /v1/contexts/{id}/branches': (x) => [`/v1/contexts/${x.context}/branches`, { name: 'third' }, 201],
  'GET /v1/contexts/{id}/branches/{name}': (x) => [`/v1/contexts/${x.context}/branches/side`, undefined, 200],
  'PUT /v1/contexts/{id}/branches/{name}': (x) => [`/v1/contexts/${x.context}/branches/side`, { name: 'renamed' }, 200],
  'PATCH /v1/contexts/{id}/branches/{name}': (x) => [`/v1/contexts/${x.context}/branches/side`, { active: true }, 200],
  'DELETE /v1/contexts/{id}/branches/{name}': (x) => [`/v1/contexts/${x.context}/branches/side`, undefined, 204],
  'GET /v1/system-prompts': () => ['/v1/system-prompts', undefined, 200],
  'POST /v1/system-prompts': () => ['/v1/system-prompts', { content: 'new' }, 201],
  'GET /v1/system-prompts/{id}': (x) => [`/v1/system-prompts/${x.prompt}`, undefined, 200],
  'PUT /v1/system-prompts/{id}': (x) => [`/v1/system-prompts/${x.prompt}`, { content: 'changed' }, 200],
  'PATCH /v1/system-prompts/{id}': (x) => [`/v1/system-prompts/${x.prompt}`, { name: 'changed' }, 200],
  'DELETE /v1/system-prompts/{id}': (x) => [`/v1/system-prompts/${x.prompt}`, undefined, 204],
  'GET /v1/sessions': () => ['/v1/sessions', undefined, 200],
  'POST /v1/sessions': () => ['/v1/sessions', { title: 'new' }, 201],
  'GET /v1/sessions/{id}': (x) => [`/v1/sessions/${x.session}`, undefined, 200],
  'PATCH /v1/sessions/{id}': (x) => [`/v1/sessions/${x.session}`, { chunk_size: 7 }, 200],
  'DELETE /v1/sessions/{id}': (x) => [`/v1/sessions/${x.session}`, undefined, 204],
  'GET /v1/sessions/{id}/messages': (x) => [`/v1/sessions/${x.session}/messages`, undefined, 200],
  'POST /v1/sessions/{id}/messages': (x) => [`/v1/sessions/${x.session}/messages`, { role: 'user', content: 'x' }, 201],
  'GET /v1/jobs': () => ['/v1/jobs', undefined, 200],
  'GET /v1/jobs/{id}': (x) => [`/v1/jobs/${x.job}`, undefined, 200],
  'GET /v1/jobs/{id}/events': (x) => [`/v1/jobs/${x.job}/events`, undefined, 200],
  'DELETE /v1/jobs/{id}': (x) => [`/v1/jobs/${x.job}`, undefined, 200],
  'POST /v1/import': () => ['/v1/import', { copilot_chats: '[]' }, 202],
  'POST /v1/maintenance/check': (x) => ['/v1/maintenance/check', { context_id: x.context }, 202],
  'POST /v1/maintenance/gc': (x) => ['/v1/maintenance/gc', { context_id: x.context }, 202],
  'POST /v1/maintenance/archive': (x) => ['/v1/maintenance/archive', { context_id: x.context }, 202],
  'POST /v1/maintenance/compress': (x) => ['/v1/maintenance/compress', { context_id: x.context }, 202],
  'POST /v1/maintenance/decompress': (x) => ['/v1/maintenance/decompress', { context_id: x.context }, 202],
  'POST /v1/maintenance/reindex': () => ['/v1/maintenance/reindex', {}, 202],
  'POST /v1/maintenance/migrate': () => ['/v1/maintenance/migrate', { dry_run: true }, 202],
};

let made = 0;

// A context with two branches and a message, a prompt, a session and a job that has ended, all
// alice's.
async function makeThings(server, key) {
  const n = ++made;
  const headers = bearer(key);
  const context = await server.expect(201, 'POST', '/v1/contexts', { title: `alicetitle ${n}` }, headers);
  const { message_id } = await server.expect(201, 'POST', `/v1/contexts/${context.id}/messages`, { role: 'user', text: `alicemark ${n}` }, headers);
  await server.expect(201, 'POST', `/v1/contexts/${context.id}/branches`, { name: 'side' }, headers);
  await server.expect(201, 'POST', '/v1/system-prompts', { id: `aliceprompt${n}`, content: 'alicecontent' }, headers);
  const session = await server.ask('POST', '/v1/sessions', { id: `alicesession${n}`, title: 'alicetitle' }, headers);
  assert.equal(session.status, 201, session.text);
  assert.equal(session.headers.get('location'), `/v1/sessions/alicesession${n}`, 'the address that the owner uses');
  const { job } = await server.expect(202, 'POST', '/v1/maintenance/check', { context_id: context.id }, headers);
  await holds(async () => (await server.expect(200, 'GET', `/v1/jobs/${job.id}`, undefined, headers)).job.state === 'done');
  const both = { context: context.id, message: message_id, job: job.id };
  return {
    own: { ...both, prompt: `aliceprompt${n}`, session: `alicesession${n}` },
    full: { ...both, prompt: `alice:aliceprompt${n}`, session: `alice:alicesession${n}` },
  };
}

// Everything of an answer that may differ between two of the same kind is left out.
function whole(answer) {
  const headers = [...answer.headers].filter(([name]) => name !== 'date');
  return { status: answer.status, headers, text: answer.text };
}

// All of alice's things as she sees them.
async function look(server, things, key) {
  const seen = {};
  for (const target of [
    `/v1/contexts/${things.own.context}`,
    `/v1/system-prompts/${things.own.prompt}`,
    `/v1/sessions/${things.own.session}`,
    `/v1/sessions/${things.own.session}/messages`,
  ]) {
    const answer = await server.ask('GET', target, undefined, bearer(key));
    assert.equal(answer.status, 200);
    seen[target] = answer.text;
  }
  return seen;
}

test('the table of this file has every route with a scope', () => {
  assert.deepEqual(Object.keys(requests).sort(), routes.filter((row) => row.scope !== 'NONE').map((row) => row.name).sort());
  assert.ok(routes.length > 30);
});

// The beginning of an answer that may have no end.
async function peek(server, target, headers) {
  const stream = await Stream.open(server, 'GET', target, { headers });
  stream.close();
  return { status: stream.status, headers: stream.headers, text: stream.text, body: stream.body };
}

test('every route, by every kind of caller', async (t) => {
  const data = newData(t);
  const keys = makeKeys(data);
  const server = await serveTurns(t, { data, steps: [] });
  const refused = new Set();

  for (const row of routes) {
    const fill = requests[row.name];
    if (row.scope === 'NONE') {
      for (const key of [undefined, keys.wrong, keys.bob]) {
        const answer = await server.ask(row.method, row.path, undefined, bearer(key));
        assert.equal(answer.status, row.path.startsWith('/assets/') ? 404 : 200, row.name); // that file is not there
      }
      continue;
    }
    const things = await makeThings(server, keys.alice);
    const before = await look(server, things, keys.alice);
    const ask = async (who, which) => {
      const [target, body, status] = fill(which);
      const answer = row.path === '/v1/contexts/{id}/events' ? await peek(server, target, bearer(keys[who])) : await server.ask(row.method, target, body, bearer(keys[who]));
      return { ...answer, right: status };
    };

    // Without a valid key: always the same answer, whatever is wrong with it.
    for (const who of [undefined, 'wrong', 'revoked', 'expired']) {
      const answer = await ask(who, things.full);
      assert.equal(answer.status, 401, `${row.name} by ${who}`);
      assert.match(answer.headers.get('www-authenticate'), /^Bearer realm="quipu"/);
      assert.equal(answer.body.error.code, 'UNAUTHORIZED');
      if (who) refused.add(answer.text + answer.headers.get('www-authenticate'));
    }

    // A right that is missing.
    const writes = row.scope !== 'READ';
    const isGlobal = row.name === 'GET /metrics' || row.scope === 'ADMIN';
    for (const [who, which] of [['read', things.full], ['aliceRead', things.own]]) {
      if (!writes) continue;
      const answer = await ask(who, which);
      assert.equal(answer.status, 403, `${row.name} by ${who}`);
      assert.equal(answer.body.error.code, 'DENIED');
    }

    // Another owner: as if it were not there. The ids are guessed in every way.
    const ghost = { context: ghostId, message: ghostId, prompt: 'ghost', session: 'ghost', job: ghostId.replace('-73c1', '-43c1') }; // an id without a time: the message about an old one differs
    const names = row.path.includes('{') || row.path.startsWith('/v1/maintenance/'); // there the body has it
    if (isGlobal) {
      assert.equal((await ask('bob', things.own)).status, 403);
      assert.equal((await ask('alice', things.own)).status, 403);
    } else if (names) {
      const nothing = await ask('bob', ghost);
      assert.equal(nothing.status, 404, row.name);
      for (const which of [things.own, things.full])
        assert.deepEqual(whole(await ask('bob', which)), whole(nothing), `${row.name} by bob`);
    } else {
      const answer = await ask('bob', things.own);
      assert.equal(answer.status, answer.right, row.name);
      assert.doesNotMatch(answer.text.replace('alicemark', ''), /alice/, row.name);
    }
    assert.deepEqual(await look(server, things, keys.alice), before, `${row.name}: nothing has changed`);

    // Who may: a reader, the owner, and those without an owner.
    const may = [['admin', 'full']];
    if (row.scope !== 'ADMIN') may.push(['write', 'full']);
    else assert.equal((await ask('write', things.full)).status, 403, row.name);
    if (!isGlobal) may.push(['alice', 'own']);
    if (!writes) may.push(['read', 'full']);
    if (!writes && !isGlobal) may.push(['aliceRead', 'own']);
    for (const [who, form] of may) {
      const fresh = writes ? await makeThings(server, keys.alice) : things;
      const answer = await ask(who, fresh[form]);
      assert.equal(answer.status, answer.right, `${row.name} by ${who}: ${answer.text}`);
    }
  }
  assert.equal(refused.size, 1, 'wrong, revoked and expired keys get the same answer');

  // Nothing that a key is known by was written anywhere but its id.
  const metrics = await server.ask('GET', '/metrics', undefined, bearer(keys.read));
  const { status: ended, stderr } = await server.stop();
  assert.equal(ended, 0, stderr);
  for (const key of Object.values(keys)) {
    assert.ok(!stderr.includes(key.slice(12)), 'the log has no secret');
    assert.ok(!metrics.text.includes(key.slice(12)));
  }
  assert.match(stderr, new RegExp(`method=DELETE path=\\S+ status=204 .* key=${idOf(keys.alice)}$`, 'm'));
  assert.match(stderr, / status=401 .* key=-$/m);
  assert.match(ok(data, ['check']), /no problems/);
});

test('lists and searches have what belongs to the caller', async (t) => {
  const data = newData(t);
  const keys = makeKeys(data);
  const server = await serve(t, { data });
  const things = {};
  for (const who of ['alice', 'bob', 'write']) {
    const headers = bearer(keys[who]);
    const context = await server.expect(201, 'POST', '/v1/contexts', { title: `of ${who}` }, headers);
    assert.equal(context.owner, who === 'write' ? null : who);
    await server.expect(201, 'POST', `/v1/contexts/${context.id}/messages`, { role: 'user', text: `common ${who}` }, headers);
    await server.expect(201, 'POST', '/v1/sessions', { id: 'chat1' }, headers);
    await server.expect(201, 'POST', '/v1/system-prompts', { id: `p-${who}`, content: `of ${who}` }, headers);
    things[who] = context.id;
  }
  const get = async (who, target) => server.expect(200, 'GET', target, undefined, bearer(keys[who]));
  const everybody = { alice: ['alice'], bob: ['bob'], read: ['alice', 'bob', 'write'] };
  for (const [who, seen] of Object.entries(everybody)) {
    const list = await get(who, '/v1/contexts');
    assert.deepEqual(list.contexts.map((row) => row.id).sort(), seen.map((name) => things[name]).sort());
    const found = await get(who, '/v1/search?q=common');
    assert.deepEqual(found.hits.map((hit) => hit.context_id).sort(), seen.map((name) => things[name]).sort());
    // Page by page, too.
    const pages = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = await get(who, `/v1/contexts?limit=1${cursor}`);
      pages.push(...page.contexts.map((row) => row.id));
      cursor = page.next_cursor && `&cursor=${encodeURIComponent(page.next_cursor)}`;
    }
    assert.deepEqual(pages.sort(), seen.map((name) => things[name]).sort());
  }
  const sessions = async (who) => (await get(who, '/v1/sessions')).sessions.map((session) => session.id).sort();
  assert.deepEqual(await sessions('alice'), ['chat1']);
  assert.deepEqual(await sessions('bob'), ['chat1']);
  assert.deepEqual(await sessions('read'), ['alice:chat1', 'bob:chat1', 'chat1']);
  const prompts = async (who) => (await get(who, '/v1/system-prompts')).prompts.map((prompt) => prompt.id).sort();
  assert.deepEqual(await prompts('alice'), ['p-alice', 'p-write']);
  assert.deepEqual(await prompts('bob'), ['p-bob', 'p-write']);
  assert.deepEqual(await prompts('read'), ['alice:p-alice', 'bob:p-bob', 'p-write']);
  // An id that is taken is told as such, and no more than that, whoever has it.
  const texts = [];
  for (const who of ['alice', 'bob'])
    texts.push((await server.ask('POST', '/v1/contexts', { id: things.alice }, bearer(keys[who]))).text);
  assert.equal(texts[0], texts[1]);
  assert.match(texts[0], /exists already/);
  // A validator of another owner's state is worth nothing.
  const state = await server.ask('GET', `/v1/contexts/${things.alice}/state`, undefined, bearer(keys.alice));
  const headers = { ...bearer(keys.bob), 'if-none-match': state.headers.get('etag') };
  await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', `/v1/contexts/${things.alice}/state`, undefined, headers);
  assert.equal((await server.ask('GET', `/v1/contexts/${things.alice}/state`, undefined, { ...headers, ...bearer(keys.aliceRead) })).status, 304);
  // The files tell whose they are.
  assert.equal((await server.stop()).status, 0);
  assert.ok(fs.existsSync(path.join(data, 'prompts', 'alice:p-alice.json')));
  assert.deepEqual(jsonLines(ok(data, ['session', 'ls', '--json'])).map((row) => row.id).sort(), ['alice:chat1', 'bob:chat1', 'chat1']);
  assert.match(ok(data, ['check']), /no problems/);
});

test('the owner of a context', async (t) => {
  const data = newData(t);
  const keys = makeKeys(data);
  const server = await serve(t, { data });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { owner: 'alice' }, bearer(keys.write));
  const target = `/v1/contexts/${id}`;
  await server.expect(200, 'GET', target, undefined, bearer(keys.alice));
  // An owner gives nothing away and takes nothing.
  for (const body of [{ owner: 'bob' }, { owner: 'alice' }, { owner: null }]) {
    await server.refuses(400, 'INVALID', /"owner" cannot be set: the owner of the key is used/, 'PATCH', target, body, bearer(keys.alice));
    await server.refuses(400, 'INVALID', /"owner" cannot be set: the owner of the key is used/, 'POST', '/v1/contexts', body, bearer(keys.alice));
  }
  for (const owner of ['a:b', '', '.x', 'x'.repeat(65), 'ä'])
    await server.refuses(400, 'INVALID', /"owner" must be/, 'PATCH', target, { owner }, bearer(keys.write));
  // A context that is in use passes to another at once.
  assert.equal((await server.expect(200, 'PATCH', target, { owner: 'bob' }, bearer(keys.write))).owner, 'bob');
  await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', target, undefined, bearer(keys.alice));
  await server.expect(200, 'GET', target, undefined, bearer(keys.bob));
  assert.deepEqual((await server.expect(200, 'GET', '/v1/contexts', undefined, bearer(keys.alice))).contexts, []);
  assert.equal((await server.expect(200, 'GET', '/v1/contexts', undefined, bearer(keys.bob))).contexts.length, 1);
  assert.equal((await server.expect(200, 'PATCH', target, { owner: null }, bearer(keys.write))).owner, null);
  await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', target, undefined, bearer(keys.bob));
});

test('prompts: shared ones, own ones, and references to them', async (t) => {
  const data = newData(t);
  const keys = makeKeys(data);
  const server = await serve(t, { data });
  const alice = bearer(keys.alice);
  const all = bearer(keys.write);
  await server.expect(201, 'POST', '/v1/system-prompts', { id: 'tone', content: 'shared' }, all);
  await server.expect(201, 'POST', '/v1/system-prompts', { id: 'plain', content: 'shared' }, all);
  const content = async (id, headers) => (await server.expect(200, 'GET', `/v1/system-prompts/${id}`, undefined, headers)).content;
  assert.equal(await content('tone', alice), 'shared');
  for (const [method, body] of [['PUT', { content: 'x' }], ['PATCH', { content: 'x' }], ['DELETE', undefined]])
    await server.refuses(403, 'DENIED', /shared prompt/, method, '/v1/system-prompts/tone', body, alice);
  // Her own hides the shared one, for her alone.
  const location = await server.ask('POST', '/v1/system-prompts', { id: 'tone', content: 'own' }, alice);
  assert.equal(location.headers.get('location'), '/v1/system-prompts/tone');
  await server.refuses(409, 'EXISTS', /^system prompt 'tone' exists already$/, 'POST', '/v1/system-prompts', { id: 'tone', content: 'x' }, alice);
  assert.equal(await content('tone', alice), 'own');
  assert.equal(await content('tone', bearer(keys.bob)), 'shared');
  assert.equal(await content('alice:tone', all), 'own');
  const { prompts } = await server.expect(200, 'GET', '/v1/system-prompts', undefined, alice);
  assert.deepEqual(prompts.map((prompt) => [prompt.id, prompt.content]).sort(), [['plain', 'shared'], ['tone', 'own']]);
  // References are by the name that the caller uses.
  const context = await server.expect(201, 'POST', '/v1/contexts', { system_prompt_id: 'tone' }, alice);
  const target = `/v1/contexts/${context.id}`;
  const shown = (body) => [body.config.system_prompt_id, body.branches[0].system_prompt_id, body.branches[0].system_prompt?.content];
  await server.expect(200, 'PATCH', `${target}/branches/main`, { system_prompt_id: 'tone' }, alice);
  assert.deepEqual(shown(await server.expect(200, 'GET', target, undefined, alice)), ['tone', 'tone', 'own']);
  assert.deepEqual(shown(await server.expect(200, 'GET', target, undefined, all)), ['alice:tone', 'alice:tone', 'own']);
  await server.expect(200, 'PATCH', target, { system_prompt_id: 'plain' }, alice);
  await server.expect(200, 'PATCH', target, { config: { system_prompt_id: 'plain' } }, alice);
  assert.equal(shown(await server.expect(200, 'GET', target, undefined, all))[0], 'plain');
  // The validator that she got is good for her change.
  const etag = (await server.ask('GET', target, undefined, alice)).headers.get('etag');
  await server.expect(200, 'PATCH', target, { title: 'x', system_prompt_id: 'tone' }, { ...alice, 'if-match': etag });
  // Somebody else's prompt cannot be referred to, and looks as one that is not there.
  const mine = await server.expect(201, 'POST', '/v1/contexts', {}, bearer(keys.bob));
  for (const [method, path] of [['PATCH', `/v1/contexts/${mine.id}`], ['PATCH', `/v1/contexts/${mine.id}/branches/main`], ['POST', '/v1/contexts']]) {
    const ask = async (id) => (await server.ask(method, path, { system_prompt_id: id }, bearer(keys.bob)));
    const [theirs, ghost] = [await ask('alice:tone'), await ask('ghost:tone')];
    assert.equal(theirs.status, 400);
    assert.equal(theirs.text.replace('alice', 'ghost'), ghost.text);
  }
  // And when the administrator makes such a reference, its text is still not shown.
  await server.expect(200, 'PATCH', `/v1/contexts/${mine.id}`, { system_prompt_id: 'alice:tone' }, all);
  await server.expect(200, 'PATCH', `/v1/contexts/${mine.id}/branches/main`, { system_prompt_id: 'alice:tone' }, all);
  assert.deepEqual(shown(await server.expect(200, 'GET', `/v1/contexts/${mine.id}`, undefined, bearer(keys.bob))), [null, null, undefined]);
  // Deleting her own brings the shared one back.
  await server.expect(204, 'DELETE', '/v1/system-prompts/tone', undefined, alice);
  assert.equal(await content('tone', alice), 'shared');
  await server.refuses(400, 'INVALID', /letters, digits/, 'POST', '/v1/system-prompts', { id: 'a:b', content: 'x' }, alice);
  await server.refuses(400, 'INVALID', /must not be empty/, 'POST', '/v1/system-prompts', { id: '', content: 'x' }, alice);
});

test('sessions of owners keep apart, with any id', async (t) => {
  const data = newData(t);
  const keys = makeKeys(data);
  const ali = createKey(data, '--owner', 'ali');
  const server = await serve(t, { data });
  for (const [who, id] of [['alice', 'x'], ['bob', 'x'], ['alice', 'telegram:55'], ['bob', 'alice:x'], ['write', 'plain']]) {
    const session = await server.expect(201, 'POST', '/v1/sessions', { id }, bearer(keys[who]));
    assert.equal(session.id, id);
    const target = `/v1/sessions/${encodeURIComponent(id)}/messages`;
    await server.expect(201, 'POST', target, { role: 'user', content: `${who} ${id}` }, bearer(keys[who]));
    const { messages } = await server.expect(200, 'GET', target, undefined, bearer(keys[who]));
    assert.deepEqual(messages.map((line) => line.content), [`${who} ${id}`]);
  }
  await server.refuses(409, 'EXISTS', /^session 'x' exists already$/, 'POST', '/v1/sessions', { id: 'x' }, bearer(keys.alice));
  await server.refuses(400, 'INVALID', /must not be empty/, 'POST', '/v1/sessions', { id: '' }, bearer(keys.alice));
  await server.refuses(404, 'NOTFOUND', /^Session not found$/, 'GET', '/v1/sessions/plain', undefined, bearer(keys.alice));
  // A name that begins like another is not that one.
  await server.expect(201, 'POST', '/v1/system-prompts', { id: 'p', content: 'x' }, bearer(keys.alice));
  assert.deepEqual(await server.expect(200, 'GET', '/v1/sessions', undefined, bearer(ali)), { sessions: [] });
  assert.deepEqual(await server.expect(200, 'GET', '/v1/system-prompts', undefined, bearer(ali)), { prompts: [] });
  const unnamed = await server.expect(201, 'POST', '/v1/sessions', {}, bearer(keys.alice));
  assert.match(unnamed.id, /^[0-9a-f-]{36}$/);
  await server.expect(200, 'GET', `/v1/sessions/alice:${unnamed.id}`, undefined, bearer(keys.read));
});

test('a key is sent as a bearer token, exactly', async (t) => {
  const data = newData(t);
  const keys = makeKeys(data);
  const server = await serve(t, { data });
  const status = async (authorization) => (await server.ask('GET', '/v1/contexts', undefined, { authorization })).status;
  assert.equal(await status(`Bearer ${keys.read}`), 200);
  assert.equal(await status(`bearer   ${keys.read}`), 200);
  const swapped = keys.read.slice(0, 12) + keys.write.slice(12);
  for (const text of [keys.read, `Basic ${keys.read}`, 'Bearer', 'Bearer ', `Bearer ${keys.read}x`, `Bearer ${keys.read.slice(0, -1)}`,
    `Bearer ${swapped}`, `Bearer ${keys.read.toUpperCase()}`, `Bearer ${idOf(keys.read)}`, `Bearer ${'x'.repeat(6000)}`])
    assert.equal(await status(text), 401, text.slice(0, 80));
  // On both prefixes; before anything else about the request is told; and with a body on the way.
  assert.equal((await server.ask('GET', '/api/contexts')).status, 401);
  assert.equal((await server.ask('GET', '/v1/contexts?nonsense=1')).status, 401);
  const answer = await server.raw('POST /v1/contexts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{');
  assert.deepEqual(statuses(answer), [401]);
  assert.match(answer, /\r\nWWW-Authenticate: Bearer realm="quipu"\r\n/);
  // The question of a browser before a request has no key with it.
  assert.equal((await server.ask('OPTIONS', '/v1/contexts')).status, 204);
  assert.equal((await server.ask('HEAD', '/v1/contexts')).status, 401);
});

// A change of the file is seen when it is looked at next, which is once a second.
async function until(wanted, ask) {
  let got;
  await holds(async () => (got = await ask()) === wanted, () => `${wanted}, and not ${got}`);
}

test('a running server takes up keys that are made, revoked and damaged', async (t) => {
  const data = newData(t);
  const server = await serve(t, { data });
  const status = async (key) => (await server.ask('GET', '/v1/contexts', undefined, bearer(key))).status;
  assert.equal(await status(), 200, 'without a key file this machine may call');
  const first = createKey(data, '--name', 'first');
  await until(401, () => status());
  assert.equal(await status(first), 200);
  const second = createKey(data);
  await until(200, () => status(second));
  assert.equal(ok(data, ['key', 'revoke', idOf(first)]), `revoked ${idOf(first)}\n`);
  await until(401, () => status(first));
  assert.equal(await status(second), 200);
  // A file that is none lets nobody in, and what was there comes back with it.
  const file = path.join(data, 'keys.json');
  const good = fs.readFileSync(file);
  fs.writeFileSync(file, '{"format":');
  await until(401, () => status(second));
  assert.equal(await status(), 401);
  fs.writeFileSync(file, good);
  await until(200, () => status(second));
  // Neither the last key gone opens the server, nor the file gone; a new key does, and a start without the file.
  const last = run(data, ['key', 'revoke', idOf(second)]);
  assert.equal(last.status, 0);
  assert.match(last.stderr, /no key is left/);
  await until(401, () => status(second));
  assert.equal(await status(), 401);
  fs.rmSync(file);
  await until(true, async () => (await status()) && server.process.stderr.includes('keys.json is gone'));
  assert.equal(await status(), 401);
  const third = createKey(data);
  await until(200, () => status(third));
  assert.equal(await status(), 401);
  const { status: ended, stderr } = await server.stop();
  assert.equal(ended, 0, stderr);
  assert.match(stderr, /level=error feature=keys msg="keys\.json is damaged/);
  assert.equal(stderr.match(/keys\.json is damaged/g).length, 1, 'told once');
});

test('a pipe in the place of a file of the keys is an error, and nobody waits for it', (t) => {
  for (const name of ['keys.json', 'keys.lock']) {
    const data = newData(t);
    createKey(data);
    fs.rmSync(path.join(data, name));
    execFileSync('mkfifo', [path.join(data, name)]);
    const commands = [['key', 'create'], ...(name === 'keys.json' ? [['key', 'list'], ['serve', '--listen', '127.0.0.1:0']] : [])];
    for (const command of commands) {
      const ended = run(data, command, { timeout: 60000 });
      assert.equal(ended.status, 12, `${command} with a pipe as ${name}: ${ended.stderr}`);
      assert.match(ended.stderr, /keys\.(json|lock).*not a regular file/);
    }
  }
});

test('one key or owner cannot take the server from the others', async (t) => {
  const data = newData(t);
  const [alice, second, bob, admin] = [createKey(data, '--owner', 'alice'), createKey(data, '--owner', 'alice'), createKey(data, '--owner', 'bob'), createKey(data)];
  const limited = (answer, sentence, seconds) => {
    assert.equal(answer.status, 429, answer.text);
    assert.equal(answer.body.error.code, 'TOO_MANY_REQUESTS');
    assert.match(answer.body.error.message, sentence);
    assert.match(answer.headers.get('retry-after'), seconds);
  };
  // Requests of a minute.
  let server = await serve(t, { data, args: ['--key-requests', '3'] });
  const list = (key) => server.ask('GET', '/v1/contexts', undefined, bearer(key));
  for (let i = 0; i < 3; i++) assert.equal((await list(alice)).status, 200);
  limited(await list(alice), /^this key has used its 3 requests per minute$/, /^(1\d|20)$/);
  assert.equal((await list(second)).status, 200, 'keys are counted apart');
  assert.equal((await server.ask('GET', '/healthz')).status, 200);
  await server.stop();
  // Requests at once, streams included.
  const model = await Model.start(t);
  server = await serveTurns(t, { data, env: model.env, args: ['--key-connections', '2', '--owner-turns', '1'] });
  const chat = await Chat.create(server, {}, { headers: bearer(alice) });
  const streams = [await chat.follow(), await chat.follow()];
  limited(await server.ask('GET', chat.at, undefined, bearer(alice)), /^this key has 2 requests in progress/, /^1$/);
  assert.equal((await server.ask('GET', chat.at, undefined, bearer(second))).status, 200);
  streams.forEach((stream) => stream.close());
  // The server notices that a client has gone when it sends it something.
  await new Chat(server, chat.id, { headers: bearer(second) }).begin('send_message', { content: 'hi' });
  const request = await model.asked();
  await request.say('one ');
  await until(200, async () => (await server.ask('GET', chat.at, undefined, bearer(alice))).status);
  // Turns at once, of an owner, by whatever key.
  const more = await Chat.create(server, {}, { headers: bearer(alice) });
  limited(await more.act('send_message', { content: 'me too' }), /^this owner has 1 turns in progress/, /^1$/);
  assert.equal((await more.state()).total, 0);
  const others = await Promise.all([bob, admin].map((key) => Chat.create(server, {}, { headers: bearer(key) })));
  for (const other of others) {
    await other.begin('send_message', { content: 'hello' });
    await (await model.asked()).end();
  }
  await request.end();
  // A turn that ended and one that was refused are not counted: the next ones begin.
  for (let i = 0; i < 3; i++) {
    await until(400, async () => (await more.act('approve_tools', { approved: ['none'] })).status);
    await until(202, async () => (await more.act('send_message', { content: `again ${i}` }, { prefer: 'respond-async' })).status);
    await (await model.asked()).end();
    await more.reach('Idle');
  }
  await server.stop();
});

test('an owner stores no more bytes than are allowed, also after a restart, and deleting makes room', async (t) => {
  const data = newData(t);
  const [alice, bob, admin] = [createKey(data, '--owner', 'alice'), createKey(data, '--owner', 'bob'), createKey(data)];
  const model = await Model.start(t);
  const limit = 20000;
  const start = () => serveTurns(t, { data, env: model.env, args: ['--owner-bytes', String(limit)] });
  let server = await start();
  const ask = (key, method, target, body) => server.ask(method, target, body, bearer(key));
  const usage = async (key, query = '') => (await ask(key, 'GET', `/v1/usage${query}`)).body;
  const refused = async (method, target, body) => {
    const answer = await ask(alice, method, target, body);
    assert.equal(answer.status, 507, `${method} ${target}: ${answer.text}`);
    assert.equal(answer.body.error.code, 'OWNER_FULL');
    assert.match(answer.body.error.message, /^this owner has stored \d+ of the 20000 bytes that it may store: delete something first$/);
  };
  assert.deepEqual(await usage(alice), { owner: 'alice', bytes: 0, limit });
  const create = async (key) => (await ask(key, 'POST', '/v1/contexts', { model_id: 'openai/knots' })).body.id;
  const [first, second, other] = [await create(alice), await create(alice), await create(bob)];
  const say = (key, id, size) => ask(key, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', content: 'x'.repeat(size) });
  assert.equal((await say(alice, first, 15000)).status, 201);
  await refused('POST', `/v1/contexts/${first}/messages`, { role: 'user', content: 'x'.repeat(15000) });
  assert.equal((await say(alice, first, 2500)).status, 201, 'what still has room is taken');
  const used = (await usage(alice)).bytes;
  assert.ok(used > 17500 && used < limit, String(used));
  // A model's answer counts as well; the turn that began below the limit ends.
  const chat = new Chat(server, second, { headers: bearer(alice) });
  await chat.begin('send_message', { content: 'hi' });
  const request = await model.asked();
  await request.say('y'.repeat(3000));
  await request.end();
  await chat.reach('Idle');
  assert.ok((await usage(alice)).bytes > limit);
  for (let round = 0; round < 2; round++) {
    await refused('POST', '/v1/contexts', {});
    await refused('PATCH', `/v1/contexts/${first}`, { title: 'longer' });
    await refused('POST', `/v1/contexts/${first}/messages`, { role: 'user', content: 'a' });
    await refused('POST', `/v1/contexts/${first}/actions/send_message`, { content: 'a' });
    await refused('POST', `/v1/contexts/${second}/actions/regenerate`, {});
    await refused('POST', `/v1/contexts/${first}/branches`, { name: 'side' });
    await refused('POST', '/v1/system-prompts', { id: 'p', content: 'a' });
    await refused('POST', '/v1/sessions', { id: 's' });
    assert.equal((await ask(alice, 'GET', `/v1/contexts/${first}`)).status, 200);
    assert.equal((await say(bob, other, 100)).status, 201, 'others are not concerned');
    assert.equal((await say(admin, first, 10)).status, 201, 'nor is who has no owner');
    if (round) break;
    await server.stop();
    server = await start();
  }
  assert.equal((await ask(bob, 'GET', '/v1/usage?owner=alice')).status, 403);
  assert.equal((await ask(admin, 'GET', '/v1/usage')).status, 400);
  assert.ok((await usage(admin, '?owner=alice')).bytes > limit);
  assert.equal((await ask(alice, 'DELETE', `/v1/contexts/${first}`)).status, 204);
  assert.equal((await ask(alice, 'POST', '/v1/sessions', { id: 's' })).status, 201, 'at once');
  assert.equal((await ask(alice, 'POST', '/v1/sessions/s/messages', { role: 'user', content: 'z'.repeat(14000) })).status, 201);
  await refused('POST', '/v1/sessions/s/messages', { role: 'user', content: 'z'.repeat(14000) });
  assert.equal((await ask(alice, 'DELETE', '/v1/sessions/s')).status, 204);
  assert.equal((await say(alice, second, 14000)).status, 201);
  await server.stop();
});

test('an address that other machines reach needs a key', async (t) => {
  const data = newData(t);
  const refuse = () => fails(data, ['serve', '--log-level', 'warn', '--listen', '0.0.0.0:0'], 'DENIED', /other machines, but there is no key; .*quipu key create/);
  refuse();
  const old = createKey(data, '--expires', '1h');
  editKeys(data, (root) => (root.keys[0].expires_at = '2020-01-01T00:00:00.000Z'));
  refuse(); // one that is expired is none
  const key = createKey(data);
  const process = new Running(t, data, ['serve', '--listen', '0.0.0.0:0', '--allow-host', 'chat.example']);
  const port = /^quipu serves http:\/\/0\.0\.0\.0:(\d+)$/.exec(await process.next())?.[1];
  assert.ok(port, process.stderr);
  const url = `http://127.0.0.1:${port}`;
  const status = async (headers) => (await fetch(`${url}/v1/contexts`, { headers })).status;
  assert.equal(await status({}), 401);
  assert.equal(await status(bearer(old)), 401);
  assert.equal(await status(bearer(key)), 200);
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  // By its addresses and the names that it was given.
  const { request } = await import('node:http');
  const named = (host, origin) =>
    new Promise((resolve, reject) => {
      const headers = { host, ...bearer(key), ...(origin ? { origin } : {}) };
      request(`${url}/v1/contexts`, { headers }, (answer) => resolve(answer.resume().statusCode)).on('error', reject).end();
    });
  for (const host of ['chat.example', `CHAT.example:${port}`, '192.0.2.7', '[2001:db8::1]:80', 'localhost']) assert.equal(await named(host), 200, host);
  for (const host of ['evil.example', 'chat.example.evil', 'xchat.example', '192.0.2.7.evil']) assert.equal(await named(host), 403, host);
  assert.equal(await named('chat.example', 'https://chat.example'), 200);
  assert.equal(await named('chat.example', 'https://evil.example'), 403);
  // It does not open when the file goes.
  fs.rmSync(path.join(data, 'keys.json'));
  await until(401, () => status(bearer(key)));
  assert.equal(await status({}), 401);
  process.child.kill('SIGTERM');
  assert.equal((await process.ended).status, 0);
});

test('a damaged key file stops the start, and check knows the file', async (t) => {
  const data = newData(t);
  createKey(data);
  assert.equal(ok(data, ['check']).includes('keys'), false);
  fs.writeFileSync(path.join(data, 'keys.json'), '[]');
  fails(data, ['serve', '--log-level', 'warn', '--listen', '127.0.0.1:0'], 'CORRUPT', /keys\.json is damaged/);
  fails(data, ['key', 'list'], 'CORRUPT', /keys\.json is damaged/);
  fails(data, ['key', 'create'], 'CORRUPT', /keys\.json is damaged/);
  assert.equal(fs.readFileSync(path.join(data, 'keys.json'), 'utf8'), '[]');
});

test('quipu key', async (t) => {
  const data = newData(t);
  fails(data, ['key', 'list'], 'NOTFOUND', /no quipu data/);
  const key = createKey(data, '--name', 'laptop', '--owner', 'alice', '--scope', 'read', '--expires', '90d');
  assert.match(key, /^qk_[0-9a-f]{8}_[A-Za-z0-9_-]{43}$/);
  assert.equal(fs.statSync(path.join(data, 'keys.json')).mode & 0o777, 0o600);
  const text = fs.readFileSync(path.join(data, 'keys.json'), 'utf8');
  assert.ok(!text.includes(key.slice(12)), 'the secret is not kept');
  const made = JSON.parse(ok(data, ['key', 'create', '--json']));
  assert.deepEqual(Object.keys(made), ['id', 'key', 'name', 'owner', 'scope', 'expires_at']);
  assert.equal(made.scope, 'write');
  const rows = jsonLines(ok(data, ['key', 'list', '--json']));
  assert.deepEqual(rows.map((row) => [row.id, row.name, row.owner, row.scope, row.expired]), [
    [idOf(key), 'laptop', 'alice', 'read', false],
    [made.id, null, null, 'write', false],
  ]);
  const days = (Date.parse(rows[0].expires_at) - Date.parse(rows[0].created_at)) / 86400e3;
  assert.ok(Math.abs(days - 90) < 0.01);
  assert.equal(lines(ok(data, ['key'])).length, 2);
  assert.deepEqual(lines(ok(data, ['key', 'list']))[0].split('\t').slice(0, 3), [idOf(key), 'read', 'alice']);
  fails(data, ['key', 'create', '--scope', 'all'], 'INVALID', /read, write or admin/);
  fails(data, ['key', 'create', '--owner', 'a:b'], 'INVALID', /an owner is/);
  fails(data, ['key', 'create', '--expires', '0'], 'INVALID', /too short/);
  fails(data, ['key', 'create', '--expires', 'soon'], 'INVALID', /--expires must be/);
  fails(data, ['key', 'create', '--name', 'x'.repeat(201)], 'INVALID', /the name of a key/);
  fails(data, ['key', 'revoke', 'nothere'], 'NOTFOUND', /no key 'nothere'/);
  fails(data, ['key', 'list', '--owner', 'x'], 'INVALID', /owner/);
  assert.deepEqual(JSON.parse(ok(data, ['key', 'revoke', idOf(key), '--json'])), { id: idOf(key), revoked: true, left: 1 });
  assert.equal(lines(ok(data, ['key', 'list'])).length, 1);
  // What a later version may write is kept.
  editKeys(data, (root) => ((root.later = 1), (root.keys[0].later = { a: 1 })));
  createKey(data);
  const root = JSON.parse(fs.readFileSync(path.join(data, 'keys.json'), 'utf8'));
  assert.deepEqual([root.later, root.keys[0].later, root.keys.length], [1, { a: 1 }, 2]);
});
