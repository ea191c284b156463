// The AI SDK: the Chat behind useChat, with DefaultChatTransport and quipu alone as its backend.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';
import { checkedFetch, serveFaces, weather } from './face.mjs';
import { Model } from './model.mjs';
import { makeWorkspace, restart, serveTurns, until } from './turns.mjs';

const open = (server, options = {}, body = {}) =>
  new Chat({ transport: new DefaultChatTransport({ api: `${server.url}/ai/chat`, fetch: checkedFetch, body }), onError: () => {}, ...options });
const load = async (server, id) => (await (await checkedFetch(`${server.url}/ai/chat/${encodeURIComponent(id)}`)).json()).messages;
const said = (message) => message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('');
const ready = async (chat) => {
  await until(() => chat.status === 'ready' || chat.status === 'error', () => chat.status);
  if (chat.error) throw chat.error;
};

test('messages, reasoning, an edit, another answer, loading over a restart', async (t) => {
  let server = await serveFaces(t);
  const chat = open(server, { id: 'my chat/1' });
  await chat.sendMessage({ text: 'hello' });
  await ready(chat);
  assert.equal(said(chat.messages[1]), 'Knots, and knots.');
  await chat.sendMessage({ text: 'think' });
  await ready(chat);
  assert.deepEqual(chat.messages[3].parts.map((part) => part.type), ['step-start', 'reasoning', 'text']);
  server = await restart(t, server, 'SIGKILL');
  const kept = await load(server, 'my chat/1');
  assert.deepEqual(kept.map((message) => [message.id, message.role, said(message)]), chat.messages.map((message) => [message.id, message.role, said(message)]));
  // On with what was loaded; an earlier message is edited, which is a branch.
  const again = open(server, { id: 'my chat/1', messages: kept });
  await again.sendMessage({ text: 'think again', messageId: kept[2].id });
  await ready(again);
  assert.equal(again.messages.length, 4);
  await again.regenerate();
  await ready(again);
  assert.equal(said(again.messages[3]), 'I have thought.');
  const { contexts } = await server.expect(200, 'GET', '/v1/contexts');
  const { branches } = await server.expect(200, 'GET', `/v1/contexts/${contexts[0].id}/branches`);
  assert.deepEqual(branches.map((branch) => branch.messages), [4, 4, 4]);
  const failing = open(server, { id: 'other' });
  await failing.sendMessage({ text: 'overloaded' });
  await until(() => failing.status === 'error');
  assert.match(failing.error.message, /Overloaded/);
  assert.equal((await checkedFetch(`${server.url}/ai/chat/none`)).status, 404);
});

test('tools of the page, in parallel', async (t) => {
  const server = await serveFaces(t);
  const chat = open(server, {
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall: ({ toolCall }) => void chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: { sky: `blue over ${toolCall.input.city}` } }),
  }, { tools: [weather] });
  await chat.sendMessage({ text: 'weather' });
  await until(() => chat.messages.at(-1).parts.some((part) => part.text === 'It is sunny in both.'), () => JSON.stringify(chat.messages.at(-1)));
  assert.equal(chat.messages.length, 2, 'one message of the assistant, in two steps');
  const parts = chat.messages[1].parts.filter((part) => part.type === 'tool-get_weather');
  assert.deepEqual(parts.map((part) => [part.state, part.output.sky]), [['output-available', 'blue over Paris'], ['output-available', 'blue over Rome']]);
  await ready(chat);
  assert.deepEqual((await load(server, chat.id))[1].parts.filter((part) => part.type === 'tool-get_weather').map((part) => part.state), ['output-available', 'output-available']);
});

test('tools of the server: approved and denied in the page', async (t) => {
  const { work, read } = makeWorkspace(t);
  const steps = [
    { after_tool: 'write_file', times: 9, play: [{ text: 'So be it.' }] },
    { match: '*', times: 9, play: [{ call: 'write_file', arguments: { path: 'new.txt', content: 'cord\n' } }] },
  ];
  const server = await serveFaces(t, { steps, work });
  for (const approved of [true, false]) {
    const chat = open(server, { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await chat.sendMessage({ text: 'write' });
    await ready(chat);
    const part = chat.messages[1].parts.find((one) => one.type === 'dynamic-tool');
    assert.equal(part.state, 'approval-requested');
    await chat.addToolApprovalResponse({ id: part.approval.id, approved });
    await until(() => chat.messages[1].parts.some((one) => one.text === 'So be it.'), () => `${chat.status} ${chat.error} ${JSON.stringify(chat.messages[1])}`);
    assert.equal(chat.messages[1].parts.find((one) => one.type === 'dynamic-tool').state, approved ? 'output-available' : 'output-denied');
    assert.equal(chat.messages.length, 2);
  }
  assert.equal(read('new.txt'), 'cord\n');
});

test('reconnect from the beginning of the answer; stop', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const knots = { model: 'openai/knots' };
  const chat = open(server, { id: 'c' }, knots);
  assert.equal((await fetch(`${server.url}/ai/chat/c/stream`)).status, 204);
  const sent = chat.sendMessage({ text: 'hello' });
  const request = await model.asked();
  await request.say('one ');
  await until(() => chat.messages.length === 2 && said(chat.messages[1]) === 'one ');
  await chat.stop(); // closes the connection only
  await sent;
  const other = open(server, { id: 'c', messages: [chat.messages[0]] }, knots);
  const resumed = other.resumeStream();
  await until(() => other.messages.length === 2 && said(other.messages[1]) === 'one ', () => JSON.stringify(other.messages));
  await request.say('two');
  await request.end();
  await resumed;
  assert.equal(said(other.messages[1]), 'one two');
  assert.equal(other.messages[1].id, chat.messages[1].id);

  const more = other.sendMessage({ text: 'more' });
  await (await model.asked()).say('half');
  await until(() => said(other.messages.at(-1)) === 'half');
  assert.equal((await fetch(`${server.url}/ai/chat/c/stop`, { method: 'POST' })).status, 204);
  await more;
  assert.equal(said((await load(server, 'c')).at(-1)), 'half');
});
