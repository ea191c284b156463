// A provider that a test holds in its hand: it speaks OpenAI's protocol, takes down every request,
// and answers piece by piece when the test says so. So a turn can be held in any state without
// waiting for time to pass.

import http from 'node:http';

const listen = (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));

// What is waited for comes long before that, or never.
export const patience = 60_000;

// The same promise, which fails with a sentence instead of never.
export function soon(promise, sentence) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came: ${sentence()}`)), patience).unref(); // nobody may wait any more
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Requests that have come, handed out in their order.
class Line {
  constructor() {
    this.come = [];
    this.waiting = [];
  }

  put(one) {
    const wake = this.waiting.shift();
    if (wake) wake(one);
    else this.come.push(one);
  }

  next() {
    if (this.come.length > 0) return Promise.resolve(this.come.shift());
    return soon(new Promise((resolve) => this.waiting.push(resolve)), () => 'no request to the model');
  }
}

// One request of the server, and the answer to it. Nothing is sent before the first word.
class Request {
  constructor(request, response, text) {
    this.headers = request.headers;
    this.text = text;
    this.body = JSON.parse(text);
    this.response = response;
    this.calls = 0;
    // When the server has let go of it.
    this.closed = new Promise((resolve) => response.on('close', resolve));
    response.on('error', () => {});
  }

  send(choice, more = {}) {
    if (!this.response.headersSent) this.response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: this.body.model, choices: choice ? [{ index: 0, finish_reason: null, ...choice }] : [], ...more };
    return new Promise((resolve) => this.response.write(`data: ${JSON.stringify(chunk)}\n\n`, resolve));
  }

  say(content) {
    return this.send({ delta: { content } });
  }

  think(reasoning_content) {
    return this.send({ delta: { reasoning_content } });
  }

  call(name, args, id = `call_${this.calls + 1}`) {
    const call = { index: this.calls++, id, type: 'function', function: { name, arguments: JSON.stringify(args) } };
    return this.send({ delta: { tool_calls: [call] } });
  }

  async end(usage) {
    await this.send({ delta: {}, finish_reason: this.calls > 0 ? 'tool_calls' : 'stop' });
    if (usage) await this.send(undefined, { usage });
    this.response.end('data: [DONE]\n\n');
  }

  // All of an answer.
  async answer(text, usage) {
    await this.say(text);
    await this.end(usage);
  }

  // The connection breaks.
  cut() {
    this.response.destroy();
  }

  fail(status, type, message, headers = {}) {
    this.response.writeHead(status, { 'content-type': 'application/json', ...headers });
    this.response.end(JSON.stringify({ error: { type, message } }));
  }
}

export class Model {
  // `env` is what makes a server ask it.
  static async start(t) {
    const model = new Model();
    model.line = new Line();
    model.server = http.createServer((request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', (data) => (text += data));
      request.on('end', () => {
        if (request.method === 'GET') response.writeHead(404).end(); // it does not report its models
        else model.line.put(new Request(request, response, text));
      });
    });
    const port = await listen(model.server);
    model.env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` };
    t.after(() => {
      model.server.close();
      model.server.closeAllConnections();
    });
    return model;
  }

  // The next request that nobody has taken yet.
  asked() {
    return this.line.next();
  }
}

// Stands before another provider and takes down what is sent to it, byte by byte.
export class Tap {
  static async start(t, url) {
    const tap = new Tap();
    const target = new URL(url);
    tap.sent = [];
    const server = http.createServer((request, response) => {
      const parts = [];
      request.on('data', (data) => parts.push(data));
      request.on('end', () => {
        const bytes = Buffer.concat(parts);
        // That models are asked for is another matter.
        if (request.method !== 'GET') tap.sent.push({ path: request.url, headers: request.headers, text: bytes.toString('utf8'), body: bytes.length ? JSON.parse(bytes) : undefined });
        const { host: _, ...headers } = request.headers;
        const onward = http.request({ host: target.hostname, port: target.port, method: request.method, path: request.url, headers }, (answer) => {
          response.writeHead(answer.statusCode, answer.headers);
          answer.pipe(response);
          answer.on('error', () => response.destroy());
          answer.on('aborted', () => response.destroy());
        });
        onward.on('error', () => response.destroy());
        response.on('close', () => onward.destroy());
        onward.end(bytes);
      });
    });
    tap.url = `http://127.0.0.1:${await listen(server)}`;
    t.after(() => {
      server.close();
      server.closeAllConnections();
    });
    return tap;
  }
}
