#!/usr/bin/env node
// The delay to the first token: asking a provider directly, through Chat Completions without a context,
// through Chat Completions with a context, and by an action of /v1. The provider answers at once.
//
//   node bench/faces.mjs        after make; prints a table in Markdown

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const rounds = 50;
const warm = 10;

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

const agent = new http.Agent({ keepAlive: true });
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

const body = { model: 'openai/m', stream: true, messages: [{ role: 'user', content: 'hello' }] };
const made = await fetch(`http://127.0.0.1:${port}/v1/contexts`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"model_id":"openai/m"}' });
const { id } = await made.json();
const ways = {
  'the provider itself': () => first(model.address().port, '/v1/chat/completions', body),
  'Chat Completions, nothing stored': () => first(port, '/openai/v1/chat/completions', body),
  'Chat Completions, stored': () => first(port, '/openai/v1/chat/completions', body, { 'x-quipu-context': 'bench' }),
  'send_message of /v1': () => first(port, `/v1/contexts/${id}/actions/send_message`, { content: 'hello' }, { accept: 'text/event-stream' }),
};
const times = Object.fromEntries(Object.keys(ways).map((name) => [name, []]));
for (let i = 0; i < warm + rounds; i++)
  for (const [name, ask] of Object.entries(ways)) {
    const ms = await ask();
    if (i >= warm) times[name].push(ms);
  }
console.log('| way | first token, median |\n|---|---|');
for (const [name, list] of Object.entries(times)) console.log(`| ${name} | ${list.sort((a, b) => a - b)[rounds / 2].toFixed(2)} ms |`);
server.kill();
server.once('exit', () => {
  fs.rmSync(data, { recursive: true, force: true });
  process.exit(0);
});
