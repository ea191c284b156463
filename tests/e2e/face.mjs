// What the tests of other protocols share: a server with a scripted model, the packages of these
// protocols as clients of it, and the contracts in api/ for every body that comes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import Ajv from 'ajv/dist/2020.js';
import OpenAI from 'openai';
import YAML from 'yaml';
import { serveTurns } from './turns.mjs';

export const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../..');
export const contracts = Object.fromEntries(['openai', 'anthropic', 'ai-sdk'].map((name) => [name, YAML.parse(fs.readFileSync(path.join(root, `api/${name}.yaml`), 'utf8'))]));

// ---- every answer against its contract ----

const ajv = new Ajv({ strict: false, allowUnionTypes: true });
for (const [name, doc] of Object.entries(contracts)) ajv.addSchema({ $id: name, components: doc.components });
const follow = (doc, node) => (node.$ref ? node.$ref.slice(2).split('/').reduce((at, key) => at[key], doc) : node);

function operation(method, pathname) {
  for (const [name, doc] of Object.entries(contracts))
    for (const [pattern, item] of Object.entries(doc.paths)) {
      const want = pattern.split('/');
      const have = pathname.split('/');
      const fits = want.length === have.length && want.every((part, i) => part.startsWith('{') || part === have[i]);
      if (fits && item[method.toLowerCase()]) return { name, doc, op: item[method.toLowerCase()] };
    }
  return undefined;
}

// A fetch that holds every answer against the contract.
export async function checkedFetch(url, init = {}) {
  const answer = await fetch(url, init);
  const found = operation(init.method ?? 'GET', new URL(url).pathname);
  if (!found) return answer;
  const { name, doc, op } = found;
  const type = answer.headers.get('content-type').split(';')[0];
  const content = follow(doc, op.responses[answer.status] ?? op.responses.default).content;
  assert.ok(content[type], `${op.operationId} answered ${answer.status} ${type}`);
  if (name !== 'ai-sdk') assert.match(answer.headers.get(name === 'openai' ? 'x-request-id' : 'request-id'), /^req_[0-9a-f]{24}$/);
  if (type !== 'application/json') return answer;
  const text = await answer.text();
  const schema = content[type].schema;
  const good = ajv.validate(schema.$ref ? { $ref: `${name}${schema.$ref}` } : schema, JSON.parse(text));
  assert.ok(good, `${op.operationId} ${answer.status}: ${ajv.errorsText()}\n${text}`);
  return new Response(text, answer);
}

// A request without a package; its body is any JSON.
export async function post(server, route, body, headers = {}) {
  const answer = await checkedFetch(`${server.url}${route}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, body: answer.headers.get('content-type').startsWith('application/json') ? JSON.parse(text) : undefined };
}

// ---- clients ----

export const openai = (server, options = {}) => new OpenAI({ baseURL: `${server.url}/openai/v1`, apiKey: 'none', maxRetries: 0, fetch: checkedFetch, ...options });
export const anthropic = (server, options = {}) => new Anthropic({ baseURL: `${server.url}/anthropic`, apiKey: 'none', maxRetries: 0, fetch: checkedFetch, ...options });

// What the demo model plays in these tests.
export const steps = [
  { after_tool: 'get_weather', times: 1000, play: [{ text: 'It is sunny in both.' }] },
  { match: '*weather*', times: 1000, play: [{ text: 'Let me look. ' }, { call: 'get_weather', arguments: { city: 'Paris' } }, { call: 'get_weather', arguments: { city: 'Rome' } }] },
  { match: '*think*', times: 1000, play: [{ thinking: 'Well, well.' }, { text: 'I have thought.' }, { usage: { input: 10, cache_read: 3, cache_write: 2, output: 5 } }] },
  { match: '*long*', times: 1000, play: [{ text: 'cut' }, { stop: 'max_tokens' }] },
  { match: '*overloaded*', times: 1000, play: [{ error: { status: 529, type: 'overloaded_error', message: 'Overloaded' } }] },
  { match: '*break*', times: 1000, play: [{ text: 'half a' }, { cut: true }] },
  { match: '*', times: 1000, play: [{ text: 'Knots, and knots.' }] },
];

export const weather = { name: 'get_weather', description: 'The weather of a city', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } };

export const serveFaces = (t, options = {}) => serveTurns(t, { steps, args: ['--retry-pause', '1'], ...options });

// The messages of a context, as "role: text".
export async function told(server, context, query = '', headers = {}) {
  const { messages } = await server.expect(200, 'GET', `/v1/contexts/${context}/messages?limit=100${query}`, undefined, headers);
  return messages.map((message) => `${message.role}: ${message.tool_result ? JSON.stringify(message.tool_result.result) : message.text}`);
}

// A client that is refused: the error as its package throws it.
export async function thrown(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
}
