// What the tests of turns share: a server whose engine has a scripted model, tools or a provider; a
// context to talk in; and a client of event streams.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { check, contract } from './contract.mjs';
import { filesBelow, tempDir, uuid } from './helper.mjs';
import { patience, soon } from './model.mjs';
import { serve } from './server.mjs';

const rests = ['Idle', 'AwaitingToolApproval', 'Failed'];

// Nothing of the caller's own providers and proxies.
const bare = Object.fromEntries(
  ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', 'OPENAI_API_KEY', 'OPENAI_BASE_URL', 'http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'].map((name) => [name, undefined]),
);

// Looks until it holds; for what no event tells.
export async function until(holds, sentence = () => String(holds)) {
  for (const last = Date.now() + patience; !(await holds()); await sleep(5)) assert.ok(Date.now() < last, `in vain: ${sentence()}`);
}

// Whether some file of a store has a text in it.
export function stored(data, text) {
  for (const [, bytes] of filesBelow(data)) if (bytes.includes(text)) return true;
  return false;
}

// A workspace with a file in it, and a secret beside it.
export function makeWorkspace(t) {
  const dir = fs.realpathSync(tempDir(t));
  const work = path.join(dir, 'work');
  fs.mkdirSync(work);
  fs.writeFileSync(path.join(work, 'notes.txt'), 'one knot\ntwo knots\n');
  fs.writeFileSync(path.join(dir, 'secret'), 'the secret\n');
  return { dir, work, file: (name) => path.join(work, name), read: (name) => fs.readFileSync(path.join(work, name), 'utf8') };
}

// ---- server ----

// Starts a server. `steps`: what the demo model plays, as fast as it goes; `work`: its workspace;
// `rules` about tools; `mcp`: the servers of an mcp.json; `args`: more flags; `env`: more variables; `as`: see Running.
export async function serveTurns(t, options = {}) {
  const dir = tempDir(t);
  return start(t, { data: path.join(dir, 'data'), dir, ...options });
}

async function start(t, settings) {
  const { data, dir, steps, work, rules = [], mcp, args = [], env = {}, as, port } = settings;
  const put = (name, value) => {
    fs.writeFileSync(path.join(dir, name), JSON.stringify(value));
    return path.join(dir, name);
  };
  const flags = [...args];
  if (steps) flags.push('--demo-script', put('demo.json', { interval_ms: 0, steps }));
  if (work) flags.push('--workspace', work);
  if (mcp) flags.push('--mcp', put('mcp.json', { mcpServers: mcp }));
  for (const rule of rules) flags.push('--rule', rule);
  const server = await serve(t, { data, args: flags, env: { ...bare, ...env }, as, port });
  server.settings = settings;
  return server;
}

// Ends it and starts it again on the same data; `changes` of the options.
export async function restart(t, server, signal, changes = {}) {
  await server.stop(signal);
  return start(t, { ...server.settings, ...changes });
}

// ---- chat ----

// A context and what is done in it. `prefix` /v1 or /api.
export class Chat {
  constructor(server, id, { prefix = '/v1', headers = {} } = {}) {
    Object.assign(this, { server, id, prefix, headers, at: `${prefix}/contexts/${id}` });
  }

  // With the model that the server was given, unless the body names one.
  static async create(server, body = {}, options = {}) {
    const model = server.settings.env?.OPENAI_BASE_URL ? { model_id: 'openai/knots' } : {};
    const { id } = await server.expect(201, 'POST', '/v1/contexts', { ...model, ...body }, options.headers);
    return new Chat(server, id, options);
  }

  // The same context behind a server that was started again.
  on(server) {
    return new Chat(server, this.id, this);
  }

  // With all messages of the branch, unless the query asks for others.
  act(action, body, headers = {}, query = '?messages=all') {
    return this.server.ask('POST', `${this.at}/actions/${action}${query}`, body, { ...this.headers, ...headers });
  }

  // An action that goes well; gives the body.
  async does(action, body, headers = {}, query = undefined) {
    const answer = await this.act(action, body, headers, query);
    assert.equal(answer.status, 200, `${action}: ${answer.text}`);
    assert.ok(rests.includes(answer.body.state), answer.text);
    return answer.body;
  }

  send(content, headers) {
    return this.does('send_message', { content }, headers);
  }

  // Begins one and does not wait for the turn.
  async begin(action, body, headers = {}) {
    const answer = await this.act(action, body, { prefer: 'respond-async', ...headers });
    assert.equal(answer.status, 202, `${action}: ${answer.text}`);
    assert.equal(answer.headers.get('preference-applied'), 'respond-async');
    return answer.body;
  }

  // An action that is refused; `state` is that of the error, if it tells one.
  async refuses(status, code, sentence, action, body, { state, headers } = {}) {
    const answer = await this.act(action, body, headers);
    assert.equal(answer.status, status, `${action}: ${answer.text}`);
    assert.equal(answer.body.error.code, code);
    assert.match(answer.body.error.message, sentence);
    assert.equal(answer.body.error.state, state);
  }

  state(query = '') {
    return this.server.expect(200, 'GET', `${this.at}/state${query}`, undefined, this.headers);
  }

  // Looks until the stored state is one of these, and gives it. That an answer is being streamed is
  // told before it is stored. While the server is missed that holds the context, others may say so.
  async reach(...wanted) {
    let answer;
    await until(async () => {
      answer = await this.server.ask('GET', `${this.at}/state`, undefined, this.headers);
      if (answer.status === 503 && /server that holds the context cannot be reached/.test(answer.text)) return false;
      assert.equal(answer.status, 200, answer.text);
      return wanted.includes(answer.body.state);
    }, () => `${wanted.join(' or ')}, and not ${answer.text.slice(0, 300)}`);
    return answer.body;
  }

  follow({ after, last, ...more } = {}) {
    const headers = { ...this.headers, ...more.headers };
    if (last !== undefined) headers['last-event-id'] = String(last);
    return Stream.open(this.server, 'GET', `${this.at}/events${after === undefined ? '' : `?after=${after}`}`, { ...more, headers });
  }

  // Sends a message and gives the stream of the turn.
  stream(action, body, headers = {}) {
    return Stream.open(this.server, 'POST', `${this.at}/actions/${action}`, { body, headers: { ...this.headers, accept: 'text/event-stream', ...headers } });
  }
}

// A line for each message: "user: hi", "assistant: …" with "!" when it is interrupted, "call NAME
// {…}" for its calls, "tool ID: result" with "!" for an error.
export function script(state) {
  return state.messages.flatMap((message) => {
    assert.match(message.id, uuid);
    const mark = message.metadata?.interrupted ? '!' : '';
    if (message.tool_result) {
      const { request_id, result, is_error } = message.tool_result;
      return [`tool${is_error ? '!' : ''} ${request_id}: ${typeof result === 'string' ? result : JSON.stringify(result)}`];
    }
    const calls = (message.tool_calls ?? []).map((call) => `call ${call.id} ${call.tool_name} ${JSON.stringify(call.arguments)}`);
    return [...(message.text || calls.length === 0 ? [`${message.role}${mark}: ${message.text}`] : []), ...calls];
  });
}

// ---- event streams ----

// A client of server-sent events that believes nothing: every line must be one of the format, every
// event its number, its type and the line of the log, the numbers must grow.
export class Stream {
  static open(server, method, target, { body, headers = {}, lazy = false } = {}) {
    return new Promise((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const request = http.request(server.url + target, { method, agent: false, headers: { ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }), ...headers } });
      request.on('error', reject);
      request.on('response', (response) => {
        const stream = new Stream(request, response);
        request.on('error', () => {});
        if (response.headers['content-type'] !== 'text/event-stream') return stream.refuse(method, target).then(resolve, reject);
        try {
          check(method, target, { status: response.statusCode, headers: new Headers(response.headers), text: '' });
        } catch (error) {
          request.destroy();
          return reject(error);
        }
        if (!lazy) stream.read();
        resolve(stream);
      });
      request.end(text);
    });
  }

  constructor(request, response) {
    Object.assign(this, { request, response, status: response.statusCode, headers: new Headers(response.headers), events: [], comments: 0, taken: 0, waiting: [], over: false, rest: '', block: [] });
    this.ended = new Promise((resolve) => (this.finish = resolve));
  }

  // An answer that is no stream: its body, checked.
  async refuse(method, target) {
    let text = '';
    for await (const data of this.response.setEncoding('utf8')) text += data;
    check(method, target, { status: this.status, headers: this.headers, text });
    this.text = text;
    this.body = text ? JSON.parse(text) : undefined;
    this.end(true);
    return this;
  }

  read() {
    this.response.setEncoding('utf8').on('data', (data) => this.take(data));
    this.response.on('end', () => this.end(true));
    this.response.on('close', () => this.end(false)); // cut, unless it has ended before
    this.response.on('error', () => this.end(false));
  }

  end(whole) {
    if (this.over) return;
    this.over = true;
    this.finish(whole);
    this.wake();
  }

  take(data) {
    const lines = (this.rest + data).split('\n');
    this.rest = lines.pop();
    for (const line of lines)
      if (line !== '') this.block.push(line);
      else this.dispatch();
    this.wake();
  }

  dispatch() {
    const fields = {};
    for (const line of this.block) {
      if (line.startsWith(':')) {
        this.comments++;
        continue;
      }
      const found = /^(id|event|data|retry): (.*)$/.exec(line);
      assert.ok(found && fields[found[1]] === undefined, `a line of an event: ${line}`);
      fields[found[1]] = found[2];
    }
    this.block = [];
    if (fields.data === undefined) return; // a comment, or how long to wait before coming back
    const event = JSON.parse(fields.data);
    assert.equal(event.type, fields.event);
    if (event.type !== 'gap' || event.seq !== undefined) assert.equal(String(event.seq), fields.id);
    const before = this.events.at(-1)?.seq ?? -1;
    assert.ok(event.seq === undefined || event.seq > before, `${event.seq} behind ${before}`);
    const problem = contract.validator('#/components/schemas/Event')(event);
    assert.equal(problem, undefined, `${fields.data} does not fit the contract: ${problem}`);
    this.events.push(event);
    this.onEvent?.(event);
  }

  wake() {
    for (const wake of this.waiting.splice(0)) wake();
  }

  news() {
    return soon(new Promise((resolve) => this.waiting.push(resolve)), () => `no event behind ${JSON.stringify(this.events.slice(-3))}`);
  }

  // The next event that was not awaited yet; undefined: the stream has ended.
  async next() {
    while (this.events.length <= this.taken && !this.over) await this.news();
    return this.events[this.taken++];
  }

  // Events up to the first that fits, with it.
  async until(fits) {
    const passed = [];
    for (;;) {
      const event = await this.next();
      assert.ok(event, `the stream ended: ${JSON.stringify(passed.slice(-5))}`);
      passed.push(event);
      if (fits(event)) return passed;
    }
  }

  reaches(state) {
    return this.until((event) => event.type === 'state' && event.state === state);
  }

  // A comment behind those that have come by now.
  async comment() {
    const from = this.comments;
    while (this.comments === from && !this.over) await this.news();
    assert.ok(this.comments > from, 'the stream ended');
  }

  // All of it, once it has ended by itself.
  async all() {
    assert.equal(await soon(this.ended, () => `a stream that does not end: ${JSON.stringify(this.events.slice(-3))}`), true, 'the stream was cut');
    return this.events;
  }

  close() {
    this.request.destroy();
  }
}

export const states = (events) => events.filter((event) => event.type === 'state').map((event) => event.state);
export const said = (events) => events.filter((event) => event.type === 'text').map((event) => event.text).join('');
