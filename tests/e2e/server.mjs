// A running `quipu serve` for a test, asked by plain fetch and by raw sockets. Every answer is held
// against the contract (contract.mjs).

import assert from 'node:assert/strict';
import net from 'node:net';
import path from 'node:path';
import { check, checkRaw } from './contract.mjs';
import { Running, tempDir } from './helper.mjs';

// Starts it on a free port, or on `port`. `server.url` has no slash at its end.
export async function serve(t, { data = path.join(tempDir(t), 'data'), args = [], env = {}, as = {}, port = 0 } = {}) {
  const process = new Running(t, data, ['serve', '--listen', `127.0.0.1:${port}`, ...args], env, as);
  const line = await process.next();
  const url = /^quipu serves (http:\/\/127\.0\.0\.1:\d+)$/.exec(line)?.[1];
  assert.ok(url, `the readiness line, not ${line}\n${process.stderr}`);
  const server = new Server(process, url, data);
  // A connection that is closed after such a time may be closed just when the next request is sent.
  if (args.includes('--timeout') && Number(args[args.indexOf('--timeout') + 1]) < 10) server.always = { connection: 'close' };
  return server;
}

export class Server {
  constructor(process, url, data) {
    this.process = process;
    this.url = url;
    this.data = data;
    this.port = Number(new URL(url).port);
  }

  // An answer with its body decoded. `body` is sent as JSON.
  async ask(method, target, body, headers = {}) {
    const answer = await fetch(this.url + target, {
      method,
      headers: { ...this.always, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    check(method, target, { status: answer.status, headers: answer.headers, text });
    const isJson = answer.headers.get('content-type') === 'application/json';
    return { status: answer.status, headers: answer.headers, text, body: isJson && text ? JSON.parse(text) : undefined };
  }

  // The same; the status must be this one. Returns the body.
  async expect(status, method, target, body, headers) {
    const answer = await this.ask(method, target, body, headers);
    assert.equal(answer.status, status, `${method} ${target}: ${answer.text}`);
    return answer.body;
  }

  // The same for an error, whose sentence must match.
  async refuses(status, code, sentence, method, target, body, headers) {
    const answer = await this.expect(status, method, target, body, headers);
    assert.deepEqual(Object.keys(answer), ['error']);
    assert.deepEqual(Object.keys(answer.error), ['code', 'message']);
    assert.equal(answer.error.code, code);
    assert.match(answer.error.message, sentence);
  }

  // Sends bytes as they are, and gives what came until the server closed the connection. `end`: the
  // sending side is closed behind them; `checked` false: the requests are not as the checker of the
  // contract could tell them apart.
  async raw(text, { end = false, checked = true } = {}) {
    const came = await new Promise((resolve, reject) => {
      const socket = net.connect({ port: this.port, host: '127.0.0.1', allowHalfOpen: true });
      let got = '';
      socket.setEncoding('latin1').on('data', (data) => (got += data));
      socket.on('error', (error) => (error.code === 'ECONNRESET' || error.code === 'EPIPE' ? resolve(got) : reject(error)));
      socket.on('end', () => {
        socket.end();
        resolve(got);
      });
      socket.write(text, 'latin1');
      if (end) socket.end();
    });
    if (checked) checkRaw(text, came);
    return came;
  }

  async stop(signal = 'SIGTERM') {
    this.process.child.kill(signal);
    return this.process.ended;
  }
}

// The statuses in what raw() gave.
export const statuses = (text) => [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map((found) => Number(found[1]));
