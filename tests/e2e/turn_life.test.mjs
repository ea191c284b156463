// The life of a turn: kill -9, cancelling, stopping and a client that goes away, in every state.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { ok } from './helper.mjs';
import { goOn, hold, holds, runs } from './hold.mjs';
import { Model } from './model.mjs';
import { Chat, makeWorkspace, restart, script, serveTurns, stored, until } from './turns.mjs';

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
    await chat.reach(state); // that an answer streams is told before it is stored
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

test('turns.open tells whether turns may be in the middle, whoever writes in between', async (t) => {
  const slow = { play: [{ text: 'One. ' }, { delay_ms: 60_000 }, { text: 'Two.' }] };
  const first = await serveTurns(t, { steps: [slow] });
  const marked = () => fs.existsSync(`${first.data}/turns.open`);
  assert.ok(marked());
  const second = await restart(t, first, 'SIGTERM', { steps: [slow] });
  const chat = await Chat.create(second);
  await chat.begin('send_message', { content: 'count' });
  await chat.reach('StreamingLLMResponse');
  await until(() => stored(second.data, 'One. '));
  await second.stop('SIGKILL');
  ok(first.data, ['new', '--title', 'in between']);
  assert.ok(marked(), 'another writer leaves it');
  ok(first.data, ['check']);
  const third = await serveTurns(t, { ...second.settings, steps: [] });
  const state = await chat.on(third).state();
  assert.equal(state.state, 'Failed', 'it was brought to an end before the server answered');
  assert.deepEqual(script(state), ['user: count', 'assistant!: One. ']);
  await third.stop('SIGTERM');
  assert.ok(!marked(), 'every turn rests');
});

// Before turns.open, quipu.lock had the mark; a power cut could leave it empty.
const lockLines = {
  'an older version marked': '{"format":"quipu-store","version":1,"pid":4711,"url":"http://127.0.0.1:1","turns":true}\n',
  'is empty': '',
  'is cut off': '{"format":"quipu-sto',
};
for (const [what, line] of Object.entries(lockLines))
  test(`a turn in the middle is brought to an end when quipu.lock ${what}`, async (t) => {
    const slow = { play: [{ text: 'One. ' }, { delay_ms: 60_000 }, { text: 'Two.' }] };
    const first = await serveTurns(t, { steps: [slow] });
    const chat = await Chat.create(first);
    await chat.begin('send_message', { content: 'count' });
    await chat.reach('StreamingLLMResponse');
    await until(() => stored(first.data, 'One. '));
    await first.stop('SIGKILL');
    fs.rmSync(`${first.data}/turns.open`);
    fs.writeFileSync(`${first.data}/quipu.lock`, line);
    ok(first.data, ['new', '--title', 'in between']);
    const next = await serveTurns(t, { ...first.settings, steps: [] });
    assert.equal((await chat.on(next).state()).state, 'Failed');
    await next.stop('SIGTERM');
  });
