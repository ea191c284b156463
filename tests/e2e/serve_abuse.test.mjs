// Clients that break the rules of HTTP, by mistake or on purpose, over raw sockets. Whatever they do,
// the answer is a refusal and the server goes on for everybody else.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import { ok } from './helper.mjs';
import { serve, statuses } from './server.mjs';

const request = (line, ...headers) => `${[line, 'Host: localhost', ...headers].join('\r\n')}\r\n\r\n`;
const last = (line, ...headers) => request(line, 'Connection: close', ...headers);
const hidden = request('GET /metrics HTTP/1.1'); // what must not be answered
const post = 'POST /v1/contexts HTTP/1.1';

// Others are answered as ever.
async function goesOn(server) {
  assert.equal((await server.expect(200, 'GET', '/healthz')).status, 'ok');
  await server.expect(200, 'GET', '/v1/contexts');
}

// Exactly one answer, of this status, and the connection is over. Where libmicrohttpd answers itself,
// the body is HTML; else it is our error.
async function refused(server, status, text, { html = false, ...how } = {}) {
  const got = await server.raw(text, how);
  const shown = JSON.stringify(text.slice(0, 200));
  assert.deepEqual(statuses(got), [status], `${shown}: ${got}`);
  assert.doesNotMatch(got, /quipu_http_requests_total/, shown);
  const body = got.slice(got.lastIndexOf('\r\n\r\n') + 4);
  if (html) assert.match(body, /^<html>/, shown);
  else assert.deepEqual(Object.keys(JSON.parse(body).error), ['code', 'message'], shown);
  await goesOn(server);
}

function connect(server) {
  const socket = net.connect({ port: server.port, host: '127.0.0.1' });
  socket.setEncoding('latin1').on('error', () => {});
  socket.got = '';
  socket.on('data', (data) => (socket.got += data));
  socket.over = new Promise((resolve) => socket.once('close', resolve));
  socket.ready = new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  return socket;
}

test('where a body ends has one reading, or the request is refused', async (t) => {
  const server = await serve(t);
  const chunked = `0\r\n\r\n${hidden}`;
  const te = (...headers) => request(post, ...headers) + chunked;
  const cl = (...headers) => `${request(post, ...headers)}{}${hidden}`;
  for (const text of [
    te('Content-Length: 5', 'Transfer-Encoding: chunked'),
    te('Transfer-Encoding: chunked', 'Content-Length: 5'),
    te('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
    te('Transfer-Encoding: chunked', 'Transfer-Encoding: identity'),
    te('Transfer-Encoding: chunked, identity'),
    te('Transfer-Encoding: gzip, chunked'),
    te('Transfer-Encoding: identity'),
    te('Transfer-Encoding: xchunked'),
    te('Transfer-Encoding: chunked;a=b'),
    te('Transfer-Encoding: "chunked"'),
    te('Transfer-Encoding: chunked\x0b'),
    te('Transfer-Encoding:'),
    cl('Content-Length: 2', 'Content-Length: 2'),
    cl('Content-Length: 2', 'Content-Length: 40'),
    cl('Content-Length: 18446744073709551615'),
    `POST /v1/contexts HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
  ])
    await refused(server, 400, text);
  await refused(server, 413, cl('Content-Length: 999999999999'));
  for (const length of ['-1', '-2', '+2', '0x2', '2 ', '2,2', '2, 2', '1e1', '2.0', 'two', '"2"', ''])
    await refused(server, 400, cl(`Content-Length: ${length}`));
  await refused(server, 400, cl('Content-Length: 18446744073709551616'));
  await refused(server, 400, cl(`Content-Length: ${'9'.repeat(100)}`));
});

// libmicrohttpd has an answer of its own for these, with two heads. It must not come out, also when
// the header comes in pieces and other connections of the same thread are in the middle of theirs.
test('a bad Content-Length is answered once, and concerns its connection alone', async (t) => {
  const server = await serve(t, { args: ['--threads', '1'] });
  const others = [0, 1, 2].map(() => connect(server));
  await Promise.all(others.map((other) => other.ready));
  others[0].write(`${post}\r\nHost: localhost\r\n`);
  others[1].write(`${post}\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n`);
  others[2].write(`${request(post, 'Transfer-Encoding: chunked', 'Connection: close')}1\r\n{`);
  const bad = connect(server);
  await bad.ready;
  for (const piece of [`${post}\r\n`, 'Host: localhost\r\nContent-Le', 'ngth: 5x\r\n']) {
    bad.write(piece);
    await goesOn(server);
  }
  bad.write('\r\n{}');
  await bad.over;
  assert.deepEqual(statuses(bad.got), [400], bad.got);
  assert.equal(JSON.parse(bad.got.slice(bad.got.indexOf('\r\n\r\n') + 4)).error.message, 'the Content-Length must be a number');
  others[0].write('Connection: close\r\nContent-Length: 2\r\n\r\n{}');
  others[1].write('\r\n{}');
  others[2].write('\r\n1\r\n}\r\n0\r\n\r\n');
  for (const other of others) {
    await other.over;
    assert.deepEqual(statuses(other.got), [201], other.got);
  }
});

test('a header is one line with a name that is a token', async (t) => {
  const server = await serve(t);
  const te = (...headers) => `${request(post, ...headers)}0\r\n\r\n${hidden}`;
  for (const text of [
    // A space before the colon, or another byte that is of no name.
    te('Transfer-Encoding : chunked'),
    te('Transfer-Encoding\t: chunked'),
    te('Content-Length : 5'),
    te('Bad(Name): x'),
    te('\x01Name: x'),
    te(': no name'),
    // A second line: it would change the name that libmicrohttpd sees.
    te('Transfer-Encoding:\r\n chunked'),
    te('Transfer-Encoding: chunked\r\n '),
    te('Transfer-Encodin:     chunked\r\n g'),
    te('Transfer-Encodin: chunked\r\n\tg'),
    te('Content-Length: 1\r\n 0'),
    te('X-Folded: a\r\n b\r\n\tc'),
    te('X-Folded: a\r\n Transfer-Encoding: chunked'),
    `POST /v1/contexts HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: localhost\r\n\r\n0\r\n\r\n${hidden}`,
    // A carriage return alone is no end of a line.
    te('X: a\rTransfer-Encoding: chunked'),
    te('X: a\r\rContent-Length: 5'),
    te('X: \x7f'),
    te('X: \x1b[2J'),
  ])
    await refused(server, 400, text);
  await refused(server, 400, te('No-Colon'), { html: true });
  await refused(server, 400, te('Nul\0: x'), { html: true });
  // What is unusual and has one reading only.
  for (const header of ['Empty:', 'X:a', 'X:  \t a  \t ', 'X: \xe4\xf6\xfc', `X: ${'y'.repeat(7000)}`, '!#$%&\'*+-.^_`|~9aZ: x'])
    assert.deepEqual(statuses(await server.raw(last('GET /healthz HTTP/1.1', header))), [200], header);
  // What libmicrohttpd accepts and a server in front may read otherwise: bare LF, NUL, more spaces.
  for (const text of [
    'GET /healthz HTTP/1.1\nHost: localhost\nConnection: close\n\n',
    'GET /healthz HTTP/1.1\r\nHost: localhost\nConnection: close\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\n',
    last('GET /healthz HTTP/1.1', 'X: a\0b'),
    last('GET /healthz HTTP/1.1', 'X: a\0'),
    last('GET /healthz\0/x HTTP/1.1'),
    last('GET /healthz\0 HTTP/1.1'),
    last('GET  /healthz HTTP/1.1'),
    last('GET /healthz HTTP/1.1', ': x'),
    te(':', 'Transfer-Encoding: chunked'),
  ])
    await refused(server, 400, text, { checked: false });
  await goesOn(server);
});

test('chunks that are none', async (t) => {
  const server = await serve(t);
  const chunked = (body) => last(post, 'Transfer-Encoding: chunked') + body;
  for (const body of ['x\r\n', '-1\r\n{}\r\n0\r\n\r\n', '0x2\r\n{}\r\n0\r\n\r\n', '2\r\n{}x\r\n0\r\n\r\n', ' 2\r\n{}\r\n0\r\n\r\n', '\r\n', '2 \r\n{}\r\n0\r\n\r\n'])
    await refused(server, 400, chunked(body));
  await refused(server, 400, chunked(`${'f'.repeat(17)}\r\n{}`));
  // An extension without an end, up to 1 MiB; no further than to the answer, because a client that goes on
  // writing may miss it.
  const long = connect(server);
  await long.ready;
  long.write(chunked('1;'));
  for (let i = 0; i < 1024 && !long.got; i++) {
    long.write('x'.repeat(1024));
    await goesOn(server);
  }
  await long.over;
  assert.deepEqual(statuses(long.got), [400], long.got);
  // When several bodies come in chunks to one thread, libmicrohttpd's own answer stands; theirs go on.
  const alone = await serve(t, { args: ['--threads', '1'] });
  const other = connect(alone);
  await other.ready;
  other.write(`${request(post, 'Transfer-Encoding: chunked', 'Connection: close')}1\r\n{`);
  await goesOn(alone);
  await refused(alone, 400, chunked('x\r\n'), { html: true });
  other.write('\r\n1\r\n}\r\n0\r\n\r\n');
  await other.over;
  assert.deepEqual(statuses(other.got), [201], other.got);
  const good = await server.raw(chunked('1;ext="a;b"\r\n{\r\n1\r\n}\r\n0\r\nContent-Length: 5\r\nX-Trailer: y\r\n\r\n'));
  assert.deepEqual(statuses(good), [201]);
  await goesOn(server);
});

test('request lines of all forms', async (t) => {
  const server = await serve(t, { args: ['--timeout', '1'] });
  const line = async (text, ...headers) => server.raw(last(text, ...headers));
  const status = async (text, ...headers) => statuses(await line(text, ...headers))[0];
  // RFC 9112: origin-form, absolute-form, asterisk-form; authority-form is a proxy's.
  assert.equal(await status('GET /healthz HTTP/1.1'), 200);
  assert.equal(await status('GET http://localhost/healthz HTTP/1.1'), 200);
  assert.equal(await status('GET HTTP://LOCALHOST/v1/contexts?limit=1 HTTP/1.1'), 200);
  assert.equal(await status('GET http://localhost HTTP/1.1'), 200);
  assert.equal(await status('GET http://evil.example/healthz HTTP/1.1'), 400);
  assert.equal(await status('GET http://localhost.evil/healthz HTTP/1.1'), 400);
  assert.equal(await status('GET http://localhost@evil.example/healthz HTTP/1.1'), 400);
  assert.equal(await status('GET https://localhost/healthz HTTP/1.1'), 400);
  assert.equal(await status('GET file:///etc/passwd HTTP/1.1'), 400);
  assert.equal(await status('CONNECT localhost:80 HTTP/1.1'), 400);
  const star = await line('OPTIONS * HTTP/1.1');
  assert.deepEqual(statuses(star), [204]);
  assert.match(star, /\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n/);
  assert.equal(await status('GET * HTTP/1.1'), 400);
  for (const method of ['TRACE', 'BREW', 'get', 'G', 'X'.repeat(2000)]) assert.equal(await status(`${method} /healthz HTTP/1.1`), 405, method);
  // Versions.
  assert.deepEqual(statuses(await server.raw('GET /healthz HTTP/1.0\r\n\r\n')), [200], 'a 1.0 connection ends by itself');
  assert.deepEqual(statuses(await server.raw('GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /readyz HTTP/1.0\r\n\r\n')), [200, 200]);
  assert.deepEqual(statuses(await server.raw('GET /healthz HTTP/1.1\r\n\r\n')), [400], 'no Host');
  for (const version of ['HTTP/2.0', 'HTTP/0.9', 'HTTP/9.9']) await refused(server, 505, request(`GET /healthz ${version}`), { html: true });
  for (const version of ['HTTP/1.1x', 'http/1.1', 'HTTP/11', 'HTTP/1.', 'HTTPS/1.1', ''])
    assert.ok([400, 505].includes(statuses(await server.raw(request(`GET /healthz ${version}`), { end: true }))[0]), version);
  await server.raw('GET /healthz\r\n\r\n', { end: true });
  await server.raw('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', { end: true });
  await server.raw('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', { end: true }); // the hello of TLS
  assert.equal(await status('GET /healthz HTTP/1.1', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'), 200);
  await goesOn(server);
});

test('nothing of a request becomes a header of the answer', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const evil = '\r\nSet-Cookie: a=b';
  const asked = [
    ['POST', `/v1/contexts/${id}/branches`, { name: `b${evil}` }],
    ['POST', '/v1/system-prompts', { id: `p${evil}`, content: 'x' }],
    ['POST', '/v1/sessions', { id: `s${evil}` }],
    ['POST', '/v1/contexts', { title: `t${evil}` }],
    ['GET', `/v1/contexts/${encodeURIComponent(`x${evil}`)}`],
    ['GET', `/v1/contexts/${id}/branches/${encodeURIComponent(`main${evil}`)}`],
    ['GET', `/v1/contexts?cursor=${encodeURIComponent(`x${evil}`)}`],
    ['GET', `/${encodeURIComponent(evil)}`],
  ];
  for (const [method, target, body] of asked) {
    const answer = await server.ask(method, target, body);
    assert.ok(answer.status < 500, target);
    assert.equal(answer.headers.get('set-cookie'), null, target);
  }
  // The names that are allowed come back encoded.
  const named = await server.ask('POST', `/v1/contexts/${id}/branches`, { name: 'ä%0d%0aX: y' });
  assert.ok(named.status < 500);
  for (const [, value] of named.headers) assert.doesNotMatch(value, /[\r\n]/);
  assert.equal(named.headers.get('x'), null);
  const { stderr } = await server.stop();
  assert.doesNotMatch(stderr, /^Set-Cookie/m, 'nor a line of the log');
});

test('requests in a row are answered in order, and none behind one that ends the connection', async (t) => {
  const server = await serve(t);
  const kinds = [
    [request('GET /healthz HTTP/1.1'), 200],
    [request('GET /nothing HTTP/1.1'), 404],
    [`${request(post, 'Content-Length: 2')}{}`, 201],
    [`${request(post, 'Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`, 201],
    [request('HEAD /readyz HTTP/1.1'), 200],
  ];
  const row = Array.from({ length: 100 }, (_, i) => kinds[i % kinds.length]);
  const all = await server.raw(row.map(([text]) => text).join('') + last('DELETE /healthz HTTP/1.1') + hidden, { checked: false });
  assert.deepEqual(statuses(all), [...row.map(([, status]) => status), 405]);
  assert.doesNotMatch(all, /quipu_http/);
  // A body that is refused unread: what follows could be a part of it.
  const unread = await server.raw(`${request(post, 'Content-Type: text/plain', 'Content-Length: 2')}{}${hidden}`);
  assert.deepEqual(statuses(unread), [415]);
  // Byte by byte.
  const socket = connect(server);
  socket.setNoDelay(true);
  for (const byte of request('GET /healthz HTTP/1.1') + last('GET /readyz HTTP/1.1')) socket.write(byte);
  await socket.over;
  assert.deepEqual(statuses(socket.got), [200, 200]);
  await goesOn(server);
});

test('a side that is closed, or a connection that is reset, at any place', async (t) => {
  const server = await serve(t, { args: ['--timeout', '1'] });
  const whole = `${last(post, 'Content-Length: 16')}{"title":"half"}`;
  assert.deepEqual(statuses(await server.raw(whole, { end: true })), [201]);
  for (let cut = 1; cut < whole.length; cut += 7) {
    await server.raw(whole.slice(0, cut), { end: true });
    const socket = connect(server);
    await socket.ready;
    await new Promise((resolve) => socket.write(whole.slice(0, cut), resolve));
    socket.resetAndDestroy();
  }
  // An answer that nobody reads.
  const big = connect(server);
  await big.ready;
  big.pause();
  for (let i = 0; i < 200; i++) big.write(request('GET /metrics HTTP/1.1'));
  await goesOn(server);
  big.resetAndDestroy();
  await goesOn(server);
  await server.stop();
  ok(server.data, ['check']);
});

test('a client that sends a byte now and then is cut off', async (t) => {
  const server = await serve(t, { args: ['--timeout', '30', '--header-timeout', '1', '--body-timeout', '2'] });
  const drip = (text, byte) => {
    const socket = connect(server);
    socket.write(text);
    const timer = setInterval(() => socket.write(byte), 50);
    socket.over.then(() => clearInterval(timer));
    return socket;
  };
  const sockets = [
    drip('GET /heal', 'a'),
    drip('GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ', 'a'),
    drip(request(post, 'Content-Length: 100000'), ' '),
    drip(request('GET /healthz HTTP/1.1'), ''), // an idle one, whose time begins with its answer
  ];
  await Promise.all(sockets.map((socket) => socket.over));
  assert.deepEqual(statuses(sockets[3].got), [200]);
  assert.ok(sockets.slice(0, 3).every((socket) => socket.got === ''));
  const metrics = (await server.ask('GET', '/metrics')).text;
  assert.equal(Number(/^quipu_http_connections_cut_total (\d+)$/m.exec(metrics)[1]), 4);
  await goesOn(server);
});

test('headers up to the limit are taken, longer ones told of', async (t) => {
  const server = await serve(t, { args: ['--max-header', '4K'] });
  const sized = (n) => last('GET /healthz HTTP/1.1', `X: ${'y'.repeat(n)}`);
  assert.deepEqual(statuses(await server.raw(sized(3000))), [200]);
  const over = await server.raw(sized(5000));
  assert.deepEqual(statuses(over), [431]);
  assert.deepEqual(JSON.parse(over.slice(over.indexOf('{'))).error, { code: 'HEADER_TOO_LARGE', message: 'the header is over the limit of 4096 bytes' });
  await refused(server, 431, request('GET /healthz HTTP/1.1', `X: ${'y'.repeat(5000)}`) + hidden);
  await refused(server, 431, request(`GET /${'a'.repeat(6000)} HTTP/1.1`) + hidden);
  await refused(server, 431, request('GET /healthz HTTP/1.1', ...Array(100).fill(`A: ${'y'.repeat(40)}`)) + hidden);
  await refused(server, 431, request('GET /healthz HTTP/1.1', `X: ${'y'.repeat(200000)}`) + hidden, { html: true });
  await refused(server, 414, request(`GET /${'a'.repeat(200000)} HTTP/1.1`) + hidden, { html: true });
  // 100 Continue is not said to a body that will not be taken.
  const early = await server.raw(request(post, 'Expect: 100-continue', 'Content-Length: 99999999'));
  assert.deepEqual(statuses(early), [413]);
  await goesOn(server);
});

test('one address has so many connections and no more', async (t) => {
  const server = await serve(t, { args: ['--connections-per-address', '5'] });
  const open = async () => {
    const socket = connect(server);
    socket.write(request('GET /healthz HTTP/1.1'));
    await Promise.race([socket.over, new Promise((resolve) => socket.once('data', resolve))]);
    return socket;
  };
  const sockets = [];
  for (let i = 0; i < 5; i++) sockets.push(await open());
  assert.ok(sockets.every((socket) => statuses(socket.got)[0] === 200));
  assert.equal((await open()).got, '', 'the sixth is turned away');
  for (const socket of sockets) socket.destroy();
  for (;;) {
    const socket = await open();
    socket.destroy();
    if (socket.got) break; // as soon as the server has seen them go
  }
});

test('10,000 idle connections keep nobody out', async (t) => {
  const count = 10_000;
  const limit = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim();
  if (limit !== 'unlimited' && Number(limit) < count + 500) {
    t.skip(`a process may have ${limit} open files only`);
    return;
  }
  const server = await serve(t, { args: ['--timeout', '300', '--header-timeout', '300'] });
  const sockets = [];
  while (sockets.length < count) {
    const some = Array.from({ length: 250 }, () => connect(server));
    await Promise.all(some.map((socket) => socket.ready));
    sockets.push(...some);
    if (sockets.length % 2500 === 0) await goesOn(server);
  }
  // The last of them may still wait to be taken.
  for (let open = 0; open < count; ) open = Number(/^quipu_http_connections_open (\d+)$/m.exec((await server.ask('GET', '/metrics')).text)[1]);
  await server.expect(201, 'POST', '/v1/contexts', { title: 'in between' });
  // Each of them works when its turn comes.
  for (let i = 0; i < count; i += 997) {
    sockets[i].write(last('GET /healthz HTTP/1.1'));
    await sockets[i].over;
    assert.deepEqual(statuses(sockets[i].got), [200]);
  }
  const { status } = await server.stop();
  assert.equal(status, 0);
  for (const socket of sockets) socket.destroy();
});

test('bytes by chance', async (t) => {
  const seed = Number(process.env.QUIPU_TEST_SEED ?? Date.now() % 1_000_000_007);
  t.diagnostic(`QUIPU_TEST_SEED=${seed}`);
  let state = BigInt(seed) + 1n;
  const below = (n) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((state >> 33n) % BigInt(n));
  };
  const server = await serve(t, { args: ['--timeout', '1', '--log-level', 'warn'] });
  const good = [
    last('GET /v1/contexts?limit=5 HTTP/1.1', 'If-None-Match: "x", W/"y"'),
    `${last(post, 'Content-Type: application/json', 'Content-Length: 13')}{"title":"x"}`,
    `${last(post, 'Transfer-Encoding: chunked')}d\r\n{"title":"x"}\r\n0\r\n\r\n`,
  ];
  const pieces = ['\r\n', '\r', '\n', '\0', ' ', '\t', ':', '%', '%2', '%00', '/', '..', '?', '&', '=', 'HTTP/1.1', 'Host: ', 'Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n', '\r\n ', '{', '"', '\xff'];
  const mutate = (text) => {
    let made = text;
    for (let n = 1 + below(4); n > 0; n--) {
      const at = below(made.length);
      const cut = [0, 0, 1, below(20)][below(4)];
      const put = below(3) ? pieces[below(pieces.length)] : String.fromCharCode(below(256));
      made = made.slice(0, at) + put + made.slice(at + cut);
    }
    return made;
  };
  for (let round = 0; round < 8; round++) {
    const batch = Array.from({ length: 50 }, () => mutate(good[below(good.length)]));
    const answers = await Promise.all(batch.map((text) => server.raw(text, { end: true, checked: false })));
    answers.forEach((got, i) => {
      for (const status of statuses(got)) assert.ok(status < 500 || status === 505, `${JSON.stringify(batch[i])}: ${got}`);
    });
  }
  await goesOn(server);
  const { status, stderr } = await server.stop();
  assert.equal(status, 0);
  assert.doesNotMatch(stderr, /level=error/);
  ok(server.data, ['check']);
});

// Fields of /proc/PID/status, in bytes.
function memory(server) {
  const text = fs.readFileSync(`/proc/${server.process.child.pid}/status`, 'utf8');
  const field = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)[1]) * 1024;
  return { peak: field('VmHWM'), now: field('VmRSS') };
}

test('JSON of many small values takes little memory, and the memory goes back to the system', async (t) => {
  if (process.env.ASAN_OPTIONS || process.env.TSAN_OPTIONS) return t.skip('a sanitizer keeps memory for itself');
  const server = await serve(t);
  const fill = (piece, size) => `{"parameters":{"a":[${piece.repeat(size / piece.length)}0]}}`;
  const before = memory(server);
  for (const piece of ['{},', '[],', '0,', '"",', '{"a":{}},'])
    await server.refuses(413, 'TOOBIG', /too many JSON values/, 'POST', '/v1/contexts', fill(piece, 30 << 20), { 'content-type': 'application/json' });
  const many = Array.from({ length: 4 }, () => server.expect(413, 'POST', '/v1/contexts', fill('{},', 8 << 20), { 'content-type': 'application/json' }));
  await Promise.all(many);
  await goesOn(server);
  const after = memory(server);
  assert.ok(after.peak < before.peak + (400 << 20), `${after.peak} bytes at most`);
  assert.ok(after.now < before.now + (40 << 20), `${after.now} bytes are still in use`);
});
