// `quipu chat` with a server, from a pipe.

import assert from 'node:assert/strict';
import test from 'node:test';
import { say, scenarios, setting, state, stored, text, texts } from './chat.mjs';
import { exit, fails, ok, Running } from './helper.mjs';
import { freePort } from './pages.mjs';
import { serve } from './server.mjs';

scenarios('with a server', async (t, s) => {
  const server = await serve(t, { data: s.data, args: s.args });
  return { more: ['--server', server.url], end: () => server.stop() };
});

test('a server that is not there, or wants a key', async (t) => {
  const s = setting(t, [say('*', text('Hello.'))]);
  fails(s.data, ['chat', '--server', 'http://127.0.0.1:1'], 'IO', /127\.0\.0\.1:1: .*[Cc]onnect/);
  const key = JSON.parse(ok(s.data, ['key', 'create', '--name', 'me', '--json'])).key;
  const server = await serve(t, { data: s.data, args: s.args });
  fails(s.data, ['chat', '--new'], 'DENIED', /key/, { input: 'hi\n' });
  assert.equal(ok(s.data, ['chat', '--new', '--key', key], { input: 'hi\n' }), 'Hello.\n');
  assert.equal(ok(undefined, ['chat', '--server', server.url], { input: 'hi\n', env: { QUIPU_KEY: key } }), 'Hello.\n');
  await server.stop();
});

test('the server that holds the data directory is found', async (t) => {
  const s = setting(t, [say('*', text('From the server.'))]);
  const server = await serve(t, { data: s.data, args: s.args });
  assert.equal(ok(s.data, ['chat', '--new'], { input: 'hi\n' }), 'From the server.\n');
  await server.stop();
  assert.deepEqual(texts(s.data), ['hi', 'From the server.']);
});

test('a turn that another client has begun is followed', async (t) => {
  const s = setting(t, [say('*slow*', text('one\n' + 'and on '.repeat(60))), say('*quick*', text('Here.'))], 20);
  const server = await serve(t, { data: s.data, args: s.args });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  await server.expect(202, 'POST', `/v1/contexts/${id}/actions/send_message`, { content: 'slow' }, { prefer: 'respond-async' });
  const out = ok(s.data, ['chat', id], { input: 'quick\n' });
  assert.match(out, /^\[a turn is in progress: \w+\]\n[^]*and on *\nHere\.\n$/);
  await server.stop();
  assert.deepEqual(stored(s.data, id).map((m) => m.role), ['user', 'assistant', 'user', 'assistant']);
});

test('a server that dies in the middle of an answer and comes back is found again', async (t) => {
  const s = setting(t, [say('*slow*', text('one\n' + 'and on '.repeat(400)))], 20);
  const server = await serve(t, { data: s.data, args: s.args, port: await freePort() });
  const process = new Running(t, s.data, ['chat', '--new', '--server', server.url]);
  await process.write('slow\n');
  assert.equal(await process.next(), 'one');
  await server.stop('SIGKILL');
  const second = new Running(t, s.data, ['serve', '--listen', `127.0.0.1:${server.port}`, ...s.args]);
  assert.match(await second.next(), /^quipu serves /);
  const end = await process.ended;
  assert.equal(end.status, exit.IO);
  assert.match(end.stderr, /the turn failed: /);
  second.child.kill('SIGTERM');
  await second.ended;
  assert.equal(state(s.data), 'Failed');
  assert.equal(texts(s.data)[0], 'slow');
});
