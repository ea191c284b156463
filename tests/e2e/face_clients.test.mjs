// What the packages do by themselves: retries after a lost or late answer, timeouts, the helpers that run
// tools, images; and what they see of a server that is killed in the middle of an answer.

import assert from 'node:assert/strict';
import test from 'node:test';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { anthropic, openai, serveFaces, thrown, told, weather } from './face.mjs';
import { Model } from './model.mjs';
import { restart, serveTurns, until } from './turns.mjs';

const user = (content) => ({ role: 'user', content });
const pixel = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const headers = (key, context) => ({ 'Idempotency-Key': key, ...(context ? { 'X-Quipu-Context': context } : {}) });

// A fetch whose first answer is lost on the way, after the server has sent it.
function losing() {
  let lost = false;
  return async (...args) => {
    const answer = await fetch(...args);
    if (lost) return answer;
    lost = true;
    await answer.text();
    throw new TypeError('fetch failed');
  };
}

// Each way to ask with a key: what was said, and what names the turn.
const ways = {
  chat: (server, options, input, context, stream) =>
    stream
      ? openai(server, options).chat.completions.stream({ model: 'demo', messages: input }, { headers: headers('k', context) }).finalChatCompletion()
      : openai(server, options).chat.completions.create({ model: 'demo', messages: input }, { headers: headers('k', context) }),
  messages: (server, options, input, context, stream) =>
    stream
      ? anthropic(server, options).messages.stream({ model: 'demo', max_tokens: 9, messages: input }, { headers: headers('k', context) }).finalMessage()
      : anthropic(server, options).messages.create({ model: 'demo', max_tokens: 9, messages: input }, { headers: headers('k', context) }),
};
const textOf = (answer) => answer.choices?.[0].message.content ?? answer.content[0].text;

test('an answer that is lost: the package asks again, and it is one turn', async (t) => {
  const server = await serveFaces(t);
  const before = [user('one'), { role: 'assistant', content: 'Knots, and knots.' }];
  for (const [name, send] of Object.entries(ways))
    for (const stream of [false, true]) {
      const context = `${name} ${stream}`;
      // A history, so that the second request is not at the end of a branch any more.
      const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: context });
      await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, [{ role: 'user', text: 'one' }, { role: 'assistant', text: 'Knots, and knots.' }]);
      const answer = await send(server, { fetch: losing(), maxRetries: 2 }, [...before, user('two')], id, stream);
      assert.equal(textOf(answer), 'Knots, and knots.');
      assert.deepEqual(await told(server, id), ['user: one', 'assistant: Knots, and knots.', 'user: two', 'assistant: Knots, and knots.']);
      const { branches } = await server.expect(200, 'GET', `/v1/contexts/${id}/branches`);
      assert.equal(branches.length, 1);
      assert.equal((await thrown(send(server, {}, [...before, user('three')], id, stream))).status, 409, 'the key belongs to another request');
    }
});

test('responses: the same for new ones, chains, forks, results and streams', async (t) => {
  const server = await serveFaces(t);
  const tools = [{ type: 'function', ...weather, strict: false }];
  const contexts = async () => (await server.expect(200, 'GET', '/v1/contexts')).contexts.length;
  const twice = async (key, body) => {
    const asked = () => openai(server, { fetch: losing(), maxRetries: 2 }).responses.create(body, { headers: headers(key) });
    const first = await asked();
    const again = await openai(server).responses.create(body, { headers: headers(key) });
    assert.deepEqual([again.id, again.output, again.usage], [first.id, first.output, first.usage]);
    const events = [];
    for await (const event of await openai(server).responses.create({ ...body, stream: true }, { headers: headers(`${key} streamed`) })) events.push(event);
    const replayed = [];
    for await (const event of await openai(server).responses.create({ ...body, stream: true }, { headers: headers(`${key} streamed`) })) replayed.push(event);
    assert.deepEqual(replayed.map(({ type }) => type), events.map(({ type }) => type));
    assert.equal(replayed.at(-1).response.id, events.at(-1).response.id);
    return first;
  };
  const first = await twice('a', { model: 'demo', input: [user('zero'), user('one')] });
  assert.equal(await contexts(), 2);
  const second = await twice('b', { model: 'demo', input: 'two', previous_response_id: first.id });
  await twice('c', { model: 'demo', input: 'two, otherwise', previous_response_id: first.id });
  const asks = await twice('d', { model: 'demo', input: 'weather', tools, previous_response_id: second.id });
  const outputs = asks.output.filter((item) => item.type === 'function_call').map((item) => ({ type: 'function_call_output', call_id: item.call_id, output: 'sun' }));
  const body = { model: 'demo', input: outputs, tools, previous_response_id: asks.id };
  const done = await openai(server, { fetch: losing(), maxRetries: 2 }).responses.create(body, { headers: headers('e') });
  assert.equal(done.output_text, 'It is sunny in both.');
  assert.equal((await openai(server).responses.create(body, { headers: headers('e') })).id, done.id);
  assert.equal(await contexts(), 2);
});

test('timeouts: the package gives up and asks again while the turn runs', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const asks = [
    (options, key) => openai(server, options).chat.completions.create({ model: 'openai/knots', messages: [user(key)] }, { headers: headers(key, id) }),
    (options, key) => anthropic(server, options).messages.create({ model: 'openai/knots', max_tokens: 9, messages: [user(key)] }, { headers: headers(key, id) }),
    (options, key) => openai(server, options).responses.create({ model: 'openai/knots', input: key }, { headers: headers(key) }),
  ];
  for (const [i, ask] of asks.entries()) {
    // Not before the model is asked, also on a busy machine.
    const late = thrown(ask({ timeout: 2000, maxRetries: 0 }, `key ${i}`));
    const request = await model.asked();
    assert.match((await late).constructor.name, /APIConnectionTimeoutError/);
    const again = ask({}, `key ${i}`);
    await request.answer('at last');
    const answer = await again;
    assert.equal(answer.output_text ?? textOf(answer), 'at last');
  }
  assert.deepEqual(await told(server, id), ['user: key 0', 'assistant: at last', 'user: key 1', 'assistant: at last']);
});

test('a stored turn that failed is not asked again by the package', async (t) => {
  const server = await serveFaces(t);
  let requests = 0;
  const options = { maxRetries: 3, fetch: (...args) => (requests++, fetch(...args)) };
  assert.equal((await thrown(ways.chat(server, options, [user('overloaded')], 'f'))).status, 503);
  assert.equal((await thrown(ways.messages(server, options, [user('overloaded')], 'g'))).status, 503);
  assert.equal((await thrown(openai(server, options).responses.create({ model: 'demo', input: 'overloaded' }))).status, 503);
  assert.equal(requests, 3);
  // Nothing is stored: it may be.
  assert.equal((await thrown(openai(server, { ...options, maxRetries: 1 }).chat.completions.create({ model: 'demo', messages: [user('overloaded')] }))).status, 503);
  assert.equal(requests, 5);
});

test("Anthropic's tool runner and stream events; aborting ends a stateless call", async (t) => {
  const model = await Model.start(t);
  const server = await serveFaces(t, { env: model.env });
  const client = anthropic(server);
  for (const stream of [false, true]) {
    const asked = [];
    const tool = betaTool({ name: weather.name, description: weather.description, inputSchema: weather.parameters, run: ({ city }) => (asked.push(city), 'sun') });
    // It asks for a thread, which is state at Anthropic's server; refused, it sends all messages.
    const last = await client.beta.messages.toolRunner({ model: 'demo', max_tokens: 99, messages: [user('weather')], tools: [tool], stream }).runUntilDone();
    assert.equal(last.content[0].text, 'It is sunny in both.');
    assert.deepEqual(asked, ['Paris', 'Rome']);
  }
  const thread = await thrown(client.beta.messages.create({ model: 'demo', max_tokens: 9, messages: [user('hello')], thread: { type: 'create' } }));
  assert.deepEqual([thread.status, thread.errorCode], [400, 'thread_unsupported_request']);
  const seen = [];
  const helper = client.messages.stream({ model: 'demo', max_tokens: 99, messages: [user('think')] }).on('thinking', (text) => seen.push(text)).on('text', (text) => seen.push(text));
  await helper.done();
  assert.equal(seen.join(''), 'Well, well.I have thought.');
  const aborted = client.messages.stream({ model: 'openai/knots', max_tokens: 9, messages: [user('hello')] });
  const ended = thrown(aborted.done());
  const request = await model.asked();
  const text = new Promise((resolve) => aborted.once('text', resolve));
  await request.say('one ');
  await text;
  aborted.abort();
  assert.match((await ended).constructor.name, /APIUserAbortError/);
  let over = false;
  void request.closed.then(() => (over = true));
  await until(async () => over || (await request.say('more '), false));
});

test('images come to the model from Responses, Messages and the page', async (t) => {
  const model = await Model.start(t);
  const sent = [];
  model.line.put = (request) => void (sent.push(request.text), request.answer('A dot.'));
  const server = await serveTurns(t, { env: model.env });
  const answer = await openai(server).responses.create({ model: 'openai/knots', input: [{ role: 'user', content: [{ type: 'input_text', text: 'what' }, { type: 'input_image', image_url: pixel, detail: 'low' }] }] });
  assert.equal(answer.output_text, 'A dot.');
  await openai(server).responses.create({ model: 'openai/knots', input: 'again', previous_response_id: answer.id });
  await anthropic(server).messages.create({ model: 'openai/knots', max_tokens: 9, messages: [user([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel.split(',')[1] } }, { type: 'text', text: 'what' }])] }, { headers: { 'X-Quipu-Context': 'dots' } });
  const chat = new Chat({ transport: new DefaultChatTransport({ api: `${server.url}/ai/chat`, body: { model: 'openai/knots' } }) });
  await chat.sendMessage({ text: 'what', files: [{ type: 'file', mediaType: 'image/png', url: pixel }] });
  assert.equal(chat.messages[1].parts.at(-1).text, 'A dot.');
  assert.equal(sent.length, 4);
  for (const text of sent) assert.ok(text.includes(pixel), text);
  assert.match(sent[0], /"detail":"low"/);
});

test('a page whose server is killed in the middle of an answer has it after the restart', async (t) => {
  const model = await Model.start(t);
  let server = await serveTurns(t, { env: model.env });
  const open = (options) => new Chat({ id: 'c', transport: new DefaultChatTransport({ api: `${server.url}/ai/chat`, body: { model: 'openai/knots' } }), onError: () => {}, ...options });
  const chat = open();
  const sent = chat.sendMessage({ text: 'hello' });
  const request = await model.asked();
  await request.say('half ');
  const said = (message) => message?.parts.filter((part) => part.type === 'text').map((part) => part.text).join('');
  await until(() => said(chat.messages[1]) === 'half ');
  server = await restart(t, server);
  await sent;
  const { messages } = await (await fetch(`${server.url}/ai/chat/c`)).json();
  assert.equal(said(messages[1]), 'half ');
  const again = open({ messages });
  await again.resumeStream(); // nothing runs any more
  const more = again.regenerate();
  await (await model.asked()).answer('whole');
  await more;
  assert.equal(said(again.messages[1]), 'whole');
});
