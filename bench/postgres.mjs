#!/usr/bin/env node
// Stores in PostgreSQL, on a scratch server that syncs: durable appends beside pgbench, two servers beside one, long
// histories beside short ones, polls and first tokens beside the file driver, takeover of a turn.
//
//   node bench/postgres.mjs     after make; prints the rows and writes them to bench/RESULTS.md
//   QUIPU_BENCH_PYTHON=PATH     a Python with langgraph-checkpoint-postgres, which is measured too
//   QUIPU_BENCH_QUICK=1         a short form, which writes build/RESULTS.md

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const quick = Boolean(process.env.QUIPU_BENCH_QUICK);
const results = quick ? 'build/RESULTS.md' : 'bench/RESULTS.md';
const blocks = quick ? 3 : 9;
const seconds = quick ? 2 : 5;
const rounds = quick ? 30 : 200;
const kills = quick ? 1 : 5;
const big = quick ? 10_000 : 100_000;
const small = 1000;
const clients = 64;
const leaseSeconds = 5;
const load = os.loadavg().map((figure) => figure.toFixed(2)).join(', ');
const text = 'A quipu is a record kept in knotted cords. '.repeat(5).slice(0, 200);

const dir = fs.mkdtempSync('/tmp/quipu-bench-');
fs.chmodSync(dir, 0o755); // PostgreSQL runs as another user
const ends = [];
async function finish(code) {
  for (const end of ends.reverse()) await end();
  fs.rmSync(dir, { recursive: true, force: true });
  process.exit(code);
}
process.on('uncaughtException', (error) => {
  console.error(error);
  void finish(1);
});

// ---- processes ----

function start(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'], ...options });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  ends.push(() => {
    child.stdin.end();
    child.kill();
    return ended;
  });
  const line = new Promise((resolve) => readline.createInterface(child.stdout).once('line', resolve));
  return { child, ended, line };
}

function run(command, args, options = {}) {
  const end = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (end.status !== 0) throw new Error(`${command} ${args.join(' ')}: ${end.error ?? end.stdout + end.stderr}`);
  return end.stdout;
}

fs.mkdirSync(path.join(dir, 'postgres'));
const database = start('tools/scratch-postgres', ['--keep', path.join(dir, 'postgres')], { stdio: ['pipe', 'pipe', 'inherit'] });
// The script ends the server when its input ends; a signal would leave the server alone.
ends[0] = () => {
  database.child.stdin.end();
  return database.ended;
};
const socket = (await database.line).split(' ')[0];
const url = (name) => `postgres://quipu@/${name}?host=${socket}`;
const sql = (statement) => run('psql', ['-At', '-v', 'ON_ERROR_STOP=1', '-d', url('postgres'), '-c', statement]);

const tokens = ['one ', 'two ', 'three '];
const model = http.createServer((request, response) => {
  const chunk = (choice) => response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`);
  request.resume().on('end', () => {
    if (request.method === 'GET') return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    chunk({ delta: { content: 'knot' } });
    if (model.holds) return undefined; // it never ends
    for (const token of tokens) chunk({ delta: { content: token } });
    chunk({ delta: {}, finish_reason: 'stop' });
    return response.end('data: [DONE]\n\n');
  });
});
await new Promise((resolve) => model.listen(0, '127.0.0.1', resolve));

let servers = 0;
async function serve(store) {
  const env = { ...process.env, OPENAI_BASE_URL: `http://127.0.0.1:${model.address().port}/v1` };
  const where = store ? ['--store', store, '--data', path.join(dir, `data${servers++}`)] : ['--data', path.join(dir, 'files')];
  const { child, ended, line } = start('build/quipu', ['serve', '--listen', '127.0.0.1:0', '--access-log', 'no', ...where], { env });
  const address = /(http:\S+)$/.exec(await line)[1];
  return { child, ended, url: address };
}

async function ask(server, method, target, body, headers = {}) {
  const answer = await fetch(server.url + target, { method, headers: { ...(body ? { 'content-type': 'application/json' } : {}), ...headers }, body: body && JSON.stringify(body) });
  const came = await answer.text();
  if (answer.status >= 400) throw new Error(`${method} ${target}: ${answer.status} ${came}`);
  return { headers: answer.headers, body: came ? JSON.parse(came) : undefined };
}
const create = async (server, body = {}) => (await ask(server, 'POST', '/v1/contexts', body)).body.id;

// A context with many messages.
async function build(server, count) {
  const id = await create(server);
  for (let n = 0; n < count; n += 250) await ask(server, 'POST', `/v1/contexts/${id}/messages?last=0`, Array.from({ length: Math.min(250, count - n) }, () => ({ role: 'user', text })));
  return id;
}

// ---- figures ----

const middle = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const ms = (figure) => `${figure.toFixed(2)} ms`;
const times = (figure) => figure.toFixed(2);
const rate = (figure) => `${figure.toFixed(0)} /s`;
const rows = [];

function row(what, bar, list, write, ours, peer, good) {
  const figure = middle(list);
  rows.push(`| ${what} | ${bar} | **${write(figure)}** | ${write(Math.min(...list))} … ${write(Math.max(...list))} | ${good === undefined ? '' : good(figure) ? 'pass' : 'short'} | ${ours} | ${peer} |`);
  console.log(rows.at(-1));
}

// Blocks in turn: ours, peer, peer, ours, …
async function compare(ours, peer, count = blocks) {
  const pairs = [];
  for (let i = 0; i < count; i++) {
    if (i % 2 === 0) pairs.push([await ours(), await peer()]);
    else pairs.push((([a, b]) => [b, a])([await peer(), await ours()]));
  }
  return { ratios: pairs.map(([a, b]) => a / b), ours: middle(pairs.map(([a]) => a)), peer: middle(pairs.map(([, b]) => b)) };
}

const script = path.join(dir, 'request.lua');
fs.writeFileSync(script, `
local lines, n = {}, math.random(1000)
for line in io.lines(os.getenv('REQUESTS')) do lines[#lines + 1] = line end
local body = os.getenv('BODY')
local headers = { ['Content-Type'] = 'application/json', ['If-None-Match'] = os.getenv('ETAG') }
request = function()
  n = n + 1
  return wrk.format(body and 'POST' or 'GET', lines[n % #lines + 1], headers, body)
end
`);

// Requests per second of wrk with these connections; `status` is what each answer must be.
function wrk(server, targets, connections, { body, etag } = {}) {
  const list = path.join(dir, `targets${servers}-${connections}-${server.child.pid}`);
  fs.writeFileSync(list, targets.join('\n'));
  const env = { ...process.env, REQUESTS: list, ...(body ? { BODY: JSON.stringify(body) } : {}), ...(etag ? { ETAG: etag } : {}) };
  const child = spawn('wrk', ['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '-s', script, server.url], { env });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (more) => (said += more));
  child.stderr.setEncoding('utf8').on('data', (more) => (said += more));
  return new Promise((resolve, reject) => {
    child.once('close', () => {
      const found = /Requests\/sec:\s*([\d.]+)/.exec(said);
      if (!found || /Non-2xx|Socket errors/.test(said)) reject(new Error(`wrk: ${said}`));
      else resolve(Number(found[1]));
    });
  });
}

// ---- durable appends ----

const message = { role: 'user', text };
const one = await serve(url('postgres'));
const contexts = [];
for (let i = 0; i < clients; i++) contexts.push(await create(one));
const appends = (ids) => ids.map((id) => `/v1/contexts/${id}/messages?last=0`);
// As long as the stored form: an id, a parent, the role, the time, the content.
const id = '01a1e0ff-0805-7035-8c1a-f758bb0d398e';
const stored = JSON.stringify({ id, parent_id: id, role: 'user', type: 'text', created_at: new Date(), content: [{ type: 'text', text }] }).length;
sql('CREATE TABLE bench (client int8, number int8 GENERATED ALWAYS AS IDENTITY, bytes bytea, PRIMARY KEY (client, number))');
const insert = path.join(dir, 'insert.sql');
fs.writeFileSync(insert, `INSERT INTO bench (client, bytes) VALUES (:client_id, '\\x${Buffer.alloc(stored, 'x').toString('hex')}');\n`);
const pgbench = (n) => (said => Number(/tps = ([\d.]+)/.exec(said)[1]))(run('pgbench', ['-n', '-M', 'prepared', '-c', String(n), '-j', '2', '-T', String(seconds), '-f', insert, url('postgres')], { stdio: ['ignore', 'pipe', 'pipe'] }));

await wrk(one, appends(contexts), clients, { body: message }); // warm
const durable = await compare(() => wrk(one, appends(contexts), clients, { body: message }), () => pgbench(clients));
row(`durable appends over HTTP, ${clients} clients, one server`, 'at least 0.7', durable.ratios, times, `POST of a message of ${stored} bytes: ${rate(durable.ours)}`, `pgbench, one INSERT and COMMIT of the same bytes: ${rate(durable.peer)}`, (figure) => figure >= 0.7);

// ---- two servers ----

const two = await serve(url('postgres'));
const half = clients / 2;
const others = [];
for (let i = 0; i < half; i++) others.push(await create(two));
const both = [...contexts.slice(0, half), ...others];
const alone = () => wrk(one, appends(contexts), clients, { body: message });
const sum = async (list) => (await Promise.all(list)).reduce((a, b) => a + b, 0);
const spread = await compare(() => sum([wrk(one, appends(both), half, { body: message }), wrk(two, appends(both), half, { body: message })]), alone);
row('two servers on one set of contexts, requests to any', 'at least 1.0', spread.ratios, times, `half of the requests are forwarded: ${rate(spread.ours)}`, `one server: ${rate(spread.peer)}`, (figure) => figure >= 1);
const aimed = await compare(() => sum([wrk(one, appends(contexts.slice(0, half)), half, { body: message }), wrk(two, appends(others), half, { body: message })]), alone);
row('two servers, requests to the server that holds the context', 'none', aimed.ratios, times, `nothing is forwarded: ${rate(aimed.ours)}`, `one server: ${rate(aimed.peer)}`);
two.child.kill();
await two.ended;

// ---- long and short histories ----

const long = await build(one, big);
const short = await build(one, small);
async function each(deed, count = rounds) {
  const from = process.hrtime.bigint();
  for (let i = 0; i < count; i++) await deed();
  return Number(process.hrtime.bigint() - from) / 1e6 / count;
}
const appendTo = (id) => () => each(() => ask(one, 'POST', `/v1/contexts/${id}/messages?last=0`, message));
const newest = (id) => () => each(() => ask(one, 'GET', `/v1/contexts/${id}/messages?order=newest&limit=50`));
const grown = await compare(appendTo(long), appendTo(short));
row(`append at ${big.toLocaleString('en')} and at ${small.toLocaleString('en')}`, 'at most 1.1', grown.ratios, times, `at ${big.toLocaleString('en')}: ${ms(grown.ours)}`, `at ${small.toLocaleString('en')}: ${ms(grown.peer)}`, (figure) => figure <= 1.1);
const last = await compare(newest(long), newest(short));
row(`last 50 of ${big.toLocaleString('en')} and of ${small.toLocaleString('en')}`, 'at most 1.5', last.ratios, times, `of ${big.toLocaleString('en')}: ${ms(last.ours)}`, `of ${small.toLocaleString('en')}: ${ms(last.peer)}`, (figure) => figure <= 1.5);

// ---- beside the file driver ----

const files = await serve();
async function poll(server) {
  const id = await create(server);
  await ask(server, 'POST', `/v1/contexts/${id}/messages`, message);
  const target = `/v1/contexts/${id}/state`;
  const etag = (await ask(server, 'GET', target)).headers.get('etag');
  return () => wrk(server, [target], clients, { etag });
}
const polls = await compare(await poll(one), await poll(files));
row(`304 polls, ${clients} connections, beside the file driver`, 'at least 0.9', polls.ratios, times, `PostgreSQL: ${rate(polls.ours)}`, `files: ${rate(polls.peer)}`, (figure) => figure >= 0.9);

const agent = new http.Agent({ keepAlive: true });
function first(server, id) {
  return new Promise((resolve, reject) => {
    const from = process.hrtime.bigint();
    let came = '';
    let at;
    const request = http.request(`${server.url}/v1/contexts/${id}/actions/send_message`, { method: 'POST', agent, headers: { 'content-type': 'application/json', accept: 'text/event-stream' } }, (response) => {
      response.setEncoding('utf8').on('data', (more) => {
        came += more;
        if (at === undefined && came.includes('"knot"')) at = Number(process.hrtime.bigint() - from) / 1e6;
      });
      response.on('end', () => (at === undefined ? reject(new Error(came)) : resolve(at)));
    });
    request.on('error', reject);
    request.end(JSON.stringify({ content: 'hello' }));
  });
}
const talks = [[one, await create(one, { model_id: 'openai/m' })], [files, await create(files, { model_id: 'openai/m' })]];
const delays = [[], []];
for (let i = 0; i < rounds; i++) for (const [k, [server, id]] of talks.entries()) delays[k].push(await first(server, id));
const commit = 1000 / pgbench(1);
const added = delays[0].map((delay, i) => delay - delays[1][i]);
row('first token: added delay beside the file driver', 'at most 1 commit', added.map((delay) => delay / commit), times, `PostgreSQL: ${ms(middle(delays[0]))}`, `files: ${ms(middle(delays[1]))}; INSERT and COMMIT by one client of pgbench: ${ms(commit)}`, (figure) => figure <= 1);

// ---- takeover ----

model.holds = true;
let holder = one;
const taken = [];
for (let i = 0; i < kills; i++) {
  const next = await serve(url('postgres'));
  const id = await create(holder, { model_id: 'openai/m' });
  await ask(holder, 'POST', `/v1/contexts/${id}/actions/send_message`, { content: 'hello' }, { prefer: 'respond-async' });
  while ((await ask(holder, 'GET', `/v1/contexts/${id}/state`)).body.state !== 'StreamingLLMResponse');
  holder.child.kill('SIGKILL');
  const from = process.hrtime.bigint();
  for (;;) {
    const answer = await fetch(`${next.url}/v1/contexts/${id}/state`);
    const state = answer.status === 200 ? (await answer.json()).state : (await answer.text(), undefined);
    if (state === 'Failed') break;
  }
  taken.push(Number(process.hrtime.bigint() - from) / 1e9);
  holder = next;
}
row(`takeover of a turn after kill -9, lease ${leaseSeconds} s`, `at most ${leaseSeconds + 1} s`, taken, (figure) => `${figure.toFixed(2)} s`, 'until another server answers with the interrupted turn', '', (figure) => figure <= leaseSeconds + 1);

// ---- LangGraph ----

const python = process.env.QUIPU_BENCH_PYTHON;
if (python) {
  const lengths = [100, 1000];
  for (const length of lengths) {
    holder = await serve(url('postgres')); // the connections to the last one have been idle for too long
    const id = await build(holder, length);
    const ours = await each(() => ask(holder, 'POST', `/v1/contexts/${id}/messages?last=0`, message));
    const figure = Number(run(python, ['bench/langgraph_postgres.py', url('postgres'), String(length), String(quick ? 10 : 50)]));
    row(`append to a history of ${length} messages beside LangGraph's PostgresSaver, one client`, 'none', [figure / ours], times, `quipu serve, over HTTP: ${ms(ours)}`, `PostgresSaver in its own process: ${ms(figure)}`);
  }
}

// ---- the section ----

const mark = '## PostgreSQL\n';
const section = `${mark}
Written by bench/postgres.mjs, ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC; load average when it began ${load}. PostgreSQL runs on the same
machine, with fsync, over a Unix socket; so do the clients (wrk, pgbench). Peers are measured in the same run, in turns. *Measured* is
the median of ${blocks} blocks, *spread* the smallest and the largest.
${python ? '' : "LangGraph's PostgresSaver was not measured: QUIPU_BENCH_PYTHON names a Python that has it.\n"}
| what | bar | measured | spread | | ours | peer |
|---|---|---|---|---|---|---|
${rows.join('\n')}

`;
const old = fs.existsSync(results) ? fs.readFileSync(results, 'utf8') : '';
const at = old.indexOf(mark);
const next = at < 0 ? -1 : old.indexOf('\n## ', at + 1);
fs.writeFileSync(results, at < 0 ? `${old.trimEnd()}\n\n${section.trimEnd()}\n` : old.slice(0, at) + section.trimEnd() + '\n' + (next < 0 ? '' : old.slice(next)));
await finish(0);
