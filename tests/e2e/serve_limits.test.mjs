// A process whose limits are small: descriptors, and the size of a file.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import { bin, environment, exit, makeContext, ok } from './helper.mjs';
import { serve } from './server.mjs';

// One connection that is kept, whatever the others do.
function keep(server) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (method, target, body) =>
    new Promise((resolve, reject) => {
      const headers = body === undefined ? {} : { 'content-type': 'application/json' };
      const request = http.request(server.url + target, { method, agent, headers }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece) => (text += piece));
        answer.on('end', () => resolve({ status: answer.statusCode, text, body: text && JSON.parse(text) }));
      });
      request.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body));
    });
  return { ask, close: () => agent.destroy() };
}

// Connections that say nothing; those that the server does not take wait in the kernel.
async function idle(t, server, count) {
  const sockets = [];
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  for (let i = 0; i < count; i++)
    sockets.push(
      await new Promise((resolve, reject) => {
        const socket = net.connect({ port: server.port, host: '127.0.0.1' }, () => resolve(socket));
        socket.on('error', reject);
      }),
    );
  return sockets;
}

for (const [files, connections] of [
  [64, 200],
  [1024, 1500],
])
  test(`with ${files} descriptors, ${connections} idle connections do not stop the writes`, async (t) => {
    const server = await serve(t, { as: { limits: `ulimit -n ${files}` }, args: ['--timeout', '600'] });
    const kept = keep(server);
    const first = await kept.ask('POST', '/v1/contexts', {});
    assert.equal(first.status, 201, first.text);
    await idle(t, server, connections);
    const saved = {};
    for (let i = 0; i < 8; i++) {
      const made = await kept.ask('POST', '/v1/contexts', { title: `context ${i}` });
      assert.equal(made.status, 201, made.text);
      const said = await kept.ask('POST', `/v1/contexts/${made.body.id}/messages`, { role: 'user', text: `message ${i}` });
      assert.equal(said.status, 201, said.text);
      saved[made.body.id] = said.body.message_id;
      const turn = await kept.ask('POST', `/v1/contexts/${made.body.id}/actions/send_message`, { content: 'hello' });
      assert.equal(turn.status, 200, turn.text);
    }
    assert.equal((await kept.ask('GET', '/v1/contexts')).status, 200);
    assert.equal((await kept.ask('GET', '/readyz')).status, 200);
    kept.close();
    await server.stop('SIGKILL');
    for (const [id, message] of Object.entries(saved)) assert.ok(ok(server.data, ['show', id, '--ids']).includes(message));
    ok(server.data, ['check']);
  });

// In blocks of 512 bytes: more than a segment of the journal, less than the message.
const small = 'ulimit -f 18000';
const large = 'x'.repeat(12 << 20);

test('a file over the limit of the process is a full disk to the server, which goes on', async (t) => {
  const server = await serve(t, { as: { limits: small } });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const at = `/v1/contexts/${id}/messages`;
  await server.refuses(507, 'FULL', /File too large/, 'POST', at, { role: 'user', text: large });
  await server.expect(201, 'POST', at, { role: 'user', text: 'short' });
  const { status, signal } = await server.stop();
  assert.deepEqual({ status, signal }, { status: 0, signal: null });
  ok(server.data, ['check']);
});

test('a file over the limit of the process is a full disk to the command line', (t) => {
  const { data, ctx } = makeContext(t);
  const result = spawnSync('sh', ['-c', `${small} && exec "$0" "$@"`, bin, 'add', ctx, '--jsonl', '-'], {
    env: environment(data),
    input: `${JSON.stringify({ role: 'user', text: large })}\n`,
    encoding: 'utf8',
  });
  assert.equal(result.signal, null);
  assert.equal(result.status, exit.FULL, result.stderr);
  assert.match(result.stderr, /File too large/);
});
