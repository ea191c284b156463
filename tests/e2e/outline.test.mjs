// The outline of a conversation, the beginnings of its messages, and finding in it. What the index
// says is compared with what the messages of the branches say.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Chance } from './random.mjs';
import { serve } from './server.mjs';

async function create(server) {
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  return `/v1/contexts/${id}`;
}

async function save(server, at, branch, role, text) {
  return (await server.expect(201, 'POST', `${at}/messages?last=0`, { role, text, branch })).message_id;
}

async function history(server, at, branch) {
  return (await server.expect(200, 'GET', `${at}/messages?branch=${branch}&limit=1000`)).messages.map((message) => message.id);
}

test('branches and alternatives are those of the messages', async (t) => {
  const server = await serve(t);
  const at = await create(server);
  const random = new Chance(7);
  const names = ['main'];
  await save(server, at, 'main', 'user', 'first');
  for (let step = 0; step < 60; step++) {
    const branch = names[random.below(names.length)];
    if (step % 6 === 5) {
      const ids = await history(server, at, branch);
      const name = `b${names.length}`;
      await server.expect(201, 'POST', `${at}/branches`, { name, at: ids[random.below(ids.length)] });
      names.push(name);
    } else await save(server, at, branch, step % 2 ? 'user' : 'assistant', `message ${step}`);
  }
  const paths = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await history(server, at, name)])));
  for (const shown of names) {
    const outline = await server.expect(200, 'GET', `${at}/outline?branch=${shown}`);
    const own = paths[shown];
    assert.deepEqual([outline.branch, outline.count], [shown, own.length]);
    assert.deepEqual(outline.items.map((item) => item.id), own);
    assert.deepEqual(outline.items.map((item) => item.at), own.map((_, i) => i + 1));
    for (const fork of outline.branches) {
      const other = paths[fork.name];
      const shared = other.findIndex((id, i) => id !== own[i]);
      assert.equal(fork.fork_at, shared < 0 ? other.length : shared, `${shown} and ${fork.name}`);
      assert.equal(fork.first, shared < 0 ? null : other[shared]);
      assert.deepEqual([fork.head, fork.messages], [other.at(-1), other.length]);
    }
    outline.items.forEach((item, i) => {
      const here = new Set(Object.values(paths).filter((path) => path.length > i && own.slice(0, i).every((id, k) => id === path[k])).map((path) => path[i]));
      assert.equal(item.alternatives, here.size, `${shown} at ${i + 1}`);
      assert.equal(item.kind, here.size > 1 ? 'branch_point' : 'message');
    });
  }
  await server.refuses(404, 'NOTFOUND', /Branch not found/, 'GET', `${at}/outline?branch=none`);
});

test('a first message may have alternatives, and a branch may be empty', async (t) => {
  const server = await serve(t);
  const at = await create(server);
  assert.deepEqual((await server.expect(200, 'GET', `${at}/outline`)).items, []);
  await server.expect(201, 'POST', `${at}/branches`, { name: 'other' });
  await save(server, at, 'main', 'user', 'one');
  const other = await save(server, at, 'other', 'user', 'two');
  const outline = await server.expect(200, 'GET', `${at}/outline`);
  assert.equal(outline.items[0].alternatives, 2);
  assert.deepEqual(outline.branches.find((fork) => fork.name === 'other'), { ...outline.branches[1], fork_at: 0, first: other });
});

test('a long history is summed up, and any part of it can be had', async (t) => {
  const server = await serve(t);
  const at = await create(server);
  for (let i = 0; i < 300; i++) await save(server, at, 'main', i % 3 ? 'assistant' : 'user', `m${i}`);
  const ids = await history(server, at, 'main');
  await server.expect(201, 'POST', `${at}/branches`, { name: 'other', at: ids[9] });
  await save(server, at, 'other', 'assistant', 'another way');
  const outline = await server.expect(200, 'GET', `${at}/outline?max=120`);
  assert.equal(outline.count, 300);
  const sum = (key) => outline.buckets.reduce((total, bucket) => total + bucket[key], 0);
  assert.deepEqual([sum('count'), sum('prompts'), sum('branch_points')], [300, 100, 1]);
  assert.deepEqual(outline.buckets.map((bucket) => bucket.from), [1, ...outline.buckets.slice(0, -1).map((bucket) => bucket.to + 1)]);
  assert.deepEqual(outline.items.map((item) => item.at), [...Array(300).keys()].map((i) => i + 1).filter((n) => n % 3 === 1 || n === 11));
  assert.equal(outline.left_out, 0);
  const few = await server.expect(200, 'GET', `${at}/outline?max=20`);
  assert.equal(few.left_out, 81);
  assert.ok(few.items.some((item) => item.at === 11), 'a branch point is never left out');
  assert.deepEqual(few.items.map((item) => item.at).slice(-2), [295, 298]);
  const part = await server.expect(200, 'GET', `${at}/outline?max=20&from=100&to=110`);
  assert.deepEqual(part.items.map((item) => item.id), ids.slice(99, 110));
  assert.equal(part.buckets, undefined);
  assert.deepEqual((await server.expect(200, 'GET', `${at}/outline?from=400`)).items, []);
});

test('previews are short lines of the given messages', async (t) => {
  const server = await serve(t);
  const at = await create(server);
  const long = await save(server, at, 'main', 'user', `  one\n\n two\t${'ä'.repeat(500)}`);
  const call = (await server.expect(201, 'POST', `${at}/messages?last=0`, { role: 'assistant', tool_calls: [{ id: 'c', tool_name: 'read_file', arguments: {} }] })).message_id;
  const { previews } = await server.expect(200, 'GET', `${at}/previews?ids=${call},${long},0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f`);
  assert.deepEqual(previews.map(({ id, at: n }) => [id, n]), [[call, 2], [long, 1]]);
  assert.equal(previews[0].text, 'read_file');
  assert.match(previews[1].text, /^one two ä{100,200}$/);
  await server.refuses(400, 'INVALID', /'ids' must be ids/, 'GET', `${at}/previews?ids=x`);
  await server.refuses(400, 'INVALID', /more than 100/, 'GET', `${at}/previews?ids=${Array(101).fill(call).join(',')}`);
  await server.refuses(400, 'INVALID', /'ids' is missing/, 'GET', `${at}/previews`);
});

test('find answers with the place on whatever branch, and only of this conversation', async (t) => {
  const server = await serve(t);
  const at = await create(server);
  const elsewhere = await create(server);
  await save(server, elsewhere, 'main', 'user', 'knotted elsewhere');
  const first = await save(server, at, 'main', 'user', 'a knotted cord');
  await server.expect(201, 'POST', `${at}/branches`, { name: 'other', at: first });
  await save(server, at, 'main', 'assistant', 'plain');
  const deep = await save(server, at, 'other', 'assistant', 'knotted twice, knotted');
  const found = await server.expect(200, 'GET', `${at}/find?q=knotted`);
  assert.deepEqual(found.hits.map(({ id, at: n, branch, role }) => [id, n, branch, role]), [[first, 1, 'main', 'user'], [deep, 2, 'other', 'assistant']]);
  assert.deepEqual(found.hits[0].snippet, [{ text: 'a ', match: false }, { text: 'knotted', match: true }, { text: ' cord', match: false }]);
  assert.equal((await server.expect(200, 'GET', `${at}/find?q=knotted&branch=other`)).hits[0].branch, 'other');
  const page = await server.expect(200, 'GET', `${at}/find?q=knotted&limit=1`);
  assert.deepEqual(page.hits.map((hit) => hit.id), [first]);
  assert.deepEqual((await server.expect(200, 'GET', `${at}/find?q=knotted&limit=1&cursor=${encodeURIComponent(page.next_cursor)}`)).hits.map((hit) => hit.id), [deep]);
  assert.deepEqual((await server.expect(200, 'GET', `${at}/find?message=${deep}`)).hits.map(({ at: n, branch }) => [n, branch]), [[2, 'other']]);
  await server.expect(204, 'DELETE', `${at}/branches/other`);
  assert.equal((await server.expect(200, 'GET', `${at}/find?message=${deep}`)).hits[0].branch, null);
  await server.refuses(400, 'INVALID', /give 'q'/, 'GET', `${at}/find`);
  await server.refuses(400, 'INVALID', /no words/, 'GET', `${at}/find?q=-x`);
  await server.refuses(404, 'NOTFOUND', /no message/, 'GET', `${at}/find?message=0192f0c4-7a55-7d20-8f3b-0a1b2c3d4e5f`);
});
