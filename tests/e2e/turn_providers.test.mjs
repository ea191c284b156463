// Turns with a provider that speaks HTTP: aimock answers as Anthropic and as OpenAI do. Everything
// that it is sent passes a tap, so that what goes over the wire is checked byte by byte.

import assert from 'node:assert/strict';
import test from 'node:test';
import { LLMock } from '@copilotkit/aimock';
import { Model, Tap } from './model.mjs';
import { Chat, makeWorkspace, said, script, serveTurns, states } from './turns.mjs';

const key = 'sk-test-of-nobody';
const protocols = [
  { name: 'anthropic', path: '/v1/messages', env: (url) => ({ ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: url }) },
  { name: 'openai', path: '/v1/chat/completions', env: (url) => ({ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${url}/v1` }) },
];

// A server that asks aimock through a tap. Fixtures: [match, response, options]; match is a text of
// the user, or a function of the request.
async function withProvider(t, protocol, fixtures, options = {}) {
  const mock = new LLMock({ port: 0, host: '127.0.0.1', strict: true, logLevel: 'silent' });
  for (const [match, response, more] of fixtures)
    if (typeof match === 'function') mock.addFixture({ match: { predicate: match }, response, ...more });
    else mock.onMessage(match, response, more);
  await mock.start();
  t.after(() => mock.stop());
  const tap = await Tap.start(t, mock.url);
  const server = await serveTurns(t, { env: protocol.env(tap.url), args: ['--retry-pause', '10'], ...options });
  const chat = await Chat.create(server, { model_id: `${protocol.name}/claude-test` });
  return { mock, tap, server, chat };
}

// Answers one after the other.
const inTurn = (...responses) => {
  let n = 0;
  return () => responses[Math.min(n++, responses.length - 1)];
};
const error = (status, type, message, more = {}) => ({ error: { message, type }, status, ...more });
const hasResults = (request) => request.messages.at(-1).role === 'tool';

for (const protocol of protocols) {
  const { name } = protocol;

  test(`${name}: text, streamed and stored, with its usage`, async (t) => {
    const text = 'Grüße aus Köln, 你好 😀!';
    const names = name === 'anthropic' ? ['input_tokens', 'output_tokens'] : ['prompt_tokens', 'completion_tokens'];
    const { tap, server, chat } = await withProvider(t, protocol, [['hello', { content: text, usage: { [names[0]]: 21, [names[1]]: 7, total_tokens: 28 } }, { chunkSize: 3 }]]);
    const events = await (await chat.stream('send_message', { content: 'hello' })).all();
    assert.equal(said(events), text);
    assert.ok(events.filter((event) => event.type === 'text').length > 3);
    const state = await chat.state();
    assert.deepEqual(script(state), ['user: hello', `assistant: ${text}`]);
    const { metadata } = state.messages[1];
    assert.equal(metadata.provider, name);
    assert.deepEqual([metadata.tokens.prompt_tokens, metadata.tokens.completion_tokens], [21, 7]);
    assert.equal(tap.sent.length, 1);
    const [{ path, headers, body }] = tap.sent;
    assert.equal(path, protocol.path);
    assert.equal(body.stream, true);
    assert.equal(body.model, 'claude-test');
    assert.equal(name === 'anthropic' ? headers['x-api-key'] : headers.authorization, name === 'anthropic' ? key : `Bearer ${key}`);
    assert.doesNotMatch(JSON.stringify(events) + JSON.stringify(state) + server.process.stderr, new RegExp(key));
  });

  test(`${name}: from turn to turn a request begins with the bytes of the one before`, async (t) => {
    const { work } = makeWorkspace(t);
    const { tap, server, chat } = await withProvider(t, protocol, [[/./, { content: 'Knots, and knots on knots.' }]], { work });
    const prompt = await server.expect(201, 'POST', '/v1/system-prompts', { content: 'Speak of knots.' });
    await server.expect(200, 'PUT', `${chat.at}/branches/main`, { system_prompt_id: prompt.id });
    for (let i = 0; i < 6; i++) await chat.send(`question ${i}`);
    assert.equal(tap.sent.length, 6);
    // Breakpoints wander; all else stays.
    const plain = (text) => text.replaceAll(/,"cache_control":\{[^}]*\}/g, '');
    for (let i = 1; i < 6; i++) {
      const [before, now] = [tap.sent[i - 1].text, tap.sent[i].text];
      assert.ok(before.endsWith(']}'), 'what grows comes last');
      assert.ok(plain(now).startsWith(plain(before).slice(0, -2)), `${before.slice(0, 400)}\n${now.slice(0, 400)}`);
      if (i < 3) assert.ok(now.startsWith(before.slice(0, -2)), 'breakpoints too, as long as there are enough of them');
    }
    if (name !== 'anthropic') return;
    for (const { body, text } of tap.sent) {
      const marks = text.match(/"cache_control"/g).length;
      assert.ok(marks >= 2 && marks <= 4, `${marks} breakpoints`);
      assert.ok(body.system.at(-1).cache_control, 'behind the system prompt');
      assert.ok(body.messages.at(-1).content.at(-1).cache_control, 'behind the last turn of the user');
    }
    // Each place that ended a request is one of the next two requests' breakpoints: a cache can hit.
    for (let i = 1; i < 6; i++) assert.ok(tap.sent[i].body.messages[(i - 1) * 2].content.at(-1).cache_control, `request ${i}`);
  });

  test(`${name}: parallel tools, thinking, and what goes back`, async (t) => {
    const space = makeWorkspace(t);
    const calls = [
      { id: 'toolu_a', name: 'read_file', arguments: { path: 'notes.txt' } },
      { id: 'toolu_b', name: 'list_directory', arguments: {} },
      { id: 'toolu_c', name: 'read_file', arguments: { path: 'nowhere' } },
    ];
    const { tap, chat } = await withProvider(
      t,
      protocol,
      [
        [hasResults, { content: 'Two lines.' }],
        [/./, { content: 'I look.', toolCalls: calls, reasoning: 'Let me see: "both".', reasoningSignature: 'c2lnbmF0dXJl' }, { chunkSize: 5 }],
      ],
      { work: space.work },
    );
    const events = await (await chat.stream('send_message', { content: 'go' })).all();
    assert.equal(states(events).at(-1), 'Idle');
    assert.equal(events.filter((event) => event.type === 'thinking').map((event) => event.text).join(''), 'Let me see: "both".');
    const state = await chat.state();
    assert.deepEqual(state.messages.map((message) => message.role), ['user', 'assistant', 'tool', 'tool', 'tool', 'assistant']);
    assert.equal(tap.sent.length, 2);
    const [first, second] = tap.sent;
    const names = (body) => body.tools.map((tool) => tool.name ?? tool.function.name);
    assert.deepEqual(names(first.body), ['read_file', 'list_directory', 'grep', 'glob', 'write_file', 'edit_file', 'delete_file', 'run_command']);
    assert.ok(second.text.startsWith(first.text.slice(0, -2)), 'the second request goes on where the first ended');
    if (name === 'anthropic') {
      const [, answer, results] = second.body.messages;
      assert.deepEqual(answer.content[0], { type: 'thinking', thinking: 'Let me see: "both".', signature: 'c2lnbmF0dXJl' });
      assert.deepEqual(answer.content.filter((block) => block.type === 'tool_use').map((block) => [block.id, block.name, block.input]), calls.map((call) => [call.id, call.name, call.arguments]));
      assert.equal(results.role, 'user');
      assert.deepEqual(results.content.map((block) => [block.type, block.tool_use_id, block.is_error === true]), [['tool_result', 'toolu_a', false], ['tool_result', 'toolu_b', false], ['tool_result', 'toolu_c', true]]);
    } else {
      const [, answer, ...results] = second.body.messages;
      assert.deepEqual(answer.tool_calls.map((call) => [call.id, call.function.name, JSON.parse(call.function.arguments)]), calls.map((call) => [call.id, call.name, call.arguments]));
      assert.deepEqual(results.map((message) => [message.role, message.tool_call_id]), calls.map((call) => ['tool', call.id]));
      assert.match(JSON.stringify(results[0].content), /one knot/);
    }
  });

  test(`${name}: thinking stays byte-exact in later turns`, async (t) => {
    const { tap, chat } = await withProvider(t, protocol, [[/./, { content: 'So.', reasoning: 'Hm — "well"\n\tso.', reasoningSignature: 'c2ln/+==' }]]);
    await chat.send('why');
    await chat.send('why not');
    const [before, after] = tap.sent;
    assert.ok(after.text.startsWith(before.text.slice(0, -2)));
    if (name === 'anthropic') assert.deepEqual(after.body.messages[1].content[0], { type: 'thinking', thinking: 'Hm — "well"\n\tso.', signature: 'c2ln/+==' });
    else assert.equal(after.body.messages[1].role, 'assistant');
  });

  test(`${name}: 429 is tried again when the provider has said, 529 and 500 soon`, async (t) => {
    const { tap, chat } = await withProvider(t, protocol, [
      [/./, inTurn(error(429, 'rate_limit_error', 'Slow down', { retryAfter: 1 }), error(529, 'overloaded_error', 'Overloaded'), error(500, 'api_error', 'Oops'), { content: 'At last.' })],
    ]);
    const events = await (await chat.stream('send_message', { content: 'hi' })).all();
    const failures = events.filter((event) => event.state === 'TransientFailure');
    assert.deepEqual(failures.map((event) => [event.detail.error.kind, event.detail.error.status, event.detail.attempt]), [['rate_limit', 429, 1], ['overloaded', 529, 2], ['server', 500, 3]]);
    assert.ok(Date.parse(failures[0].detail.retry_at) - Date.parse(failures[0].time) >= 990, 'it waits as long as it was told');
    assert.ok(Date.parse(failures[1].detail.retry_at) - Date.parse(failures[1].time) < 500);
    assert.equal(said(events), 'At last.');
    assert.equal(tap.sent.length, 4);
    for (const { text } of tap.sent) assert.equal(text, tap.sent[0].text, 'the same bytes each time');
    assert.deepEqual(script(await chat.state()), ['user: hi', 'assistant: At last.']);
  });

  test(`${name}: what stays wrong is Failed, and a retry goes on`, async (t) => {
    const { tap, chat } = await withProvider(
      t,
      protocol,
      [
        ['busy', inTurn(error(529, 'overloaded_error', 'Overloaded'), error(529, 'overloaded_error', 'Overloaded'), { content: 'Now.' })],
        ['key', error(401, 'authentication_error', `invalid x-api-key ${key}`)],
      ],
      { args: ['--retry-pause', '10', '--retries', '1'] },
    );
    const failed = await chat.send('busy');
    assert.deepEqual([failed.state, failed.state_detail.error.kind, failed.state_detail.error.status], ['Failed', 'overloaded', 529]);
    assert.deepEqual(script(await chat.does('retry')), ['user: busy', 'assistant: Now.']);
    const denied = await chat.send('key');
    assert.deepEqual([denied.state, denied.state_detail.error.kind], ['Failed', 'auth']);
    assert.doesNotMatch(JSON.stringify(denied), new RegExp(key), 'nobody is told the key');
    assert.equal(tap.sent.length, 4, 'what a person must mend is not tried again');
  });

  test(`${name}: an answer that is cut is kept and marked, and one goes on from it`, async (t) => {
    const text = 'word '.repeat(200);
    const { tap, chat } = await withProvider(t, protocol, [
      ['tale', { content: text }, { chunkSize: 5, latency: 2, truncateAfterChunks: 20 }],
      ['go on', { content: 'The end.' }],
    ]);
    const failed = await chat.send('tale');
    assert.deepEqual([failed.state, failed.state_detail.error.kind], ['Failed', 'cut']);
    const [, partial] = failed.messages;
    assert.equal(partial.metadata.interrupted, true);
    assert.ok(partial.text.length > 0 && text.startsWith(partial.text));
    assert.equal(tap.sent.length, 1, 'what had begun is not tried again by itself');
    const good = await chat.send('go on');
    assert.equal(script(good).at(-1), 'assistant: The end.');
    assert.match(JSON.stringify(tap.sent[1].body.messages), /word word/, 'the model sees what it had said');
  });

  test(`${name}: a prompt that is too long is Failed with a sentence, not tried again`, async (t) => {
    const { tap, chat } = await withProvider(t, protocol, [['long', error(400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum')]]);
    const events = await (await chat.stream('send_message', { content: 'long' })).all();
    assert.ok(states(events).includes('Compacting'));
    const state = await chat.state();
    assert.deepEqual([state.state, state.state_detail.error.kind], ['Failed', 'too_long']);
    assert.match(state.state_detail.error.message, /too long for the model: 210000 tokens/);
    assert.equal(tap.sent.length, 1);
  });
}

test('a model whose provider is not there is Failed with a sentence that helps', async (t) => {
  const server = await serveTurns(t, {});
  const chat = await Chat.create(server, { model_id: 'anthropic/claude-test' });
  const body = await chat.send('hi');
  assert.equal(body.state, 'Failed');
  assert.match(body.state_detail.error.message, /ANTHROPIC_API_KEY/);
  const known = await Chat.create(server, { model_id: 'claude-opus-5-5' });
  assert.match((await known.send('hi')).state_detail.error.message, /ANTHROPIC_API_KEY/);
});

test('a provider that is not there is tried again, and then Failed', async (t) => {
  const server = await serveTurns(t, { env: { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' }, args: ['--retry-pause', '10', '--retries', '1'] });
  const chat = await Chat.create(server);
  const events = await (await chat.stream('send_message', { content: 'hi' })).all();
  assert.deepEqual(states(events), ['ProcessingUserMessage', 'AwaitingLLMResponse', 'TransientFailure', 'AwaitingLLMResponse', 'Failed']);
  assert.equal(events.at(-1).detail.error.kind, 'connect');
});

// ---- pictures, and requests that are too long ----

const picture = 'iVBORw0KGgotbm90LW11Y2gtb2YtYS1waWN0dXJl';
const blocks = [{ type: 'text', text: 'what is this?' }, { type: 'image', url: `data:image/png;base64,${picture}` }];

test('a picture for a model that takes none is sent as a stub, once it has said so', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server);
  const turn = chat.send(blocks);
  const first = await model.asked();
  assert.ok(first.text.includes(picture));
  first.fail(500, 'server_error', 'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj');
  const second = await model.asked();
  assert.ok(!second.text.includes(picture));
  assert.match(second.text, /\[image: image\/png, 30 bytes; not sent, because the model does not accept images\]/);
  await second.answer('A stub.');
  assert.equal((await turn).state, 'Idle');
  const next = chat.send('and now?');
  const third = await model.asked();
  assert.ok(!third.text.includes(picture), 'it is not tried again');
  await third.answer('Fine.');
  assert.equal((await next).state, 'Idle');
});

test('a request that is too long fails with the figures of the provider and the part to blame', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server);
  const long = async (text) => {
    const turn = chat.send(text);
    const request = await model.asked();
    request.response.writeHead(400, { 'content-type': 'application/json' });
    request.response.end(JSON.stringify({ error: { code: 400, type: 'exceed_context_size_error', n_prompt_tokens: 9000, n_ctx: 4096, message: 'request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it' } }));
    const { error } = (await turn).state_detail;
    assert.equal(error.kind, 'too_long');
    return error.message;
  };
  assert.match(await long('x'.repeat(30_000)), /too long for the model: 9000 tokens .* the window has 4096 .*most of it is one message/);
});

test('an answer that is stopped counts its tokens', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server);
  const stream = await chat.follow();
  await chat.begin('send_message', { content: 'x'.repeat(4000) });
  await (await model.asked()).say('word '.repeat(400));
  await stream.until((event) => event.type === 'text');
  await chat.does('cancel', {});
  const { messages } = await chat.state();
  const { tokens } = messages.at(-1).metadata;
  assert.ok(tokens.estimated && tokens.prompt_tokens >= 1000 && tokens.completion_tokens >= 500, JSON.stringify(tokens));
  stream.close?.();
});
