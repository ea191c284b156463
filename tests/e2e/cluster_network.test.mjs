// Servers and database in a network that is cut: between a server and the database, and between two servers.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { Cluster, missing } from './cluster.mjs';
import { tempDir } from './helper.mjs';
import { Network, noNetwork, relay } from './network.mjs';
import { freePort } from './pages.mjs';
import { Chat, script, until } from './turns.mjs';

const skip = missing || noNetwork();

// Two servers; the first is in a network of its own.
async function divide(t) {
  const network = new Network(t);
  const { database, web } = network.links;
  const slow = path.join(tempDir(t), 'demo.json');
  fs.writeFileSync(slow, JSON.stringify({ interval_ms: 50, steps: [{ match: 'count', play: [{ text: 'knot '.repeat(4000) }] }] }));
  const ports = [await freePort(), await freePort()];
  const socket = path.join(process.env.QUIPU_TEST_POSTGRES, '.s.PGSQL.5432');
  const at = await relay(t, { host: database.outer.address, port: 0 }, { path: socket });
  await relay(t, { host: web.outer.address, port: ports[1] }, { host: '127.0.0.1', port: ports[1] });
  const names = [web.inner.address, web.outer.address];
  const cluster = await Cluster.start(t, 0, {
    each: (i) => ({
      port: ports[i],
      args: [...cluster.options.args, '--demo-script', slow, '--allow-host', names[i], '--advertise', `http://${names[i]}:${ports[i]}`],
      ...(i === 0 ? { as: { under: network.under }, data: `postgres://quipu@${database.outer.address}:${at}/${cluster.database.name}` } : {}),
    }),
  });
  const one = await cluster.add();
  one.url = await network.open(t, 'web', ports[0]);
  const two = await cluster.add();
  return { network, cluster, one, two };
}

const holders = (cluster, chat) => cluster.sql(`SELECT s.address FROM quipu.leases l JOIN quipu.servers s ON s.server = l.holder WHERE l.context = '${chat.id}'`);

test('a server is cut off from the database: another one takes over, and it comes back', { skip }, async (t) => {
  const { network, cluster, one, two } = await divide(t);
  const chat = await Chat.create(one);
  const stream = await chat.on(two).follow({ after: 0 });
  await chat.begin('send_message', { content: 'count' });
  await stream.until((event) => event.type === 'text');
  network.cut('database');
  const left = await chat.on(two).reach('Failed');
  assert.equal(left.state_detail.error.kind, 'interrupted');
  assert.equal(await stream.ended, false);
  // It neither shows what may be old, nor acknowledges what it cannot store.
  assert.equal((await one.ask('GET', `${chat.at}/state`)).status, 503);
  const late = await one.ask('POST', `${chat.at}/messages`, { role: 'user', text: 'late' });
  assert.ok(late.status >= 500, late.text);
  assert.equal((await one.ask('GET', '/readyz')).status, 503);
  await two.expect(201, 'POST', `${chat.at}/messages`, { role: 'user', text: 'in time' });
  network.heal('database');
  await one.process.logged(/lost its contexts/);
  await until(async () => (await one.ask('GET', `${chat.at}/state`)).status === 200);
  const seen = await Promise.all([one, two].map((server) => chat.on(server).state()));
  assert.deepEqual(seen[0], seen[1]);
  assert.deepEqual(script(seen[0]), [...script(left), 'user: in time']);
  const fresh = await Chat.create(one);
  assert.equal((await fresh.on(two).state()).state, 'Idle');
  assert.equal(holders(cluster, fresh), one.url);
});

test('two servers cannot reach each other, and both reach the database', { skip }, async (t) => {
  const { network, cluster, one, two } = await divide(t);
  const chat = await Chat.create(one);
  await two.expect(201, 'POST', `${chat.at}/messages`, { role: 'user', text: 'through two' });
  network.cut('web');
  const answer = await two.ask('GET', `${chat.at}/state`);
  assert.equal(answer.status, 503, answer.text);
  assert.match(answer.body.error.message, /cannot be reached/);
  assert.equal(holders(cluster, chat), one.url, 'a server that reaches the database keeps its contexts');
  network.heal('web');
  await until(async () => (await two.ask('GET', `${chat.at}/state`)).status === 200);
  assert.deepEqual(script(await chat.on(two).state()), ['user: through two']);
});
