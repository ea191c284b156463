// Commands and operations on a store in PostgreSQL: what works there, what says why it does not, and what
// a server tells about its database.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { missing, newDatabase } from './cluster.mjs';
import { add, fails, jsonLines, lines, ok, Running, tempDir } from './helper.mjs';
import { serve } from './server.mjs';
import { until } from './turns.mjs';

const fixture = path.resolve('tests/fixtures/localstorage/v2.json');
const oldId = '00000009-0000-4000-9000-000000000000';

function writeOld(dir) {
  const id = (i) => `00000009-0000-4000-8000-00000000000${i}`;
  const message = (i, role) => ({ id: id(i), message: { role, content: [{ type: 'text', text: `old ${i}` }], metadata: null }, parent_id: i > 1 ? id(i - 1) : null });
  const pool = { [id(1)]: message(1, 'User'), [id(2)]: message(2, 'Assistant') };
  const branch = { name: 'main', message_ids: Object.keys(pool), system_prompt: { id: 'older', content: 'Be old.' }, user_prompt: null };
  const context = { id: oldId, parent_id: null, config: { model_id: 'gpt-4', mode: 'chat', parameters: {} }, message_pool: pool, branches: { main: branch }, active_branch_name: 'main', current_state: 'Idle' };
  fs.mkdirSync(dir, { recursive: true });
  fs.writeFileSync(path.join(dir, `${oldId}.json`), JSON.stringify(context));
}

test('contexts of an old format are migrated into the database, a second time nothing happens', { skip: missing }, (t) => {
  const { url } = newDatabase(t);
  const dir = path.join(tempDir(t), 'old');
  writeOld(dir);
  const { summary: report } = JSON.parse(lines(ok(url, ['migrate', dir, '--json'])).at(-1));
  assert.equal(report.migrated, 1, JSON.stringify(report));
  assert.match(ok(url, ['show', oldId]), /old 1[^]*old 2/);
  assert.match(ok(url, ['prompt', 'show', 'older']), /Be old\./);
  assert.equal(JSON.parse(lines(ok(url, ['migrate', dir, '--json'])).at(-1)).summary.already, 1);
  assert.equal(fs.existsSync(path.join(dir, `${oldId}.json`)), true, 'the source stays');
  // The way back: into a directory it works; in place there is nothing to go back to.
  const back = path.join(tempDir(t), 'back');
  ok(url, ['rollback', oldId, '--to', back]);
  assert.deepEqual(JSON.parse(fs.readFileSync(path.join(back, `${oldId}.json`), 'utf8')).message_pool, JSON.parse(fs.readFileSync(path.join(dir, `${oldId}.json`), 'utf8')).message_pool);
  fails(url, ['rollback', oldId], 'INVALID', /this store \(postgres:\) does not/);
  assert.match(ok(url, ['check']), /no problems/);
});

test('a dump of LocalStorage is imported with its images, and again', { skip: missing }, (t) => {
  const { url, sql } = newDatabase(t);
  assert.match(ok(url, ['import', fixture]), /imported 3 chats with 7 messages and 2 prompts; 0 already there, 0 left out/);
  assert.match(ok(url, ['import', fixture]), /imported 0 chats with 0 messages and 0 prompts; 3 already there/);
  const file = path.join(tempDir(t), 'data');
  ok(file, ['import', fixture]);
  const raw = (store) => ok(store, ['show', 'ed02ca90', '--raw']);
  assert.equal(raw(url), raw(file));
  assert.equal(sql("SELECT count(*) FROM quipu.files WHERE name LIKE 'blobs/%'"), String(fs.readdirSync(path.join(file, 'blobs')).length));
  const exported = path.join(tempDir(t), 'out.json');
  ok(url, ['export', 'ed02ca90', '--output', exported]);
  assert.ok(fs.statSync(exported).size > 500);
});

test('what has no meaning in a database says so', { skip: missing }, (t) => {
  const { url } = newDatabase(t);
  const ctx = ok(url, ['new', '--title', 'x']).trim();
  add(url, ctx, 'hello');
  const why = /this store \(postgres:\) does not .*: PostgreSQL compresses what it stores, and pg_dump makes backups of it/;
  fails(url, ['archive', ctx, '--older-than', '0d'], 'INVALID', why);
  fails(url, ['compress', ctx], 'INVALID', why);
  fails(url, ['decompress', ctx], 'INVALID', why);
  fails(url, ['backup', path.join(tempDir(t), 'b')], 'INVALID', why);
  assert.match(ok(url, ['show', ctx]), /hello/);
  const [size] = jsonLines(ok(url, ['size', ctx, '--json']));
  assert.equal(size.messages, 1, JSON.stringify(size));
  ok(url, ['gc', ctx]);
  ok(url, ['rm', ctx, '--yes']);
  assert.deepEqual(jsonLines(ok(url, ['ls', '--json'])), []);
});

test('commits, and the thread that indexes, find rows by their keys: no table is read whole because it had few rows at first', { skip: missing }, async (t) => {
  const { url, sql } = newDatabase(t);
  const server = await serve(t, { data: url });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  // Scans of the tables that a commit writes, and how often their rows were changed.
  const scans = () => sql("SELECT sum(seq_scan), sum(n_tup_upd) FROM pg_stat_user_tables WHERE relname IN ('catalogue', 'branches', 'messages', 'contents', 'marks')").split('|').map(Number);
  const rounds = 200;
  const append = () => server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'knot' });
  await append();
  sql('ANALYZE'); // now the database knows how few rows there are
  const [before, changed] = scans();
  for (let i = 0; i < rounds; i++) await append();
  await until(() => scans()[1] >= changed + 2 * rounds); // figures of other connections come late
  const read = scans()[0] - before;
  assert.ok(read < rounds / 10, `${read} times`);
});

test('a server tells its queries and connections, and /readyz tells trouble with the database', { skip: missing }, async (t) => {
  const database = newDatabase(t);
  const { url } = database;
  const server = await serve(t, { data: url, args: ['--lease', '2'] });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: 'x' });
  const text = async () => (await server.ask('GET', '/metrics')).text;
  const value = (all, name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(all)?.[1]);
  const before = await text();
  for (const name of ['queries_total', 'statements_total', 'connects_total', 'connections', 'connections_max'])
    assert.ok(value(before, `quipu_database_${name}`) > 0, name);
  assert.ok(value(before, 'quipu_database_connections_used') <= value(before, 'quipu_database_connections_max'));
  assert.equal(value(before, 'quipu_database_waiting'), 0);
  assert.doesNotMatch(before, /replication_lag/); // there is no replica
  await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'hi' });
  const after = await text();
  assert.ok(value(after, 'quipu_database_queries_total') > value(before, 'quipu_database_queries_total'));
  assert.equal((await server.ask('GET', '/readyz')).status, 200);

  // The database is away: nobody can connect, and the connections are ended.
  database.close();
  await until(async () => {
    const ready = await server.ask('GET', '/readyz');
    return ready.status === 503 && /database/.test(ready.text);
  });
  const refused = await server.ask('POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'lost' });
  assert.equal(refused.status, 503, refused.text);
  assert.equal(refused.headers.get('retry-after'), '1');
  assert.match(refused.text, /"IO"|"BUSY"/);
  database.open();
  await until(async () => (await server.ask('GET', '/readyz')).status === 200);
  await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'again' });
});

test('keys are in the database: every server knows a new and a revoked key, and takes keys.json over', { skip: missing }, async (t) => {
  const { url, sql } = newDatabase(t);
  const dir = tempDir(t);
  const store = ['--store', url];
  const key = (args) => JSON.parse(ok(path.join(dir, 'nowhere'), ['key', ...args, ...store, '--json']));
  const first = JSON.parse(ok(path.join(dir, 'a'), ['key', 'create', '--name', 'of a file', '--json'])); // before there was a database
  const servers = [];
  for (const name of ['a', 'b']) servers.push(await serve(t, { data: path.join(dir, name), args: [...store, '--lease', '2'] }));
  const status = (server, text) => server.ask('GET', '/v1/contexts', undefined, text ? { authorization: `Bearer ${text}` } : {}).then((answer) => answer.status);
  const reach = (text, wanted) => until(async () => (await Promise.all(servers.map((server) => status(server, text)))).every((got) => got === wanted));

  assert.equal(await status(servers[0]), 401);
  await reach(first.key, 200); // also the server that has no such file
  const made = key(['create', '--name', 'of all', '--scope', 'read']);
  assert.doesNotMatch(sql("SELECT encode(bytes, 'escape') FROM quipu.documents"), new RegExp(made.key));
  await reach(made.key, 200);
  assert.deepEqual(key(['revoke', first.id]), { id: first.id, revoked: true, left: 1 });
  await reach(first.key, 401);
  assert.deepEqual(jsonLines(ok(path.join(dir, 'nowhere'), ['key', 'list', ...store, '--json'])).map(({ id }) => id), [made.id]);
  fails(path.join(dir, 'nowhere'), ['key', 'revoke', first.id, ...store], 'NOTFOUND', /there is no key/);
  // Many at once: none is lost.
  const many = await Promise.all(Array.from({ length: 6 }, () => new Running(t, path.join(dir, 'nowhere'), ['key', 'create', ...store]).ended));
  for (const one of many) assert.equal(one.status, 0, one.stderr);
  assert.equal(lines(ok(path.join(dir, 'nowhere'), ['key', 'list', ...store])).length, 7);
  for (const one of many) await reach(one.lines[0], 200);
  // A server that starts later, with an outdated file of its own, uses the keys of the database.
  await servers[0].stop('SIGTERM');
  servers[0] = await serve(t, { data: path.join(dir, 'a'), args: [...store, '--lease', '2'] });
  await reach(first.key, 401);
  await reach(made.key, 200);
});
