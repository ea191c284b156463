// clients/python and clients/js with a real server, and the types of clients/js.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { Quipu, QuipuError } from '../../clients/js/quipu.mjs';
import { root, serveFaces, weather } from './face.mjs';
import { tempDir } from './helper.mjs';

async function unittest(python, args, server, expected) {
  const cwd = path.join(root, 'clients/python');
  const child = spawn(python, ['-B', ...args], { cwd, env: { ...process.env, QUIPU_URL: server.url, PYTHONPATH: cwd } });
  let told = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (told += text));
  const code = await new Promise((resolve) => child.on('close', resolve));
  assert.equal(code, 0, told);
  assert.match(told, expected);
}

test('python: the client, asyncio, the Session of the Agents SDK, the checkpointer of LangGraph', async (t) => {
  await unittest('python3', ['-m', 'unittest', 'discover', '-s', 'tests'], await serveFaces(t), /Ran 5 tests/);
});

// The packages are not installed by tools/deps. Where a Python has them, it is used.
test('python: openai, openai-agents and langgraph themselves', async (t) => {
  const python = process.env.QUIPU_TEST_PYTHON ?? 'python3';
  const probe = spawnSync(python, ['-c', 'import openai, agents, langgraph.graph'], { encoding: 'utf8' });
  if (probe.status !== 0) return t.skip(`${python} lacks openai, openai-agents or langgraph; see clients/README.md`);
  const server = await serveFaces(t);
  await unittest(python, ['tests/packages.py', '-v'], server, /Ran 6 tests/);
});

test('javascript: messages, streams, tools of the program, pages, errors, an answer that is lost', async (t) => {
  const server = await serveFaces(t);
  const client = new Quipu(server.url);
  const chat = await client.create({ title: 'Knots of JavaScript' });
  assert.equal((await chat.send('hello', { key: 'once' })).text, 'Knots, and knots.');
  assert.equal((await chat.send('hello', { key: 'once' })).replayed, true);
  let said = '';
  for await (const event of chat.stream('again')) if (event.type === 'text') said += event.text;
  assert.equal(said, 'Knots, and knots.');
  const asked = [];
  const answer = await chat.run('weather', { get_weather: ({ city }) => (asked.push(city), { sky: 'blue' }) }, { tools: [weather] });
  assert.deepEqual([answer.text, asked], ['It is sunny in both.', ['Paris', 'Rome']]);
  const roles = [];
  for await (const message of chat.messages({ limit: 2 })) roles.push(message.role);
  assert.deepEqual(roles, ['user', 'assistant', 'user', 'assistant', 'user', 'assistant', 'tool', 'tool', 'assistant']);
  await chat.append([{ role: 'user', text: 'kept' }]);
  await chat.update({ title: 'Named' });
  for await (const one of client.contexts({ limit: 1 })) assert.equal(one.title, 'Named');
  await assert.rejects(client.context('01890a5d-ac96-774b-bcce-b302099a8057').info(), (error) => error instanceof QuipuError && error.status === 404 && error.code === 'NOTFOUND');
  // An answer that is lost on the way: the request is sent again, and the turn is one turn.
  let lost = 0;
  const flaky = new Quipu(server.url, {
    fetch: async (...args) => {
      const response = await fetch(...args);
      if (lost++ > 0) return response;
      await response.text();
      throw new TypeError('fetch failed');
    },
  });
  const before = (await chat.state()).messages.length;
  assert.equal((await flaky.context(chat.id).send('hello')).replayed, true);
  assert.equal(lost, 2);
  assert.equal((await chat.state()).messages.length, before + 2);
});

test('the types are those of the contract, and a program compiles with them', (t) => {
  const dir = tempDir(t);
  const tool = (name, ...args) => {
    const result = spawnSync(process.execPath, [path.join(root, 'node_modules', name), ...args], { encoding: 'utf8', cwd: dir });
    assert.equal(result.status, 0, result.stdout + result.stderr);
  };
  tool('openapi-typescript/bin/cli.js', path.join(root, 'api/openapi.json'), '-o', 'contract.d.ts');
  for (const name of ['quipu.mjs', 'quipu.d.mts']) fs.copyFileSync(path.join(root, 'clients/js', name), path.join(dir, name));
  fs.writeFileSync(path.join(dir, 'use.mts'), `
    import { Quipu, QuipuError, type Event } from './quipu.mjs';
    const chat = await new Quipu('http://127.0.0.1:1').create({ title: 'typed' });
    const text: string = (await chat.send('hello')).text;
    for await (const event of chat.stream('x')) { const one: Event = event; if (one.type === 'text') console.log(one.text); }
    for await (const message of chat.messages()) { const role: string = message.role; console.log(role, text); }
    // @ts-expect-error a title is a text
    await chat.update({ title: 7 });
    export const is = (error: unknown) => error instanceof QuipuError && error.code;
  `);
  tool('typescript/bin/tsc', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2022', 'use.mts');
});
