// Anthropic's Messages, by its own package.

import assert from 'node:assert/strict';
import test from 'node:test';
import { LLMock } from '@copilotkit/aimock';
import { anthropic, serveFaces, thrown, told, weather } from './face.mjs';
import { Tap } from './model.mjs';
import { restart, serveTurns } from './turns.mjs';

const tools = [{ name: weather.name, description: weather.description, input_schema: weather.parameters }];
const base = { model: 'demo', max_tokens: 100 };
const user = (content) => ({ role: 'user', content });
const named = (name) => ({ headers: { 'X-Quipu-Context': name } });

test('plain, streamed, thinking, tools, counting, errors', async (t) => {
  const server = await serveFaces(t);
  const client = anthropic(server);
  const answer = await client.messages.create({ ...base, system: 'Be brief.', messages: [user('hello')] });
  assert.deepEqual([answer.content[0].text, answer.stop_reason], ['Knots, and knots.', 'end_turn']);
  const thought = await client.messages.stream({ ...base, messages: [user('think')] }).finalMessage();
  assert.deepEqual(thought.content.map((block) => block.type), ['thinking', 'text']);
  assert.ok(thought.content[0].signature);
  assert.deepEqual([thought.usage.input_tokens, thought.usage.cache_read_input_tokens, thought.usage.cache_creation_input_tokens, thought.usage.output_tokens], [10, 3, 2, 5]);
  assert.equal((await client.messages.create({ ...base, messages: [user('long')] })).stop_reason, 'max_tokens');

  for (const send of [(body) => client.messages.create(body), (body) => client.messages.stream(body).finalMessage()]) {
    const first = await send({ ...base, tools, messages: [user('weather')] });
    assert.equal(first.stop_reason, 'tool_use');
    const calls = first.content.filter((block) => block.type === 'tool_use');
    assert.deepEqual(calls.map((call) => call.input.city), ['Paris', 'Rome']);
    const results = calls.map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: 'sun' }] }));
    const second = await send({ ...base, tools, messages: [user('weather'), { role: 'assistant', content: first.content }, user(results)] });
    assert.equal(second.content[0].text, 'It is sunny in both.');
  }
  assert.ok((await client.messages.countTokens({ model: 'demo', messages: [user('a text of some words')] })).input_tokens > 5);

  const busy = await thrown(client.messages.create({ ...base, messages: [user('overloaded')] }));
  assert.deepEqual([busy.status, busy.error.error.type], [503, 'overloaded_error']);
  assert.match((await thrown(client.messages.stream({ ...base, messages: [user('break')] }).finalMessage())).message, /before it was complete/);
  for (const [sentence, more] of [[/max_tokens/, { max_tokens: 0 }], [/messages/, { messages: [] }], [/document/, { messages: [user([{ type: 'document', source: {} }])] }], [/web_search/, { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }]])
    assert.match((await thrown(client.messages.create({ ...base, messages: [user('x')], ...more }))).message, sentence);
});

test('stored: recognised, over a restart, with tools; seen through the other face', async (t) => {
  let server = await serveFaces(t);
  let client = anthropic(server);
  const { data: first, response } = await client.messages.create({ ...base, tools, messages: [user('weather')] }, named('a')).withResponse();
  const context = response.headers.get('x-quipu-context');
  server = await restart(t, server, 'SIGKILL');
  client = anthropic(server);
  const results = first.content.filter((block) => block.type === 'tool_use').map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: 'sun' }));
  const history = [user('weather'), { role: 'assistant', content: first.content }, user(results)];
  const second = await client.messages.create({ ...base, tools, messages: history }, named('a'));
  assert.equal(second.content[0].text, 'It is sunny in both.');
  await client.messages.stream({ ...base, messages: [...history, { role: 'assistant', content: second.content }, user('hello')] }, named('a')).finalMessage();
  assert.deepEqual(await told(server, context), ['user: weather', 'assistant: Let me look. ', 'tool: "sun"', 'tool: "sun"', 'assistant: It is sunny in both.', 'user: hello', 'assistant: Knots, and knots.']);
});

test('OpenAI behind it gets tools, images and results', async (t) => {
  const mock = new LLMock({ port: 0, host: '127.0.0.1', strict: true, logLevel: 'silent' });
  mock.onMessage(/./, { content: 'Seen.' });
  await mock.start();
  t.after(() => mock.stop());
  const tap = await Tap.start(t, mock.url);
  const server = await serveTurns(t, { env: { OPENAI_API_KEY: 'sk-x', OPENAI_BASE_URL: `${tap.url}/v1` } });
  const messages = [
    user([{ type: 'text', text: 'what is this' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }]),
    { role: 'assistant', content: [{ type: 'tool_use', id: 'tu_1', name: 'get_weather', input: { city: 'Oslo' } }] },
    user([{ type: 'tool_result', tool_use_id: 'tu_1', content: 'snow', is_error: true }, { type: 'text', text: 'and now' }]),
  ];
  const answer = await anthropic(server).messages.create({ model: 'openai/m', max_tokens: 50, system: [{ type: 'text', text: 'Be brief.' }], tools, tool_choice: { type: 'tool', name: 'get_weather' }, stop_sequences: ['x'], messages });
  assert.equal(answer.content[0].text, 'Seen.');
  const { body } = tap.sent[0];
  assert.deepEqual([body.model, body.stop, body.tool_choice], ['m', ['x'], { type: 'function', function: { name: 'get_weather' } }]);
  const text = JSON.stringify(body);
  for (const piece of ['Be brief.', 'what is this', 'data:image/png;base64,iVBORw0KGgo=', 'Oslo', 'snow', 'and now']) assert.ok(text.includes(piece), piece);
});
