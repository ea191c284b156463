// Tools that the client runs itself, over HTTP; and how much an action answers with.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from './helper.mjs';
import { Chat, makeWorkspace, restart, serveTurns } from './turns.mjs';

const weather = { name: 'weather', description: 'Tells the weather', parameters: { type: 'object', properties: { town: { type: 'string' } } } };
const ask = (id, town) => ({ call: 'weather', id, arguments: { town } });

test('a call of a client tool waits over kill -9, until its result is submitted', async (t) => {
  let server = await serveTurns(t, { steps: [{ play: [ask('call_1', 'Cusco')] }] });
  let chat = await Chat.create(server, { tools: [weather] });
  assert.deepEqual((await server.expect(200, 'GET', chat.at)).config.tools, [weather]);
  const asked = await chat.send('how is it?');
  assert.equal(asked.state, 'AwaitingToolApproval');
  assert.deepEqual(asked.state_detail.pending, [{ id: 'call_1', tool_name: 'weather', kind: 'client', arguments: { town: 'Cusco' } }]);
  assert.equal(asked.pending_tool_calls[0].kind, 'client');
  assert.deepEqual(asked.pending_tool_calls[0].arguments, { town: 'Cusco' });

  server = await restart(t, server, 'SIGKILL', { steps: [{ play: [{ text: 'Dry.' }] }] });
  chat = chat.on(server);
  assert.equal((await chat.state()).state, 'AwaitingToolApproval');
  await chat.refuses(400, 'INVALID', /call_9/, 'submit_tool_results', { results: [{ tool_call_id: 'call_9', result: 1 }] });
  await chat.refuses(400, 'INVALID', /submit its result/, 'approve_tools', { approved: ['call_1'] });
  for (const results of [undefined, [], {}, [{}], [{ tool_call_id: 'call_1' }], [{ tool_call_id: 'call_1', result: 1, error: 2 }], [{ tool_call_id: 'call_1', result: 1, more: 2 }]])
    await chat.refuses(400, 'INVALID', /results/, 'submit_tool_results', { results });
  const done = await chat.does('submit_tool_results', { results: [{ tool_call_id: 'call_1', result: { sky: 'blue' } }] });
  assert.equal(done.state, 'Idle');
  assert.deepEqual(done.messages[2].tool_result.result, { sky: 'blue' });
  assert.equal(done.messages[2].metadata.decided_by, 'client');
  assert.equal(done.messages[3].text, 'Dry.');
  await chat.refuses(409, 'CONFLICT', /not possible/, 'submit_tool_results', { results: [{ tool_call_id: 'call_1', result: 1 }] }, { state: 'Idle' });
});

test('tools of one turn, streamed, and with tools of the server', async (t) => {
  const space = makeWorkspace(t);
  const server = await serveTurns(t, {
    work: space.work,
    steps: [{ play: [ask('call_1', 'Cusco'), { call: 'read_file', id: 'call_2', arguments: { path: 'notes.txt' } }, ask('call_3', 'Lima')] }, { play: [{ text: 'Done.' }] }],
  });
  const chat = await Chat.create(server);
  await chat.refuses(400, 'INVALID', /read_file/, 'send_message', { content: 'x', tools: [{ name: 'read_file' }] });
  await chat.refuses(400, 'INVALID', /tools\[0\]\.name/, 'send_message', { content: 'x', tools: [{}] });
  await chat.does('send_message', { content: 'go', tools: [weather] });
  const part = await chat.does('submit_tool_results', { results: [{ tool_call_id: 'call_1', error: 'no station' }] });
  assert.equal(part.state, 'AwaitingToolApproval');
  assert.deepEqual(part.state_detail.pending.map((call) => call.id), ['call_3']);
  const events = await (await chat.stream('submit_tool_results', { results: [{ tool_call_id: 'call_3', result: 'fog' }] })).all();
  assert.ok(events.some((event) => event.type === 'tool_start' && event.id === 'call_2'));
  assert.ok(!events.some((event) => event.type === 'tool_start' && event.id !== 'call_2'));
  const { messages, state } = await chat.state();
  assert.equal(state, 'Idle');
  const results = messages.filter((message) => message.tool_result).map(({ tool_result }) => [tool_result.request_id, tool_result.is_error]);
  assert.deepEqual(results.sort(), [['call_1', true], ['call_2', false], ['call_3', false]]);
});

test('quipu chat shows a call of another program as waiting', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [ask('call_1', 'Cusco')] }] });
  const chat = await Chat.create(server, { tools: [weather] });
  await chat.send('how is it?');
  const shown = run(server.settings.data, ['chat', chat.id], { input: '' });
  assert.match(shown.stdout + shown.stderr, /waiting for the result of weather \(call_1\)/);
  assert.notEqual(shown.status, 0);
});

test('an action answers with the messages of the turn', async (t) => {
  const server = await serveTurns(t, { steps: [] });
  const chat = await Chat.create(server);
  const post = (query = '', prefix = '/v1') => server.expect(200, 'POST', `${prefix}/contexts/${chat.id}/actions/send_message${query}`, { content: 'hello' });
  for (let i = 0; i < 3; i++) {
    const body = await post();
    assert.deepEqual(body.messages.map(({ role }) => role), ['user', 'assistant']);
    assert.equal(body.messages[0].id, body.message_id);
    assert.equal(body.total, 2 * (i + 1));
  }
  assert.equal((await post('?messages=all')).messages.length, 8);
  assert.equal((await post('?last=3')).messages.length, 3);
  assert.equal((await post('?messages=turn')).messages.length, 2);
  assert.equal((await post('', '/api')).messages.length, 14); // as spec 003 has it
  assert.equal((await server.ask('POST', `${chat.at}/actions/send_message?messages=some`, { content: 'x' })).status, 400);
  assert.equal((await server.ask('POST', `${chat.at}/actions/send_message?messages=all&last=1`, { content: 'x' })).status, 400);
});

test('fail=error gives a failed turn an HTTP error', async (t) => {
  const server = await serveTurns(t, { steps: [{ match: '*', play: [{ error: { status: 401, type: 'authentication_error', message: 'no key' } }] }] });
  const chat = await Chat.create(server);
  const path = `${chat.at}/actions/send_message`;
  assert.equal((await server.expect(200, 'POST', path, { content: 'x' })).state, 'Failed');
  const { error } = await server.expect(502, 'POST', `${path}?fail=error`, { content: 'x' });
  assert.equal(error.code, 'TURN_FAILED');
  assert.equal(error.state, 'Failed');
  assert.match(error.message, /auth.*no key/);
  assert.equal((await server.ask('POST', `${path}?fail=yes`, { content: 'x' })).status, 400);
});
