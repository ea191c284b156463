// Messages that are sent while a turn is running: they wait on the server, in order, whatever
// happens to it.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Chat, restart, script, serveTurns, until } from './turns.mjs';

// A turn that lasts until it is cancelled, and short ones.
const steps = [
  { match: 'long', times: 100, play: [{ text: 'It begins' }, { delay_ms: 600000 }, { text: 'never' }] },
  { match: '*', times: 1000, play: [{ text: 'yes' }] },
];

const queue = async (chat) => (await chat.server.expect(200, 'GET', `${chat.at}/queue`)).items;
const add = (chat, content, headers) => chat.server.expect(202, 'POST', `${chat.at}/queue`, { content }, headers);
const users = (state) => script(state).filter((line) => line.startsWith('user'));

async function busy(t, options) {
  const server = await serveTurns(t, { steps, ...options });
  const chat = await Chat.create(server);
  await chat.begin('send_message', { content: 'long' });
  await chat.reach('StreamingLLMResponse');
  return { server, chat };
}

test('queued messages are sent one after another when the turn ends', async (t) => {
  const { chat } = await busy(t);
  const stream = await chat.follow({ after: 0 });
  await chat.refuses(409, 'CONFLICT', /not possible while/, 'send_message', { content: 'no' }, { state: 'StreamingLLMResponse' });
  const first = await add(chat, 'one');
  const second = await add(chat, [{ type: 'text', text: 'two' }]);
  assert.deepEqual((await queue(chat)).map((item) => [item.id, item.text]), [[first.message_id, 'one'], [second.message_id, 'two']]);
  await stream.until((event) => event.type === 'queue' && event.items === 2);
  await chat.act('cancel', {});
  await stream.until((event) => event.type === 'message' && event.id === second.message_id);
  await stream.reaches('Idle');
  const state = await chat.state();
  assert.deepEqual(script(state), ['user: long', 'assistant!: It begins', 'user: one', 'assistant: yes', 'user: two', 'assistant: yes']);
  assert.deepEqual(state.messages.filter((message) => message.role === 'user').map((message) => message.id).slice(1), [first.message_id, second.message_id]);
  await until(() => stream.events.some((event) => event.type === 'queue' && event.items === 0));
  assert.deepEqual(await queue(chat), []);
  assert.equal((await chat.server.expect(200, 'GET', chat.at)).extra?.queue, undefined);
  stream.close();
});

test('without a running turn a message is sent at once', async (t) => {
  const server = await serveTurns(t, { steps });
  const chat = await Chat.create(server);
  await add(chat, 'now');
  await until(async () => (await chat.state()).total === 2);
  assert.deepEqual(script(await chat.state()), ['user: now', 'assistant: yes']);
});

test('a message can be edited, dropped and sent before the others', async (t) => {
  const { server, chat } = await busy(t);
  const one = await add(chat, 'one');
  const two = await add(chat, [{ type: 'text', text: 'two' }, { type: 'image', url: 'data:image/png;base64,iVBORw0KGgo=' }]);
  const three = await add(chat, 'three');
  const at = (item, more = '') => `${chat.at}/queue/${item.message_id}${more}`;
  const edited = await server.expect(200, 'PATCH', at(two), { text: 'two, but better' });
  assert.deepEqual([edited.queued.text, edited.queued.images, edited.items], ['two, but better', 1, 3]);
  await server.expect(204, 'DELETE', at(one));
  await server.refuses(404, 'NOTFOUND', /it was sent or dropped/, 'DELETE', at(one));
  await server.refuses(404, 'NOTFOUND', /it was sent or dropped/, 'PATCH', at(one), { text: 'x' });
  await server.expect(202, 'POST', at(three, '/send'));
  await until(async () => (await queue(chat)).length === 0 && (await chat.state()).state === 'Idle');
  assert.deepEqual(users(await chat.state()), ['user: long', 'user: three', 'user: two, but better']);
  await server.refuses(404, 'NOTFOUND', /it was sent or dropped/, 'POST', at(three, '/send'));
});

test('the same key queues a message once', async (t) => {
  const { server, chat } = await busy(t);
  const key = { 'idempotency-key': 'k1' };
  const first = await add(chat, 'one', key);
  const again = await add(chat, 'one', key);
  assert.deepEqual([first.replayed, again.replayed, again.message_id], [false, true, first.message_id]);
  await server.refuses(409, 'CONFLICT', /used for another action/, 'POST', `${chat.at}/queue`, { content: 'other' }, key);
  await chat.act('cancel', {});
  await until(async () => (await queue(chat)).length === 0 && (await chat.state()).state === 'Idle');
  const late = await add(chat, 'one', key);
  assert.deepEqual([late.replayed, late.queued], [true, null]);
  assert.deepEqual(users(await chat.state()), ['user: long', 'user: one']);
});

test('a queue has limits', async (t) => {
  const { server, chat } = await busy(t);
  await server.refuses(413, 'TOOBIG', /at most 2048 KiB/, 'POST', `${chat.at}/queue`, { content: 'x'.repeat(2200000) });
  for (let i = 0; i < 50; i++) await add(chat, `m${i}`);
  await server.refuses(413, 'TOOBIG', /at most 50 messages/, 'POST', `${chat.at}/queue`, { content: 'one more' });
  await server.refuses(400, 'INVALID', /'content' must be/, 'POST', `${chat.at}/queue`, { content: [] });
});

test('a message whose branch is gone waits with the reason, and does not stop the others', async (t) => {
  const { server, chat } = await busy(t);
  await server.expect(201, 'POST', `${chat.at}/branches`, { name: 'side' });
  const lost = await server.expect(202, 'POST', `${chat.at}/queue`, { content: 'lost', branch: 'side' });
  await add(chat, 'fine');
  await server.expect(204, 'DELETE', `${chat.at}/branches/side`);
  await chat.act('cancel', {});
  await until(async () => users(await chat.state()).includes('user: fine') && (await chat.state()).state === 'Idle');
  const [item] = await queue(chat);
  assert.equal(item.id, lost.message_id);
  assert.match(item.error, /branch 'side' not found/);
});

test('a queue survives kill -9 in the middle of a turn, and goes on after the next one', async (t) => {
  const { server, chat } = await busy(t);
  await add(chat, 'one');
  await add(chat, 'two');
  const next = await restart(t, server, 'SIGKILL');
  const there = chat.on(next);
  assert.equal((await there.state()).state, 'Failed');
  assert.deepEqual((await queue(there)).map((item) => item.text), ['one', 'two']);
  assert.deepEqual(users(await there.state()), ['user: long'], 'after a failed turn it waits');
  await there.begin('send_message', { content: 'hello' });
  await until(async () => (await queue(there)).length === 0 && (await there.state()).state === 'Idle');
  assert.deepEqual(users(await there.state()), ['user: long', 'user: hello', 'user: one', 'user: two']);
});

test('whenever the server is killed, each queued message is sent exactly once', async (t) => {
  let server = await serveTurns(t, { steps });
  let chat = await Chat.create(server);
  const sent = [];
  for (let round = 0; round < 6; round++) {
    for (const i of [1, 2, 3]) {
      sent.push(`${round}.${i}`);
      await add(chat, sent.at(-1));
    }
    server = await restart(t, server, 'SIGKILL');
    chat = chat.on(server);
  }
  // A turn that was cut failed: what follows goes on after a turn that ends well.
  await until(async () => {
    const { state } = await chat.state();
    const [item] = await queue(chat);
    if (item && state !== 'Idle' && state !== 'Failed') return false;
    if (item) await server.ask('POST', `${chat.at}/queue/${item.id}/send`);
    return !item && state === 'Idle';
  });
  // What is no longer in the queue is stored. The state may be up to 100 ms old while a turn runs.
  const { messages } = await server.expect(200, 'GET', `${chat.at}/messages?limit=1000`);
  const texts = messages.filter((message) => message.role === 'user').map((message) => message.text);
  assert.deepEqual(texts.sort(), sent.sort());
});
