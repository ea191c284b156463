// Servers whose clocks differ, and a database whose disk is full.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { Cluster, metric, missing, patiently, Postgres } from './cluster.mjs';
import { ok, sanitized } from './helper.mjs';
import { findProblems } from './history.mjs';
import { Load } from './load.mjs';
import { Model } from './model.mjs';
import { makeWorkspace, until } from './turns.mjs';

// ---- clocks ----

const library = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu'].map((dir) => `${dir}/faketime/libfaketime.so.1`).find(fs.existsSync);
const noClocks = missing || (library ? sanitized && 'sanitizers and libfaketime exclude each other' : 'libfaketime is not installed');
const offsets = ['+3600', '-3600', '+36000', '-36000', '+0'];

test('the clocks of servers differ by hours: nothing is lost, nobody is taken for dead', { skip: noClocks }, async (t) => {
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const each = (i) => ({ env: { LD_PRELOAD: library, FAKETIME: offsets[i % offsets.length], FAKETIME_DONT_FAKE_MONOTONIC: '1' } });
  // Hours are no less than this lease, and a busy machine is not late by so much.
  const cluster = await Cluster.start(t, 3, { lease: 6, each, work: space.work, env: model.env, rules: ['auto run_command'] });
  const dates = await Promise.all(cluster.servers.map(async (server) => Date.parse((await server.ask('GET', '/healthz')).headers.get('date'))));
  assert.ok(dates[0] - dates[1] > 7_000_000 && dates[2] - dates[0] > 30_000_000, `the clocks do differ: ${dates}`);
  const live = [...cluster.servers];
  const load = new Load(live, 1);
  await load.start({ contexts: 6, clients: 40, talks: 3, model });
  await load.progress(300);
  for (const server of live) assert.equal(await metric(server, 'quipu_leases_lost_total'), 0);
  for (let i = 0; i < 3; i++) {
    live.shift().process.child.kill('SIGKILL');
    await load.progress(100);
    live.push(await cluster.add());
    await load.progress(100);
  }
  const history = await load.finish();
  history.runs = space.read('ran').split('\n').slice(0, -1);
  t.diagnostic(load.summary());
  assert.deepEqual(findProblems(history).slice(0, 20), []);
});

test('servers whose clocks are wrong by days know the keys of requests', { skip: noClocks }, async (t) => {
  const each = (i) => ({ env: { LD_PRELOAD: library, FAKETIME: ['+0', '+200000', '-200000'][i], FAKETIME_DONT_FAKE_MONOTONIC: '1' } });
  const cluster = await Cluster.start(t, 3, { each, steps: [{ match: '', play: [{ text: 'Yes.' }] }] });
  const live = [...cluster.servers];
  const [one] = live;
  const expect = async (server, status, target, body, key) => {
    const answer = await patiently(() => server.ask('POST', target, body, { 'idempotency-key': key }));
    assert.equal(answer.status, status, answer.text);
    return answer.body;
  };
  const make = (server, key) => expect(server, 201, '/v1/contexts', {}, key);
  for (const first of live) {
    const { id } = await make(first, first.url);
    for (const server of live) assert.equal((await make(server, first.url)).id, id);
  }
  const { id } = await make(one, 'talk');
  const say = (server) => expect(server, 201, `/v1/contexts/${id}/messages`, { role: 'user', text: 'hi' }, 'say');
  const act = (server) => expect(server, 200, `/v1/contexts/${id}/actions/send_message`, { content: 'again' }, 'act');
  await say(one);
  await act(one);
  while (live.length > 1) {
    await live.shift().stop('SIGKILL'); // the context moves to a server with another clock
    await make(live[0], 'talk');
    await say(live[0]);
    await act(live[0]);
  }
  assert.equal((await live[0].expect(200, 'GET', `/v1/contexts/${id}/messages`)).total, 3, 'one message, one action and its answer');
  assert.equal((await live[0].expect(200, 'GET', '/v1/contexts')).contexts.length, 4);
});

// ---- a full disk ----

function mountSmall(t) {
  const dir = fs.mkdtempSync('/tmp/quipu-postgres-small-');
  t.after(() => {
    spawnSync('umount', ['-l', dir]);
    fs.rmdirSync(dir);
  });
  return spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=160m', 'tmpfs', dir]).status === 0 ? dir : undefined;
}

// Whether PostgreSQL still runs once its recovery, if there was one, is over.
async function settles(postgres) {
  await until(() => !postgres.runs || postgres.answers, () => 'the database answers or has ended');
  return postgres.runs;
}

test('the disk of the database is full, and has room again', { skip: missing }, async (t) => {
  const dir = mountSmall(t);
  if (!dir) return t.skip('a small file system cannot be mounted');
  const filler = path.join(dir, 'filler');
  fs.writeFileSync(filler, Buffer.alloc(60 << 20, 'x'));
  const postgres = await Postgres.start(t, '--keep', dir, 'max_wal_size=32MB', 'min_wal_size=32MB', 'restart_after_crash=on');
  const cluster = await Cluster.start(t, 2, { store: `postgres://quipu@/postgres?host=${postgres.dir}` });
  const [one, two] = cluster.servers;
  const at = `/v1/contexts/${(await one.expect(201, 'POST', '/v1/contexts', {})).id}/messages`;
  const operations = [];
  const branches = new Map();
  const append = async (server) => {
    const text = `${operations.length}`;
    const from = performance.now();
    const answer = await server.ask('POST', at, { role: 'user', text, metadata: { bulk: randomBytes(192 << 10).toString('base64') } });
    operations.push({ kind: 'append', branch: 'main', text, outcome: answer.status === 201 ? 'ok' : 'unknown', from, to: performance.now() });
    return answer;
  };
  let answer;
  do answer = await append(operations.length % 2 ? one : two);
  while (answer.status === 201);
  t.diagnostic(`${operations.length} messages of 256 kB; then ${answer.text}`);
  assert.ok([500, 503, 507].includes(answer.status), answer.text); // 503: PostgreSQL has ended already
  fs.rmSync(filler);
  // PostgreSQL ends itself when it cannot write its log, and stops for good if it finds no room for recovery.
  if (!(await settles(postgres))) await postgres.startAgain(t);
  await until(async () => (await append(two)).status === 201, () => 'writable again');
  assert.equal((await append(one)).status, 201);
  const stored = [];
  for (let offset = 0; ; offset += 100) {
    const page = await two.expect(200, 'GET', `${at}?limit=100&offset=${offset}`);
    stored.push(...page.messages.map((message) => message.text));
    if (page.messages.length < 100) break;
  }
  branches.set('main', stored);
  assert.deepEqual(findProblems({ operations, branches }), []);
  return assert.match(ok(undefined, ['check', '--store', cluster.options.data]), /no problems/);
});
