#!/usr/bin/env node
// Other protocols: the delay to the first token beside the provider itself and beside actions of /v1, with
// a provider that answers at once; requests with an Idempotency-Key; recognising a history; and
// LiteLLM's proxy, if it is installed.
//
//   node bench/faces.mjs        after make; prints the rows and writes them to bench/RESULTS.md
//   QUIPU_BENCH_LITELLM=PATH    the program litellm (pip install 'litellm[proxy]')
//   QUIPU_BENCH_QUICK=1         a short form, which writes build/RESULTS.md

import { randomBytes } from 'node:crypto';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const quick = Boolean(process.env.QUIPU_BENCH_QUICK);
const results = quick ? 'build/RESULTS.md' : 'bench/RESULTS.md';
const rounds = quick ? 10 : 50;
const warm = quick ? 2 : 10;
const blocks = quick ? 3 : 9;
const crowd = 32;
const load = os.loadavg().map((figure) => figure.toFixed(2)).join(', ');

const chunk = (choice) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, ...choice }] })}\n\n`;
const model = http.createServer((request, response) => {
  request.resume().on('end', () => {
    if (request.method === 'GET') return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk({ delta: { content: 'knot' }, finish_reason: null }));
    setTimeout(() => response.end(`${chunk({ delta: {}, finish_reason: 'stop' })}data: [DONE]\n\n`), 1);
    return undefined;
  });
});
await new Promise((resolve) => model.listen(0, '127.0.0.1', resolve));

const data = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-bench-'));
const env = { ...process.env, OPENAI_BASE_URL: `http://127.0.0.1:${model.address().port}/v1` };
const server = spawn('build/quipu', ['serve', '--data', data, '--listen', '127.0.0.1:0'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
const [line] = await new Promise((resolve) => readline.createInterface(server.stdout).once('line', (text) => resolve([text])));
const port = Number(/:(\d+)$/.exec(line)[1]);

const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
const first = (to, target, body, headers = {}) =>
  new Promise((resolve, reject) => {
    const from = process.hrtime.bigint();
    let text = '';
    let at;
    const request = http.request({ host: '127.0.0.1', port: to, path: target, method: 'POST', agent, headers: { 'content-type': 'application/json', ...headers } }, (response) => {
      response.setEncoding('utf8').on('data', (more) => {
        text += more;
        if (at === undefined && text.includes('"knot"')) at = Number(process.hrtime.bigint() - from) / 1e6;
      });
      response.on('end', () => (at === undefined ? reject(new Error(text)) : resolve(at)));
    });
    request.on('error', reject);
    request.end(JSON.stringify(body));
  });

const middle = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const range = (list, write) => `${write(Math.min(...list))} … ${write(Math.max(...list))}`;
const ms = (figure) => `${figure.toFixed(2)} ms`;
const times = (figure) => figure.toFixed(2);
const rows = [];

// One row: the median of `list`, its smallest and largest value, and whether it keeps the bar.
function row(what, bar, list, write, ours, peer, good) {
  const figure = middle(list);
  rows.push(`| ${what} | ${bar} | **${write(figure)}** | ${range(list, write)} | ${good === undefined ? '' : good(figure) ? 'pass' : 'short'} | ${ours} | ${peer} |`);
}

const body = { model: 'openai/m', stream: true, messages: [{ role: 'user', content: 'hello' }] };
const post = async (to, target, sent, headers = {}) => {
  const answer = await fetch(`http://127.0.0.1:${to}${target}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(sent) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};
const { id } = await post(port, '/v1/contexts', { model_id: 'openai/m' });
const ways = {
  direct: () => first(model.address().port, '/v1/chat/completions', body),
  passed: () => first(port, '/openai/v1/chat/completions', body),
  stored: () => first(port, '/openai/v1/chat/completions', body, { 'x-quipu-context': 'bench' }),
  action: () => first(port, `/v1/contexts/${id}/actions/send_message`, { content: 'hello' }, { accept: 'text/event-stream' }),
};

// The ways in turn, so that no way has a better hour than another one.
async function measure(asked) {
  const took = Object.fromEntries(Object.keys(asked).map((name) => [name, []]));
  for (let i = 0; i < warm + rounds; i++)
    for (const [name, ask] of Object.entries(asked)) {
      const one = await ask();
      if (i >= warm) took[name].push(one);
    }
  return took;
}

const took = await measure(ways);
const added = took.passed.map((one, i) => one - took.direct[i]);
row('first token through Chat Completions, nothing stored: added delay', 'at most 0.50 ms', added, ms, `through quipu serve: ${ms(middle(took.passed))}`, `the provider asked directly: ${ms(middle(took.direct))}`, (figure) => figure <= 0.5);
const ratios = took.stored.map((one, i) => (one - took.direct[i]) / (took.action[i] - took.direct[i]));
row('first token through Chat Completions, stored: added delay beside an action of /v1', 'at most 1.2', ratios, times, `Chat Completions: ${ms(middle(took.stored))}`, `send_message: ${ms(middle(took.action))}`, (figure) => figure <= 1.2);

// ---- requests with a key ----

const contexts = [];
for (let i = 0; i < crowd; i++) contexts.push((await post(port, '/v1/contexts', {})).id);
let keys = 0;
async function save(keyed) {
  const from = process.hrtime.bigint();
  const each = async (context) => {
    for (let i = 0; i < 10; i++) await post(port, `/v1/contexts/${context}/messages`, { role: 'user', text: 'a knot' }, keyed ? { 'idempotency-key': `bench ${keys++}` } : {});
  };
  await Promise.all(contexts.map(each));
  return Number(process.hrtime.bigint() - from) / 1e6 / (crowd * 10);
}
await save(true);
await save(false);
const keyed = [];
for (let i = 0; i < blocks; i++) keyed.push([await save(true), await save(false)]);
row(`durable POST of a message with an Idempotency-Key, ${crowd} connections`, 'none', keyed.map(([ours, peer]) => ours / peer), times, `with a key: ${ms(middle(keyed.map(([ours]) => ours)))}`, `without: ${ms(middle(keyed.map(([, peer]) => peer)))}`);

// ---- recognising a history ----

if (fs.existsSync('build/bench/bench_prefix')) {
  const told = spawnSync('build/bench/bench_prefix', { encoding: 'utf8' }).stdout;
  const [small, large] = [...told.matchAll(/^\| (\d+) \| ([\d.]+) µs \| ([\d.]+) µs/gm)].map(([, , hash, search]) => [Number(hash), Number(search)]);
  const ratio = Number(/costs ([\d.]+) times/.exec(told)[1]);
  row('recognising a history, beyond hashing what was sent: 10,000 messages beside 100', 'at most 1.5', [ratio], times, `10,000 messages: ${large[1]} µs`, `100 messages: ${small[1]} µs; hashing ${ms(large[0] / 1e3)} and ${ms(small[0] / 1e3)}`, (figure) => figure <= 1.5);
}

// ---- LiteLLM's proxy ----

const litellm = process.env.QUIPU_BENCH_LITELLM;
if (litellm) {
  const key = `sk-${randomBytes(32).toString('hex')}`;
  const free = http.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => free.once('listening', resolve));
  const other = free.address().port;
  await new Promise((resolve) => free.close(resolve));
  const proxy = spawn(litellm, ['--model', 'openai/m', '--alias', 'openai/m', '--api_base', env.OPENAI_BASE_URL, '--host', '127.0.0.1', '--port', String(other), '--telemetry', 'False'], {
    env: { ...process.env, OPENAI_API_KEY: 'none', LITELLM_MASTER_KEY: key, LITELLM_LOCAL_MODEL_COST_MAP: 'True' }, stdio: 'ignore',
  });
  const until = Date.now() + 180_000;
  while (!(await fetch(`http://127.0.0.1:${other}/health/liveliness`).then((answer) => answer.ok, () => false))) {
    if (Date.now() > until || proxy.exitCode !== null) throw new Error('litellm does not start');
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  // In blocks that alternate: the proxy still works when its answer has come, and would be measured with the next request.
  const pairs = [];
  const proxied = () => first(other, '/v1/chat/completions', body, { authorization: `Bearer ${key}` });
  const delay = (one, name) => middle(one[name].map((figure, i) => figure - one.direct[i]));
  for (let i = 0; i < (quick ? 1 : 5); i++) pairs.push([delay(await measure({ direct: ways.direct, proxy: proxied }), 'proxy'), delay(await measure({ direct: ways.direct, passed: ways.passed }), 'passed')]);
  row("first token: added delay of LiteLLM's proxy beside ours", 'at least 10', pairs.map(([peer, ours]) => peer / Math.max(ours, 0.01)), times, `LiteLLM adds ${ms(middle(pairs.map(([peer]) => peer)))}`, `quipu serve adds ${ms(middle(pairs.map(([, ours]) => ours)))}`, (figure) => figure >= 10);
  const rate = async (to, target, each) => {
    const from = process.hrtime.bigint();
    const one = async () => {
      for (let i = 0; i < each; i++) await first(to, target, body, { authorization: `Bearer ${key}` });
    };
    await Promise.all(Array.from({ length: crowd }, one));
    return (crowd * each * 1e9) / Number(process.hrtime.bigint() - from);
  };
  const rates = [];
  for (let i = 0; i < 3; i++) rates.push([await rate(port, '/openai/v1/chat/completions', 10), await rate(other, '/v1/chat/completions', 2)]);
  row(`requests per second, ${crowd} connections, beside LiteLLM's proxy`, 'at least 10', rates.map(([ours, peer]) => ours / peer), times, `quipu serve: ${middle(rates.map(([ours]) => ours)).toFixed(0)} /s`, `LiteLLM: ${middle(rates.map(([, peer]) => peer)).toFixed(1)} /s`, (figure) => figure >= 10);
  proxy.kill();
}

// ---- the section ----

const mark = '## Other protocols\n';
const section = `${mark}
Written by bench/faces.mjs, ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC; load average when it began ${load}. Peers are measured in the
same run, in turns. *Measured* is the median of ${rounds} requests (of ${blocks} blocks for keys), *spread* the smallest and the largest.
${litellm ? '' : "LiteLLM's proxy was not measured: QUIPU_BENCH_LITELLM names its program.\n"}
| what | bar | measured | spread | | ours | peer |
|---|---|---|---|---|---|---|
${rows.join('\n')}

`;
console.log(section);
// Its own section of the results; the others stay as they are.
const old = fs.existsSync(results) ? fs.readFileSync(results, 'utf8') : '';
const at = old.indexOf(mark);
const next = at < 0 ? -1 : old.indexOf('\n## ', at + 1);
fs.writeFileSync(results, at < 0 ? `${old.trimEnd()}\n\n${section.trimEnd()}\n` : old.slice(0, at) + section.trimEnd() + '\n' + (next < 0 ? '' : old.slice(next)));
server.kill();
server.once('exit', () => {
  fs.rmSync(data, { recursive: true, force: true });
  process.exit(0);
});
