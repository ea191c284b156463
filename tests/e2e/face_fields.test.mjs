// The tables of fields in docs/openai.md, docs/ai-sdk.md, docs/mcp-server.md and docs/tools.md, against the
// types of the packages and against the server: no field of the types is missing in a table, and
// each one does what its row says.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { post, root, serveFaces } from './face.mjs';
import { Types } from './fields.mjs';
import { Recorder } from './recorder.mjs';
import { serveTurns } from './turns.mjs';

const chat = 'openai/resources/chat/completions/completions.d.ts';
const responses = 'openai/resources/responses/responses.d.ts';
const counting = 'openai/resources/responses/input-tokens.d.ts';
const inputItems = 'openai/resources/responses/input-items.d.ts';
const conversations = 'openai/resources/conversations/conversations.d.ts';
const items = 'openai/resources/conversations/items.d.ts';
const messages = '@anthropic-ai/sdk/resources/messages/messages.d.ts';
const ui = 'ai/dist/index.d.ts';
const types = new Types(root, [chat, responses, counting, inputItems, conversations, items, messages, ui]);

// ---- the documents ----

// The tables of a section whose first cell is `head`: [{ name, word, text }], one for each name.
export function rows(file, section, head) {
  const text = fs.readFileSync(path.join(root, 'docs', file), 'utf8');
  const part = text.split(/^## /m).find((one) => one.startsWith(`${section}\n`));
  assert.ok(part, `${file} has no section "${section}"`);
  const list = [];
  let mine = false;
  for (const line of part.split('\n')) {
    const cells = line.startsWith('|') ? line.split('|').slice(1, -1).map((cell) => cell.trim()) : undefined;
    if (!cells) mine = false;
    else if (cells[0] === head) mine = true;
    else if (mine && !cells[0].startsWith('---')) {
      const word = /^(supported|passed on|ignored|refused|sent|null|never sent|made|as |of |stored)/.exec(cells[1])?.[1];
      for (const [, name] of cells[0].matchAll(/`([^`]+)`/g)) list.push({ name, word, text: cells[1] });
      if (cells[0] === 'all others') list.push({ name: '…', word, text: cells[1] });
    }
  }
  assert.ok(list.length > 0, `${file}, "${section}": no table of "${head}"`);
  for (const row of list) assert.ok(row.word, `${file}, ${row.name}: the row does not begin with what happens: ${row.text}`);
  return list;
}

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
// A name of the tables as a pattern of paths: `[]` is any kind of element, `….` any place.
const pattern = (name) => new RegExp(`^${name.startsWith('….') ? '(?:.*[.\\]}])?' : ''}${escape(name.replace(/^…\./, '')).replaceAll('\\[\\]', '\\[[^\\]]*\\]')}$`);

class Table {
  constructor(list) {
    this.rules = list.filter(({ name }) => !/[[{]…[\]}]$/.test(name)).map((row) => ({ ...row, regexp: pattern(row.name), used: false }));
    // `tools[…]`: all kinds that no other row begins with.
    this.others = list.filter(({ name }) => /[[{]…[\]}]$/.test(name)).map((row) => ({ ...row, head: pattern(row.name.slice(0, -3)), used: false }));
  }

  // The row for a path, or undefined. A row that names it counts first, then what is said of the
  // field that it is in, then a row for any place.
  find(at) {
    const named = this.rules.find(({ name }) => name === at);
    const own = (row) => row && { ...row, owner: at };
    return own(named) ?? this.inherited(at) ?? own(this.rules.find(({ regexp }) => regexp.test(at))) ?? this.implied(at);
  }

  // What is said of a field holds for what is in it, unless it is supported: then each one is named.
  inherited(at) {
    const bracket = /^(.*)([[{])([^\]}]*)[\]}]$/.exec(at);
    const kind = bracket && at.slice(bracket[1].lastIndexOf('.') + 1);
    const other = bracket?.[3] && this.others.find(({ name, head }) => name.at(-3) === bracket[2] && head.test(bracket[1]));
    if (other && !this.rules.some(({ name }) => name.includes(kind))) return { ...other, owner: at };
    const up = bracket ? bracket[1] : /^(.*)\.[^.]+$/.exec(at)?.[1];
    const row = up === undefined ? undefined : this.find(up);
    return row && !['supported', 'sent', 'the kind'].includes(row.word) ? row : undefined;
  }

  // The word that says which kind it is, and objects whose fields are named.
  implied(at) {
    if (/(^|\.)(type|role)$/.test(at)) return { name: at, word: 'the kind' };
    const whole = this.rules.find(({ name }) => name.startsWith('…') ? ['.', '[', '{'].some((next) => name.includes(`.${at.slice(at.lastIndexOf('.') + 1)}${next}`)) : pattern(name.split('.').slice(0, at.split('.').length).join('.')).test(at));
    return whole && { name: at, word: 'the kind' };
  }
}

const tables = {
  chat: new Table([...rows('openai.md', 'Chat Completions', 'field'), ...rows('openai.md', 'Chat Completions', 'field of messages')]),
  responses: new Table([...rows('openai.md', 'Responses', 'field'), ...rows('openai.md', 'Responses', 'field of the input')]),
  messages: new Table([...rows('openai.md', "Anthropic's Messages", 'field'), ...rows('openai.md', "Anthropic's Messages", 'field of messages')]),
};

const requests = {
  chat: { type: types.find(chat, 'ChatCompletionCreateParamsBase'), route: '/openai/v1/chat/completions', own: 'openai', other: 'anthropic' },
  messages: { type: types.find(messages, 'MessageCreateParamsBase'), route: '/anthropic/v1/messages', own: 'anthropic', other: 'openai' },
  responses: { type: types.find(responses, 'ResponseCreateParamsBase'), route: '/openai/v1/responses', own: 'openai', other: 'anthropic' },
};

// Every path with its row. Of what is refused, ignored or passed on as a whole, one path counts.
function paths(name) {
  const found = [];
  const missing = [];
  const seen = new Set();
  for (const at of types.paths(requests[name].type)) {
    const row = tables[name].find(at);
    if (!row) missing.push(at);
    else if (row.word !== 'the kind' && !seen.has(row.owner)) found.push({ at, row });
    seen.add(row?.owner);
  }
  assert.deepEqual(missing, [], `fields of the types that docs/openai.md does not name (${name})`);
  return found;
}

for (const name of Object.keys(requests))
  test(`${name}: every field of the types is in the table, and every row has a field`, () => {
    const all = types.paths(requests[name].type);
    paths(name);
    // Kinds are paths too, and what is between them.
    const known = new Set(all.flatMap((at) => [...at.matchAll(/[.\]}]|$/g)].flatMap(({ index }) => [at.slice(0, index), at.slice(0, index + 1)])));
    const old = ['top_k', 'temperature', 'top_p', 'thread', 'max_tool_calls']; // of earlier or later versions of the packages
    const idle = tables[name].rules.filter(({ name: row, regexp }) => !old.includes(row) && ![...known].some((at) => regexp.test(at)));
    assert.deepEqual(idle.map((row) => row.name), [], 'rows about fields that the types do not have');
  });

// Fields that need more around them, or work by a state that another test has.
const elsewhere = {
  responses: /^(background|previous_response_id|conversation(\.id)?|input\[compaction\].*|input\[mcp_approval_response\].*)$/, // e2e/face_responses
};

// The paths of a value, without kinds: `messages[].content[].text`.
function flatten(value, at = '') {
  if (Array.isArray(value)) return value.flatMap((one) => flatten(one, `${at}[]`));
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, one]) => [at ? `${at}.${key}` : key, ...flatten(one, at ? `${at}.${key}` : key)]);
}

for (const name of Object.keys(requests))
  test(`${name}: the golden request has every field that is supported or passed on`, () => {
    const body = JSON.parse(fs.readFileSync(path.join(root, `tests/e2e/golden/${name}.json`), 'utf8'));
    const have = new Set(flatten(body));
    const bare = (at) => at.replace(/\[[^\]]*\]/g, '[]').replace(/\{[^}]*\}/g, '');
    const lacking = paths(name).filter(({ at, row }) => ['supported', 'passed on'].includes(row.word) && !elsewhere[name]?.test(at) && !/^tools\[mcp\]/.test(at) && !have.has(bare(at)));
    assert.deepEqual(lacking.map(({ at }) => at), []);
  });

// ---- the server ----

const image = 'data:image/png;base64,iVBORw0KGgo=';
const user = { role: 'user', content: 'hello' };
const schema = { type: 'object', properties: { a: { type: 'string' } } };

// Values that the types alone do not give.
const values = [
  [/^model$/, () => 'PROVIDER/m'],
  [/image_url\.url$|\[input_image\]\.image_url$/, (other) => (other ? 'https://example.org/b.png' : image)],
  [/source\{url\}\.url$/, (other) => `https://example.org/${other ? 'b' : 'a'}.png`],
  [/media_type$/, (other) => (other ? 'image/jpeg' : 'image/png')],
  [/source\{base64\}\.data$/, (other) => (other ? 'iVBORw0KGgp=' : 'iVBORw0KGgo=')],
  [/\.arguments$/, (other) => (other ? '{"a":"mark"}' : '{"a":"text"}')],
  [/(tools\[\w*\].*\.parameters|input_schema|json_schema\}?(\.json_schema)?\.schema)$/, (other) => (other ? { ...schema, title: 'mark' } : schema)],
  [/^(messages|input)$/, (other) => [other ? { role: 'user', content: 'mark' } : user]],
  [/^tools$/, () => undefined],
  [/^max_tokens$/, (other) => (other ? 70 : 50)],
  [/^thinking$/, () => ({ type: 'enabled', budget_tokens: 1024 })],
  [/^stop$/, () => 'END'],
  [/^(temperature|top_p)$/, () => 0.5],
  [/^stream$/, () => true],
  [/^metadata$/, () => ({ a: 'b' })],
  [/\[tool_use\]\.input$/, (other) => (other ? { a: 'mark' } : {})],
  [/^parallel_tool_calls$/, () => false],
  [/^reasoning_effort$|^reasoning\.effort$|^output_config\.effort$/, () => 'high'],
  [/^response_format$/, () => ({ type: 'json_schema', json_schema: { name: 'x', schema } })],
  [/^text\.format$/, () => ({ type: 'json_schema', name: 'x', schema })],
  [/^(text|reasoning|stream_options)$/, () => undefined],
  [/^n$/, () => 2],
  [/^modalities$/, () => ['text', 'audio']],
  [/^function_call$/, () => 'auto'],
  [/^logit_bias$/, () => ({ 1: 1 })],
  [/server_label$/, (other) => (other ? 'mark' : 'quipu')],
  [/require_approval$/, () => 'always'],
  [/approval_request_id$/, () => 'mcpr_x'],
  [/^system$/, (other) => (other ? 'mark' : 'text')],
  [/\.is_error$|\.strict$/, (other) => !other],
  [/disable_parallel_tool_use$/, () => true],
  [/^tools\[function\]\.function\.name$|^tools\[(function|custom)\]\.name$|tool_choice.*\.name$/, (other) => (other ? 'mark' : 'text')],
];
const choices = { chat: 'required', messages: { type: 'any' }, responses: 'required' };
const leaf = (at, other) => values.find(([regexp]) => regexp.test(at))?.[1](other);

const call = { chat: { role: 'assistant', content: null, tool_calls: [{ id: 'text', type: 'function', function: { name: 'f', arguments: '{}' } }, { id: 'mark', type: 'function', function: { name: 'f', arguments: '{}' } }] } };
const calls = [{ type: 'tool_use', id: 'text', name: 'f', input: {} }, { type: 'tool_use', id: 'mark', name: 'f', input: {} }];

// What stands around a message, so that a conversation is complete.
function surround(name, body, at) {
  if (name === 'chat' && /^messages\[/.test(at)) body.messages = [user, ...(/^messages\[tool\]/.test(at) ? [call.chat] : []), ...body.messages, user];
  if (name === 'messages' && /^messages\[/.test(at)) {
    if (/tool_use\]/.test(at)) body.messages[0].role = 'assistant';
    if (/thinking\]/.test(at)) body.messages = [{ role: 'assistant', content: [...body.messages[0].content, { type: 'text', text: 'x' }] }];
    body.messages = [user, ...(/tool_result\]/.test(at) ? [{ role: 'assistant', content: calls }] : []), ...body.messages, user];
  }
  if (name === 'responses' && /^input\[/.test(at)) {
    if (/content\[input_/.test(at)) body.input[0].role = 'user';
    for (const part of [body.input[0].content, body.input[0].output].flat()) if (part?.type === 'input_image' && !/file_id$/.test(at)) part.image_url ??= image;
    const before = /function_call_output/.test(at) ? ['text', 'mark'].map((call_id) => ({ type: 'function_call', call_id, name: 'f', arguments: '{}' })) : [];
    body.input = [user, ...before, ...body.input, user];
  }
  if (at === 'tool_choice' && body.tool_choice) body.tool_choice = choices[name];
  if (name === 'responses') body.store ??= /^tools\[mcp\]/.test(at);
  if (name === 'responses') body.input ??= 'hello';
  if (/^(tool_choice|parallel_tool_calls)/.test(at) && !body.tools) {
    const f = { name: 'text', description: 'd' };
    body.tools = name === 'chat' ? [{ type: 'function', function: { ...f, parameters: schema } }] : name === 'messages' ? [{ ...f, input_schema: schema }] : [{ type: 'function', ...f, parameters: schema, strict: false }];
  }
  if (/^stream_options/.test(at)) body.stream = true;
  if (/json_schema/.test(at) && !/schema\.schema$/.test(at)) (body.response_format?.json_schema ?? body.text.format).schema ??= schema;
  return body;
}

const strip = (text) => text.replace(/"(id|item_id)":"[^"]*"/g, '').replace(/"(created|created_at|completed_at)":\d+/g, '').replace(/"model":"[^"]*"/g, '');

// The body with the field, one without it (unless it is required), and one with another value.
function three(name, at) {
  const up = at.replace(/\.?[^.[\]{}]+$/, '');
  const build = (where, other) => surround(name, types.make(requests[name].type, where, leaf, other), at);
  return { body: build(at, false), without: build(up, false), changed: build(at, true) };
}

for (const [name, { route, own, other }] of Object.entries(requests))
  test(`${name}: each field does what its row says`, async (t) => {
    const recorder = await Recorder.start(t);
    const server = await serveTurns(t, { env: recorder.env });
    // Several at a time: the name of the model tells the bodies at the provider apart.
    let asked = 0;
    const ask = async (provider, body) => {
      const model = `m${asked++}`;
      const answer = await post(server, route, { ...body, model: `${provider}/${model}` });
      const at = recorder.sent.findIndex((one) => one.body.model === model);
      const sent = at < 0 ? undefined : { ...recorder.sent.splice(at, 1)[0].body, model: 'm' };
      return { ...answer, sent: JSON.stringify(sent), shown: `${JSON.stringify(sent)}\n${strip(answer.text)}` };
    };
    const wrong = [];
    const check = async ({ at, row }) => {
      const { body, without, changed } = three(name, at);
      const first = await ask(other, body);
      const say = (text) => wrong.push(`${at} (${row.word}): ${text}: ${first.status} ${first.status === 200 ? '' : first.text} ${JSON.stringify(body)}`);
      if (row.word === 'refused') return first.status === 400 || say('it is not refused');
      if (first.status !== 200) return say('it is refused');
      const differs = async (one) => {
        const answer = await ask(other, one);
        return answer.status === 400 || answer.shown !== first.shown;
      };
      const told = (first.headers.get('x-quipu-ignored') ?? '').split(', ');
      if (row.word === 'supported') {
        if (told.includes(at)) say('X-Quipu-Ignored names it');
        return at === 'model' || (await differs(changed)) || (await differs(without)) || say('it has no effect');
      }
      const compared = await ask(other, JSON.stringify(body) === JSON.stringify(changed) ? without : changed);
      if (compared.status === 200 && compared.sent !== first.sent) say('it has an effect with another protocol');
      if (/^[^.[{]+$/.test(at) && !told.includes(at)) say('X-Quipu-Ignored does not name it');
      if (row.word !== 'passed on') return true;
      const same = await ask(own, body);
      if (same.status === 200 && ((await ask(own, changed)).sent !== same.sent || (await ask(own, without)).sent !== same.sent)) return true;
      return say(`it is not passed on: ${same.sent}`);
    };
    const left = paths(name).filter(({ at }) => !elsewhere[name]?.test(at));
    const worker = async () => {
      while (left.length > 0) await check(left.shift());
    };
    await Promise.all(Array.from({ length: 8 }, worker));
    assert.deepEqual(wrong, []);
  });

// ---- answers and events ----

const answers = {
  chat: [new Table(rows('openai.md', 'Chat Completions', 'field of the answer')), [types.find(chat, 'ChatCompletion'), types.find(chat, 'ChatCompletionChunk')]],
  responses: [new Table(rows('openai.md', 'Responses', 'field of the answer')), [types.find(responses, 'Response')]],
  messages: [new Table(rows('openai.md', "Anthropic's Messages", 'field of the answer')), [types.find(messages, 'Message')]],
};
const asked = ['hello', 'think', 'weather', 'long'];
const tools = {
  chat: [{ type: 'function', function: { name: 'get_weather', parameters: schema } }],
  messages: [{ name: 'get_weather', input_schema: schema }],
  responses: [{ type: 'function', name: 'get_weather', parameters: schema, strict: false }],
};
const request = {
  chat: (content, stream) => ({ model: 'demo', stream, stream_options: { include_usage: true }, tools: tools.chat, messages: [{ role: 'user', content }] }),
  messages: (content, stream) => ({ model: 'demo', stream, max_tokens: 99, tools: tools.messages, messages: [{ role: 'user', content }] }),
  responses: (content, stream) => ({ model: 'demo', stream, tools: tools.responses, input: content }),
};
const frames = (text) => text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));

for (const [name, [table, all]] of Object.entries(answers))
  test(`${name}: every field of an answer is in the table; those that are never sent are not`, async (t) => {
    // The items of a response and what it repeats have tables of their own.
    const own = all.flatMap((type) => types.paths(type)).filter((at) => name !== 'responses' || /^(usage|error|incomplete_details)\b|^[^.[{]+$/.test(at));
    assert.deepEqual(own.filter((at) => !table.find(at)), [], 'fields that the table does not name');
    const server = await serveFaces(t);
    const known = new Set(own.map((at) => at.replace(/[[{]\w*[\]}]/g, '[]')));
    const seen = new Set();
    for (const text of asked)
      for (const stream of [false, true]) {
        const answer = await post(server, requests[name].route, request[name](text, stream));
        assert.equal(answer.status, 200, answer.text);
        const bodies = stream ? (name === 'chat' ? frames(answer.text) : []) : [answer.body];
        for (const body of bodies) for (const at of flatten(body)) seen.add(at);
      }
    const spread = (at) => own.filter((one) => one.replace(/[[{]\w*[\]}]/g, '[]') === at);
    for (const at of known) {
      const words = spread(at).map((one) => table.find(one).word);
      if (words.every((word) => word === 'never sent')) assert.ok(!seen.has(at), `${at} is sent`);
    }
    const sent = table.rules.filter(({ word, name: row }) => word === 'sent' && !row.startsWith('…')).map((row) => row.name.replace(/[[{]\w*[\]}]/g, '[]').replace(/\[\]$/, ''));
    const rare = ['error.code', 'error.message']; // of failures: e2e/face_responses
    assert.deepEqual(sent.filter((at) => !rare.includes(at) && !seen.has(at)), [], 'fields that should be sent');
  });

test('events: those of the types are in the tables; those that come are marked as sent', async (t) => {
  const server = await serveFaces(t);
  for (const [name, section, unions] of [
    ['responses', 'Responses', [types.find(responses, 'ResponseStreamEvent')]],
    ['messages', "Anthropic's Messages", [types.find(messages, 'RawMessageStreamEvent'), types.find(messages, 'RawContentBlockDelta')]],
  ]) {
    const list = rows('openai.md', section, 'event');
    const words = unions.flatMap((type) => types.words(type));
    const named = new Map(list.map((row) => [row.name, row.word]));
    const extra = ['…', 'error', 'ping']; // not in the union of the package
    assert.deepEqual(words.filter((word) => !named.has(word) && !named.has('…')), []);
    assert.deepEqual([...named.keys()].filter((word) => !words.includes(word) && !extra.includes(word)), []);
    const seen = new Set();
    for (const text of asked)
      for (const frame of frames((await post(server, requests[name].route, request[name](text, true))).text)) {
        seen.add(frame.type);
        if (frame.delta?.type) seen.add(frame.delta.type);
      }
    for (const word of seen) assert.equal(named.get(word), 'sent', word);
    const rare = /queued|failed|mcp_call|^error$/; // e2e/face_responses
    assert.deepEqual([...named].filter(([word, what]) => what === 'sent' && !rare.test(word) && !seen.has(word)), []);
  }
  const output = new Map(rows('openai.md', 'Responses', 'output item').map((row) => [row.name, row.word]));
  const outputs = types.words(types.find(responses, 'ResponseOutputItem'));
  for (const word of output.keys()) assert.ok(word === '…' || outputs.includes(word), word);
});

test('queries and the smaller bodies of Responses and Conversations', () => {
  const get = new Set(rows('openai.md', 'Responses', 'parameter of `GET`').map((row) => row.name));
  const small = new Set(rows('openai.md', 'Conversations', 'field').map((row) => row.name));
  const top = (file, name) => types.paths(types.find(file, name)).filter((at) => /^[^.[{]+$/.test(at));
  for (const at of [...top(responses, 'ResponseRetrieveParamsBase'), ...top(inputItems, 'InputItemListParams')]) assert.ok(get.has(at), at);
  for (const at of [...top(conversations, 'ConversationCreateParams'), ...top(conversations, 'ConversationUpdateParams'), ...top(items, 'ItemCreateParams'), ...top(items, 'ItemListParams')]) assert.ok(small.has(at), at);
  for (const at of top(counting, 'InputTokenCountParams')) assert.ok(at === 'personality' || tables.responses.find(at), at);
  for (const at of top(responses, 'ResponseCompactParams')) assert.ok(tables.responses.find(at), at);
});

// ---- the AI SDK, MCP, tools of the client ----

test('the AI SDK: chunks, parts and fields of the body', async (t) => {
  const named = new Map(rows('ai-sdk.md', 'Chunks', 'chunk').map((row) => [row.name, row.word]));
  const words = types.words(types.find(ui, 'UIMessageChunk'));
  assert.deepEqual(words.filter((word) => !named.has(word)), []);
  const server = await serveFaces(t);
  const seen = new Set();
  for (const text of asked) {
    const body = { id: text, trigger: 'submit-message', model: 'demo', tools: [{ name: 'get_weather', parameters: schema, strict: true }], messages: [{ id: '1', role: 'user', metadata: { a: 1 }, parts: [{ type: 'text', text }, { type: 'data-x', data: 1 }, { type: 'step-start' }] }], unheard_of: 1 };
    const answer = await post(server, '/ai/chat', body);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.headers.get('x-quipu-ignored'), 'unheard_of');
    for (const frame of frames(answer.text)) seen.add(frame.type);
  }
  for (const word of seen) assert.equal(named.get(word), 'sent', word);
  const file = await post(server, '/ai/chat', { id: 'f', messages: [{ id: '1', role: 'user', parts: [{ type: 'file', mediaType: 'text/plain', url: 'data:text/plain,x' }] }] });
  assert.equal(file.status, 400);
});

test('MCP: every method of a client is in the table and does what its row says', async (t) => {
  const { ClientRequestSchema, ClientNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const methods = (schema) => schema.options.map((one) => one.shape.method.value);
  const all = [...methods(ClientRequestSchema), ...methods(ClientNotificationSchema)];
  const named = new Map(rows('mcp-server.md', 'The protocol', 'method of a client').map((row) => [row.name, row.word]));
  assert.deepEqual([...named.keys()].sort(), all.sort());
  const server = await serveFaces(t);
  const params = { 'tools/call': { name: 'list_conversations' }, 'resources/read': { uri: 'quipu://context/none' }, initialize: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } } };
  for (const [method, word] of named) {
    const note = method.startsWith('notifications/');
    const answer = await fetch(`${server.url}/mcp`, { method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }, body: JSON.stringify({ jsonrpc: '2.0', ...(note ? {} : { id: 1 }), method, params: params[method] ?? {} }) });
    if (note) {
      assert.deepEqual([answer.status, word], [202, 'ignored'], method);
      continue;
    }
    const { error } = await answer.json();
    assert.equal(error?.code === -32601 ? 'refused' : 'supported', word, method);
  }
});

test('tools of the client: the contract has the fields of the table, others are refused', async (t) => {
  const api = JSON.parse(fs.readFileSync(path.join(root, 'api/openapi.json'), 'utf8')).components.schemas;
  const named = rows('tools.md', 'Tools that the client runs', 'field').map((row) => row.name).filter((name) => name !== '…');
  const result = api.SubmitToolResults.properties.results.items;
  const fields = [...Object.keys(api.ClientTool.properties).map((key) => `tools[].${key}`), ...Object.keys((result.$ref ? api[result.$ref.split('/').at(-1)] : result).properties).map((key) => `results[].${key}`)];
  assert.deepEqual(named.sort(), fields.sort());
  const server = await serveFaces(t);
  const tool = { name: 'get_weather', description: 'd', parameters: schema, strict: true };
  await server.expect(201, 'POST', '/v1/contexts', { tools: [tool] });
  const refused = await server.expect(400, 'POST', '/v1/contexts', { tools: [{ ...tool, unheard_of: 1 }] });
  assert.match(refused.error.message, /unheard_of/);
  assert.match((await server.expect(400, 'POST', '/v1/contexts', { tools: [{ ...tool, strict: 'yes' }] })).error.message, /strict/);
});
