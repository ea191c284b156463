// Saving: many requests that wait for one sync, a disk that is full, and no input or output without
// a change. Spec 003: persistence failure handling, dirty flag.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { ok } from './helper.mjs';
import { serve } from './server.mjs';
import { until } from './turns.mjs';

const MANY = 64;

async function metrics(server) {
  const { text } = await server.ask('GET', '/metrics');
  return Object.fromEntries([...text.matchAll(/^(quipu_[a-z_]+) (\d+)$/gm)].map(([, name, value]) => [name, Number(value)]));
}

const create = async (server) => (await server.expect(201, 'POST', '/v1/contexts', {})).id;
const say = (server, id, text) => server.ask('POST', `/v1/contexts/${id}/messages`, { role: 'user', text });

// A connection of its own, which is kept: fetch would open as many as it likes.
class Client {
  constructor(server) {
    this.server = server;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  }

  post(id, text) {
    return new Promise((resolve, reject) => {
      const body = JSON.stringify({ role: 'user', text });
      const request = http.request(
        {
          host: '127.0.0.1',
          port: this.server.port,
          agent: this.agent,
          method: 'POST',
          path: `/v1/contexts/${id}/messages`,
          headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
        },
        (answer) => {
          let came = '';
          answer.setEncoding('utf8').on('data', (data) => (came += data));
          answer.on('end', () => resolve({ status: answer.statusCode, body: JSON.parse(came) }));
          answer.on('error', reject);
        },
      );
      request.on('error', reject);
      request.end(body);
    });
  }

  close() {
    this.agent.destroy();
  }
}

test('64 connections save at once: fewer syncs than messages, and all are there after kill -9', async (t) => {
  const server = await serve(t);
  const ids = [await create(server), await create(server)];
  const clients = Array.from({ length: MANY }, () => new Client(server));
  const saved = [];
  const before = await metrics(server);
  await Promise.all(
    clients.map(async (client, i) => {
      for (let n = 0; n < 5; n++) {
        const { status, body } = await client.post(ids[i % 2], `${i}.${n}`);
        assert.equal(status, 201, JSON.stringify(body));
        assert.equal(body.messages.length, 1);
        saved.push([ids[i % 2], body.message_id]);
      }
    }),
  );
  const after = await metrics(server);
  const commits = after.quipu_commits_total - before.quipu_commits_total;
  const syncs = after.quipu_fsyncs_total - before.quipu_fsyncs_total;
  assert.equal(commits, MANY * 5);
  assert.ok(syncs < commits, `${syncs} syncs for ${commits} commits`);
  await server.stop('SIGKILL');
  for (const client of clients) client.close();
  for (const id of ids) {
    const there = ok(server.data, ['show', id, '--ids']).trim().split('\n');
    const wanted = saved.filter(([context]) => context === id).map(([, message]) => message);
    assert.deepEqual(there.toSorted(), wanted.toSorted());
  }
  ok(server.data, ['check']);
});

test('stopping cuts no save that waits', async (t) => {
  const server = await serve(t);
  const id = await create(server);
  const clients = Array.from({ length: MANY }, () => new Client(server));
  const saved = [];
  let refused = 0;
  await clients[0].post(id, 'first');
  const all = Promise.all(
    clients.map(async (client) => {
      for (;;) {
        let answer;
        try {
          answer = await client.post(id, 'x');
        } catch (error) {
          assert.match(error.code, /^(ECONNREFUSED|ECONNRESET|EPIPE)$/);
          refused++;
          return;
        }
        if (answer.status === 503) {
          assert.equal(answer.body.error.code, 'STOPPING'); // it came after the stop had begun
          refused++;
          return;
        }
        assert.equal(answer.status, 201);
        saved.push(answer.body.message_id);
      }
    }),
  );
  while (saved.length < 200) await sleep(1);
  const { status, signal, stderr } = await server.stop();
  await all;
  assert.equal(status, 0, `${signal} ${stderr.slice(-2000)}`);
  assert.equal(refused, MANY);
  const there = new Set(ok(server.data, ['show', id, '--ids']).trim().split('\n'));
  for (const message of saved) assert.ok(there.has(message), message);
});

test('deleting waits for the saves of its context, and nobody for ever', async (t) => {
  const server = await serve(t, { args: ['--threads', '2'] });
  const clients = Array.from({ length: 16 }, () => new Client(server));
  for (let round = 0; round < 10; round++) {
    const id = await create(server);
    const answers = clients.map((client) => client.post(id, 'x'));
    const deleted = [server.ask('DELETE', `/v1/contexts/${id}`), server.ask('DELETE', `/v1/contexts/${id}`)];
    const statuses = (await Promise.all(deleted)).map((answer) => answer.status).sort();
    assert.deepEqual(statuses, [204, 404]);
    for (const answer of await Promise.all(answers)) assert.ok([201, 404].includes(answer.status), answer.status);
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', `/v1/contexts/${id}`);
  }
  for (const client of clients) client.close();
  ok(server.data, ['check']);
});

test('a change under a condition has its context alone while others save', async (t) => {
  const server = await serve(t);
  const id = await create(server);
  const clients = Array.from({ length: 8 }, () => new Client(server));
  let ended = false;
  const writers = clients.map(async (client) => {
    for (; !ended; ) assert.equal((await client.post(id, 'x')).status, 201);
  });
  let done = 0;
  for (let tries = 0; done < 5 && tries < 60; tries++) {
    const etag = (await server.ask('GET', `/v1/contexts/${id}?messages=none`)).headers.get('etag');
    const answer = await server.ask('PATCH', `/v1/contexts/${id}`, { title: `t${tries}` }, { 'if-match': etag });
    assert.ok([200, 412].includes(answer.status), answer.text);
    done += answer.status === 200;
    if (tries === 40) ended = true; // the others leave no gap: at last it is alone
  }
  ended = true;
  await Promise.all(writers);
  for (const client of clients) client.close();
  assert.equal(done, 5);
});

// ---- a full disk ----

function mountSmall(t) {
  const data = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-small-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'quipu-test', data], { encoding: 'utf8' });
  const there = !mounted.error && mounted.status === 0;
  t.after(() => {
    if (there) spawnSync('umount', ['-l', data]);
    fs.rmdirSync(data);
  });
  return there ? data : undefined;
}

// A file that takes all the room there is, and gives some of it back.
class Filler {
  constructor(t, data) {
    this.fd = fs.openSync(path.join(data, 'filler'), 'w');
    this.size = 0;
    t.after(() => fs.closeSync(this.fd));
  }

  fill() {
    for (let piece = Buffer.alloc(1 << 20, 'x'); piece.length >= 4096; )
      try {
        this.size += fs.writeSync(this.fd, piece, 0, piece.length, this.size);
      } catch (error) {
        assert.equal(error.code, 'ENOSPC');
        piece = piece.subarray(0, piece.length / 2);
      }
  }

  free(bytes) {
    this.size = Math.max(0, this.size - bytes);
    fs.ftruncateSync(this.fd, this.size);
  }
}

const failing = { code: 'FULL', message: /no space left/i };

test('Scenario: Persistence failure handling (disk full)', async (t) => {
  const data = mountSmall(t);
  if (!data) return t.skip('a tmpfs cannot be mounted here');
  const server = await serve(t, { data: path.join(data, 'data') });
  const filler = new Filler(t, data);
  const id = await create(server);
  const at = `/v1/contexts/${id}`;
  const saved = [(await say(server, id, 'before')).body.message_id];
  const state = await server.ask('GET', `${at}/state`);
  assert.equal(state.body.state, 'Idle');

  filler.fill();
  await server.refuses(507, failing.code, failing.message, 'POST', `${at}/messages`, { role: 'user', text: 'lost' });
  const failed = await server.ask('GET', `${at}/state`, undefined, { 'if-none-match': state.headers.get('etag') });
  assert.equal(failed.status, 200, 'the validator changes');
  assert.equal(failed.body.state, 'Failed');
  assert.equal(failed.body.state_detail.error.code, 'FULL');
  assert.match(failed.body.state_detail.error.message, failing.message);
  assert.match(failed.body.state_detail.failed_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(failed.body.messages.map((m) => m.id), saved);
  assert.equal((await server.expect(200, 'GET', at)).state, 'Failed');
  assert.equal((await server.ask('GET', `${at}/state`, undefined, { 'if-none-match': failed.headers.get('etag') })).status, 304);
  const logged = (await server.process.logged(/could not be saved.*\n/)).split('\n').filter((line) => line.includes('could not be saved'));
  assert.equal(logged.length, 1);
  assert.ok(logged[0].includes(`context ${id} in state Idle`), logged[0]);
  // A checkpoint may have taken the reserve meanwhile; then the sentence is another one.
  const fullNow = /no space left|the disk is full/i;
  await server.refuses(507, 'FULL', fullNow, 'PATCH', at, { title: 'lost' });
  await server.refuses(507, 'FULL', fullNow, 'POST', '/v1/contexts', {});
  await server.refuses(503, 'FULL', /accepts no writes: .*(no space left|the disk is full)/i, 'GET', '/readyz');
  await server.expect(200, 'GET', '/healthz');

  filler.free(1 << 20);
  let after;
  await until(async () => (after = await say(server, id, 'after')).status !== 507); // it looks for room at most once a second
  assert.equal(after.status, 201, after.text);
  saved.push(after.body.message_id);
  const good = await server.expect(200, 'GET', `${at}/state`);
  assert.equal(good.state, 'Idle');
  assert.equal(good.state_detail, undefined);
  assert.deepEqual(good.messages.map((m) => m.id), saved);
  await server.stop('SIGKILL');
  assert.deepEqual(ok(server.data, ['show', id, '--ids']).trim().split('\n'), saved);
  ok(server.data, ['check']);
});

test('a store that a full disk has stopped goes on when there is room, without a restart', async (t) => {
  const data = mountSmall(t);
  if (!data) return t.skip('a tmpfs cannot be mounted here');
  const server = await serve(t, { data: path.join(data, 'data') });
  const filler = new Filler(t, data);
  const id = await create(server);
  const saved = [(await say(server, id, 'first')).body.message_id];
  let answer;

  // One page is free each time: enough for the message, and at some time too little for the index.
  filler.fill();
  for (let i = 0; i < 200; i++) {
    filler.free(4096);
    answer = await say(server, id, 'x'.repeat(100 + i));
    if (answer.status !== 201) break;
    saved.push(answer.body.message_id);
  }
  assert.equal(answer.status, 500, answer.text);
  assert.equal(answer.body.error.code, 'IO');
  filler.fill(); // what the failed save had taken
  await server.refuses(503, 'FULL', /accepts no writes: the disk is full/, 'GET', '/readyz');
  filler.fill(); // and what the recovery has left of the reserve
  answer = await say(server, id, 'no');
  assert.equal(answer.status, 507, answer.text);
  const stopped = await server.expect(200, 'GET', `/v1/contexts/${id}/state`);
  assert.equal(stopped.state, 'Failed');
  assert.deepEqual(stopped.messages.map((m) => m.id).slice(0, saved.length), saved);
  assert.ok(stopped.messages.length <= saved.length + 1, 'what failed is there or not');

  filler.free(4 << 20);
  for (;;) {
    answer = await say(server, id, 'after');
    if (answer.status === 201) break;
    assert.equal(answer.status, 507, answer.text);
    await sleep(50);
  }
  await server.expect(200, 'GET', '/readyz');
  const good = await server.expect(200, 'GET', `/v1/contexts/${id}/state`);
  assert.equal(good.state, 'Idle');
  const there = good.messages.map((m) => m.id);
  assert.deepEqual(there.slice(0, saved.length), saved, 'what was acknowledged');
  assert.equal(there.at(-1), answer.body.message_id);
  assert.ok(there.length <= saved.length + 2, 'what failed is there or not');
  await server.stop('SIGKILL');
  assert.deepEqual(ok(server.data, ['show', id, '--ids']).trim().split('\n'), there);
  ok(server.data, ['check']);
});

// ---- nothing changes, nothing is done ----

const io = (all) => Object.fromEntries(Object.entries(all).filter(([name]) => /^quipu_(io|commits|fsyncs)/.test(name)));

test('Scenario: Skip save when no changes', async (t) => {
  const server = await serve(t);
  const id = await create(server);
  const at = `/v1/contexts/${id}`;
  await say(server, id, 'a');
  await server.expect(200, 'PATCH', at, { title: 'same' });
  const { etag } = Object.fromEntries((await server.ask('GET', `${at}/state`)).headers);

  const work = async () => {
    const before = await metrics(server);
    assert.ok(before.quipu_io_writes_total > 0 && before.quipu_io_syncs_total > 0);
    for (let i = 0; i < 100; i++) {
      await server.expect(200, 'GET', `${at}/state`);
      assert.equal((await server.ask('GET', `${at}/state`, undefined, { 'if-none-match': etag })).status, 304);
      await server.expect(200, 'GET', at);
      await server.expect(200, 'PATCH', at, { title: 'same' });
      await server.expect(200, 'PATCH', `${at}/branches/main`, { active: true });
    }
    return [before, await metrics(server)];
  };
  // The journal is checkpointed a while after the last change; that is no part of this. After it there is nothing left to do.
  for (let round = 0; ; round++) {
    const [before, after] = await work();
    if (isDeepStrictEqual(io(after), io(before))) break;
    assert.ok(round < 3, JSON.stringify([before, after]));
    await until(async () => (await metrics(server)).quipu_checkpoints_total > before.quipu_checkpoints_total, () => `a checkpoint: ${JSON.stringify([before, after])}`);
  }
});

test('Scenario: Save when dirty', async (t) => {
  const server = await serve(t);
  const id = await create(server);
  const before = await metrics(server);
  await say(server, id, 'a');
  const after = await metrics(server);
  assert.equal(after.quipu_commits_total - before.quipu_commits_total, 1);
  assert.ok(after.quipu_io_writes_total > before.quipu_io_writes_total);
  assert.ok(after.quipu_io_syncs_total > before.quipu_io_syncs_total);
});
