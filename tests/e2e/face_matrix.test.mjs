// Clients x cases: where each cell is tested, and the cells that have no other place.
//
// |                       | chat completions | responses      | @anthropic-ai/sdk | ai, useChat    | MCP client | @openai/agents |
// |-----------------------|------------------|----------------|-------------------|----------------|------------|----------------|
// | plain                 | face_openai      | face_responses | face_anthropic    | face_ai_sdk    | mcp_server | face_responses |
// | streamed              | face_openai      | face_responses | face_anthropic    | face_ai_sdk    | -          | face_responses |
// | tools, parallel       | face_openai      | face_responses | face_anthropic    | face_ai_sdk    | -          | face_responses |
// | images                | face_openai      | face_clients   | face_clients      | face_clients   | -          | here           |
// | errors                | face_openai      | face_responses | face_anthropic    | face_ai_sdk    | mcp_server | here           |
// | cancel                | face_openai      | face_responses | face_clients      | face_ai_sdk    | here       | here           |
// | timeouts              | face_clients     | face_clients   | face_clients      | here           | here       | here           |
// | retries, idempotent   | face_clients     | face_clients   | face_clients      | here           | here       | here           |
// | restart in mid-answer | here             | face_responses | here              | face_clients   | mcp_server | here           |
// | helpers               | face_openai, here| face_responses, here | face_clients | face_ai_sdk   | mcp_server | face_responses |
//
// "-": the protocol has no such thing: quipu's MCP server sends no streams and calls no tools of the client. Other tables: fields and events in
// face_fields, bodies at the provider in face_golden, owners in face_contract, examples in example_programs, Python's packages in client_packages.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Chat } from '@ai-sdk/react';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Agent, OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents';
import { DefaultChatTransport } from 'ai';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { anthropic, openai, serveFaces, thrown, told } from './face.mjs';
import { Model } from './model.mjs';
import { restart, serveTurns, until } from './turns.mjs';

setTracingDisabled(true);
const user = (content) => ({ role: 'user', content });
const pixel = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const runner = (server, options = {}) => new Runner({ tracingDisabled: true, modelProvider: new OpenAIProvider({ useResponses: true, openAIClient: new OpenAI({ apiKey: 'none', baseURL: `${server.url}/openai/v1`, maxRetries: 0, ...options }) }) });

// A fetch whose first answer to a path is lost on the way, after the server has sent it.
function losing(target) {
  let lost = false;
  return async (url, init) => {
    const answer = await fetch(url, init);
    if (lost || !String(url).endsWith(target)) return answer;
    lost = true;
    await answer.text();
    throw new TypeError('fetch failed');
  };
}

test('chat completions and messages: a stored answer over a restart in its middle', async (t) => {
  const model = await Model.start(t);
  let server = await serveTurns(t, { env: model.env });
  const ways = [
    async (name, content) => {
      const stream = await openai(server).chat.completions.create({ model: 'openai/knots', stream: true, messages: [user(content)] }, { headers: { 'X-Quipu-Context': name } });
      return [stream, (chunk) => chunk.choices[0]?.delta.content];
    },
    async (name, content) => {
      const stream = await anthropic(server).messages.create({ model: 'openai/knots', stream: true, max_tokens: 99, messages: [user(content)] }, { headers: { 'X-Quipu-Context': name } });
      return [stream, (event) => event.delta?.text];
    },
  ];
  for (const [i, ask] of ways.entries()) {
    const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
    const begun = ask(id, 'hello');
    await (await model.asked()).say('half ');
    const [stream, said] = await begun;
    let text = '';
    const over = (async () => {
      for await (const piece of stream) text += said(piece) ?? '';
    })();
    await until(() => text === 'half ');
    server = await restart(t, server);
    await over.catch(() => {}); // the package may see the error or the end of the connection
    assert.equal(text, 'half ');
    assert.deepEqual(await told(server, id), ['user: hello', 'assistant: half ']);
    const more = ask(id, `go on ${i}`);
    const request = await model.asked();
    assert.match(request.text, /hello.*half .*go on/);
    await request.answer('whole');
    for await (const _ of (await more)[0]);
    assert.deepEqual(await told(server, id), ['user: hello', 'assistant: half ', `user: go on ${i}`, 'assistant: whole']);
  }
});

test('openai: the helpers that parse structured answers', async (t) => {
  const model = await Model.start(t);
  const sent = [];
  model.line.put = (request) => void (sent.push(request.body), request.answer('{"knots":7}'));
  const server = await serveTurns(t, { env: model.env });
  const schema = z.object({ knots: z.number() });
  const chat = await openai(server).chat.completions.parse({ model: 'openai/knots', messages: [user('how many')], response_format: zodResponseFormat(schema, 'count') });
  assert.deepEqual(chat.choices[0].message.parsed, { knots: 7 });
  const response = await openai(server).responses.parse({ model: 'openai/knots', input: 'how many', text: { format: zodTextFormat(schema, 'count') } });
  assert.deepEqual(response.output_parsed, { knots: 7 });
  for (const body of sent) assert.deepEqual([body.response_format.json_schema.name, body.response_format.json_schema.strict], ['count', true]);
});

test('useChat: a lost answer and one that comes too late are there when the page loads again', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const open = (fetch) => new Chat({ id: 'c', onError: () => {}, transport: new DefaultChatTransport({ api: `${server.url}/ai/chat`, body: { model: 'openai/knots' }, fetch }) });
  const chat = open(async (url, init) => {
    const answer = await fetch(url, { ...init, headers: { ...init.headers, 'Idempotency-Key': 'k' } });
    await answer.text();
    throw new TypeError('fetch failed');
  });
  const sent = chat.sendMessage({ text: 'hello' });
  await (await model.asked()).answer('here');
  await sent;
  assert.equal(chat.status, 'error');
  // The same request again is the same turn.
  const body = { id: 'c', model: 'openai/knots', trigger: 'submit-message', messages: chat.messages };
  const again = await fetch(`${server.url}/ai/chat`, { method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': 'k' }, body: JSON.stringify(body) });
  assert.ok([200, 409].includes(again.status), await again.text());
  const late = open((url, init) => fetch(url, { ...init, signal: AbortSignal.timeout(300) }));
  late.messages = (await (await fetch(`${server.url}/ai/chat/c`)).json()).messages;
  assert.equal(late.messages.length, 2);
  const second = late.sendMessage({ text: 'more' });
  const request = await model.asked();
  await second;
  assert.equal(late.status, 'error');
  await request.answer('and there');
  await until(async () => (await (await fetch(`${server.url}/ai/chat/c`)).json()).messages.length === 4);
});

test('MCP: cancel, timeout, and a call that is sent again', async (t) => {
  const server = await serveFaces(t);
  // Answers wait at this gate until the client has given up.
  let gate;
  const slow = async (url, init) => {
    const answer = await fetch(url, init);
    if (gate && String(init?.body).includes('tools/call')) await gate;
    return answer;
  };
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp?write=true`), { fetch: slow }));
  t.after(() => client.close());
  const call = { name: 'save_message', arguments: { text: 'a knot', title: 'cord' } };
  let open;
  gate = new Promise((resolve) => (open = resolve));
  assert.match((await thrown(client.callTool(call, undefined, { timeout: 200 }))).message, /timed out/i);
  const abort = new AbortController();
  const cancelled = thrown(client.callTool(call, undefined, { signal: abort.signal }));
  abort.abort('enough');
  assert.match(String(await cancelled), /enough|abort/i);
  open();
  gate = undefined;
  // The connection goes on, and each call was carried out at most once.
  const { structuredContent } = await client.callTool({ name: 'list_conversations', arguments: {} });
  assert.ok(structuredContent.contexts.length <= 2);
  const { id } = (await client.callTool(call)).structuredContent;
  await client.callTool({ name: 'save_message', arguments: { id, text: 'another knot' } });
  assert.deepEqual(await told(server, id), ['user: a knot', 'user: another knot']);
});

test('agents: images, errors, cancel, timeouts, retries, a restart in the middle of an answer', async (t) => {
  const model = await Model.start(t);
  let server = await serveTurns(t, { env: model.env });
  const agent = new Agent({ name: 'Helper', model: 'openai/knots' });

  const seen = runner(server).run(agent, [{ role: 'user', content: [{ type: 'input_text', text: 'what' }, { type: 'input_image', image: pixel }] }]);
  const look = await model.asked();
  assert.ok(look.text.includes(pixel));
  await look.answer('A dot.');
  assert.equal((await seen).finalOutput, 'A dot.');

  const failed = thrown(runner(server).run(agent, 'hello'));
  (await model.asked()).fail(400, 'invalid_request_error', 'no such knot');
  assert.match((await failed).message, /no such knot/);

  const abort = new AbortController();
  const stopped = await runner(server).run(agent, 'hello', { stream: true, signal: abort.signal });
  const running = await model.asked();
  await running.say('one ');
  for await (const event of stopped) if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') abort.abort();
  await stopped.completed.catch(() => {});
  await running.answer('two'); // the turn goes on

  const late = thrown(runner(server, { timeout: 2000 }).run(agent, 'hello')); // not before the model is asked
  const slow = await model.asked();
  assert.match((await late).message, /timed out/i);
  await slow.answer('too late');

  // Lost and asked again with a key: one turn.
  const again = runner(server, { maxRetries: 2, fetch: losing('/responses'), defaultHeaders: { 'Idempotency-Key': 'once' } }).run(agent, 'lost');
  await (await model.asked()).answer('found');
  assert.equal((await again).finalOutput, 'found');

  const { id: conversationId } = await openai(server).conversations.create();
  const cut = thrown(runner(server).run(agent, 'remember', { conversationId }));
  await (await model.asked()).say('half ');
  server = await restart(t, server);
  await cut;
  const next = runner(server).run(agent, 'go on', { conversationId });
  const request = await model.asked();
  assert.match(request.text, /remember.*half .*go on/);
  await request.answer('whole');
  assert.equal((await next).finalOutput, 'whole');
});
