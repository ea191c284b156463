// Actions: states that do not allow them, their keys, how they are answered, limits, a disk that is
// full, and a context that goes in the middle.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { ok } from './helper.mjs';
import { goOn, hold, holds } from './hold.mjs';
import { Model } from './model.mjs';
import { Chat, makeWorkspace, restart, said, script, serveTurns, states, until } from './turns.mjs';

// ---- states that do not allow it ----

const notAllowed = {
  AwaitingLLMResponse: ['send_message', 'retry', 'regenerate', 'edit_message', 'switch_branch'],
  StreamingLLMResponse: ['send_message', 'retry', 'regenerate', 'edit_message', 'switch_branch'],
  AwaitingToolApproval: ['send_message', 'retry', 'regenerate', 'edit_message', 'switch_branch'],
  ExecutingTools: ['send_message', 'retry', 'regenerate', 'edit_message', 'switch_branch'],
  GeneratingResponse: ['send_message', 'retry', 'regenerate', 'edit_message', 'switch_branch'],
  TransientFailure: ['send_message', 'regenerate', 'edit_message', 'switch_branch'],
};

for (const [state, actions] of Object.entries(notAllowed))
  test(`actions that ${state} does not allow are 409 with the state, and change nothing`, async (t) => {
    const held = await hold(t, state);
    const { chat } = held;
    const before = await chat.reach(state);
    const bodies = { send_message: { content: 'x' }, edit_message: { message_id: held.sent.message_id, content: 'x' }, switch_branch: { branch: 'main' } };
    for (const action of actions) await chat.refuses(409, 'CONFLICT', new RegExp(state), action, bodies[action] ?? {}, { state });
    if (state !== 'AwaitingToolApproval') await chat.refuses(400, 'INVALID', /^No pending tool approvals$/, 'approve_tools', { approved: ['call_w'] });
    assert.deepEqual(await chat.state(), before);
  });

// ---- keys of actions ----

test('an action with a key is done once, after a restart too', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server);
  const key = { 'idempotency-key': 'the-first' };
  const turn = chat.send('hi', key);
  const request = await model.asked();
  const twin = chat.send('hi', key); // while it goes on
  await request.answer('Hello.');
  const [first, second] = await Promise.all([turn, twin]);
  assert.deepEqual([first.replayed, second.replayed], [false, true]);
  assert.equal(second.message_id, first.message_id);
  assert.deepEqual(second.messages, first.messages);
  const third = await chat.send('hi', key);
  assert.deepEqual([third.replayed, third.message_id, third.total], [true, first.message_id, 2]);
  const late = await chat.act('send_message', { content: 'hi' }, { ...key, prefer: 'respond-async' });
  assert.deepEqual([late.status, late.body.message_id, late.body.replayed], [202, first.message_id, true]);
  await chat.refuses(409, 'CONFLICT', /the-first.*another action/, 'send_message', { content: 'something else' }, { headers: key, state: 'Idle' });
  await chat.refuses(409, 'CONFLICT', /another action/, 'retry', {}, { headers: key, state: 'Idle' });

  const again = chat.on(await restart(t, server, 'SIGKILL'));
  const after = await again.send('hi', key);
  assert.deepEqual([after.replayed, after.message_id, after.total], [true, first.message_id, 2]);
  await again.refuses(409, 'CONFLICT', /another action/, 'send_message', { content: 'something else' }, { headers: key, state: 'Idle' });
  const fresh = again.send('hi', { 'idempotency-key': 'the-second' });
  await (await model.asked()).answer('Hello again.');
  assert.equal((await fresh).total, 4);
  for (const bad of ['', 'x'.repeat(256), 'ümlaut']) await again.refuses(400, 'INVALID', /an idempotency key has 1 to 255 printable ASCII characters/, 'cancel', {}, { headers: { 'idempotency-key': Buffer.from(bad, 'utf8').toString('latin1') } });
});

test('the message of a turn that a kill has cut is there once when it is sent again', async (t) => {
  const key = { 'idempotency-key': 'k' };
  const held = await hold(t, 'AwaitingLLMResponse', key);
  const chat = held.chat.on(await restart(t, held.server, 'SIGKILL'));
  const replayed = await chat.send('hi', key);
  assert.deepEqual([replayed.replayed, replayed.message_id, replayed.state, replayed.total], [true, held.sent.message_id, 'Failed', 1]);
  await goOn({ ...held, chat }, 'retry');
});

test('a stream that is asked for again with its key', async (t) => {
  const server = await serveTurns(t, { steps: [{ match: 'hi', play: [{ text: 'Hello to you.' }] }] });
  const chat = await Chat.create(server);
  const key = { 'idempotency-key': 'k' };
  assert.equal(said(await (await chat.stream('send_message', { content: 'hi' }, key)).all()), 'Hello to you.');
  const again = await chat.stream('send_message', { content: 'hi' }, key);
  assert.equal(again.status, 200);
  await again.all(); // it ends, because the context rests
  assert.equal((await chat.state()).total, 2);
});

// ---- answers ----

test('Prefer: respond-async answers when the message is durable', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server);
  const sent = await chat.begin('send_message', { content: 'hi' });
  const request = await model.asked();
  assert.equal(sent.messages[0].id, sent.message_id);
  assert.deepEqual(script(sent), ['user: hi']);
  const stream = await chat.follow({ after: sent.seq });
  await request.answer('Hello.');
  const events = await stream.reaches('Idle');
  assert.equal(said(events), 'Hello.');
  const plain = chat.act('send_message', { content: 'again' }, { prefer: 'wait=10' });
  await (await model.asked()).answer('Hello.');
  const answer = await plain;
  assert.deepEqual([answer.status, answer.headers.get('preference-applied')], [200, null]);
});

test('Accept: text/event-stream streams the turn until it rests', async (t) => {
  const space = makeWorkspace(t);
  const write = { call: 'write_file', arguments: { path: 'made.txt', content: 'x' }, id: 'call_w' };
  const server = await serveTurns(t, {
    work: space.work,
    steps: [
      { match: 'write', after_tool: 'write_file', play: [{ text: 'Written.' }] },
      { match: 'write', play: [{ thinking: 'Hm.' }, { text: 'I will.' }, write] },
      { match: 'fail', play: [{ error: { status: 400, type: 'invalid_request_error', message: 'no' } }] },
    ],
  });
  const chat = await Chat.create(server);
  const first = await (await chat.stream('send_message', { content: 'write' })).all();
  assert.deepEqual(states(first), ['ProcessingUserMessage', 'AwaitingLLMResponse', 'StreamingLLMResponse', 'ProcessingLLMResponse', 'AwaitingToolApproval']);
  assert.equal(first[0].type, 'message', 'the first event is that of the message');
  assert.equal(said(first), 'I will.');
  assert.equal(first.filter((event) => event.type === 'thinking').map((event) => event.text).join(''), 'Hm.');
  assert.deepEqual(first.at(-1).detail.pending.map(({ preview, ...call }) => call), [{ id: 'call_w', tool_name: 'write_file', kind: 'approval' }]);
  const second = await (await chat.stream('approve_tools', { approved: ['call_w'] })).all();
  assert.equal(states(second)[0], 'ExecutingTools');
  assert.equal(states(second).at(-1), 'Idle');
  assert.equal(said(second), 'Written.');
  const third = await (await chat.stream('send_message', { content: 'fail' })).all();
  assert.equal(states(third).at(-1), 'Failed');
  assert.equal(third.at(-1).detail.error.kind, 'request');
  const refused = await chat.stream('approve_tools', { approved: ['call_w'] });
  assert.deepEqual([refused.status, refused.body.error.message], [400, 'No pending tool approvals']);
  const log = await chat.follow({ after: 0 });
  const all = await log.reaches('Failed');
  assert.deepEqual(all, [...first, ...second, ...third], 'the streams together are the log');
});

// ---- limits ----

const endless = [{ match: '*', times: 1000, play: [{ call: 'read_file', arguments: { path: 'notes.txt' } }, { usage: { input: 100, output: 10 } }] }];
const limits = [
  ['--max-rounds', '3', /the limit of rounds of a turn is reached/],
  ['--max-calls', '2', /the limit of tool calls in a turn is reached/],
  ['--turn-tokens', '300', /the limit of tokens of a turn is reached/],
  ['--context-tokens', '200', /the limit of tokens of the context is reached/],
];

for (const [flag, value, sentence] of limits)
  test(`a turn that reaches ${flag} is Failed with a sentence`, async (t) => {
    const server = await serveTurns(t, { work: makeWorkspace(t).work, steps: endless, args: [flag, value] });
    const chat = await Chat.create(server);
    const body = await chat.send('go');
    assert.equal(body.state, 'Failed');
    assert.equal(body.state_detail.error.kind, 'limit');
    assert.match(body.state_detail.error.message, sentence);
    const lines = script(body);
    assert.equal(lines.filter((line) => line.startsWith('call ')).length, lines.filter((line) => line.startsWith('tool')).length);
    const next = await chat.send('go on');
    assert.equal(next.state, 'Failed', 'the next turn has its own count');
    assert.match(next.state_detail.error.message, sentence);
  });

// ---- a full disk ----

function mountSmall(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-small-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'quipu-test', dir], { encoding: 'utf8' });
  const there = !mounted.error && mounted.status === 0;
  t.after(() => {
    if (there) spawnSync('umount', ['-l', dir]);
    fs.rmdirSync(dir);
  });
  return there ? dir : undefined;
}

function fill(dir) {
  const fd = fs.openSync(path.join(dir, 'filler'), 'a');
  for (let piece = Buffer.alloc(1 << 20, 'x'); piece.length > 0; )
    try {
      fs.writeSync(fd, piece);
    } catch (error) {
      assert.equal(error.code, 'ENOSPC');
      piece = piece.subarray(0, Math.floor(piece.length / 2));
    }
  fs.closeSync(fd);
}

const full = /no space left|accepts no writes/i;

// Acts until it goes well; the model is asked then, and only then.
async function whenThereIsRoom(model, act) {
  const asked = model.asked();
  let answer;
  await until(async () => {
    const turn = act();
    const first = await Promise.race([turn, asked]);
    if (first.status === undefined) await first.answer('Hello.');
    answer = await turn;
    return answer.status === 200;
  }, () => answer?.text);
  return answer;
}

test('Scenario: Persistence failure handling (a message that cannot be saved)', async (t) => {
  const dir = mountSmall(t);
  if (!dir) return t.skip('a tmpfs cannot be mounted here');
  const model = await Model.start(t);
  const server = await serveTurns(t, { data: path.join(dir, 'data'), env: model.env });
  const chat = await Chat.create(server);
  fill(dir);
  const answer = await chat.act('send_message', { content: 'lost' });
  assert.equal(answer.status, 500, answer.text);
  assert.match(answer.body.error.message, full);
  const failed = await chat.state();
  assert.equal(failed.state, 'Failed');
  assert.match(failed.state_detail.error.message, full);
  assert.deepEqual(failed.messages, []);
  const logged = (await server.process.logged(/saving failed.*\n/)).split('\n').filter((line) => line.includes('saving failed'));
  assert.ok(logged.some((line) => line.includes(chat.id) && line.includes('Idle')), server.process.stderr);
  assert.equal(model.line.come.length, 0, 'the model was not asked');

  fs.rmSync(path.join(dir, 'filler'));
  const { body } = await whenThereIsRoom(model, () => chat.act('send_message', { content: 'kept' }));
  assert.equal(body.state, 'Idle');
  assert.deepEqual(script(body).slice(-2), ['user: kept', 'assistant: Hello.']);
  await server.stop('SIGKILL');
  ok(server.data, ['check']);
});

test('Scenario: Persistence failure handling (in the middle of a turn)', async (t) => {
  const dir = mountSmall(t);
  if (!dir) return t.skip('a tmpfs cannot be mounted here');
  const model = await Model.start(t);
  const server = await serveTurns(t, { data: path.join(dir, 'data'), env: model.env });
  const chat = await Chat.create(server);
  const turn = chat.act('send_message', { content: 'hi' });
  const request = await model.asked();
  fill(dir);
  await request.say('x'.repeat(100000));
  await request.end();
  const answer = await turn;
  assert.equal(answer.status, 500, answer.text);
  assert.match(answer.body.error.message, full);
  const failed = await chat.state();
  assert.equal(failed.state, 'Failed');
  assert.equal(failed.messages[0].text, 'hi');
  fs.rmSync(path.join(dir, 'filler'));
  const again = await whenThereIsRoom(model, () => chat.act('retry', {}));
  assert.equal(again.body.state, 'Idle');
  assert.equal(script(again.body).at(-1), 'assistant: Hello.');
  const restarted = chat.on(await restart(t, server, 'SIGKILL'));
  assert.equal(script(await restarted.state()).at(-1), 'assistant: Hello.');
});

// ---- a context that goes ----

for (const state of Object.keys(holds))
  test(`a context is deleted in ${state}`, async (t) => {
    const held = await hold(t, state);
    const { chat, server, stream } = held;
    await server.expect(204, 'DELETE', chat.at);
    await stream.ended;
    if (held.request) await held.request.closed;
    await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', `${chat.at}/state`);
    await chat.refuses(404, 'NOTFOUND', /^Context not found$/, 'send_message', { content: 'x' });
    const other = await Chat.create(server);
    await goOn({ ...held, chat: other }, 'send_message', { content: 'there?' });
    ok((await server.stop(), server.data), ['check']);
  });

test('who waits for a turn is told when its context is deleted', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server);
  const turn = chat.act('send_message', { content: 'hi' });
  await model.asked();
  await server.expect(204, 'DELETE', chat.at);
  const answer = await turn;
  assert.ok(answer.status >= 404, answer.text);
});
