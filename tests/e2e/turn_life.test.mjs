// The life of a turn: kill -9, cancelling, stopping and a client that goes away in every state;
// keys of actions; states that do not allow an action; limits; a full disk; a context that goes.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { ok } from './helper.mjs';
import { Model } from './model.mjs';
import { Chat, Stream, makeWorkspace, restart, said, script, serveTurns, states, stored, until } from './turns.mjs';

// A tool that leaves a mark, and then waits for a file. Its runs can be counted.
const slow = { command: 'echo run >> ran; while [ ! -e go ]; do sleep 0.02; done; echo gone', timeout: 600 };
const runs = (space) => (fs.existsSync(space.file('ran')) ? space.read('ran').split('\n').length - 1 : 0);

// How a context comes to each state and stays there; `request` is the model's present one.
const holds = {
  AwaitingLLMResponse: async ({ model }) => model.asked(),
  StreamingLLMResponse: async ({ model }) => {
    const request = await model.asked();
    await request.say('Knots are');
    return request;
  },
  AwaitingToolApproval: async ({ model }) => {
    const request = await model.asked();
    await request.say('May I?');
    await request.call('write_file', { path: 'made.txt', content: 'a knot' }, 'call_w');
    await request.end();
  },
  ExecutingTools: async ({ model, space }) => {
    const request = await model.asked();
    await request.call('run_command', slow, 'call_c');
    await request.end();
    await until(() => runs(space) === 1);
  },
  GeneratingResponse: async ({ model }) => {
    const request = await model.asked();
    await request.call('read_file', { path: 'notes.txt' }, 'call_r');
    await request.end();
    return model.asked();
  },
  TransientFailure: async ({ model }) => {
    const request = await model.asked();
    request.fail(529, 'overloaded_error', 'busy', { 'retry-after': '3600' });
  },
};

// A server with a workspace, a model in hand, and a context that is held in a state.
async function hold(t, state, headers) {
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const server = await serveTurns(t, { work: space.work, env: model.env, rules: ['auto run_command'] });
  const chat = await Chat.create(server);
  const stream = await chat.follow({ after: 0 });
  const sent = await chat.begin('send_message', { content: 'hi' }, headers);
  const at = { t, space, model, server, chat, stream, sent };
  const [request] = await Promise.all([holds[state](at), stream.reaches(state)]);
  if (state === 'StreamingLLMResponse') await stream.until((event) => event.type === 'text');
  return { ...at, request };
}

// Goes on until the context is Idle; the model says this.
async function goOn({ chat, model, space }, action, body, text = 'Here I am.') {
  const stream = await chat.follow();
  const turn = chat.does(action, body);
  fs.writeFileSync(space.file('go'), '');
  await (await model.asked()).answer(text);
  const after = await turn;
  assert.equal(after.state, 'Idle');
  assert.equal(script(after).at(-1), `assistant: ${text}`);
  stream.close();
  return after;
}

// ---- kill -9 ----

// What is there after a kill in each state, beside "user: hi"; and how one goes on.
const afterKill = {
  AwaitingLLMResponse: { state: 'Failed', lines: [], action: 'retry' },
  StreamingLLMResponse: { state: 'Failed', lines: [/^assistant!: Knots are$/], action: 'send_message', body: { content: 'go on' } },
  AwaitingToolApproval: { state: 'AwaitingToolApproval', lines: [/^assistant: May I\?$/, /^call call_w write_file /], action: 'approve_tools', body: { approved: ['call_w'] } },
  ExecutingTools: { state: 'Failed', lines: [/^call call_c /, /^tool! call_c: .*interrupted.*may have run/], action: 'retry' },
  GeneratingResponse: { state: 'Failed', lines: [/^call call_r /, /^tool call_r: one knot/], action: 'retry' },
  TransientFailure: { state: 'Failed', lines: [], action: 'retry' },
};

for (const [state, expected] of Object.entries(afterKill))
  test(`kill -9 in ${state}, restart, go on`, async (t) => {
    const held = await hold(t, state);
    await held.chat.reach(state);
    // What was streamed is durable a moment after it was told.
    if (state === 'StreamingLLMResponse') await until(() => stored(held.server.data, 'Knots are'));
    const server = await restart(t, held.server, 'SIGKILL');
    const chat = held.chat.on(server);
    const left = await chat.state();
    assert.equal(left.state, expected.state);
    if (expected.state === 'Failed') {
      assert.equal(left.state_detail.error.kind, 'interrupted');
      assert.match(left.state_detail.error.message, new RegExp(state));
    } else {
      assert.deepEqual(left.pending_tool_calls.map((call) => call.id), ['call_w']);
    }
    const lines = script(left);
    assert.equal(lines[0], 'user: hi');
    assert.equal(lines.length, expected.lines.length + 1, lines.join('\n'));
    expected.lines.forEach((line, i) => assert.match(lines[i + 1], line));
    await goOn({ ...held, chat }, expected.action, expected.body);
    assert.ok(runs(held.space) <= 1, 'no tool was run again by itself');
    if (state === 'AwaitingToolApproval') assert.equal(held.space.read('made.txt'), 'a knot');
    assert.equal((await server.stop()).status, 0);
    ok(server.data, ['check']);
  });

// States that pass by themselves: it dies when it has told them, in that state or the next.
for (const state of ['ProcessingUserMessage', 'ProcessingLLMResponse', 'ProcessingToolResults'])
  test(`kill -9 in ${state} or right behind it, restart, go on`, async (t) => {
    const space = makeWorkspace(t);
    const model = await Model.start(t);
    const server = await serveTurns(t, { work: space.work, env: model.env });
    const chat = await Chat.create(server);
    const stream = await chat.follow({ after: 0 });
    stream.onEvent = (event) => event.type === 'state' && event.state === state && server.process.child.kill('SIGKILL');
    chat.begin('send_message', { content: 'hi' }).catch(() => {});
    if (state !== 'ProcessingUserMessage') {
      const request = await model.asked();
      await request.call('read_file', { path: 'notes.txt' }, 'call_r');
      await request.end();
    }
    await server.process.ended;
    const again = chat.on(await restart(t, server, 'SIGKILL'));
    const left = await again.state();
    assert.equal(left.state, 'Failed');
    assert.equal(left.state_detail.error.kind, 'interrupted');
    const lines = script(left);
    assert.equal(lines[0], 'user: hi');
    const calls = lines.filter((line) => line.startsWith('call ')).length;
    assert.equal(lines.filter((line) => line.startsWith('tool')).length, calls, 'each call has its result');
    for (; model.line.come.length > 0; ) (await model.asked()).cut(); // of the server that is gone
    await goOn({ chat: again, model, space }, 'retry');
    ok((await again.server.stop(), server.data), ['check']);
  });

// ---- cancel ----

const afterCancel = {
  AwaitingLLMResponse: [],
  StreamingLLMResponse: [/^assistant!: Knots are$/],
  AwaitingToolApproval: [/^assistant: May I\?$/, /^call call_w /, /^tool! call_w: .*cancelled/],
  ExecutingTools: [/^call call_c /, /^tool! call_c: .*cancelled/],
  GeneratingResponse: [/^call call_r /, /^tool call_r: one knot/],
  TransientFailure: [],
};

for (const [state, lines] of Object.entries(afterCancel))
  test(`cancel in ${state}`, async (t) => {
    const held = await hold(t, state);
    const body = await held.chat.does('cancel', state === 'ExecutingTools' ? {} : undefined);
    assert.equal(body.state, 'Idle');
    const got = script(body);
    assert.equal(got.length, lines.length + 1, got.join('\n'));
    lines.forEach((line, i) => assert.match(got[i + 1], line));
    if (held.request) await held.request.closed; // the model is not listened to any more
    await held.stream.reaches('Idle');
    await held.chat.refuses(409, 'CONFLICT', /cancel is not possible while the context is Idle/, 'cancel', {}, { state: 'Idle' });
    await goOn(held, 'send_message', { content: 'again' });
    assert.ok(!fs.existsSync(held.space.file('made.txt')));
  });

test('cancel of a context that has failed makes it Idle', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ error: { status: 400, type: 'invalid_request_error', message: 'no' } }] }] });
  const chat = await Chat.create(server);
  assert.equal((await chat.send('hi')).state, 'Failed');
  const body = await chat.does('cancel');
  assert.equal(body.state, 'Idle');
  assert.equal(body.state_detail, undefined);
});

// ---- clients that go away, and the server that stops ----

for (const state of Object.keys(holds))
  test(`a client that goes away in ${state} changes nothing`, async (t) => {
    const space = makeWorkspace(t);
    const model = await Model.start(t);
    const server = await serveTurns(t, { work: space.work, env: model.env, rules: ['auto run_command'] });
    const chat = await Chat.create(server);
    const watch = await chat.follow({ after: 0 });
    const other = await chat.follow({ after: 0 });
    const streamed = state !== 'TransientFailure' && Object.keys(holds).indexOf(state) % 2 === 1;
    const gone = new AbortController();
    let stream;
    let waiting;
    if (streamed) stream = await chat.stream('send_message', { content: 'hi' });
    else waiting = fetch(`${server.url}${chat.at}/actions/send_message`, { method: 'POST', body: '{"content":"hi"}', headers: { 'content-type': 'application/json' }, signal: gone.signal }).catch((error) => error.name);
    const [request] = await Promise.all([holds[state]({ model, space }), watch.reaches(state)]);
    if (streamed) stream.close();
    gone.abort();
    if (waiting && state !== 'AwaitingToolApproval') assert.equal(await waiting, 'AbortError');
    other.close();
    // It has noticed when it has answered somebody else over a connection of its own.
    await server.expect(200, 'GET', '/healthz');
    assert.equal((await chat.state()).state, state);
    if (state === 'ExecutingTools' || state === 'AwaitingToolApproval') {
      const body = { approved: ['call_w'] };
      if (state === 'AwaitingToolApproval') await chat.begin('approve_tools', body);
      fs.writeFileSync(space.file('go'), '');
      await (await model.asked()).answer('Done.');
    } else if (state === 'TransientFailure') {
      await chat.begin('retry', {});
      await (await model.asked()).answer('Done.');
    } else {
      await request.answer(' done.');
    }
    await watch.reaches('Idle');
    const end = await chat.state();
    assert.equal(end.state, 'Idle');
    assert.match(script(end).at(-1), /^assistant: .*done\.$/i);
    assert.ok(runs(space) <= 1);
  });

for (const state of Object.keys(holds))
  test(`SIGTERM in ${state}: it ends at once, and one can go on`, async (t) => {
    const held = await hold(t, state);
    const waiting = held.chat.act('retry', {}).catch(() => undefined); // refused, or taken along
    const { status, stderr } = await held.server.stop('SIGTERM');
    assert.equal(status, 0, stderr.slice(-2000));
    await waiting;
    await held.stream.ended;
    const server = await restart(t, held.server, 'SIGTERM');
    const chat = held.chat.on(server);
    const left = await chat.state();
    const { state: wanted, lines, action, body } = afterKill[state];
    if (state === 'TransientFailure') return; // the retry above may have begun another try
    assert.equal(left.state, wanted);
    const got = script(left);
    assert.equal(got.length, lines.length + 1, got.join('\n'));
    lines.forEach((line, i) => assert.match(got[i + 1], line));
    await goOn({ ...held, chat }, action, body);
    assert.ok(runs(held.space) <= 1);
  });

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
  for (const bad of ['', 'x'.repeat(256), 'ümlaut']) await again.refuses(400, 'INVALID', /a key has 1 to 255 printable characters/, 'cancel', {}, { headers: { 'idempotency-key': Buffer.from(bad, 'utf8').toString('latin1') } });
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
  assert.deepEqual(first.at(-1).detail.pending, [{ id: 'call_w', tool_name: 'write_file' }]);
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

const full = /no space left|takes no writes/i;

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
  const logged = server.process.stderr.split('\n').filter((line) => line.includes('saving failed'));
  assert.ok(logged.some((line) => line.includes(chat.id) && line.includes('Idle')), server.process.stderr);
  assert.equal(model.line.come.length, 0, 'the model was not asked');

  fs.rmSync(path.join(dir, 'filler'));
  let turn;
  await until(async () => {
    turn = chat.act('send_message', { content: 'kept' });
    const first = await Promise.race([turn, model.asked()]);
    if (first.status === undefined) await first.answer('Hello.');
    return (await turn).status === 200;
  });
  const body = (await turn).body;
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
  let again;
  await until(async () => {
    const retry = chat.act('retry', {});
    const first = await Promise.race([retry, model.asked()]);
    if (first.status === undefined) await first.answer('Hello.');
    again = await retry;
    return again.status === 200;
  });
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
