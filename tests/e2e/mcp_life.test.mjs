// Nothing that an MCP server starts outlives it, or quipu: not a process in a session of its own that
// ignores SIGTERM and the end of its input either. Such a process is connected to a socket of the
// test while it lives, and the end of the connection is the event that is waited for.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import readline from 'node:readline';
import test from 'node:test';
import { tempDir } from './helper.mjs';
import { soon } from './model.mjs';
import { serveTurns } from './turns.mjs';

const scripted = new URL('../lib/mcp_server.mjs', import.meta.url).pathname;

// A server with such an MCP server. next(): its next grandchild, with `parent`, the number of the MCP
// server, and ended(), which waits for the end of the grandchild.
async function serveGrandchildren(t) {
  const socket = path.join(tempDir(t), 's');
  const waiting = [];
  const arrived = [];
  const listener = net.createServer(async (connection) => {
    const closed = once(connection, 'close');
    connection.on('error', () => {});
    const [line] = await once(readline.createInterface({ input: connection }), 'line');
    const [parent, pid] = line.split(' ').map(Number);
    let alive = true;
    closed.then(() => (alive = false));
    t.after(() => {
      try {
        if (alive) process.kill(pid, 'SIGKILL'); // a test that fails may leave it behind
      } catch (error) {
        assert.equal(error.code, 'ESRCH');
      }
    });
    const grandchild = {
      parent,
      ended: () => soon(closed, () => `the end of process ${pid}`),
    };
    if (waiting.length) waiting.shift()(grandchild);
    else arrived.push(grandchild);
  });
  listener.listen(socket);
  await once(listener, 'listening');
  t.after(() => listener.close());
  const server = await serveTurns(t, { mcp: { family: { command: 'node', args: [scripted, `grandchild=${socket}`] } } });
  const next = () => (arrived.length ? Promise.resolve(arrived.shift()) : new Promise((resolve) => waiting.push(resolve)));
  return { server, next };
}

for (const signal of ['SIGKILL', 'SIGTERM'])
  test(`what an MCP server has started ends with quipu serve (${signal})`, async (t) => {
    const { server, next } = await serveGrandchildren(t);
    const grandchild = await next();
    await server.stop(signal);
    await grandchild.ended();
  });

test('what an MCP server has started ends with the MCP server, which is started again', async (t) => {
  const { next } = await serveGrandchildren(t);
  const first = await next();
  process.kill(first.parent, 'SIGKILL');
  await first.ended();
  const second = await next();
  assert.notEqual(second.parent, first.parent);
});
