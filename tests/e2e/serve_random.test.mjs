// Random requests made from the contract: whatever is asked, no answer is a 5xx, every answer is as
// the contract says, a body that the contract refuses changes nothing, and the data stay sound.
//
// QUIPU_TEST_SEED chooses the requests; QUIPU_TEST_LONG chooses others each time.

import assert from 'node:assert/strict';
import test from 'node:test';
import { contract, parseAnswers } from './contract.mjs';
import { ok } from './helper.mjs';
import { Chance, Maker, makeRequest } from './random.mjs';
import { serveTurns } from './turns.mjs';

const rounds = process.env.QUIPU_TEST_LONG ? 20000 : 1500;
const kept = 30; // things of a kind that are remembered

function remember(list, value) {
  if (typeof value !== 'string' || list.includes(value)) return;
  list.push(value);
  if (list.length > kept) list.shift();
}

// What an answer tells of things that are there.
function learn(things, op, answer) {
  const { status, headers, text } = answer;
  if (headers.get('etag')) remember(things.etags, headers.get('etag'));
  if (status !== 200 && status !== 201) return;
  const body = headers.get('content-type') === 'application/json' ? JSON.parse(text) : {};
  if (op.id === 'createContext') remember(things.ids, body.id);
  if (op.id === 'saveMessage') remember(things.messages, body.message_id);
  if (op.id === 'createPrompt') remember(things.prompts, body.id);
  if (op.id === 'createSession') remember(things.sessions, body.id);
  if (op.id === 'forkBranch') remember(things.branches, body.name);
}

async function send(server, { method, target, headers, body }) {
  const asked = headers.filter((line) => !/^accept:/i.test(line)); // streams are for other tests
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: localhost', 'Connection: close', ...asked];
  if (body) lines.push('Content-Type: application/json', `Content-Length: ${body.length}`);
  const head = `${lines.join('\r\n')}\r\n\r\n`;
  const came = await server.raw(head + (body ? body.toString('latin1') : ''));
  const [answer] = parseAnswers(came, [{ method }]).all;
  assert.ok(answer, 'there is an answer');
  return answer;
}

// Deleting comes seldom, or there is nothing left to ask for.
const weight = (op) => (op.method === 'DELETE' ? 1 : op.method === 'GET' ? 3 : op.id === 'saveMessage' || op.id === 'createContext' ? 8 : 4);

test('random requests from the contract', async (t) => {
  const any = process.env.QUIPU_TEST_LONG ? Math.floor(Math.random() * 2 ** 32) : 1;
  const seed = Number(process.env.QUIPU_TEST_SEED ?? any);
  t.diagnostic(`QUIPU_TEST_SEED=${seed}`);
  const chance = new Chance(seed);
  const things = { ids: [], messages: [], prompts: [], sessions: [], branches: ['main'], etags: [] };
  const maker = new Maker(chance, things);
  const endless = 'followContext';
  const lot = contract.operations.filter((op) => op.id !== endless).flatMap((op) => Array(weight(op)).fill(op));
  const server = await serveTurns(t, { steps: [] });
  const counts = {};

  for (let i = 0; i < 5; i++) remember(things.ids, (await server.expect(201, 'POST', '/v1/contexts', {})).id);
  for (let i = 0; i < rounds; i++) {
    const op = chance.one(lot);
    const request = makeRequest(maker, op);
    const told = `request ${i} of QUIPU_TEST_SEED=${seed}: ${op.method} ${request.target.slice(0, 300)} ${request.headers.join('; ').slice(0, 200)} ${String(request.body ?? '').slice(0, 600)}`;
    let answer;
    try {
      answer = await send(server, request);
    } catch (error) {
      error.message = `${told}\n${error.message}`;
      throw error;
    }
    const { status } = answer;
    counts[status] = (counts[status] ?? 0) + 1;
    assert.ok(status < 500, `${told}\nanswered ${status}: ${answer.text}`);
    const problem = 'value' in request && contract.validator(op.body.schema)(request.value);
    if (problem) assert.ok(status >= 400, `${told}\nanswered ${status}, but the contract refuses the body: ${problem}`);
    learn(things, op, answer);
  }
  await server.expect(200, 'GET', '/healthz');
  t.diagnostic(JSON.stringify(counts));
  for (const status of [200, 201, 400, 404]) assert.ok(counts[status] > 0, `some were answered ${status}`);

  const { status, stderr } = await server.stop();
  assert.equal(status, 0);
  assert.doesNotMatch(stderr, /level=error/);
  ok(server.data, ['check']);
});
