// The stream of events of a context: its order and numbers, coming back after a reload, a restart
// and a kill, what is not kept any more, slow clients, and who may follow.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import test, { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ok, tempDir } from './helper.mjs';
import { Model, soon } from './model.mjs';
import { Chat, Stream, makeWorkspace, restart, said, script, serveTurns, stored, until } from './turns.mjs';

const hello = { match: 'hello', play: [{ thinking: 'A greeting.', signature: 'c2ln' }, { text: 'Hello to you.' }] };

// A server with a model in hand, and a context.
async function withModel(t, options = {}) {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env, ...options });
  return { model, server, chat: await Chat.create(server) };
}

// Keep-alive takes a while: it begins first and is looked at last.
const ends = [];
const quiet = (async () => {
  const t = { after: (end) => ends.push(end) };
  const server = await serveTurns(t, { steps: [hello] });
  const chat = await Chat.create(server);
  const stream = await chat.follow();
  return { chat, stream };
})();
after(async () => {
  for (const end of ends.reverse()) await end();
});

// ---- order and numbers ----

test('a turn is told in its order: messages and states when they are durable, words as they come', async (t) => {
  const space = makeWorkspace(t);
  const server = await serveTurns(t, {
    work: space.work,
    steps: [{ match: 'read', after_tool: 'read_file', play: [{ text: 'Two lines.' }] }, { match: 'read', play: [{ thinking: 'They want it read.', signature: 'c2ln' }, { text: 'I read.' }, { call: 'read_file', arguments: { path: 'notes.txt' }, id: 'call_r' }, { usage: { input: 10, output: 5 } }] }],
  });
  const chat = await Chat.create(server);
  const stream = await chat.follow();
  assert.equal(stream.status, 200);
  assert.equal(stream.headers.get('content-type'), 'text/event-stream');
  const body = await chat.send('read');
  const events = await stream.reaches('Idle');
  const kinds = events.map((event) => (event.type === 'state' ? event.state : event.type)).filter((kind, i, all) => kind !== all[i - 1]);
  const model = (first, ...rest) => [first, 'answer', 'StreamingLLMResponse', ...rest, 'message', 'ProcessingLLMResponse'];
  assert.deepEqual(kinds.filter((kind) => kind !== 'usage' && kind !== 'stop'), [
    'message',
    'ProcessingUserMessage',
    ...model('AwaitingLLMResponse', 'thinking', 'signature', 'text', 'call', 'arguments', 'call_end'),
    'ExecutingTools',
    'tool_start',
    'tool_end',
    'message',
    'ProcessingToolResults',
    ...model('GeneratingResponse', 'text'),
    'Idle',
  ]);
  assert.ok(kinds.includes('usage') && kinds.includes('stop'));
  for (const event of events) assert.match(event.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(events.filter((event) => event.type === 'message').map((event) => [event.id, event.role, event.branch]), body.messages.map((message) => [message.id, message.role, 'main']));
  assert.equal(events.at(-1).seq, body.seq, 'the answer tells the number of the newest event');
  const arguments_ = events.filter((event) => event.type === 'arguments').map((event) => event.text).join('');
  assert.deepEqual(JSON.parse(arguments_ || events.find((event) => event.type === 'call_end').text), { path: 'notes.txt' });
  stream.close();
});

test('words come before the answer is complete, to all who follow', async (t) => {
  const { model, chat } = await withModel(t);
  const streams = [await chat.follow(), await chat.follow({ after: 0 }), await chat.stream('send_message', { content: 'hi' })];
  const request = await model.asked();
  for (const word of ['one ', 'two ', 'thrée 😀']) {
    await request.say(word);
    for (const stream of streams) assert.equal((await stream.until((event) => event.type === 'text')).at(-1).text, word);
  }
  const late = await chat.follow({ after: 0 });
  const caught = await late.until((event) => event.type === 'text' && event.text.includes('thrée'));
  assert.equal(said(caught), 'one two thrée 😀', 'who comes in the middle hears all of it');
  await request.end();
  for (const stream of [streams[0], streams[1], late]) {
    await stream.reaches('Idle');
    stream.close();
  }
  await streams[2].all();
  assert.deepEqual(streams[1].events, late.events, 'all hear the same');
  assert.deepEqual(streams[2].events, late.events);
});

test('contexts are told apart', async (t) => {
  const { model, server, chat } = await withModel(t);
  const other = await Chat.create(server);
  const mine = await chat.follow();
  const theirs = await other.follow();
  await chat.begin('send_message', { content: 'mine' });
  await (await model.asked()).answer('Mine.');
  await other.begin('send_message', { content: 'theirs' });
  await (await model.asked()).answer('Theirs.');
  assert.equal(said(await mine.reaches('Idle')), 'Mine.');
  assert.equal(said(await theirs.reaches('Idle')), 'Theirs.');
});

test('another branch is told', async (t) => {
  const server = await serveTurns(t, { steps: [hello] });
  const chat = await Chat.create(server);
  await chat.send('hello');
  const stream = await chat.follow();
  const body = await chat.does('regenerate');
  const events = await stream.reaches('Idle');
  assert.deepEqual([events[0].type, events[0].branch, events[0].new], ['branch', body.branch, true]);
  await chat.does('switch_branch', { branch: 'main' });
  const [back] = await stream.until((event) => event.type === 'branch');
  assert.deepEqual([back.branch, back.new], ['main', false]);
});

// ---- coming back ----

test('Last-Event-ID: whoever comes back at any number misses nothing and hears nothing twice', async (t) => {
  const server = await serveTurns(t, { steps: [hello] });
  const chat = await Chat.create(server);
  await chat.send('hello');
  const whole = await chat.follow({ after: 0 });
  const events = await whole.reaches('Idle');
  for (let i = 0; i < events.length; i++) {
    const stream = i % 2 ? await chat.follow({ last: events[i].seq }) : await chat.follow({ after: events[i].seq });
    if (i < events.length - 1) assert.deepEqual(await stream.reaches('Idle'), events.slice(i + 1));
    stream.close();
  }
  const both = await chat.follow({ after: 0, last: events.at(-2).seq });
  assert.deepEqual(await both.reaches('Idle'), events.slice(-1), 'the header wins: a browser keeps the address');
});

test('Last-Event-ID works after a restart and after kill -9, also in the middle of an answer', async (t) => {
  const { model, server, chat } = await withModel(t);
  const first = await chat.follow();
  await chat.begin('send_message', { content: 'hi' });
  const request = await model.asked();
  await request.say('Before. ');
  await first.until((event) => event.type === 'text');
  const seen = first.events.at(-1).seq;
  await until(() => stored(server.data, 'Before. '));
  const killed = chat.on(await restart(t, server, 'SIGKILL'));
  const second = await killed.follow({ last: seen });
  const news = await second.reaches('Failed');
  assert.deepEqual(news.map((event) => event.type), ['message', 'state'], 'the partial answer, and that it was interrupted');
  assert.ok(news[0].seq > seen);
  assert.deepEqual(script(await killed.state()), ['user: hi', 'assistant!: Before. ']);
  await killed.begin('retry', {});
  await (await model.asked()).answer('Again.');
  const more = await second.reaches('Idle');
  assert.equal(said(more), 'Again.');

  const stopped = chat.on(await restart(t, killed.server, 'SIGTERM'));
  assert.equal(await second.ended, true, 'a stop ends the stream in order');
  const third = await stopped.follow({ last: news[1].seq });
  assert.deepEqual(await third.reaches('Idle'), more, 'the same events with the same numbers');
  const all = await stopped.follow({ after: 0 });
  assert.deepEqual((await all.reaches('Idle')).at(-1), more.at(-1));
});

// Comes back behind a number, as often as it is cut off, until an event fits; each time it gets
// further.
async function comeBack(chat, last, fits) {
  const events = [];
  for (let from = last; ; from = events.at(-1).seq) {
    const stream = await chat.follow({ last: from });
    const before = events.length;
    for (let event = await stream.next(); event; event = await stream.next()) {
      events.push(event);
      if (fits(event)) {
        stream.close();
        return events;
      }
    }
    assert.ok(events.length > before, 'it got no further');
  }
}

test('a number that is not kept any more gets a gap, and then goes on', async (t) => {
  // The history outgrows the window; the model of this test shall not be asked for summaries.
  const { model, chat } = await withModel(t, { args: ['--summarizer', 'built-in'] });
  const stream = await chat.follow();
  for (let i = 0; i < 10; i++) {
    await chat.begin('send_message', { content: 'long' });
    const request = await model.asked();
    await request.answer(`${i} ${'knots '.repeat(30000)}`);
    await stream.reaches('Idle');
  }
  const [first] = stream.events;
  const last = stream.events.at(-1);
  const [gap, ...rest] = await comeBack(chat, first.seq, (event) => event.seq === last.seq);
  assert.equal(gap.type, 'gap');
  assert.ok(rest[0].seq > first.seq + 1);
  assert.deepEqual(rest, stream.events.slice(-rest.length), 'what is kept is whole');
  const oldest = await chat.follow({ after: 0 });
  assert.equal((await oldest.until((event) => event.type !== 'gap')).at(-1).seq, rest[0].seq);
});

test('a flood of words is kept whole', async (t) => {
  const { model, chat } = await withModel(t);
  await chat.begin('send_message', { content: 'much' });
  const request = await model.asked();
  const piece = 'knots '.repeat(50000);
  await Promise.all(Array.from({ length: 16 }, () => request.say(piece)));
  await request.end();
  const end = await chat.reach('Idle', 'Failed');
  assert.equal(end.state, 'Idle', JSON.stringify(end.state_detail));
  assert.equal(end.messages.at(-1).text, piece.repeat(16));
});

test('numbers that are none are refused, and one that was never given waits', async (t) => {
  const server = await serveTurns(t, { steps: [hello] });
  const chat = await Chat.create(server);
  for (const bad of ['x', '-1', '1.5', '9'.repeat(30)]) {
    await server.refuses(400, 'INVALID', /Last-Event-ID/, 'GET', `${chat.at}/events`, undefined, { 'last-event-id': bad });
    await server.refuses(400, 'INVALID', /after/, 'GET', `${chat.at}/events?after=${bad}`);
  }
});

// ---- clients ----

test('a slow client is dropped, holds nobody up, and comes back', async (t) => {
  const { model, server, chat } = await withModel(t, { args: ['--timeout', '1'] });
  const slow = net.connect({ port: server.port, host: '127.0.0.1' });
  slow.on('error', () => {});
  await new Promise((resolve) => slow.once('connect', resolve));
  slow.write(`GET ${chat.at}/events HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n\r\n`);
  await new Promise((resolve) => slow.once('readable', resolve)); // and it reads no more
  const quick = await chat.follow();
  const count = async () => Number(/^quipu_http_streams_open (\d+)$/m.exec((await server.ask('GET', '/metrics')).text)?.[1]);
  assert.equal(await count(), 2);
  await chat.begin('send_message', { content: 'long' });
  const request = await model.asked();
  // As much as the kernel lets wait, and then little by little until the server has had enough.
  const large = 'knots '.repeat(20000);
  let length = 0;
  for (let pieces = 0; (await count()) === 2; pieces++) {
    assert.ok(pieces < 1000, 'it is never dropped');
    const piece = pieces < 80 ? large : 'knot ';
    await request.say(piece);
    length += piece.length;
    await quick.until((event) => event.type === 'text');
    if (piece !== large) await sleep(20);
  }
  await request.end();
  await quick.reaches('Idle');
  assert.equal(said(quick.events).length, length, 'the other has heard all of it');
  let came = '';
  slow.setEncoding('latin1').on('data', (data) => (came += data));
  await new Promise((resolve) => slow.once('close', resolve));
  assert.doesNotMatch(came, /\r\n0\r\n\r\n$/, 'it was cut, not ended');
  const numbers = [...came.matchAll(/^id: (\d+)\r?$/gm)].map((found) => Number(found[1]));
  const newest = quick.events.at(-1);
  const rest = await comeBack(chat, numbers.at(-2) ?? 0, (event) => event.seq === newest.seq);
  assert.deepEqual(rest.at(-1), newest);
  const message = (await chat.state()).messages.at(-1);
  assert.equal(message.text.length, length);
});

test('streams that are left do not stay in the server', async (t) => {
  const { model, server, chat } = await withModel(t);
  const count = async () => Number(/^quipu_http_streams_open (\d+)$/m.exec((await server.ask('GET', '/metrics')).text)?.[1]);
  const streams = [];
  for (let i = 0; i < 20; i++) streams.push(await chat.follow());
  assert.equal(await count(), 20);
  for (const stream of streams.slice(1)) stream.close();
  // Who is gone is noticed when something is sent.
  await chat.begin('send_message', { content: 'hi' });
  const request = await model.asked();
  await until(async () => {
    await request.say('word ');
    return (await count()) === 1;
  });
  await request.end();
  await streams[0].reaches('Idle');
});

test('HEAD and other methods', async (t) => {
  const server = await serveTurns(t, { steps: [hello] });
  const chat = await Chat.create(server);
  const head = await server.ask('HEAD', `${chat.at}/events`);
  assert.equal(head.status, 200);
  assert.equal(head.headers.get('content-type'), 'text/event-stream');
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const answer = await server.ask(method, `${chat.at}/events`, method === 'DELETE' ? undefined : {});
    assert.equal(answer.status, 405);
    assert.equal(answer.headers.get('allow'), 'GET, HEAD, OPTIONS');
  }
  for (const action of ['send_message', 'cancel']) assert.equal((await server.ask('GET', `${chat.at}/actions/${action}`)).status, 405);
  assert.equal((await server.ask('POST', `${chat.at}/actions/nonsense`, {})).status, 404);
  assert.equal((await chat.state()).total, 0);
});

// ---- who may ----

test('keys: who only reads may follow and not act, and nobody sees what another owns', async (t) => {
  const data = path.join(tempDir(t), 'data');
  const key = (...args) => ({ authorization: `Bearer ${ok(data, ['key', 'create', ...args]).trim()}` });
  const alice = key('--owner', 'alice');
  const reader = key('--owner', 'alice', '--scope', 'read');
  const bob = key('--owner', 'bob', '--scope', 'admin');
  const server = await serveTurns(t, { data, steps: [hello] });
  const chat = await Chat.create(server, {}, { headers: alice });
  const stream = await chat.follow({ headers: reader });
  assert.equal(stream.status, 200);
  await chat.send('hello');
  assert.equal(said(await stream.reaches('Idle')), 'Hello to you.');
  stream.close();
  const body = { content: 'hello' };
  await chat.refuses(403, 'DENIED', /./, 'send_message', body, { headers: reader });
  await chat.refuses(404, 'NOTFOUND', /^Context not found$/, 'send_message', body, { headers: bob });
  await chat.refuses(401, 'UNAUTHORIZED', /./, 'send_message', body, { headers: { authorization: 'Bearer nonsense' } });
  assert.equal((await chat.follow({ headers: bob })).status, 404);
  assert.equal((await Stream.open(server, 'GET', `${chat.at}/events`, {})).status, 401);
  assert.equal((await Stream.open(server, 'POST', `${chat.at}/actions/send_message`, { body, headers: { accept: 'text/event-stream', ...reader } })).status, 403);
  assert.equal((await chat.state()).total, 2);
});

test('a stream ends when its key is revoked or changed, expires, or the context gets another owner', async (t) => {
  const data = path.join(tempDir(t), 'data');
  const make = (...args) => ok(data, ['key', 'create', ...args]).trim();
  const bearer = (key) => ({ authorization: `Bearer ${key}` });
  const idOf = (key) => key.slice(3, 11);
  const file = path.join(data, 'keys.json');
  const edit = (key, changes) => {
    const root = JSON.parse(fs.readFileSync(file, 'utf8'));
    Object.assign(root.keys.find((row) => row.id === idOf(key)), changes);
    fs.writeFileSync(`${file}.edited`, JSON.stringify(root));
    fs.renameSync(`${file}.edited`, file);
  };
  const keys = { admin: make('--scope', 'admin'), revoked: make('--owner', 'alice'), expired: make('--owner', 'alice', '--expires', '1h'), moved: make('--owner', 'alice'), kept: make('--owner', 'alice') };
  const model = await Model.start(t);
  const server = await serveTurns(t, { data, env: model.env });
  const chat = await Chat.create(server, { owner: 'alice' }, { headers: bearer(keys.admin) });
  const streams = {};
  for (const [name, key] of Object.entries(keys)) streams[name] = await chat.follow({ headers: bearer(key) });
  streams.action = await chat.stream('send_message', { content: 'hi' }, bearer(keys.revoked));
  const request = await model.asked();
  await request.say('one ');
  for (const stream of Object.values(streams)) await stream.until((event) => event.type === 'text');
  const cut = async (...names) => {
    for (const name of names) assert.equal(await soon(streams[name].ended, () => `${name} goes on`), false, `${name} is cut`);
  };
  ok(data, ['key', 'revoke', idOf(keys.revoked)]);
  await cut('revoked', 'action');
  edit(keys.expired, { expires_at: '2020-01-01T00:00:00.000Z' });
  await cut('expired');
  edit(keys.moved, { owner: 'bob' });
  await cut('moved');
  await request.say('two ');
  for (const name of ['kept', 'admin']) assert.equal((await streams[name].until((event) => event.type === 'text')).at(-1).text, 'two ', name);
  await server.expect(200, 'PATCH', chat.at, { owner: 'bob' }, bearer(keys.admin));
  await cut('kept');
  await request.say('three ');
  assert.equal((await streams.admin.until((event) => event.type === 'text')).at(-1).text, 'three ');
  await request.end();
  await streams.admin.reaches('Idle');
  fs.rmSync(file);
  await cut('admin');
  for (const name of ['revoked', 'action', 'expired', 'moved']) assert.equal(said(streams[name].events), 'one ', name);
  assert.equal(said(streams.kept.events), 'one two ');
});

test('a stream that needed no key ends when there are keys', async (t) => {
  const server = await serveTurns(t, { steps: [hello] });
  const chat = await Chat.create(server);
  const stream = await chat.follow();
  ok(server.data, ['key', 'create']);
  assert.equal(await soon(stream.ended, () => 'it goes on'), false, 'it is cut');
});

// ---- at last ----

test('a stream on which nothing happens gets a comment now and then', async () => {
  const { chat, stream } = await quiet;
  await until(() => stream.comments >= 2); // the first one came at once
  assert.deepEqual(stream.events, []);
  await chat.send('hello');
  assert.equal(said(await stream.reaches('Idle')), 'Hello to you.');
});
