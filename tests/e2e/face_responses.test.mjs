// OpenAI's Responses and Conversations, by the openai package and by the Agents SDK.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Agent, OpenAIConversationsSession, OpenAIProvider, OpenAIResponsesCompactionSession, Runner, setTracingDisabled, tool } from '@openai/agents';
import { z } from 'zod';
import { prose } from './compact.mjs';
import { openai, serveFaces, thrown, weather } from './face.mjs';
import { Model } from './model.mjs';
import { makeWorkspace, restart, serveTurns } from './turns.mjs';

setTracingDisabled(true);
const tools = [{ type: 'function', ...weather, strict: false }];
const outputs = (response) => response.output.filter((item) => item.type === 'function_call').map((item) => ({ type: 'function_call_output', call_id: item.call_id, output: 'sun' }));
const all = async (page) => {
  const list = [];
  for await (const one of page) list.push(one);
  return list;
};

test('a chain, a fork, what is repeated, and what is refused', async (t) => {
  let server = await serveFaces(t);
  let client = openai(server);
  const first = await client.responses.create({ model: 'demo', input: 'one', instructions: 'Be brief.', metadata: { a: 'b' }, temperature: 0.5, user: 'me' });
  assert.deepEqual([first.status, first.output_text, first.metadata.a, first.instructions, first.temperature], ['completed', 'Knots, and knots.', 'b', 'Be brief.', 0.5]);
  const second = await client.responses.create({ model: 'demo', input: [{ role: 'user', content: [{ type: 'input_text', text: 'two' }] }], previous_response_id: first.id });
  const fork = await client.responses.create({ model: 'demo', input: 'two, otherwise', previous_response_id: first.id });
  const third = await client.responses.create({ model: 'demo', input: 'think', previous_response_id: second.id });
  assert.deepEqual(third.output.map((item) => item.type), ['reasoning', 'message']);
  assert.deepEqual([third.usage.input_tokens, third.usage.input_tokens_details.cached_tokens, third.usage.output_tokens], [15, 3, 5]);
  server = await restart(t, server, 'SIGKILL');
  client = openai(server);
  for (const made of [first, second, fork, third]) {
    const kept = await client.responses.retrieve(made.id);
    assert.deepEqual([kept.status, kept.output_text, kept.metadata, kept.previous_response_id, kept.usage], ['completed', made.output_text, made.metadata, made.previous_response_id, made.usage]);
  }
  assert.deepEqual((await all(client.responses.inputItems.list(fork.id))).map((item) => item.content[0].text), ['two, otherwise']);
  assert.equal((await client.responses.create({ model: 'demo', input: 'long', previous_response_id: third.id })).incomplete_details.reason, 'max_output_tokens');

  await client.responses.delete(fork.id);
  assert.equal((await thrown(client.responses.retrieve(fork.id))).status, 404);
  const lost = await thrown(client.responses.create({ model: 'demo', input: 'x', previous_response_id: fork.id }));
  assert.deepEqual([lost.status, lost.code, lost.param], [400, 'previous_response_not_found', 'previous_response_id']);
  const refused = [
    ['conversation', { previous_response_id: first.id, conversation: 'conv_x' }], ['store', { store: false, previous_response_id: first.id }], ['prompt', { prompt: { id: 'p' } }], ['top_logprobs', { top_logprobs: 2 }],
    ['tools[0]', { tools: [{ type: 'web_search' }] }], ['input[0]', { input: [{ type: 'item_reference', id: 'msg_1' }] }], ['input[0].content[0]', { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] }],
    ['metadata', { metadata: { k: 'x'.repeat(600) } }], ['input', { input: [] }], ['instructions', { instructions: 7 }], ['tool_choice', { tool_choice: { type: 'web_search' } }],
  ];
  for (const [param, more] of refused) {
    const error = await thrown(client.responses.create({ model: 'demo', input: 'x', ...more }));
    assert.deepEqual([error.status, error.param], [400, param], error.message);
  }
  // Nothing is kept.
  const plain = await client.responses.create({ model: 'demo', input: 'one', store: false });
  assert.equal(plain.output_text, 'Knots, and knots.');
  assert.equal((await thrown(client.responses.retrieve(plain.id))).status, 404);
  assert.equal((await client.post('/responses/input_tokens', { body: { model: 'demo', input: 'a text of some words' } })).object, 'response.input_tokens');
  const failed = await thrown(client.responses.create({ model: 'demo', input: 'overloaded' }));
  assert.equal(failed.status, 503);
});

test('streams: the events of the helper, numbered, with tools', async (t) => {
  const server = await serveFaces(t);
  const client = openai(server);
  const stream = client.responses.stream({ model: 'demo', input: 'think' });
  const events = await all(stream);
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
  assert.deepEqual([events[0].type, events[1].type, events.at(-1).type], ['response.created', 'response.in_progress', 'response.completed']);
  assert.equal((await stream.finalResponse()).output_text, 'I have thought.');
  const first = await client.responses.stream({ model: 'demo', input: 'weather', tools }).finalResponse();
  assert.deepEqual(first.output.map((item) => item.type), ['message', 'function_call', 'function_call']);
  const none = await thrown(client.responses.create({ model: 'demo', input: 'and?', previous_response_id: first.id }));
  assert.match(none.message, /No tool output found for function call/);
  const second = await client.responses.stream({ model: 'demo', input: outputs(first), tools, previous_response_id: first.id }).finalResponse();
  assert.equal(second.output_text, 'It is sunny in both.');
  assert.equal((await client.responses.retrieve(second.id)).output_text, 'It is sunny in both.');
  assert.equal((await client.responses.retrieve(first.id)).output.length, 3);
  // The same again, from the log.
  const replayed = await all(await client.responses.retrieve(first.id, { stream: true }));
  assert.deepEqual(replayed.map((event) => event.sequence_number), replayed.map((_, i) => i));
  assert.equal(replayed.at(-1).response.output.length, 3);
});

test('background: polled, resumed over a restart in the middle of the answer, cancelled', async (t) => {
  const model = await Model.start(t);
  let server = await serveTurns(t, { env: model.env });
  let client = openai(server);
  const made = await client.responses.create({ model: 'openai/knots', input: 'hello', background: true });
  assert.deepEqual([made.status, made.output], ['queued', []]);
  const request = await model.asked();
  await request.say('one ');
  assert.equal((await client.responses.retrieve(made.id)).status, 'in_progress');
  const stream = await client.responses.retrieve(made.id, { stream: true });
  const seen = [];
  for await (const event of stream) {
    seen.push(event);
    if (event.type === 'response.output_text.delta') break;
  }
  assert.equal((await thrown(client.responses.create({ model: 'openai/knots', input: 'x', previous_response_id: made.id }))).code, 'conversation_locked');
  await request.say('two ');
  const rest = client.responses.retrieve(made.id, { stream: true, starting_after: seen.at(-1).sequence_number }).then(all);
  await request.answer('three');
  const later = await rest;
  assert.deepEqual(later.map((event) => event.sequence_number), later.map((_, i) => seen.length + i), 'no event is lost or told twice');
  assert.equal(later.at(-1).response.output[0].content[0].text, 'one two three');

  const cut = await client.responses.create({ model: 'openai/knots', input: 'again', background: true, previous_response_id: made.id });
  const second = await model.asked();
  await second.say('half ');
  const live = await client.responses.retrieve(cut.id, { stream: true });
  for await (const event of live) if (event.type === 'response.output_text.delta') break;
  server = await restart(t, server);
  client = openai(server);
  const kept = await client.responses.retrieve(cut.id);
  assert.equal(kept.status, 'failed');
  assert.equal(kept.output_text, 'half ');
  const events = await all(await client.responses.retrieve(cut.id, { stream: true }));
  assert.equal(events.at(-1).type, 'response.failed');

  const third = await client.responses.create({ model: 'openai/knots', input: 'once more', background: true, stream: true, previous_response_id: cut.id });
  let id;
  for await (const event of third) {
    id ??= event.response?.id;
    if (event.type === 'response.in_progress') break;
  }
  await model.asked();
  assert.match((await client.responses.cancel(id)).status, /cancelled|failed|completed/);
  assert.equal((await thrown(client.responses.cancel(made.id.replace(/.$/, (c) => (c === '0' ? '1' : '0'))))).status, 404);
});

test('conversations: items, pages, pop, metadata, one writer', async (t) => {
  const server = await serveFaces(t);
  const client = openai(server);
  const conversation = await client.conversations.create({ metadata: { topic: 'cords' }, items: [{ type: 'message', role: 'user', content: 'remember 7' }] });
  assert.equal((await client.conversations.update(conversation.id, { metadata: { topic: 'knots' } })).metadata.topic, 'knots');
  const answer = await client.responses.create({ model: 'demo', input: 'think', conversation: conversation.id });
  assert.equal(answer.conversation.id, conversation.id);
  const added = await client.conversations.items.create(conversation.id, {
    items: [{ type: 'message', role: 'user', content: 'more' }, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.', annotations: [] }] }, { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' }, { type: 'function_call_output', call_id: 'c1', output: 'done' }],
  });
  assert.equal(added.data.length, 4);
  const types = (items) => items.map((item) => item.type);
  const order = ['message', 'message', 'reasoning', 'message', 'message', 'message', 'function_call', 'function_call_output'];
  assert.deepEqual(types(await all(client.conversations.items.list(conversation.id, { order: 'asc', limit: 3 }))), order);
  assert.deepEqual(types(await all(client.conversations.items.list(conversation.id, { limit: 2 }))), order.toReversed());
  for (const left of [7, 6, 5]) {
    const [newest] = (await client.conversations.items.list(conversation.id, { order: 'desc', limit: 1 })).data;
    await client.conversations.items.delete(newest.id, { conversation_id: conversation.id });
    assert.equal((await all(client.conversations.items.list(conversation.id))).length, left);
  }
  const [item] = (await client.conversations.items.list(conversation.id, { order: 'asc' })).data;
  assert.equal((await client.conversations.items.retrieve(item.id, { conversation_id: conversation.id })).content[0].text, 'remember 7');
  await client.conversations.items.delete(item.id, { conversation_id: conversation.id });
  assert.equal((await client.conversations.items.list(conversation.id, { order: 'asc' })).data[0].content[0].text, 'think');
  assert.equal((await client.conversations.delete(conversation.id)).deleted, true);
  assert.equal((await thrown(client.conversations.retrieve(conversation.id))).status, 404);
});

test('tools of the server: run by their rules, or asked about', async (t) => {
  const { work, read } = makeWorkspace(t);
  const steps = [
    { after_tool: 'read_file', times: 9, play: [{ text: 'I have read it.' }] },
    { after_tool: 'write_file', times: 9, play: [{ text: 'Written.' }] },
    { match: '*read*', times: 9, play: [{ call: 'read_file', arguments: { path: 'notes.txt' } }] },
    { match: '*write*', times: 9, play: [{ call: 'write_file', arguments: { path: 'new.txt', content: 'cord\n' } }] },
  ];
  const server = await serveFaces(t, { steps, work });
  const client = openai(server);
  const mine = [{ type: 'mcp', server_label: 'quipu' }];
  const done = await client.responses.stream({ model: 'demo', input: 'read it', tools: mine }).finalResponse();
  assert.deepEqual(done.output.map((item) => item.type), ['mcp_call', 'message']);
  assert.match(done.output[0].output, /one knot/);
  const asks = await client.responses.create({ model: 'demo', input: 'write it', tools: mine });
  const request = asks.output.find((item) => item.type === 'mcp_approval_request');
  assert.equal(request.name, 'write_file');
  const after = await client.responses.create({ model: 'demo', tools: mine, previous_response_id: asks.id, input: [{ type: 'mcp_approval_response', approval_request_id: request.id, approve: true }] });
  assert.equal(after.output_text, 'Written.');
  assert.equal(read('new.txt'), 'cord\n');
  // Not offered unless they are asked for.
  assert.match((await thrown(client.responses.create({ model: 'demo', input: 'x', tools: [{ type: 'mcp', server_label: 'other', server_url: 'http://127.0.0.1:1' }] }))).message, /server_label/);
});

test('the Agents SDK: tools in its own process, a chain, a session of conversations', async (t) => {
  const server = await serveFaces(t);
  const modelProvider = new OpenAIProvider({ apiKey: 'none', baseURL: `${server.url}/openai/v1`, useResponses: true });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const asked = [];
  const get = tool({ name: 'get_weather', description: 'weather', parameters: z.object({ city: z.string() }), execute: ({ city }) => void asked.push(city) ?? 'sun' });
  const agent = new Agent({ name: 'Helper', instructions: 'Be brief.', model: 'demo', tools: [get] });
  const first = await runner.run(agent, 'weather please');
  assert.equal(first.finalOutput, 'It is sunny in both.');
  assert.deepEqual(asked.sort(), ['Paris', 'Rome']);
  const streamed = await runner.run(agent, 'hello', { stream: true, previousResponseId: first.lastResponseId });
  await streamed.completed;
  assert.equal(streamed.finalOutput, 'Knots, and knots.');
  const session = new OpenAIConversationsSession({ client: openai(server, { fetch: undefined }) });
  await runner.run(agent, 'weather please', { session });
  await runner.run(agent, 'hello', { session });
  assert.ok((await session.getItems()).length >= 6);
  assert.ok(await session.popItem());
});

test('compact: a response, an input, and what comes of the item', async (t) => {
  const model = await Model.start(t);
  const sent = [];
  model.line.put = (request) => void (sent.push(request.body), request.answer('The knot of item 3 is red.'));
  const server = await serveTurns(t, { env: model.env });
  const client = openai(server);
  const input = Array.from({ length: 40 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: `Item ${i}: ${prose(i, 80)}` }));
  const made = await client.responses.compact({ model: 'gpt-knots', input, instructions: 'Keep the colours.' });
  const item = made.output.at(-1);
  assert.deepEqual([made.object, item.type], ['response.compaction', 'compaction']);
  assert.ok(made.output.length > 1 && made.output.slice(0, -1).every((one) => one.role === 'user'));
  assert.ok(made.usage.output_tokens < made.usage.input_tokens, JSON.stringify(made.usage));
  assert.match(JSON.stringify(sent), /Keep the colours\./);

  // It continues the conversation, which is still whole.
  sent.length = 0;
  const next = await client.responses.create({ model: 'gpt-knots', input: [...made.output, { role: 'user', content: 'Which colour?' }] });
  assert.equal(next.output_text, 'The knot of item 3 is red.');
  assert.ok(sent[0].messages.length < 15);
  assert.match(sent[0].messages[0].content, /^<earlier-conversation/);
  assert.equal(sent[0].messages.at(-1).content, 'Which colour?');
  const context = (await client.responses.retrieve(next.id)).id.slice(5, 37).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  assert.equal((await server.expect(200, 'GET', `/v1/contexts/${context}/messages?limit=100`)).total, 42);

  // The same without storing: the same messages are sent.
  const [{ messages }] = sent;
  sent.length = 0;
  await client.responses.create({ model: 'gpt-knots', store: false, input: [...made.output, { role: 'user', content: 'Which colour?' }] });
  assert.deepEqual(sent[0].messages, messages);

  // Of a response; too little to compact; twice from the same item: a branch.
  const again = await client.responses.compact({ model: 'gpt-knots', previous_response_id: next.id });
  const fork = await client.responses.create({ model: 'gpt-knots', input: [item, { role: 'user', content: 'And now?' }] });
  assert.notEqual(fork.id.slice(37), next.id.slice(37));
  assert.equal(fork.id.slice(5, 37), next.id.slice(5, 37));
  const short = await client.responses.compact({ model: 'gpt-knots', input: 'hello' });
  assert.deepEqual(short.output.map((one) => one.type), ['message', 'compaction']);
  for (const [param, body] of [
    ['model', { input: 'x' }], ['input', { model: 'm' }], ['input', { model: 'm', input: [{ type: 'compaction', encrypted_content: 'gAAAA' }] }], ['input[0]', { model: 'm', input: [{ type: 'compaction' }] }],
    ['conversation', { model: 'm', input: 'x', conversation: `conv_${next.id.slice(5, 37)}` }], ['previous_response_id', { model: 'm', previous_response_id: 'resp_1' }],
  ]) {
    const error = await thrown(client.responses.compact(body));
    assert.deepEqual([error.status, error.param], [400, param], error.message);
  }
  assert.equal((await thrown(client.responses.create({ model: 'm', input: [item], previous_response_id: next.id }))).param, 'input');
  assert.equal((await thrown(client.conversations.create({ items: [again.output.at(-1)] }))).status, 400);

  // The session of the Agents SDK that compacts by itself.
  const runner = new Runner({ modelProvider: new OpenAIProvider({ apiKey: 'none', baseURL: `${server.url}/openai/v1`, useResponses: true }), tracingDisabled: true });
  for (const compactionMode of ['previous_response_id', 'input']) {
    const session = new OpenAIResponsesCompactionSession({ client: openai(server), model: 'gpt-knots', compactionMode, shouldTriggerCompaction: () => true });
    const agent = new Agent({ name: 'Helper', model: 'gpt-knots' });
    await runner.run(agent, `one ${prose(1, 300)}`, { session });
    assert.equal((await session.getItems()).at(-1).type, 'compaction');
    const last = await runner.run(agent, 'two', { session });
    assert.equal(last.finalOutput, 'The knot of item 3 is red.');
    assert.deepEqual(sent.at(-1).messages.map((one) => one.role), ['user', 'assistant', 'user']);
  }
});
