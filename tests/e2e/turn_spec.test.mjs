// Turns as the specs tell them: every scenario of spec 003 that sends, approves or polls, and the
// tools of spec 004, through the server with the demo model. The other actions are here too.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { uuid } from './helper.mjs';
import { Model } from './model.mjs';
import { Chat, makeWorkspace, restart, script, serveTurns, states, until } from './turns.mjs';

const hello = { match: '*hello*', play: [{ text: 'Hello to you.' }] };
const write = { call: 'write_file', arguments: { path: 'made.txt', content: 'a knot' }, id: 'call_w' };
const read = { call: 'read_file', arguments: { path: 'notes.txt' }, id: 'call_r' };

// Asks before it writes, and says so when it has.
const writing = [
  { match: '*write*', after_tool: 'write_file', play: [{ text: 'It is written.' }] },
  { match: '*write*', play: [{ text: 'I will write.' }, write] },
];

for (const prefix of ['/api', '/v1']) {
  const scenario = (name, options, run) =>
    test(`Scenario: ${name} (${prefix})`, async (t) => {
      const space = options.work ? makeWorkspace(t) : undefined;
      const server = await serveTurns(t, { ...options, work: space?.work });
      await run(await Chat.create(server, {}, { prefix }), { t, server, space });
    });

  scenario('User message persisted automatically', { steps: [hello] }, async (chat, { t, server }) => {
    const body = await chat.send('hello there');
    assert.match(body.message_id, uuid);
    const message = body.messages.find((one) => one.id === body.message_id);
    assert.deepEqual([message.role, message.text], ['user', 'hello there']);
    const again = chat.on(await restart(t, server, 'SIGKILL'));
    assert.deepEqual((await again.state()).messages, body.messages);
  });

  scenario('Assistant message persisted during streaming', { steps: [hello] }, async (chat, { t, server }) => {
    const stream = await chat.stream('send_message', { content: 'hello' });
    const events = await stream.all();
    assert.ok(events.filter((event) => event.type === 'text').length > 1, 'it came in pieces');
    const state = await chat.state();
    assert.deepEqual(script(state), ['user: hello', 'assistant: Hello to you.']);
    assert.equal(state.messages[1].id, events.findLast((event) => event.type === 'message').id);
    const again = chat.on(await restart(t, server, 'SIGKILL'));
    assert.deepEqual((await again.state()).messages, state.messages);
  });

  scenario('Tool call results persisted automatically', { steps: writing, work: true }, async (chat, { t, server, space }) => {
    assert.equal((await chat.send('write it')).state, 'AwaitingToolApproval');
    const body = await chat.does('approve_tools', { approved: ['call_w'] });
    assert.equal(body.state, 'Idle', 'the model went on by itself');
    assert.equal(space.read('made.txt'), 'a knot');
    assert.deepEqual(script(body).slice(0, 3), ['user: write it', 'assistant: I will write.', `call call_w write_file ${JSON.stringify(write.arguments)}`]);
    assert.match(script(body)[3], /^tool call_w: .*made\.txt/);
    assert.equal(script(body)[4], 'assistant: It is written.');
    const again = chat.on(await restart(t, server, 'SIGKILL'));
    assert.deepEqual((await again.state()).messages, body.messages);
  });

  scenario('Send message action', { steps: [{ match: '*read*', after_tool: 'read_file', play: [{ text: 'Two lines.' }] }, { match: '*read*', play: [read] }], work: true }, async (chat) => {
    const answer = await chat.act('send_message', { content: 'read it' });
    assert.equal(answer.status, 200);
    const { body } = answer;
    assert.equal(body.id, chat.id);
    assert.equal(body.state, 'Idle');
    assert.equal(body.branch, 'main');
    assert.equal(body.total, 4);
    assert.equal(body.replayed, false);
    assert.deepEqual(body.pending_tool_calls, []);
    assert.deepEqual(script(body), ['user: read it', 'call call_r read_file {"path":"notes.txt"}', 'tool call_r: one knot\ntwo knots\n', 'assistant: Two lines.']);
    const { message_id, seq, replayed, ...state } = body;
    assert.equal(message_id, body.messages[0].id);
    assert.ok(Number.isInteger(seq) && seq > 0);
    assert.deepEqual(state, await chat.state(), 'the body is that of a poll');
    const newest = await chat.does('send_message', { content: 'and read it again' }, {}, '?last=1');
    assert.equal(newest.messages.length, 1);
    assert.equal(newest.total, 8);
  });

  scenario('Approve tools action', { steps: writing, work: true }, async (chat, { space }) => {
    const waiting = await chat.send('write it');
    assert.equal(waiting.state, 'AwaitingToolApproval');
    assert.deepEqual(waiting.pending_tool_calls.map((call) => [call.id, call.tool_name, call.arguments, call.approval_status]), [['call_w', 'write_file', write.arguments, 'Pending']]);
    assert.ok(!fs.existsSync(space.file('made.txt')));
    const body = await chat.does('approve_tools', { approved: ['call_w'] });
    assert.equal(body.state, 'Idle');
    assert.deepEqual(body.pending_tool_calls, []);
    assert.equal(space.read('made.txt'), 'a knot');
    const { approval_status, decided_by } = body.messages.find((message) => message.tool_result).metadata;
    assert.deepEqual([approval_status, decided_by], ['Approved', 'person']);
    assert.deepEqual(await chat.state(), (({ message_id, seq, replayed, ...state }) => state)(body));
  });

  scenario('Invalid action on wrong state', { steps: [hello] }, async (chat, { server }) => {
    await chat.send('hello');
    const before = await server.ask('GET', `${chat.at}/state`);
    await chat.refuses(400, 'INVALID', /^No pending tool approvals$/, 'approve_tools', { approved: ['call_w'] });
    await server.refuses(400, 'INVALID', /^No pending tool approvals$/, 'POST', `${chat.at}/tools/approve`, { approved: ['call_w'] });
    const after = await server.ask('GET', `${chat.at}/state`);
    assert.equal(after.text, before.text);
    assert.equal(after.headers.get('etag'), before.headers.get('etag'));
  });

  test(`Scenario: Poll for state updates (${prefix})`, async (t) => {
    const model = await Model.start(t);
    const server = await serveTurns(t, { env: model.env, work: makeWorkspace(t).work });
    const other = await Chat.create(server, {}, { prefix });
    const { updated_at } = await other.state();
    await until(() => Date.now() > Date.parse(updated_at)); // another millisecond
    const sent = await other.begin('send_message', { content: 'hi' });
    const request = await model.asked();
    const asked = await other.reach('AwaitingLLMResponse');
    assert.equal(asked.state, 'AwaitingLLMResponse');
    assert.deepEqual(script(asked), ['user: hi']);
    assert.equal(asked.messages[0].id, sent.message_id);
    assert.ok(asked.updated_at > updated_at);
    await request.call('delete_file', { path: 'notes.txt' });
    await request.end();
    const waiting = await other.reach('AwaitingToolApproval');
    assert.equal(waiting.state, 'AwaitingToolApproval');
    assert.deepEqual(waiting.pending_tool_calls.map((call) => call.tool_name), ['delete_file']);
    assert.ok(waiting.updated_at >= asked.updated_at);
  });

  scenario('Poll non-existent context', {}, async (chat, { server }) => {
    for (const id of ['0192f000-1234-7abc-8def-0123456789ab', 'invalid-id']) {
      const nowhere = new Chat(server, id, { prefix });
      for (const [action, body] of [['send_message', { content: 'x' }], ['approve_tools', { approved: [] }], ['cancel', {}], ['retry', {}], ['regenerate', {}], ['edit_message', { message_id: '0192f000-1234-7abc-8def-0123456789ab', content: 'x' }], ['switch_branch', { branch: 'main' }]])
        await nowhere.refuses(404, 'NOTFOUND', /^Context not found$/, action, body);
      await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'POST', `${nowhere.at}/tools/approve`, { approved: [] });
      await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'GET', `${nowhere.at}/events`);
    }
  });

  scenario('Poll with If-None-Match (efficient polling)', { steps: [hello] }, async (chat, { server }) => {
    await chat.send('hello');
    const first = await server.ask('GET', `${chat.at}/state`);
    const known = { 'if-none-match': first.headers.get('etag') };
    const same = await server.ask('GET', `${chat.at}/state`, undefined, known);
    assert.equal(same.status, 304);
    assert.equal(same.text, '');
    await chat.send('hello again');
    const changed = await server.ask('GET', `${chat.at}/state`, undefined, known);
    assert.equal(changed.status, 200);
    assert.equal(changed.body.total, 4);
  });

  scenario('Create message via action (new)', { steps: [hello] }, async (chat, { server }) => {
    const answer = await chat.act('send_message', { content: 'hello' });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('deprecation'), null);
    assert.deepEqual(script(answer.body), ['user: hello', 'assistant: Hello to you.']);
    assert.doesNotMatch((await server.stop()).stderr, /Deprecated endpoint used/);
  });

  scenario('Create message via deprecated CRUD (backward compat)', { steps: [hello] }, async (chat, { server }) => {
    const answer = await server.ask('POST', `${chat.at}/messages`, { role: 'user', text: 'by hand' });
    assert.equal(answer.status, 201);
    // Only the old spelling is deprecated: /v1 stores a message as it is.
    assert.equal(answer.headers.get('deprecation'), prefix === '/api' ? 'true' : null);
    if (prefix === '/api') await server.process.logged(/Deprecated endpoint used/);
    assert.deepEqual(script(await chat.send('hello')), ['user: by hand', 'user: hello', 'assistant: Hello to you.']);
  });

  scenario('Tool call with display preference', { steps: [{ play: [read, write, { call: 'run_command', arguments: { command: 'true' }, id: 'call_c' }] }], work: true }, async (chat, { server }) => {
    const { tools } = await server.expect(200, 'GET', `${prefix}/tools`);
    const { messages } = await chat.send('go');
    const calls = messages.flatMap((message) => message.tool_calls ?? []);
    assert.equal(calls.length, 3);
    for (const call of calls) {
      const tool = tools.find((one) => one.name === call.tool_name);
      assert.match(call.display_preference, /^(Default|Collapsible|Hidden)$/);
      assert.equal(call.display_preference, tool.display_preference);
      assert.deepEqual(call.ui_hints, tool.ui_hints);
      assert.equal(typeof call.ui_hints.icon, 'string');
    }
  });

  scenario('Tool approval workflow', { steps: writing, work: true }, async (chat, { server, space }) => {
    await chat.send('write it');
    const stream = await chat.follow({ after: 0 });
    const body = await server.expect(200, 'POST', `${chat.at}/tools/approve`, { approved: ['call_w'] });
    assert.equal(body.state, 'Idle');
    assert.equal(space.read('made.txt'), 'a knot');
    const events = await stream.reaches('Idle');
    assert.deepEqual(states(events).slice(-6), ['ExecutingTools', 'ProcessingToolResults', 'GeneratingResponse', 'StreamingLLMResponse', 'ProcessingLLMResponse', 'Idle']);
    assert.deepEqual(events.filter((event) => event.type.startsWith('tool_')).map((event) => [event.type, event.id, event.name, event.is_error]), [['tool_start', 'call_w', 'write_file', undefined], ['tool_end', 'call_w', 'write_file', false]]);
    stream.close();
  });
}

// ---- automatic persistence: nothing is written without a change ----

test('Scenario: Skip save when no changes (an engine at rest writes nothing)', async (t) => {
  const server = await serveTurns(t, { steps: [hello] });
  const chat = await Chat.create(server);
  const count = async () => {
    const { text } = await server.ask('GET', '/metrics');
    return [...text.matchAll(/^(quipu_(?:io|commits|fsyncs|checkpoints)[a-z_]*) (\d+)$/gm)].map(([, name, value]) => [name, Number(value)]);
  };
  await chat.send('hello');
  const checkpoints = (all) => Object.fromEntries(all).quipu_checkpoints_total;
  // What the turn has left to do ends with a checkpoint, a while after it. After that there is nothing.
  for (let round = 0; ; round++) {
    const before = await count();
    for (let i = 0; i < 20; i++) {
      await chat.state();
      await chat.refuses(400, 'INVALID', /^No pending tool approvals$/, 'approve_tools', { approved: ['x'] });
      await chat.refuses(409, 'CONFLICT', /Idle/, 'cancel', {}, { state: 'Idle' });
    }
    const after = await count();
    if (isDeepStrictEqual(after, before)) break;
    assert.ok(round < 3, JSON.stringify([before, after]));
    await until(async () => checkpoints(await count()) > checkpoints(before), () => `a checkpoint: ${JSON.stringify([before, after])}`);
  }
});

// ---- the other actions ----

const talkative = [
  { match: 'first', times: 1, play: [{ text: 'One.' }] },
  { match: 'first', times: 1, play: [{ text: 'One, said otherwise.' }] },
  { match: 'edited', play: [{ text: 'Another one.' }] },
  { match: 'second', play: [{ text: 'Two.' }] },
];

test('regenerate answers the same question on a branch of its own', async (t) => {
  const server = await serveTurns(t, { steps: talkative });
  const chat = await Chat.create(server);
  const first = await chat.send('first');
  await chat.send('second');
  const other = await chat.does('regenerate', { message_id: first.messages[1].id });
  assert.deepEqual(script(other), ['user: first', 'assistant: One, said otherwise.']);
  assert.notEqual(other.branch, 'main');
  assert.equal(other.messages[0].id, first.messages[0].id, 'the question is the same message');
  const back = await chat.does('switch_branch', { branch: 'main' });
  assert.equal(back.branch, 'main');
  assert.deepEqual(script(back), ['user: first', 'assistant: One.', 'user: second', 'assistant: Two.']);
  const named = await chat.does('regenerate', { branch: 'named' });
  assert.equal(named.branch, 'named');
  assert.deepEqual(script(named).slice(2), ['user: second', 'assistant: Two.']);
  await chat.refuses(400, 'INVALID', /only an answer/, 'regenerate', { message_id: first.message_id });
  assert.equal((await chat.act('regenerate', { branch: 'named' })).status, 409, 'a name that is taken');
});

test('edit_message asks another question on a branch of its own', async (t) => {
  const server = await serveTurns(t, { steps: talkative });
  const chat = await Chat.create(server);
  const first = await chat.send('first');
  const edited = await chat.does('edit_message', { message_id: first.message_id, content: 'edited' });
  assert.deepEqual(script(edited), ['user: edited', 'assistant: Another one.']);
  assert.notEqual(edited.branch, 'main');
  assert.equal(edited.message_id, edited.messages[0].id);
  assert.deepEqual(script(await chat.does('switch_branch', { branch: 'main' })), ['user: first', 'assistant: One.']);
  await chat.refuses(400, 'INVALID', /only a message of the user/, 'edit_message', { message_id: first.messages[1].id, content: 'x' });
  await chat.refuses(404, 'NOTFOUND', /./, 'edit_message', { message_id: chat.id, content: 'x' });
  await chat.refuses(404, 'NOTFOUND', /branch 'nowhere' not found/, 'switch_branch', { branch: 'nowhere' });
  await chat.refuses(404, 'NOTFOUND', /branch 'nowhere' not found/, 'send_message', { content: 'x', branch: 'nowhere' });
  assert.equal((await chat.state()).branch, 'main');
});

test('retry asks again: in place where nothing was answered, else on a new branch', async (t) => {
  const bad = { error: { status: 400, type: 'invalid_request_error', message: 'no' } };
  const server = await serveTurns(t, { steps: [{ match: 'first', times: 1, play: [bad] }, ...talkative] });
  const chat = await Chat.create(server);
  const failed = await chat.send('first');
  assert.equal(failed.state, 'Failed');
  assert.deepEqual([failed.state_detail.error.kind, failed.state_detail.error.status, failed.state_detail.error.message], ['request', 400, 'no']);
  assert.deepEqual(script(failed), ['user: first']);
  const good = await chat.does('retry', {});
  assert.equal(good.branch, 'main');
  assert.equal(good.state_detail, undefined);
  assert.deepEqual(script(good), ['user: first', 'assistant: One.']);
  const again = await chat.does('retry');
  assert.notEqual(again.branch, 'main');
  assert.deepEqual(script(again), ['user: first', 'assistant: One, said otherwise.']);
});

test('a message is sent to another branch than the active one', async (t) => {
  const server = await serveTurns(t, { steps: talkative });
  const chat = await Chat.create(server);
  await chat.send('first');
  await server.expect(201, 'POST', `${chat.at}/branches`, { name: 'side' });
  const body = await chat.does('send_message', { content: 'second', branch: 'side' });
  assert.equal(body.branch, 'side');
  const { messages } = await server.expect(200, 'GET', `${chat.at}/messages?branch=side`);
  assert.deepEqual(messages.map((message) => message.text), ['first', 'One.', 'second', 'Two.']);
  assert.equal((await server.expect(200, 'GET', `${chat.at}/messages?branch=main`)).messages.length, 2);
});

test('bodies that are wrong change nothing and say why', async (t) => {
  const server = await serveTurns(t, { steps: writing, work: makeWorkspace(t).work });
  const chat = await Chat.create(server);
  const wrong = [
    ['send_message', {}, /content/],
    ['send_message', { content: '' }, /content|empty/],
    ['send_message', { content: 7 }, /content/],
    ['send_message', { content: [{ type: 'nonsense' }] }, /empty/],
    ['send_message', { content: 'x', nonsense: 1 }, /nonsense/],
    ['send_message', { content: 'x', branch: 7 }, /branch/],
    ['send_message', '{"content":', /JSON/i],
    ['edit_message', { content: 'x' }, /message_id/],
    ['edit_message', { message_id: 'x', content: 'x' }, /message_id/],
    ['switch_branch', {}, /branch/],
    ['approve_tools', { approved: 'call_w' }, /approved/],
    ['approve_tools', { approved: [7] }, /approved/],
    ['cancel', { nonsense: 1 }, /nonsense/],
  ];
  for (const [action, body, sentence] of wrong) await chat.refuses(400, 'INVALID', sentence, action, body);
  assert.equal((await chat.state()).total, 0);
  await chat.send('write it');
  await chat.refuses(400, 'INVALID', /call_x/, 'approve_tools', { approved: ['call_w', 'call_x'] });
  await chat.refuses(400, 'INVALID', /./, 'approve_tools', { approved: ['call_w'], denied: ['call_w'] });
  await chat.refuses(400, 'INVALID', /./, 'approve_tools', { approved: [], denied: [] });
  const state = await chat.state();
  assert.equal(state.state, 'AwaitingToolApproval');
  assert.deepEqual(state.pending_tool_calls.map((call) => call.id), ['call_w']);
});

test('a message may be made of blocks', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server);
  const turn = chat.send([{ type: 'text', text: 'what is this?' }, { type: 'image', url: 'https://example.org/knot.png' }]);
  const request = await model.asked();
  assert.deepEqual(request.body.messages.at(-1).content.map((part) => part.type), ['image_url', 'text'], 'pictures come first');
  await request.answer('A knot.');
  const body = await turn;
  assert.equal(body.messages[0].text, 'what is this?');
  assert.equal(body.messages[0].images.length, 1);
});

test('a message of blocks can follow others and take the place of one', async (t) => {
  const server = await serveTurns(t, { steps: ['One.', 'Two.', 'Three.'].map((text) => ({ play: [{ text }] })) });
  const chat = await Chat.create(server);
  const blocks = [{ type: 'text', text: 'b' }, { type: 'image', url: 'https://example.org/knot.png' }];
  await chat.send('hello');
  const second = await chat.send(blocks);
  assert.deepEqual(script(await chat.state()), ['user: hello', 'assistant: One.', 'user: b', 'assistant: Two.']);
  await chat.does('edit_message', { message_id: second.message_id, content: blocks });
  assert.deepEqual(script(await chat.state()), ['user: hello', 'assistant: One.', 'user: b', 'assistant: Three.']);
});

test('the system prompt of the branch and the parameters of the context go to the model', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const prompt = await server.expect(201, 'POST', '/v1/system-prompts', { content: 'Speak of knots.' });
  const chat = await Chat.create(server, { model_id: 'knotty', parameters: { temperature: 0.5 } });
  await server.expect(200, 'PUT', `${chat.at}/branches/main`, { system_prompt_id: prompt.id });
  const turn = chat.send('hi');
  const request = await model.asked();
  assert.equal(request.body.model, 'knotty');
  assert.equal(request.body.temperature, 0.5);
  assert.deepEqual(request.body.messages, [{ role: 'system', content: 'Speak of knots.' }, { role: 'user', content: 'hi' }]);
  await request.answer('Knots.', { prompt_tokens: 11, completion_tokens: 2, total_tokens: 13 });
  const body = await turn;
  assert.equal(body.messages[1].metadata.tokens.total_tokens, 13);
});

// ---- models and tools ----

test('models and tools are listed', async (t) => {
  const { work } = makeWorkspace(t);
  const server = await serveTurns(t, { work, rules: ['deny delete_file'] });
  for (const prefix of ['/v1', '/api']) {
    const models = await server.expect(200, 'GET', `${prefix}/models`);
    const demo = models.models.find((model) => model.provider === 'demo');
    assert.ok(demo.window > 0 && demo.available);
    const { tools } = await server.expect(200, 'GET', `${prefix}/tools`);
    assert.deepEqual(tools.map((tool) => tool.name), ['read_file', 'list_directory', 'grep', 'glob', 'write_file', 'edit_file', 'delete_file', 'run_command']);
    assert.equal((await server.ask('HEAD', `${prefix}/tools`)).status, 200);
    assert.equal((await server.ask('POST', `${prefix}/models`, {})).status, 405);
  }
  const bare = await serveTurns(t, {});
  assert.deepEqual((await bare.expect(200, 'GET', '/v1/tools')).tools, []);
});

test('without keys the demo model answers and says what it is', async (t) => {
  const { work } = makeWorkspace(t);
  const server = await serveTurns(t, { work });
  const chat = await Chat.create(server);
  assert.match(script(await chat.send('Who are you?')).at(-1), /demo/i);
  const listed = script(await chat.send('list the files'));
  assert.ok(listed.some((line) => /^tool .*notes\.txt/.test(line)), listed.join('\n'));
});
