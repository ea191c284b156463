// The files of the web page: who gets them, in which form, under which headers; and --ui-dir.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import zlib from 'node:zlib';
import { fails, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

// The answer as it came over the wire: fetch would unpack it.
async function wire(server, target, headers = {}) {
  const lines = Object.entries({ Host: 'localhost', Connection: 'close', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  const came = await server.raw(`GET ${target} HTTP/1.1\r\n${lines.join('')}\r\n`, { checked: false });
  const end = came.indexOf('\r\n\r\n');
  const head = came.slice(0, end).split('\r\n');
  return {
    status: Number(head[0].split(' ')[1]),
    headers: new Headers(head.slice(1).map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()])),
    body: Buffer.from(came.slice(end + 4), 'latin1'),
  };
}

// The files that the page names.
const assets = (text) => [...text.matchAll(/[" ](\/(?:assets\/[^" ]+|favicon\.svg))(?=[" ])/g)].map((found) => found[1]);

test('browsers get the page at /, programs get the overview', async (t) => {
  const server = await serve(t);
  for (const target of ['/', '/c/0192f0c4-7a10-7c3e-9b1d-3f6a2c8e5d01']) {
    const page = await server.ask('GET', target, undefined, html);
    assert.match(page.text, /^<!doctype html>/i);
    assert.equal(page.headers.get('cache-control'), 'private, no-cache');
    assert.match(page.headers.get('vary'), /Accept, Accept-Encoding/);
    assert.equal(page.headers.get('cross-origin-opener-policy'), 'same-origin');
    for (const file of assets(page.text)) await server.expect(200, 'GET', file);
  }
  for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }, { accept: 'text/html;q=0, */*' }])
    assert.equal((await server.expect(200, 'GET', '/', undefined, headers)).name, 'quipu');
  for (const target of ['/assets/none.js', '/assets/..%2findex.html', '/assets/index.html.gz', '/index.html', '/c', '/c/a/b'])
    assert.equal((await server.ask('GET', target, undefined, html)).status, 404, target);
});

test('a file has a compressed form with its own validator', async (t) => {
  const server = await serve(t);
  const { text } = await server.ask('GET', '/', undefined, html);
  for (const target of ['/', ...assets(text)]) {
    const plain = await wire(server, target, html);
    const packed = await wire(server, target, { ...html, 'Accept-Encoding': 'br, gzip;q=0.8' });
    assert.equal(plain.headers.get('content-encoding'), null, target);
    assert.match(plain.headers.get('vary'), /Accept-Encoding/);
    if (packed.headers.get('content-encoding') === null) continue; // it would not be smaller
    assert.ok(packed.body.length < plain.body.length);
    assert.deepEqual(zlib.gunzipSync(packed.body), plain.body);
    assert.notEqual(packed.headers.get('etag'), plain.headers.get('etag'));
    const again = await wire(server, target, { ...html, 'Accept-Encoding': 'gzip', 'If-None-Match': packed.headers.get('etag') });
    assert.equal(again.status, 304);
    assert.equal(again.body.length, 0);
    const other = await wire(server, target, { ...html, 'If-None-Match': packed.headers.get('etag') });
    assert.equal(other.status, 200, 'the plain form has not changed, but the client does not have it');
    const refused = await wire(server, target, { ...html, 'Accept-Encoding': 'gzip;q=0' });
    assert.deepEqual(refused.body, plain.body);
  }
});

test('the page needs no key, its data does', async (t) => {
  const data = path.join(tempDir(t), 'data');
  ok(data, ['key', 'create', '--scope', 'read']);
  const server = await serve(t, { data });
  assert.equal((await server.ask('GET', '/', undefined, html)).status, 200);
  assert.equal((await server.ask('GET', '/c/x', undefined, html)).status, 200);
  assert.equal((await server.ask('GET', '/v1/contexts')).status, 401);
});

test('--ui-dir serves the files of a directory, and nothing outside it', async (t) => {
  const dir = tempDir(t);
  const ui = path.join(dir, 'ui');
  fs.mkdirSync(path.join(ui, 'assets/deeper'), { recursive: true });
  const put = (name, text) => fs.writeFileSync(path.join(ui, name), text);
  put('index.html', '<!doctype html><title>mine</title>');
  put('assets/app-0a1b2c3d.js', 'export {};');
  put('assets/.hidden.js', 'no');
  put('assets/deeper/a.js', 'no');
  put('assets/a.exe', 'no');
  fs.writeFileSync(path.join(dir, 'secret.js'), 'no');
  fs.symlinkSync('../../secret.js', path.join(ui, 'assets/link.js'));
  const server = await serve(t, { args: ['--ui-dir', ui] });
  const first = await server.ask('GET', '/', undefined, html);
  assert.match(first.text, /mine/);
  put('index.html', '<!doctype html><title>changed</title>');
  assert.match((await server.ask('GET', '/', undefined, { ...html, 'if-none-match': first.headers.get('etag') })).text, /changed/);
  const script = await server.ask('GET', '/assets/app-0a1b2c3d.js');
  assert.equal(script.text, 'export {};');
  assert.equal(script.headers.get('cache-control'), 'private, no-cache');
  for (const name of ['.hidden.js', 'deeper%2fa.js', 'a.exe', 'link.js', '..%2f..%2fsecret.js', 'deeper', 'none.js'])
    assert.equal((await server.ask('GET', `/assets/${name}`)).status, 404, name);
  const missing = path.join(dir, 'none');
  fails(path.join(dir, 'other'), ['serve', '--listen', '127.0.0.1:0', '--log-level', 'error', '--ui-dir', missing], 'NOTFOUND', /cannot open the directory '.*none' of ui_dir: No such file or directory/);
});
