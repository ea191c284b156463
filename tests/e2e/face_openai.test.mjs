// OpenAI's Chat Completions and models, by the openai package: stateless through every protocol of a
// provider, stored in a context, recognised by its history.

import assert from 'node:assert/strict';
import test from 'node:test';
import { LLMock } from '@copilotkit/aimock';
import { openai, serveFaces, thrown, told, weather } from './face.mjs';
import { Model, Tap } from './model.mjs';
import { restart, serveTurns, until } from './turns.mjs';

const tools = [{ type: 'function', function: weather }];
const user = (content) => ({ role: 'user', content });
const ask = (client, messages, more = {}, options = {}) => client.chat.completions.create({ model: 'demo', messages, ...more }, options);
const named = (name) => ({ headers: { 'X-Quipu-Context': name } });
const pixel = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

test('models, plain and streamed answers, usage, finish reasons, errors', async (t) => {
  const server = await serveFaces(t);
  const client = openai(server);
  const models = (await client.models.list()).data.map((model) => model.id);
  assert.deepEqual(models, ['demo/demo']);
  assert.equal((await client.models.retrieve('demo/demo')).owned_by, 'demo');
  assert.equal((await thrown(client.models.retrieve('none'))).code, 'model_not_found');

  const answer = await ask(client, [{ role: 'system', content: 'Be brief.' }, user('hello')]);
  assert.equal(answer.choices[0].message.content, 'Knots, and knots.');
  assert.equal(answer.choices[0].finish_reason, 'stop');
  const thought = await ask(client, [user('think')]);
  assert.equal(thought.choices[0].message.reasoning_content, 'Well, well.');
  assert.deepEqual([thought.usage.prompt_tokens, thought.usage.completion_tokens, thought.usage.prompt_tokens_details.cached_tokens], [15, 5, 3]);
  assert.equal((await ask(client, [user('long')])).choices[0].finish_reason, 'length');

  const stream = client.chat.completions.stream({ model: 'demo', messages: [user('hello')], stream_options: { include_usage: true } });
  const whole = await stream.finalChatCompletion();
  assert.equal(whole.choices[0].message.content, 'Knots, and knots.');
  assert.ok((await stream.totalUsage()).total_tokens > 0);
  const chunks = [];
  for await (const chunk of await ask(client, [user('hello')], { stream: true })) chunks.push(chunk);
  assert.ok(chunks.every((chunk) => chunk.choices.length === 1 && !('usage' in chunk)), 'without include_usage every chunk has a choice');
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert.deepEqual(chunks[0].choices[0].delta, { role: 'assistant', content: '' });

  const busy = await thrown(ask(client, [user('overloaded')]));
  assert.deepEqual([busy.status, busy.type], [503, 'server_error']);
  assert.match(busy.message, /Overloaded/);
  assert.equal((await thrown(ask(client, [user('overloaded')], { stream: true }))).status, 503, 'an error before the first piece is a status');
  const broken = await thrown((async () => {
    for await (const _ of await ask(client, [user('break')], { stream: true }));
  })());
  assert.match(broken.message, /before it was complete/);
  assert.equal((await client.chat.completions.create({ model: 'demo', messages: [user('overloaded')] }, { maxRetries: 1 }).catch((error) => error)).status, 503);
});

test('what is refused is named, what is harmless is taken', async (t) => {
  const server = await serveFaces(t);
  const client = openai(server);
  const refused = {
    n: 2, logprobs: true, top_logprobs: 3, logit_bias: { 50256: -100 }, audio: { voice: 'alloy', format: 'wav' }, modalities: ['text', 'audio'],
    functions: [{ name: 'x' }], web_search_options: {}, moderation: { model: 'x' },
  };
  for (const [field, value] of Object.entries(refused)) {
    const error = await thrown(ask(client, [user('hello')], { [field]: value }));
    assert.deepEqual([error.status, error.param], [400, field]);
  }
  const wrong = [
    ['messages', { messages: [] }], ['messages[0]', { messages: [{ role: 'narrator', content: '' }] }], ['messages[0].content[0]', { messages: [user([{ type: 'input_audio', input_audio: {} }])] }],
    ['messages[0]', { messages: [{ role: 'tool', content: 'x' }] }], ['tools[0]', { tools: [{ type: 'custom', custom: { name: 'x' } }] }], ['tool_choice', { tool_choice: 'maybe' }], ['temperature', { temperature: 'warm' }],
  ];
  for (const [param, more] of wrong) assert.equal((await thrown(ask(client, [user('hello')], more))).param, param);
  const harmless = { n: 1, logprobs: false, logit_bias: {}, modalities: ['text'], store: true, user: 'me', seed: 1, parallel_tool_calls: true, temperature: 0, unheard_of: 1 };
  assert.equal((await ask(client, [user('hello')], harmless)).choices[0].finish_reason, 'stop');
  assert.equal((await thrown(client.get('/nowhere'))).status, 404);
  const unknown = await thrown(ask(client, [user('hello')], { model: 'gpt-9' }));
  assert.deepEqual([unknown.status, unknown.code, unknown.message], [404, 'model_not_found', "404 model 'gpt-9' needs a key for openai; set OPENAI_API_KEY"]);
  // A wrong base URL.
  for (const [wrong, right] of [['/v1/chat/completions', '/openai/v1'], ['/openai/chat/completions', '/openai/v1'], ['/v1/responses', '/openai/v1'], ['/v1/messages', '/anthropic'], ['/anthropic/v1/v1/messages', '/anthropic']]) {
    const answer = await fetch(`${server.url}${wrong}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
    const { error } = await answer.json();
    assert.deepEqual([answer.status, error.message], [404, `No such path; the base URL for this protocol ends with ${right} (docs/openai.md)`]);
  }
  // A slip in a path of /v1 is no such call.
  assert.equal((await server.ask('POST', '/v1/context/x/messages', {})).body.error.message, 'No such path');
});

test('tools: parallel calls, streamed, by the helper that runs them', async (t) => {
  const server = await serveFaces(t);
  const client = openai(server);
  const first = (await ask(client, [user('weather')], { tools })).choices[0];
  assert.equal(first.finish_reason, 'tool_calls');
  assert.deepEqual(first.message.tool_calls.map((call) => JSON.parse(call.function.arguments).city), ['Paris', 'Rome']);
  for (const stream of [false, true]) {
    const asked = [];
    const runner = client.chat.completions.runTools({
      model: 'demo', stream, messages: [user('weather')],
      tools: [{ type: 'function', function: { ...weather, parse: JSON.parse, function: ({ city }) => void asked.push(city) ?? 'sun' } }],
    });
    assert.equal(await runner.finalContent(), 'It is sunny in both.');
    assert.deepEqual(asked, ['Paris', 'Rome']);
  }
});

test('stored: only what is new is sent, the history is recognised, an edit is a branch', async (t) => {
  let server = await serveFaces(t);
  let client = openai(server);
  const { data, response } = await ask(client, [user('one')], {}, named('my chat')).withResponse();
  const context = response.headers.get('x-quipu-context');
  assert.equal(data.choices[0].message.content, 'Knots, and knots.');
  await ask(client, [user('two')], { metadata: { quipu_context: context } });
  const history = [user('one'), data.choices[0].message, user('two'), data.choices[0].message];
  assert.deepEqual(await told(server, context), ['user: one', 'assistant: Knots, and knots.', 'user: two', 'assistant: Knots, and knots.']);

  server = await restart(t, server);
  client = openai(server);
  // All of it again, with another system prompt: nothing is copied.
  await ask(client, [{ role: 'system', content: `It is ${Date.now()}` }, ...history, user('three')], {}, named('my chat'));
  const branches = async () => (await server.expect(200, 'GET', `/v1/contexts/${context}/branches`)).branches.map((branch) => branch.messages).sort();
  assert.deepEqual(await branches(), [6]);
  // An earlier message was edited: a branch behind the part that is the same.
  await ask(client, [...history.slice(0, 2), user('two, otherwise')], {}, named('my chat'));
  assert.deepEqual(await branches(), [4, 6]);
  // That branch goes on, streamed; the active one stays.
  const streamed = client.chat.completions.stream({ model: 'demo', messages: [...history.slice(0, 2), user('two, otherwise'), data.choices[0].message, user('three')] }, named('my chat'));
  assert.equal((await streamed.finalChatCompletion()).choices[0].message.content, 'Knots, and knots.');
  assert.deepEqual(await branches(), [6, 6]);
  assert.deepEqual((await told(server, context)).length, 6);
  const size = await server.expect(200, 'GET', `/v1/contexts/${context}/size`);
  assert.equal(size.messages ?? size.message_count, 10, 'no message is stored twice');
  // A history that the context has never seen is stored as a branch of its own.
  await ask(client, [user('zero'), { role: 'assistant', content: 'Nought.' }, user('one')], {}, named('my chat'));
  assert.deepEqual(await branches(), [4, 6, 6]);
  assert.equal((await thrown(ask(client, [user('x'), { role: 'assistant', content: 'y' }], {}, named('my chat')))).param, 'messages');
  assert.equal((await thrown(ask(client, [user('x')], {}, named('01890a5d-ac96-774b-bcce-b302099a8057')))).status, 404);
});

test('stored tools: calls wait over a restart, a new message closes them', async (t) => {
  let server = await serveFaces(t);
  let client = openai(server);
  const first = (await ask(client, [user('weather')], { tools }, named('w'))).choices[0].message;
  server = await restart(t, server, 'SIGKILL');
  client = openai(server);
  const results = first.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'sun' }));
  const second = (await ask(client, [user('weather'), first, ...results], { tools }, named('w'))).choices[0];
  assert.equal(second.message.content, 'It is sunny in both.');
  // Only what is new.
  const again = (await ask(client, [user('weather')], { tools }, named('w'))).choices[0].message;
  assert.equal((await ask(client, again.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'rain' })), { tools }, named('w'))).choices[0].finish_reason, 'stop');
  // Nobody answers these.
  await ask(client, [user('weather')], { tools }, named('w'));
  assert.equal((await ask(client, [user('hello')], { tools }, named('w'))).choices[0].message.content, 'Knots, and knots.');
});

test('stored: the same Idempotency-Key is one turn; a failed turn is an error', async (t) => {
  const server = await serveFaces(t);
  const client = openai(server);
  const options = { headers: { 'X-Quipu-Context': 'once', 'Idempotency-Key': 'k1' } };
  const { response } = await ask(client, [user('one')], {}, options).withResponse();
  const repeated = await ask(client, [user('one')], {}, options);
  assert.equal(repeated.choices[0].message.content, 'Knots, and knots.');
  assert.equal((await told(server, response.headers.get('x-quipu-context'))).length, 2);
  assert.equal((await thrown(ask(client, [user('overloaded')], {}, named('once')))).status, 503);
});

// ---- providers behind it ----

const key = 'sk-test-of-nobody';
const providers = [
  { name: 'anthropic', path: '/v1/messages', env: (url) => ({ ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: url }) },
  { name: 'openai', path: '/v1/chat/completions', env: (url) => ({ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${url}/v1` }) },
];

for (const { name, path, env } of providers)
  test(`${name} behind it gets tools, images, results and parameters`, async (t) => {
    const mock = new LLMock({ port: 0, host: '127.0.0.1', strict: true, logLevel: 'silent' });
    mock.onMessage('look', { toolCalls: [{ name: 'get_weather', arguments: '{"city":"Oslo"}' }] });
    mock.onMessage(/./, { content: 'Seen.' });
    await mock.start();
    t.after(() => mock.stop());
    const tap = await Tap.start(t, mock.url);
    const server = await serveTurns(t, { env: env(tap.url) });
    const client = openai(server);
    const call = (await client.chat.completions.create({ model: `${name}/some-model`, messages: [user('look')], tools, tool_choice: 'required', parallel_tool_calls: false })).choices[0].message;
    assert.deepEqual(JSON.parse(call.tool_calls[0].function.arguments), { city: 'Oslo' });
    const messages = [
      { role: 'developer', content: 'Be brief.' }, user([{ type: 'text', text: 'what is this' }, { type: 'image_url', image_url: { url: pixel } }]),
      { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }] },
      { role: 'tool', tool_call_id: 'c1', content: 'snow' }, user('and now'),
    ];
    const answer = await client.chat.completions.create({ model: `${name}/some-model`, messages, tools, max_completion_tokens: 99, temperature: 0.5, stop: ['x'], seed: 7, presence_penalty: 0.1 });
    assert.equal(answer.choices[0].message.content, 'Seen.');
    assert.ok(answer.usage.total_tokens >= 0);
    const [forced, { path: sent, body }] = tap.sent;
    assert.equal(sent, path);
    assert.equal(body.model, 'some-model');
    assert.equal(body.temperature, 0.5);
    const text = JSON.stringify(body);
    for (const piece of ['Be brief.', 'what is this', 'iVBORw0KGgo', 'Oslo', 'snow', 'and now', 'get_weather']) assert.ok(text.includes(piece), piece);
    if (name === 'openai') {
      assert.deepEqual([body.seed, body.presence_penalty, body.stop, forced.body.tool_choice, forced.body.parallel_tool_calls], [7, 0.1, ['x'], 'required', false]);
      assert.equal(body.max_tokens ?? body.max_completion_tokens, 99);
    } else {
      assert.deepEqual([body.max_tokens, body.stop_sequences, forced.body.tool_choice, body.seed], [99, ['x'], { type: 'any', disable_parallel_tool_use: true }, undefined]);
    }
    // The provider's key is nobody's business.
    assert.ok(!server.process.stderr.includes(key));
  });

test('a client that goes away ends a stateless call, not a stored turn', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const client = openai(server);
  for (const options of [{}, named('kept')]) {
    const begun = client.chat.completions.create({ model: 'openai/knots', messages: [user('hello')], stream: true }, options);
    const request = await model.asked();
    await request.say('one ');
    const stream = await begun;
    for await (const chunk of stream) if (chunk.choices[0].delta.content === 'one ') break; // ends the connection
    if (!options.headers) {
      // That it is gone is seen when something is sent to it.
      let over = false;
      void request.closed.then(() => (over = true));
      await until(async () => over || (await request.say('more '), false));
      continue;
    }
    await request.say('two');
    await request.end();
    const context = (await server.expect(200, 'GET', '/v1/contexts')).contexts[0].id;
    await until(async () => (await told(server, context)).length === 2);
    assert.deepEqual(await told(server, context), ['user: hello', 'assistant: one two']);
  }
});
