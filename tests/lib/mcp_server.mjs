#!/usr/bin/env node
// An MCP server for tests, without any package: it does what real servers do, and what bad ones do.
//
//   node mcp_server.mjs [MODE]...             over stdio
//   node mcp_server.mjs http PORTFILE [MODE]...  over Streamable HTTP; its port is written to PORTFILE
//
// Modes: legacy (default), modern, both (eras); mute-probe, die-probe (what it does to a question
// that it does not know); version=X (answers the handshake with that version); no-tools; never
// (answers nothing); die-start; noisy; greet-ms=N, list-ms=N (answers the handshake or the list
// after that time); fail-until=FILE (dies at the start while there is no such file); flood-out
// (prints lines without end that are no messages); grandchild=SOCKET (starts a process in a session
// of its own, which ignores SIGTERM and the end of its input, and is connected to that Unix socket
// while it lives; it writes the number of this server there, and its own).
//
// http only: json (default), sse, cut (the first answer of every call is cut, and can be resumed),
// no-get, expire (each session bears three requests), late-tool (has one tool more when it has taken
// the end of the handshake, for which it takes its time), bad-session (a session that it does not know
// is 400, not 404), refuse=SENTENCE (400 to everything), port=N, more (has one tool more).

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';

const args = process.argv.slice(2);
const overHttp = args[0] === 'http';
const portFile = overHttp ? args[1] : undefined;
const modes = new Set(args.slice(overHttp ? 2 : 0));
const valueOf = (name) => [...modes].find((mode) => mode.startsWith(`${name}=`))?.slice(name.length + 1);
const version = valueOf('version');
const modernVersion = '2026-07-28';
const legacyVersions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const modern = modes.has('modern') || modes.has('both');
const legacy = !modes.has('modern');
const prefix = 'io.modelcontextprotocol/';

const cancelled = [];
const seen = []; // headers of each HTTP request
let extra = modes.has('more');
let lastId = 0;

const text = (value) => ({ content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }] });
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Each gets its arguments and `peer`: ask(method, params), notify(method, params), params.
const tools = {
  echo: (a) => text(a.text ?? ''),
  hang: () => new Promise(() => {}),
  die: () => process.exit(3),
  env: () => text({ ...process.env }),
  cwd: () => text(process.cwd()),
  fail: () => ({ ...text('it went wrong'), isError: true }),
  error: () => {
    throw new Error('a protocol error');
  },
  big: (a) => text('x'.repeat(a.bytes)),
  // With `until` it waits for a file of that name, too.
  slow: async (a) => {
    await wait(a.ms);
    while (a.until && !fs.existsSync(a.until)) await wait(5);
    return text(`waited ${a.ms}`);
  },
  image: () => ({ content: [{ type: 'text', text: 'a picture' }, { type: 'image', data: 'AAAA', mimeType: 'image/png' }] }),
  structured: () => ({ content: [], structuredContent: { answer: 42 } }),
  empty: () => ({}),
  two: () => ({ content: [{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }] }),
  cancelled: () => text(cancelled),
  headers: () => text(seen),
  noise: () => {
    process.stderr.write(`${'noise '.repeat(2000)}\n`.repeat(20));
    if (!overHttp) process.stdout.write('this is not JSON\n\n{"half": \n[1,2,3]\n{"jsonrpc":"2.0"}\n');
    return text('quiet');
  },
  // Prints lines on standard error, as fast as they are read.
  flood: async (a) => {
    const line = 'y'.repeat(a.bytes ?? 1) + '\n';
    for (let left = a.lines; left > 0; left -= 10_000)
      if (!process.stderr.write(line.repeat(Math.min(left, 10_000)))) await new Promise((resolve) => process.stderr.once('drain', resolve));
    return text('flooded');
  },
  ask: async (a, peer) => {
    const answers = {};
    for (const method of ['ping', 'roots/list', 'sampling/createMessage', 'elicitation/create', 'no/such'])
      answers[method] = await peer.ask(method, {});
    return text(answers);
  },
  change: (a, peer) => {
    extra = true;
    peer.notify('notifications/tools/list_changed');
    return text('changed');
  },
  // The stateless era's way to ask.
  need_roots: (a, peer) => {
    const responses = peer.params.inputResponses;
    if (!responses)
      return { resultType: 'input_required', requestState: 'st-1', inputRequests: { r: { method: 'roots/list', params: {} } } };
    return text({ state: peer.params.requestState, roots: responses.r });
  },
  need_human: () => ({ resultType: 'input_required', inputRequests: { h: { method: 'elicitation/create', params: {} } } }),
  need_more: () => ({ resultType: 'input_required', inputRequests: {} }),
  'odd name/é': () => text('odd'),
  'odd_name__': () => text('like the odd one'),
};

function list(cursor) {
  const names = Object.keys(tools).reverse();
  if (extra) names.push('extra');
  const from = Number(cursor ?? 0);
  const page = names.slice(from, from + 5).map((name) => ({
    name,
    description: `the tool ${name}`,
    inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    annotations: { readOnlyHint: name === 'echo', title: `Tool ${name}` },
  }));
  const result = { tools: page };
  if (from + 5 < names.length) result.nextCursor = String(from + 5);
  return result;
}

function startGrandchild(socket) {
  const program = `for (const name of ['SIGTERM', 'SIGHUP', 'SIGINT']) process.on(name, () => {});
    require('net').connect(process.argv[1]).write(process.argv[2] + ' ' + process.pid + '\\n');
    setInterval(() => {}, 1e6);`;
  spawn(process.execPath, ['-e', program, socket, String(process.pid)], { detached: true, stdio: 'inherit' }).unref();
}

class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// The result of one request.
async function answer(message, peer) {
  const { method, params = {} } = message;
  const meta = params._meta ?? {};
  const isModern = meta[`${prefix}protocolVersion`] === modernVersion;
  if (isModern && modern) {
    if (!meta[`${prefix}clientCapabilities`]) throw new Refusal(-32021, 'no clientCapabilities');
    if (method === 'server/discover')
      return { resultType: 'complete', supportedVersions: [modernVersion], capabilities: { tools: {} }, serverInfo: { name: 'test', version: '1' } };
  } else if (!legacy) {
    throw new Refusal(-32022, 'unsupported protocol version');
  }
  if (method === 'initialize' && legacy) {
    const known = legacyVersions.includes(params.protocolVersion) ? params.protocolVersion : legacyVersions[0];
    await wait(Number(valueOf('greet-ms') ?? 0));
    const capabilities = modes.has('no-tools') ? {} : { tools: { listChanged: true } };
    return { protocolVersion: version ?? known, capabilities, serverInfo: { name: 'test', version: '1' } };
  }
  if (method === 'tools/list') await wait(Number(valueOf('list-ms') ?? 0));
  if (method === 'tools/list') return list(params.cursor);
  if (method === 'tools/call') {
    const tool = params.name === 'extra' && extra ? () => text('extra') : tools[params.name];
    if (!tool) return { ...text(`no tool ${params.name}`), isError: true };
    return tool(params.arguments ?? {}, { ...peer, params });
  }
  throw new Refusal(-32601, `no method ${method}`);
}

const pending = new Map(); // our own requests, by id

function ask(send, method, params) {
  const id = `server-${++lastId}`;
  return new Promise((resolve) => {
    pending.set(id, (message) => resolve(message.error ? { error: message.error.code } : message.result));
    send({ jsonrpc: '2.0', id, method, params });
  });
}

// Takes one message; `send` takes those that it leads to.
async function take(message, send) {
  if (message.method === 'notifications/cancelled') cancelled.push(message.params.requestId);
  if (message.method === undefined) pending.get(message.id)?.(message);
  if (message.method === undefined || message.id === undefined) return;
  const peer = {
    ask: (method, params) => ask(send, method, params),
    notify: (method, params) => send({ jsonrpc: '2.0', method, params }),
  };
  try {
    send({ jsonrpc: '2.0', id: message.id, result: await answer(message, peer) });
  } catch (error) {
    send({ jsonrpc: '2.0', id: message.id, error: { code: error.code ?? -32603, message: error.message } });
  }
}

// ---- stdio ----

function serveStdio() {
  if (modes.has('die-start')) process.exit(7);
  if (valueOf('grandchild')) startGrandchild(valueOf('grandchild'));
  if (valueOf('fail-until') && !fs.existsSync(valueOf('fail-until'))) process.exit(8);
  if (modes.has('flood-out')) {
    const junk = 'this is not a message\n'.repeat(10_000);
    const pour = () => process.stdout.write(junk, pour);
    pour();
  }
  if (modes.has('noisy')) process.stderr.write('starting\n'.repeat(1000));
  let rest = '';
  process.stdin.setEncoding('utf8').on('data', (data) => {
    const lines = (rest + data).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      if (modes.has('never')) continue;
      if (message.method === 'server/discover' && !modern) {
        if (modes.has('die-probe')) process.exit(9);
        if (modes.has('mute-probe')) continue;
      }
      void take(message, (out) => process.stdout.write(`${JSON.stringify(out)}\n`));
    }
  });
  process.stdin.on('end', () => process.exit(0));
}

// ---- HTTP ----

function serveHttp() {
  const sessions = new Map(); // id: requests left
  const kept = new Map(); // event id: what came after it, for resuming
  let streams = 0;
  let sink; // the GET stream of the client

  const refuse = (response, status, code, message) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }));
  };
  const event = (id, message) => `id: ${id}\ndata: ${JSON.stringify(message)}\n\n`;

  const post = (request, response, body) => {
    const message = JSON.parse(body);
    if (valueOf('refuse')) {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message: valueOf('refuse') } }));
      return undefined;
    }
    const session = request.headers['mcp-session-id'];
    const isModern = message.params?._meta?.[`${prefix}protocolVersion`] === modernVersion;
    if (isModern && !modern) return refuse(response, 400, -32000, 'Bad Request: No valid session ID provided');
    if (isModern && request.headers['mcp-method'] !== message.method) return refuse(response, 400, -32020, 'header mismatch');
    if (!isModern && message.method !== 'initialize') {
      if (!session) return refuse(response, 400, -32000, 'no session');
      if (!sessions.has(session) && modes.has('bad-session')) return refuse(response, 400, -32000, 'Bad Request: No valid session ID provided');
      if (!sessions.has(session)) return refuse(response, 404, -32001, 'Session not found');
      if (message.method === 'tools/call' && modes.has('expire')) {
        const left = sessions.get(session) - 1;
        sessions.set(session, left);
        if (left < 0) {
          sessions.delete(session);
          return refuse(response, 404, -32001, 'Session not found');
        }
      }
    }
    const headers = {};
    if (message.method === 'initialize') {
      headers['mcp-session-id'] = `s-${sessions.size + 1}-${Math.random()}`;
      sessions.set(headers['mcp-session-id'], 3);
    }
    if (message.method === 'notifications/initialized' && modes.has('late-tool')) {
      setTimeout(() => {
        extra = true;
        response.writeHead(202).end();
      }, 300);
      return undefined;
    }
    if (message.method === undefined || message.id === undefined) {
      void take(message, () => {});
      response.writeHead(202).end();
      return undefined;
    }
    if (!modes.has('sse') && !modes.has('cut')) {
      void take(message, (out) => {
        if (out.id !== message.id) {
          sink?.write(event('n', out)); // JSON has no room for it
          return;
        }
        response.writeHead(200, { ...headers, 'content-type': 'application/json' });
        response.end(JSON.stringify(out));
      });
      return undefined;
    }
    const stream = ++streams;
    response.writeHead(200, { ...headers, 'content-type': 'text/event-stream' });
    response.write(': hello\r\n\r\nevent: ping\r\ndata: still here\r\n\r\n');
    if (modes.has('cut') && message.method === 'tools/call') {
      response.write(`id: ${stream}-0\nretry: 10\ndata:\n\n`);
      void take(message, (out) => kept.set(`${stream}-0`, out)).then(() => response.end());
      return undefined;
    }
    void take(message, (out) => {
      response.write(event(`${stream}-${out.id ?? 'n'}`, out));
      if (out.id === message.id && out.method === undefined) response.end();
    });
    return undefined;
  };

  const server = http.createServer((request, response) => {
    seen.push({ method: request.method, ...request.headers });
    if (request.method === 'GET') {
      const session = request.headers['mcp-session-id'];
      if (session && !sessions.has(session)) return refuse(response, modes.has('bad-session') ? 400 : 404, -32000, 'Bad Request: No valid session ID provided');
      const last = request.headers['last-event-id'];
      if (last !== undefined && kept.has(last)) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end(event('again', kept.get(last)));
      } else if (modes.has('no-get') || modes.has('modern')) {
        response.writeHead(405).end();
      } else {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(': open\n\n');
        sink = response;
      }
      return undefined;
    }
    if (request.method === 'DELETE') {
      sessions.delete(request.headers['mcp-session-id']);
      if (modes.has('tell-delete')) fs.writeFileSync(`${portFile}.deleted`, 'yes');
      response.writeHead(200).end();
      return undefined;
    }
    if (request.headers.authorization === 'Bearer wrong') {
      response.writeHead(401, { 'www-authenticate': 'Bearer' }).end('who are you?');
      return undefined;
    }
    let body = '';
    request.setEncoding('utf8').on('data', (data) => (body += data));
    request.on('end', () => post(request, response, body));
    return undefined;
  });
  server.listen(Number(valueOf('port') ?? 0), '127.0.0.1', () => {
    fs.writeFileSync(`${portFile}.new`, String(server.address().port));
    fs.renameSync(`${portFile}.new`, portFile);
  });
}

if (overHttp) serveHttp();
else serveStdio();
