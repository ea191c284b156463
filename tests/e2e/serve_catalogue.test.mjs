// Lists and search over HTTP: whoever has written something finds it.

import assert from 'node:assert/strict';
import test from 'node:test';
import { serve } from './server.mjs';

const create = async (server, spec = {}) => (await server.expect(201, 'POST', '/v1/contexts', spec)).id;
const say = (server, id, text) => server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text });

test('the list has every context, the one that was changed last first, in pages', async (t) => {
  const server = await serve(t);
  assert.deepEqual(await server.expect(200, 'GET', '/v1/contexts'), { contexts: [], next_cursor: null });
  const ids = [];
  for (let i = 0; i < 7; i++) ids.unshift(await create(server, { title: `t${i}`, model_id: 'm', mode: 'plan' }));
  const list = (query = '') => server.expect(200, 'GET', `/api/contexts${query}`);
  const all = await list();
  assert.deepEqual(all.contexts.map((c) => c.id).sort(), ids.toSorted());
  assert.equal(all.next_cursor, null);
  const row = all.contexts.find((c) => c.id === ids[0]);
  assert.deepEqual([row.title, row.model_id, row.mode, row.state, row.messages, row.branches], ['t6', 'm', 'plan', 'Idle', 0, 1]);

  const pages = [];
  let cursor = '';
  do {
    const page = await list(`?limit=3${cursor}`);
    pages.push(page.contexts.map((c) => c.id));
    cursor = page.next_cursor && `&cursor=${encodeURIComponent(page.next_cursor)}`;
  } while (cursor);
  assert.deepEqual(pages.map((page) => page.length), [3, 3, 1]);
  assert.deepEqual(pages.flat(), all.contexts.map((c) => c.id));

  await say(server, ids[6], 'hello');
  const [first] = (await list('?limit=1')).contexts;
  assert.deepEqual([first.id, first.messages], [ids[6], 1]);
  await server.expect(200, 'PATCH', `/v1/contexts/${ids[3]}`, { title: 'renamed' });
  assert.equal((await list()).contexts.find((c) => c.id === ids[3]).title, 'renamed');
  await server.expect(204, 'DELETE', `/v1/contexts/${ids[2]}`);
  assert.ok(!(await list()).contexts.some((c) => c.id === ids[2]));
});

test('pages that cannot be', async (t) => {
  const server = await serve(t);
  for (const limit of ['0', '1001', 'x']) await server.refuses(400, 'INVALID', /'limit'/, 'GET', `/v1/contexts?limit=${limit}`);
  await server.refuses(400, 'INVALID', /cursor/, 'GET', '/v1/contexts?cursor=nonsense');
  await server.refuses(400, 'INVALID', /cursor/, 'GET', '/v1/search?q=x&cursor=nonsense');
  await server.refuses(400, 'INVALID', /'q' is missing/, 'GET', '/v1/search');
  await server.refuses(400, 'INVALID', /word/, 'GET', '/v1/search?q=');
});

test('search finds messages, at once, and says where the words are', async (t) => {
  const server = await serve(t);
  const id = await create(server, { title: 'Cords' });
  const { message_id } = await say(server, id, 'A quipu is a record kept in knotted cords.');
  await say(server, id, 'nothing of the kind');
  const { hits, next_cursor } = await server.expect(200, 'GET', '/v1/search?q=knotted');
  assert.equal(next_cursor, null);
  assert.equal(hits.length, 1);
  assert.deepEqual([hits[0].context_id, hits[0].message_id, hits[0].title, hits[0].role], [id, message_id, 'Cords', 'user']);
  assert.deepEqual(hits[0].snippet.filter((part) => part.match).map((part) => part.text), ['knotted']);
  assert.match(hits[0].snippet.map((part) => part.text).join(''), /kept in knotted cords/);
  for (const odd of ['%22', '%22a', 'a AND', '(', '*', 'NEAR(', "'; DROP TABLE x", 'x:y', '-'])
    assert.ok([200, 400].includes((await server.ask('GET', `/v1/search?q=${encodeURIComponent(odd)}`)).status), odd);
});
