// The server itself: starting, stopping, routes, errors, and whatever a client can do wrong before a
// handler is reached.

import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import { fails, run, tempDir } from './helper.mjs';
import { serve, statuses } from './server.mjs';

const request = (line, ...headers) => `${[line, 'Host: localhost', ...headers].join('\r\n')}\r\n\r\n`;
const last = (line, ...headers) => request(line, 'Connection: close', ...headers);

test('serve says where it answers, and health, readiness and metrics answer there', async (t) => {
  const server = await serve(t);
  const health = await server.ask('GET', '/healthz');
  assert.equal(health.status, 200);
  assert.equal(health.body.status, 'ok');
  assert.equal(health.headers.get('x-content-type-options'), 'nosniff');
  assert.match(health.headers.get('content-security-policy'), /default-src 'none'/);
  assert.equal((await server.expect(200, 'GET', '/readyz')).status, 'ready');
  const metrics = await server.ask('GET', '/metrics');
  assert.match(metrics.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  assert.match(metrics.text, /^quipu_http_requests_total\{method="GET",route="\/healthz",class="2xx"\} 1$/m);
  assert.match(metrics.text, /^quipu_http_request_seconds_count\{method="GET",route="\/healthz"\} 1$/m);
  assert.match(metrics.text, /^quipu_commits_total \d+$/m);
  for (const line of metrics.text.trimEnd().split('\n'))
    assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{[^}]*\})? [\d.]+)$/);
});

test('the access log has a line a request, without the query', async (t) => {
  const server = await serve(t);
  await server.ask('GET', '/healthz?key=secret');
  await server.ask('GET', '/nothing%0ahere', undefined, { authorization: 'Bearer secret' });
  const { stderr } = await server.stop();
  assert.match(stderr, /^time=\S+Z level=info method=GET path=\/healthz status=400 bytes=\d+ ms=[\d.]+ from=127\.0\.0\.1 key=-$/m);
  assert.match(stderr, /path=\/nothing%0ahere status=400/);
  assert.doesNotMatch(stderr, /secret/);
});

test('SIGTERM lets a request that has begun end, then the server', async (t) => {
  const server = await serve(t);
  const socket = net.connect({ port: server.port, host: '127.0.0.1' });
  let got = '';
  socket.setEncoding('latin1').on('data', (data) => (got += data));
  // Once "100 Continue" is there, the request is in the server's hands.
  socket.write('POST /v1/contexts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n');
  while (!got.includes('100 Continue')) await new Promise((resolve) => socket.once('data', resolve));
  server.process.child.kill('SIGTERM');
  await assert.rejects(async () => {
    for (;;) await fetch(`${server.url}/healthz`, { headers: { connection: 'close' } });
  }, 'no new connection is taken');
  socket.write('{}');
  const { status } = await server.process.ended;
  assert.equal(status, 0);
  assert.match(got, /HTTP\/1\.1 201 /);
  assert.match(got, /Connection: close/i);
});

test('SIGINT ends it too, also while connections are idle', async (t) => {
  const server = await serve(t);
  const socket = net.connect({ port: server.port, host: '127.0.0.1' });
  await new Promise((resolve) => socket.once('connect', resolve));
  await server.expect(200, 'GET', '/healthz');
  const { status, stderr } = await server.stop('SIGINT');
  assert.equal(status, 0);
  assert.doesNotMatch(stderr, /level=(error|warn)/);
});

test('serve refuses addresses that are none, in use, or open to others', async (t) => {
  const server = await serve(t);
  const other = `${tempDir(t)}/other`;
  const listen = (address) => ['serve', '--log-level', 'warn', '--listen', address];
  fails(other, listen(`127.0.0.1:${server.port}`), 'BUSY', /another program listens/);
  fails(other, listen('0.0.0.0:0'), 'DENIED', /other machines/);
  fails(other, listen('[::]:0'), 'DENIED', /other machines/);
  for (const bad of ['7878', 'nowhere:1', '127.0.0.1:', '127.0.0.1:port', '127.0.0.1:99999', ':1'])
    fails(other, listen(bad), 'INVALID', /not a valid address/);
  fails(server.data, listen('127.0.0.1:0'), 'BUSY', /./);
  assert.match(run(undefined, ['serve', '--help']).stdout, /--listen ADDR:PORT/);
});

test('unknown paths, methods and query parameters', async (t) => {
  const server = await serve(t);
  for (const path of ['/v1', '/v2/contexts', '/healthz/', '/v1/contexts/a/b/c/d/e/f/g/h', '//healthz'])
    await server.refuses(404, 'NOTFOUND', /No such path/, 'GET', path);
  const answer = await server.ask('DELETE', '/healthz');
  assert.equal(answer.status, 405);
  assert.equal(answer.headers.get('allow'), 'GET, HEAD, OPTIONS');
  await server.refuses(405, 'METHOD_NOT_ALLOWED', /allowed: GET/, 'PATCH', '/readyz');
  await server.refuses(400, 'INVALID', /unknown query parameter 'x'/, 'GET', '/healthz?x=1');
  await server.refuses(400, 'INVALID', /does not accept a body/, 'DELETE', '/v1/contexts/x', '{}');
  const head = await server.ask('HEAD', '/healthz');
  assert.equal(head.status, 200);
  assert.equal(head.text, '');
  const options = await server.ask('OPTIONS', '/v1/contexts');
  assert.equal(options.status, 204);
  assert.match(options.headers.get('allow'), /POST/);
});

test('addresses that are not what they seem', async (t) => {
  const server = await serve(t);
  const get = async (target) => statuses(await server.raw(last(`GET ${target} HTTP/1.1`)))[0];
  assert.equal(await get('/%68ealthz'), 200);
  assert.equal(await get('/v1/contexts/..%2f..%2f..%2fetc%2fpasswd'), 404);
  assert.equal(await get('/v1/../healthz'), 404);
  assert.equal(await get('/v1/contexts/%2e%2e/state'), 404);
  assert.equal(await get('/healthz%00'), 400);
  assert.equal(await get('/healthz%0d%0aSet-Cookie:x'), 400);
  assert.equal(await get('/%ff%fe'), 400);
  assert.equal(await get('/healthz%2'), 400);
  assert.equal(await get('/healthz%zz'), 400);
  assert.equal(await get('/healthz?a=%'), 400);
  assert.equal(await get(`/${'a'.repeat(5000)}`), 404);
});

test('pages of others are refused, whatever name they use for this machine', async (t) => {
  const server = await serve(t, { args: ['--allow-origin', 'https://chat.example'] });
  const get = async (...headers) => server.raw(`GET /healthz HTTP/1.1\r\n${headers.join('\r\n')}\r\nConnection: close\r\n\r\n`);
  for (const host of ['localhost', `localhost:${server.port}`, '127.0.0.1:1', '[::1]', '[::1]:7878', 'LOCALHOST'])
    assert.deepEqual(statuses(await get(`Host: ${host}`)), [200], host);
  for (const host of ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', '10.0.0.1'])
    assert.deepEqual(statuses(await get(`Host: ${host}`)), [403], host);
  for (const host of ['', '[::1].evil.com', '[::1', '[::1]:x', 'localhost:7x', 'a b', 'localhost@evil.example', 'localhost/evil'])
    assert.deepEqual(statuses(await get(`Host: ${host}`)), [400], host);
  assert.deepEqual(statuses(await get('Host: localhost', 'Host: localhost')), [400]);
  for (const origin of ['http://evil.example', 'null', 'https://localhost', 'http://localhost:1', 'https://chat.example.evil'])
    assert.deepEqual(statuses(await get('Host: localhost', `Origin: ${origin}`)), [403], origin);
  assert.deepEqual(statuses(await get('Host: localhost', 'Origin: http://localhost')), [200]);
  const allowed = await get('Host: localhost', 'Origin: https://chat.example');
  assert.match(allowed, /Access-Control-Allow-Origin: https:\/\/chat\.example\r\n/);
  const preflight = await server.raw(last('OPTIONS /v1/contexts HTTP/1.1', 'Origin: https://chat.example', 'Access-Control-Request-Method: POST'));
  assert.deepEqual(statuses(preflight), [204]);
  assert.match(preflight, /Access-Control-Allow-Methods: [A-Z, ]*POST/);
  assert.doesNotMatch(await get('Host: localhost'), /Access-Control/);
});

test('bodies that are too long, of another type, not JSON, not UTF-8, too deep', async (t) => {
  const server = await serve(t, { args: ['--max-body', '2000'] });
  const post = (body, headers) => ['POST', '/v1/contexts', body, headers];
  await server.refuses(413, 'TOOBIG', /over the limit of 2000 bytes/, ...post(`{"title":"${'x'.repeat(2000)}"}`));
  const chunked = `${'7d0\r\n'}${'x'.repeat(2000)}\r\n5\r\nxxxxx\r\n0\r\n\r\n`;
  assert.deepEqual(statuses(await server.raw(last('POST /v1/contexts HTTP/1.1', 'Transfer-Encoding: chunked') + chunked)), [413]);
  await server.refuses(415, 'UNSUPPORTED_MEDIA_TYPE', /must be JSON/, ...post('{}', { 'content-type': 'text/plain' }));
  for (const body of ['{', '[]', '"a"', '{"title":"a",}', '{"title":"a"} x', '{"title":"a","title":"b"}', '{"title":"\\ud800"}'])
    await server.refuses(400, 'INVALID', /the body/, ...post(body));
  await server.refuses(400, 'INVALID', /the body/, ...post(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])));
  await server.refuses(400, 'INVALID', /the body/, ...post(`{"parameters":${'['.repeat(900)}${']'.repeat(900)}}`));
  await server.expect(200, 'GET', '/healthz');
});

test('a body whose end can be read in two ways is refused, and the connection with it', async (t) => {
  const server = await serve(t);
  const hidden = request('GET /metrics HTTP/1.1');
  const post = 'POST /v1/contexts HTTP/1.1';
  const both = await server.raw(request(post, 'Content-Length: 5', 'Transfer-Encoding: chunked') + `0\r\n\r\n${hidden}`);
  assert.deepEqual(statuses(both), [400]);
  const twice = await server.raw(request(post, 'Content-Length: 2', 'Content-Length: 40') + `{}${hidden}`);
  assert.deepEqual(statuses(twice), [400]);
  const strange = await server.raw(request(post, 'Transfer-Encoding: gzip, chunked') + `0\r\n\r\n${hidden}`);
  assert.deepEqual(statuses(strange), [400]);
  const signed = await server.raw(request(post, 'Content-Length: +2') + `{}${hidden}`);
  assert.ok(statuses(signed).length > 0 && statuses(signed).every((status) => status === 400), signed);
  await server.expect(200, 'GET', '/healthz');
});

test('requests in a row on one connection are answered in order, also after an error', async (t) => {
  const server = await serve(t);
  const all = await server.raw(
    request('GET /healthz HTTP/1.1') + request('GET /nothing HTTP/1.1') + request('GET /readyz HTTP/1.1') + last('DELETE /healthz HTTP/1.1'),
  );
  assert.deepEqual(statuses(all), [200, 404, 200, 405]);
});

test('a client that closes its side still gets its answer', async (t) => {
  const server = await serve(t, { args: ['--timeout', '2'] });
  assert.deepEqual(statuses(await server.raw(last('GET /healthz HTTP/1.1'), { end: true })), [200]);
  await server.raw('GET /healthz HT', { end: true }); // and half a request gets none
  await server.raw('POST /v1/contexts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{', { end: true });
  await server.raw('\r\n\r\n\x00\x01\x02 nonsense\r\n\r\n', { end: true });
  await server.expect(200, 'GET', '/healthz');
});

test('headers that are too long, and requests that are none', async (t) => {
  const server = await serve(t);
  const long = await server.raw(last('GET /healthz HTTP/1.1', `X-Long: ${'x'.repeat(70000)}`));
  assert.equal(statuses(long)[0], 431);
  assert.deepEqual(statuses(await server.raw(`GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n`)), [400]);
  await server.expect(200, 'GET', '/healthz');
});

test('a connection that sends nothing is closed', async (t) => {
  const server = await serve(t, { args: ['--timeout', '1'] });
  assert.equal(await server.raw('GET /healthz HTTP/1.1\r\nHost: local'), '');
  await server.expect(200, 'GET', '/healthz');
});

test('many idle connections do not keep others out', async (t) => {
  const server = await serve(t);
  const sockets = await Promise.all(
    Array.from({ length: 500 }, () => new Promise((resolve, reject) => {
      const socket = net.connect({ port: server.port, host: '127.0.0.1' }, () => resolve(socket));
      socket.on('error', reject);
    })),
  );
  await server.expect(200, 'GET', '/healthz');
  for (const socket of sockets) socket.destroy();
});
