// Clients that generators make from the contract compile, and talk to the real server: TypeScript with
// openapi-typescript and openapi-fetch, Python with openapi-python-client where that is installed.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { tempDir } from './helper.mjs';
import { serve } from './server.mjs';

function run(command, args, options = {}) {
  const result = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (result.error) throw result.error;
  assert.equal(result.status, 0, `${command} ${args.join(' ')}\n${result.stdout}${result.stderr}`);
  return result.stdout;
}

// Uses one call of each kind: a body, a path, a query, an error, and the types of events.
const typescript = `
import createClient from 'openapi-fetch';
import type { components, paths } from './api.js';

type Event = components['schemas']['Event'];
const describe = (event: Event): string => {
  switch (event.type) {
    case 'state':
      return event.state;
    case 'tool_end':
      return event.name + (event.is_error ? ' failed' : '');
    case 'message':
      return event.role + ' ' + event.id;
    default:
      return event.type;
  }
};

const client = createClient<paths>({ baseUrl: process.argv[2]! });
const made = await client.POST('/v1/contexts', { body: { title: 'typed' } });
if (made.error) throw new Error(made.error.error.message);
const id: string = made.data.id;
const turn = await client.POST('/v1/contexts/{id}/actions/send_message', { params: { path: { id } }, body: { content: 'hello' } });
if (!turn.data || typeof turn.data === 'string') throw new Error('the turn failed, or was answered as events');
const list = await client.GET('/v1/contexts', { params: { query: { limit: 1 } } });
const first = list.data?.contexts[0];
const missing = await client.GET('/v1/contexts/{id}', { params: { path: { id: '00000000-0000-7000-8000-000000000000' } } });
const response = await fetch(process.argv[2] + '/v1/contexts/' + id + '/events?after=0');
const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
const seen: string[] = [];
for (let text = ''; !seen.includes('Idle'); ) {
  const { value, done } = await reader.read();
  if (done) break;
  text += value;
  const lines = text.split('\\n');
  text = lines.pop() ?? '';
  for (const line of lines) if (line.startsWith('data: ')) seen.push(describe(JSON.parse(line.slice(6)) as Event));
}
await reader.cancel();
console.log(JSON.stringify({
  state: turn.data.state,
  title: first && 'title' in first ? first.title : undefined,
  code: missing.error?.error.code,
  seen,
}));
`;

test('a TypeScript client made from the contract compiles under strict and runs', async (t) => {
  const dir = tempDir(t);
  const { url } = await serve(t);
  const bin = path.resolve('node_modules/.bin');
  fs.symlinkSync(path.resolve('node_modules'), path.join(dir, 'node_modules'));
  fs.writeFileSync(path.join(dir, 'package.json'), '{"type":"module"}');
  run(path.join(bin, 'openapi-typescript'), [path.resolve('api/openapi.yaml'), '-o', path.join(dir, 'api.d.ts')]);
  // Declared in the module itself, so that it does not matter whether the types of node are installed.
  fs.writeFileSync(path.join(dir, 'client.ts'), `${typescript}declare const process: { argv: string[] };\n`);
  const options = ['--strict', '--noUncheckedIndexedAccess', '--target', 'es2022', '--module', 'nodenext', '--moduleResolution', 'nodenext', '--lib', 'es2023,dom'];
  run(path.join(bin, 'tsc'), [...options, 'client.ts'], { cwd: dir });
  const said = JSON.parse(run(process.execPath, ['client.js', url], { cwd: dir }));
  assert.equal(said.state, 'Idle');
  assert.equal(said.title, 'typed');
  assert.equal(said.code, 'NOTFOUND');
  assert.ok(said.seen.includes('ProcessingUserMessage') && said.seen.includes('Idle'), said.seen.join());
});

const python = `
import json, sys
from quipu_client import Client
from quipu_client.api.contexts import create_context, get_context
from quipu_client.api.turns import send_message
from quipu_client.models import NewContext, SendMessage, StateEvent
client = Client(base_url=sys.argv[1])
made = create_context.sync(client=client, body=NewContext(title="typed"))
turn = send_message.sync(made.id, client=client, body=SendMessage(content="hello"))
missing = get_context.sync("00000000-0000-7000-8000-000000000000", client=client)
print(json.dumps({"state": turn.state, "title": made.title, "code": missing.error.code}))
`;

test('a Python client made from the contract has no gaps and runs', async (t) => {
  if (spawnSync('openapi-python-client', ['--version']).status !== 0) return t.skip('openapi-python-client is not installed');
  const dir = tempDir(t);
  const { url } = await serve(t);
  const printed = run('openapi-python-client', ['generate', '--path', path.resolve('api/openapi.json'), '--output-path', path.join(dir, 'client')]);
  assert.doesNotMatch(printed, /WARNING|ERROR|Unable/, printed);
  fs.writeFileSync(path.join(dir, 'program.py'), python);
  const said = JSON.parse(run('python3', ['program.py', url], { cwd: dir, env: { ...process.env, PYTHONPATH: path.join(dir, 'client') } }));
  assert.deepEqual(said, { state: 'Idle', title: 'typed', code: 'NOTFOUND' });
});
