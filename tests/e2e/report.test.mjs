// Reports over HTTP: what models have used, sizes, and the trash.

import assert from 'node:assert/strict';
import test from 'node:test';
import { ok } from './helper.mjs';
import { serve } from './server.mjs';
import { until } from './turns.mjs';

const bearer = (key) => ({ authorization: `Bearer ${key}` });
const createKey = (data, ...args) => ok(data, ['key', 'create', ...args]).trim();

async function create(server, title, headers) {
  return (await server.expect(201, 'POST', '/v1/contexts', { title }, headers)).id;
}

// An answer of a model, as a turn stores it.
const answer = (server, id, { at, model = 'm-1', prompt = 100, output = 10, cost, headers }) =>
  server.expect(201, 'POST', `/v1/contexts/${id}/messages`, {
    role: 'assistant',
    text: 'words',
    ...(at && { created_at: at }),
    metadata: { model, tokens: { prompt_tokens: prompt, completion_tokens: output, cache_read_tokens: 7 }, ...(cost !== undefined && { cost_usd: cost }) },
  }, headers);

const dayOf = (ms) => new Date(ms).toISOString().slice(0, 10);

async function gc(server, body, headers) {
  const { job } = await server.expect(202, 'POST', '/v1/maintenance/gc', body, headers);
  await until(async () => (await server.expect(200, 'GET', `/v1/jobs/${job.id}`, undefined, headers)).job.ended_at !== null);
  return (await server.expect(200, 'GET', `/v1/jobs/${job.id}`, undefined, headers)).job.report;
}

test('usage is summed per day, context and model, and follows every answer', async (t) => {
  const server = await serve(t);
  const report = (query = '') => server.expect(200, 'GET', `/v1/usage/report${query}`);
  const nothing = await report();
  assert.deepEqual([nothing.days, nothing.contexts, nothing.models, nothing.total.answers], [[], [], [], 0]);

  const one = await create(server, 'one');
  const two = await create(server, 'two');
  const now = Date.now();
  await answer(server, one, { at: new Date(now - 2 * 86_400_000).toISOString(), cost: 0.25 });
  await answer(server, one, { cost: 0.5 });
  await answer(server, two, { model: 'm-2', prompt: 1000 });
  await answer(server, two, { at: new Date(now - 90 * 86_400_000).toISOString(), cost: 9 });
  await server.expect(201, 'POST', `/v1/contexts/${two}/messages`, { role: 'user', text: 'no usage' });

  const first = await report();
  assert.deepEqual(first.days.map((day) => [day.day, day.answers, day.input_tokens, day.cost_usd]), [
    [dayOf(now - 2 * 86_400_000), 1, 100, 0.25],
    [dayOf(now), 2, 1100, 0.5],
  ]);
  assert.deepEqual(first.contexts.map((row) => [row.context_id, row.title, row.answers, row.cost_usd]), [[one, 'one', 2, 0.75], [two, 'two', 1, 0]]);
  assert.deepEqual(first.models.map((row) => [row.model, row.answers, row.output_tokens, row.cached_tokens, row.unpriced]), [['m-1', 2, 20, 14, 0], ['m-2', 1, 10, 7, 1]]);
  assert.deepEqual([first.total.answers, first.total.input_tokens, first.total.cost_usd, first.total.unpriced], [3, 1200, 0.75, 1]);
  assert.equal((await report('?days=1000')).total.cost_usd, 9.75);
  assert.equal((await report('?days=1000&limit=1')).contexts.length, 1);

  await answer(server, two, { cost: 1 });
  assert.deepEqual((await report('?days=1')).contexts.map((row) => row.title), ['two', 'one'], 'the most expensive first');
  await server.expect(204, 'DELETE', `/v1/contexts/${two}`);
  assert.deepEqual((await report('?days=1')).contexts.map((row) => row.title), ['one']);
  for (const bad of ['days=0', 'days=1001', 'utc_offset=x', 'utc_offset=2000', 'limit=0']) await server.expect(400, 'GET', `/v1/usage/report?${bad}`);
});

test('a day begins where the caller lives', async (t) => {
  const server = await serve(t);
  const id = await create(server, 'zones');
  const midnight = Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth(), new Date().getUTCDate()) - 86_400_000;
  await answer(server, id, { at: new Date(midnight + 60_000).toISOString() }); // 00:01 in UTC
  const days = async (offset) => (await server.expect(200, 'GET', `/v1/usage/report?utc_offset=${offset}`)).days.map((day) => day.day);
  assert.deepEqual(await days(0), [dayOf(midnight)]);
  assert.deepEqual(await days(-60), [dayOf(midnight - 86_400_000)]);
  assert.deepEqual(await days(330), [dayOf(midnight)]);
});

test('figures that a client made up do not break the sums', async (t) => {
  const server = await serve(t);
  const id = await create(server, 'odd');
  await answer(server, id, { prompt: -5, output: 1e300, cost: -3 });
  await answer(server, id, { prompt: 'many', cost: 'free' });
  await answer(server, id, { cost: 1e308, prompt: 3 });
  const { total } = await server.expect(200, 'GET', '/v1/usage/report');
  assert.deepEqual([total.answers, total.input_tokens, total.unpriced], [3, 3, 1]);
  assert.ok(total.cost_usd === 1e6 && total.output_tokens > 0);
});

test('sizes have the branches of every context, the largest context first', async (t) => {
  const server = await serve(t);
  const ids = [];
  for (let i = 0; i < 5; i++) {
    const id = await create(server, `c${i}`);
    for (let n = 0; n <= i; n++) await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'x'.repeat(200) });
    ids.unshift(id);
  }
  const { messages } = await server.expect(200, 'GET', `/v1/contexts/${ids[0]}/messages`);
  await server.expect(201, 'POST', `/v1/contexts/${ids[0]}/branches`, { name: 'side', at: messages[1].id });
  const all = await server.expect(200, 'GET', '/v1/sizes');
  assert.deepEqual(all.contexts.map((row) => row.id), ids);
  assert.deepEqual(all.contexts[0].branches.map((branch) => [branch.name, branch.messages]), [['main', 5], ['side', 2]]);
  assert.equal(all.contexts[0].branches[0].message_bytes, all.contexts[0].message_bytes);
  assert.deepEqual([all.total.contexts, all.total.messages, all.total.trashed_messages], [5, 15, 0]);
  assert.equal(all.total.message_bytes, all.contexts.reduce((sum, row) => sum + row.message_bytes, 0));
  const page = await server.expect(200, 'GET', '/v1/sizes?limit=3');
  const rest = await server.expect(200, 'GET', `/v1/sizes?limit=3&cursor=${encodeURIComponent(page.next_cursor)}`);
  assert.deepEqual([...page.contexts, ...rest.contexts].map((row) => row.id), ids);
  assert.equal(rest.next_cursor, null);
  await server.refuses(400, 'INVALID', /cursor/, 'GET', '/v1/sizes?cursor=nonsense');
});

test('a deleted branch is in the trash, can be restored, and can be deleted for good', async (t) => {
  const server = await serve(t);
  const id = await create(server, 'trash');
  const at = `/v1/contexts/${id}`;
  for (const text of ['one', 'two']) await server.expect(201, 'POST', `${at}/messages`, { role: 'user', text });
  await server.expect(201, 'POST', `${at}/branches`, { name: 'side' });
  for (const text of ['three', 'four']) await server.expect(201, 'POST', `${at}/messages?branch=side`, { role: 'user', text });
  await server.expect(204, 'DELETE', `${at}/branches/side`);
  assert.deepEqual(await server.expect(200, 'GET', `${at}/trash`), { trash: [], more: false });
  const trashedOnes = async () => (await server.expect(200, 'GET', '/v1/sizes?trashed=true')).contexts.map((row) => [row.id, row.trashed_messages]);
  assert.deepEqual(await trashedOnes(), []);

  assert.equal((await gc(server, {})).trashed, 2);
  const { trash: [row], more } = await server.expect(200, 'GET', `${at}/trash`);
  assert.deepEqual([row.messages, more], [2, false]);
  assert.deepEqual(await trashedOnes(), [[id, 2]]);
  const { previews } = await server.expect(200, 'GET', `${at}/previews?ids=${row.first_message_id},${row.last_message_id}`);
  assert.match(JSON.stringify(previews), /three.*four|four.*three/s);

  await server.expect(201, 'POST', `${at}/branches`, { name: 'back', at: row.last_message_id });
  assert.equal((await server.expect(200, 'GET', `${at}/messages?branch=back`)).messages.length, 4);
  assert.deepEqual([(await server.expect(200, 'GET', `${at}/trash`)).trash, await trashedOnes()], [[], []]);

  await server.expect(204, 'DELETE', `${at}/branches/back`);
  assert.equal((await gc(server, { context_id: id, grace_seconds: 0 })).deleted, 2);
  assert.equal((await server.expect(200, 'GET', '/v1/sizes')).total.messages, 2);
});

test('an owner gets reports about its own contexts only', async (t) => {
  const first = await serve(t);
  await first.stop();
  const [alice, bob, any] = [['--owner', 'alice'], ['--owner', 'bob'], []].map((args) => bearer(createKey(first.data, '--scope', 'write', ...args)));
  const server = await serve(t, { data: first.data });
  for (const [headers, n] of [[alice, 1], [bob, 2], [any, 3]]) {
    const id = await create(server, `t${n}`, headers);
    for (let i = 0; i < n; i++) await answer(server, id, { cost: 1, headers });
  }
  const cost = async (headers, query = '') => (await server.expect(200, 'GET', `/v1/usage/report${query}`, undefined, headers)).total.cost_usd;
  assert.deepEqual([await cost(alice), await cost(bob), await cost(any), await cost(any, '?owner=bob')], [1, 2, 6, 2]);
  const sizes = async (headers) => (await server.expect(200, 'GET', '/v1/sizes', undefined, headers)).contexts.map((row) => row.title);
  assert.deepEqual([await sizes(alice), await sizes(any)], [['t1'], ['t3', 't2', 't1']]);
  for (const path of ['/v1/usage/report', '/v1/sizes']) await server.refuses(403, 'DENIED', /own owner/, 'GET', `${path}?owner=bob`, undefined, alice);
});
