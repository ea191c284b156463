// The life of a server beside others: https, and commands on a data directory that it holds.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { Running, bin, fails, ids, jsonLines, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

// ---- https ----

// A key and a certificate for 127.0.0.1 that it signs itself.
function makePair(dir, name) {
  const key = path.join(dir, `${name}.key`);
  const cert = path.join(dir, `${name}.crt`);
  const args = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=${name} -addext subjectAltName=IP:127.0.0.1`;
  execFileSync('openssl', [...args.split(' '), '-keyout', key, '-out', cert], { stdio: 'ignore' });
  fs.chmodSync(key, 0o600);
  return { key, cert, args: ['--tls-cert', cert, '--tls-key', key] };
}

async function serveHttps(t, args) {
  const process = new Running(t, path.join(tempDir(t), 'data'), ['serve', '--listen', '127.0.0.1:0', ...args]);
  const url = /^quipu serves (https:\/\/127\.0\.0\.1:\d+)$/.exec(await process.next())?.[1];
  assert.ok(url, process.stderr);
  return { process, url, port: Number(new URL(url).port) };
}

// One request over a connection of its own.
function get(url, ca, { method = 'GET', headers = {}, body, ...more } = {}) {
  return new Promise((resolve, reject) => {
    const request = https.request(url, { method, headers, ca: fs.readFileSync(ca), agent: false, ...more }, (answer) => {
      const subject = answer.socket.getPeerCertificate().subject.CN;
      let text = '';
      answer.setEncoding('utf8').on('data', (data) => (text += data));
      answer.on('end', () => resolve({ status: answer.statusCode, text, subject, protocol: answer.socket.getProtocol() }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function until(holds) {
  while (!holds()) await sleep(10);
}

test('a certificate and its key make it https', async (t) => {
  const pair = makePair(tempDir(t), 'first');
  const server = await serveHttps(t, pair.args);
  const answer = await get(`${server.url}/healthz`, pair.cert);
  assert.equal(answer.status, 200);
  assert.equal(answer.protocol, 'TLSv1.3');
  assert.equal((await get(`${server.url}/healthz`, pair.cert, { maxVersion: 'TLSv1.2' })).protocol, 'TLSv1.2');
  await assert.rejects(get(`${server.url}/healthz`, pair.cert, { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }));
  const made = await get(`${server.url}/v1/contexts`, pair.cert, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: server.url },
    body: '{"title":"over TLS"}',
  });
  assert.equal(made.status, 201, made.text);
  const plainOrigin = { headers: { origin: server.url.replace('https', 'http') } };
  assert.equal((await get(`${server.url}/healthz`, pair.cert, plainOrigin)).status, 403, 'http is another origin');
  await assert.rejects(fetch(`${server.url.replace('https', 'http')}/healthz`), 'plain HTTP is not answered');
  const half = tls.connect({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false });
  half.on('error', () => {});
  await new Promise((resolve) => half.once('secureConnect', resolve));
  half.destroy();
  const silent = net.connect({ port: server.port, host: '127.0.0.1' }); // and one that never shakes hands
  silent.on('error', () => {});
  assert.equal((await get(`${server.url}/healthz`, pair.cert)).status, 200);
  server.process.child.kill('SIGTERM');
  const { status, stderr } = await server.process.ended;
  assert.equal(status, 0);
  assert.doesNotMatch(stderr, /level=(warn|error)/);
});

test('SIGHUP takes a renewed certificate, and keeps the old one when the new is wrong', async (t) => {
  const dir = tempDir(t);
  const first = makePair(dir, 'first');
  const second = makePair(dir, 'second');
  const server = await serveHttps(t, first.args);
  const reload = async (said) => {
    const from = server.process.stderr.length;
    server.process.child.kill('SIGHUP');
    await until(() => said.test(server.process.stderr.slice(from)));
  };
  assert.equal((await get(`${server.url}/healthz`, first.cert)).subject, 'first');
  fs.copyFileSync(second.cert, first.cert);
  await reload(/the configuration was not changed: tls_key is not the key of the certificate/);
  fs.copyFileSync(second.key, first.key);
  await reload(/read the configuration again/);
  assert.equal((await get(`${server.url}/healthz`, second.cert)).subject, 'second');
  fs.rmSync(first.key);
  await reload(/the configuration was not changed: tls_key: /);
  assert.equal((await get(`${server.url}/healthz`, second.cert)).subject, 'second');
});

test('a pair that is none is refused with a sentence, a key that all can read is warned of', async (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  const first = makePair(dir, 'first');
  const second = makePair(dir, 'second');
  const refused = (cert, key, code, sentence) => fails(data, ['serve', '--log-level', 'warn', '--listen', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key], code, sentence);
  refused(first.cert, second.key, 'INVALID', /tls_key is not the key of the certificate in tls_cert/);
  refused(first.key, first.key, 'INVALID', /tls_cert is not a certificate in PEM form/);
  refused(first.cert, first.cert, 'INVALID', /tls_key is not a private key in PEM form/);
  refused('/dev/null', first.key, 'INVALID', /tls_cert is not a certificate/);
  refused(path.join(dir, 'none'), first.key, 'NOTFOUND', /tls_cert: .*none/);
  refused(first.cert, path.join(dir, 'none'), 'NOTFOUND', /tls_key: .*none/);
  fs.chmodSync(first.key, 0o644);
  const server = await serveHttps(t, first.args);
  server.process.child.kill('SIGTERM');
  assert.match((await server.process.ended).stderr, /level=warn feature=config msg="tls_key '.*first\.key' can be read by every user/);
});

// ---- a data directory that a server holds ----

test('the lock file names the server, and commands that would write say so', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: 'held' });
  const lock = JSON.parse(fs.readFileSync(path.join(server.data, 'quipu.lock'), 'utf8'));
  assert.equal(lock.url, server.url);
  assert.equal(lock.pid, server.process.child.pid);
  const sentence = new RegExp(`a server \\(pid ${lock.pid}\\) at ${server.url} holds '.*'; use its API, or stop it first`);
  const commands = [
    ['new'],
    ['add', id, '--text', 'x'],
    ['rm', id, '--yes'],
    ['branch', id, 'fork', 'b'],
    ['prompt', 'create', '--content', 'x'],
    ['session', 'new'],
    ['gc'],
    ['archive'],
    ['compress', '--all'],
    ['check', '--repair'],
    ['reindex'],
    ['serve', '--listen', '127.0.0.1:0'],
  ];
  for (const command of commands) {
    fails(server.data, command, 'BUSY', sentence);
  }
  await server.stop();
  assert.equal(JSON.parse(fs.readFileSync(path.join(server.data, 'quipu.lock'), 'utf8')).url, undefined);
  ok(server.data, ['add', id, '--text', 'x']);
});

test('commands that read work beside the server and see what it acknowledged', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: 'beside a server' });
  for (let i = 0; i < 20; i++) {
    await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: `knot ${i}` });
    if (i % 5) continue;
    assert.equal(ids(server.data, id).length, i + 1);
    assert.match(ok(server.data, ['show', id]), new RegExp(`knot ${i}\\b`));
  }
  assert.equal(jsonLines(ok(server.data, ['ls', '--json'])).length, 1);
  ok(server.data, ['check']);
  ok(server.data, ['size']);
  ok(server.data, ['search', 'knot']);
  ok(server.data, ['prompt']);
  ok(server.data, ['session', 'ls']);
  ok(server.data, ['branch', id]);
  await server.expect(200, 'GET', '/healthz');
});

test('a server that was killed leaves nothing in the way of the next', async (t) => {
  const first = await serve(t);
  await first.expect(201, 'POST', '/v1/contexts', { title: 'survives' });
  await first.stop('SIGKILL');
  assert.equal(JSON.parse(fs.readFileSync(path.join(first.data, 'quipu.lock'), 'utf8')).url, first.url, 'what is left of it');
  assert.equal(jsonLines(ok(first.data, ['ls', '--json'])).length, 1);
  const second = await serve(t, { data: first.data });
  fails(first.data, ['new'], 'BUSY', new RegExp(second.url));
  assert.equal((await second.expect(200, 'GET', '/v1/contexts')).contexts.length, 1);
});

test('nothing in the log steers a terminal', async (t) => {
  const dir = tempDir(t);
  const file = path.join(dir, 'mcp.json');
  // C1 controls, overrides and isolates, from a program that is not quipu's.
  const line = 'one\u009b31m two\u202e three\u2066 four\u2069 five é 😀';
  fs.writeFileSync(file, JSON.stringify({ mcpServers: { loud: { command: 'sh', args: ['-c', `printf '%s\\n' '${line}' >&2; cat`] } } }));
  for (const format of ['logfmt', 'json']) {
    const server = await serve(t, { args: ['--mcp', file, '--log-format', format, '--log-level', 'debug'] });
    await server.process.logged(/five/);
    const { stderr } = await server.stop();
    assert.doesNotMatch(stderr, /[\u0080-\u009f\u202a-\u202e\u2066-\u2069]/);
    assert.ok(stderr.includes('one\\u009b31m two\\u202e three\\u2066 four\\u2069 five é 😀'), stderr);
  }
});

test('no core file is written of a server, and others of its user cannot look into it', async (t) => {
  const nobody = { uid: 65534, gid: 65534 };
  const as = process.getuid() === 0 && spawnSync(bin, ['--version'], nobody).status === 0 ? nobody : {};
  const data = path.join(tempDir(t), 'data');
  fs.mkdirSync(data, { mode: 0o700 });
  if (as.uid) {
    for (let dir = path.dirname(data); path.basename(dir).match(/quipu|e2e/); dir = path.dirname(dir)) fs.chmodSync(dir, 0o711);
    fs.chownSync(data, as.uid, as.gid);
  }
  const server = await serve(t, { data, as });
  const proc = `/proc/${server.process.child.pid}`;
  assert.match(fs.readFileSync(`${proc}/limits`, 'utf8'), /^Max core file size +0 +0 /m);
  assert.equal(fs.statSync(`${proc}/environ`).uid, 0, 'only root may read it');
  await server.stop();
});
