// Calls of models against a provider that speaks HTTP: aimock answers as Anthropic and as OpenAI do,
// and keeps a journal of the bodies that it was sent.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { LLMock } from '@copilotkit/aimock';
import { build } from './helper.mjs';

const probe = path.join(build, 'tests', 'llm_probe');
const protocols = [
  { name: 'anthropic', base: '', path: '/v1/messages' },
  { name: 'openai', base: '/v1', path: '/v1/chat/completions' },
];

// A provider with these fixtures; they are matched by the last text of the user.
async function provider(t, fixtures) {
  const mock = new LLMock({ port: 0, host: '127.0.0.1', strict: true, logLevel: 'silent' });
  for (const [text, response, options] of fixtures) mock.onMessage(text, response, options);
  await mock.start();
  t.after(() => mock.stop());
  return mock;
}

// What the probe printed: the lines, how it ended, and the message that would be stored.
function ask(mock, protocol, request) {
  const env = { ...process.env };
  for (const name of Object.keys(env)) if (/proxy/i.test(name)) delete env[name];
  return new Promise((resolve, reject) => {
    const child = spawn(probe, [protocol.name, mock.url + protocol.base, 'claude-test'], { env });
    let out = '';
    let errors = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (errors += text));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code !== 0) return reject(new Error(`llm_probe ended with ${code}: ${errors}`));
      const lines = out.trimEnd().split('\n');
      const message = JSON.parse(lines.pop().replace(/^message /, ''));
      const end = lines.pop();
      resolve({ lines, end, message, text: message.content.filter((p) => p.type === 'text').map((p) => p.text).join('') });
    });
    child.stdin.end(JSON.stringify(request));
  });
}

const user = (text) => ({ role: 'user', text });
const bodies = (mock, protocol) => mock.getRequests().filter((entry) => entry.path === protocol.path).map((entry) => entry.body);

for (const protocol of protocols) {
  test(`${protocol.name}: text`, async (t) => {
    const said = 'Grüße aus Köln, 你好 😀!';
    const mock = await provider(t, [['hello', { content: said }, { chunkSize: 3 }]]);
    const answer = await ask(mock, protocol, { messages: [user('hello')], system: 'Be kind.' });
    assert.equal(answer.end, 'complete');
    assert.equal(answer.text, said);
    assert.equal(answer.message.metadata.interrupted, undefined);
    assert.equal(answer.message.metadata.provider, protocol.name);
    assert.match(answer.lines.at(-1), /^stop 1 /);
    assert.equal(bodies(mock, protocol).length, 1);
  });

  test(`${protocol.name}: parallel tools, and their results in the next request`, async (t) => {
    const calls = [
      { id: 'call_a', name: 'weather', arguments: { city: 'Köln', days: [1, 2] } },
      { id: 'call_b', name: 'clock', arguments: {} },
    ];
    const mock = await provider(t, [
      [/^plan$/, { toolCalls: calls }, { chunkSize: 4 }],
      [/./, { content: 'Sunny.' }],
    ]);
    const tools = [
      { name: 'weather', description: 'Tells it.', schema: '{"type":"object","properties":{"city":{"type":"string"}}}' },
      { name: 'clock' },
    ];
    const first = await ask(mock, protocol, { messages: [user('plan')], tools });
    assert.equal(first.end, 'complete');
    assert.match(first.lines.filter((line) => line.startsWith('stop'))[0], /^stop 2 /);
    assert.deepEqual(
      first.message.tool_calls.map((call) => [call.id, call.tool_name, call.arguments, call.approval_status]),
      calls.map((call) => [call.id, call.name, call.arguments, 'Pending']),
    );
    mock.clearFixtures();
    mock.addFixture({ match: { predicate: () => true }, response: { content: 'Sunny.' } });
    const result = (id, value, isError) => ({ role: 'tool', tool_result: { request_id: id, result: value, is_error: isError } });
    const messages = [user('plan'), first.message, result('call_b', 'broken', true), result('call_a', { sun: true }, false)];
    const second = await ask(mock, protocol, { messages, tools });
    assert.equal(second.text, 'Sunny.');
    assert.equal(second.end, 'complete');

    // What the provider was sent begins with what it was sent before. The journal has bodies in
    // OpenAI's form for both protocols.
    const [before, after] = bodies(mock, protocol);
    assert.deepEqual(after.messages.slice(0, before.messages.length), before.messages);
    assert.deepEqual(after.tools, before.tools);
    const results = after.messages.filter((message) => message.role === 'tool');
    assert.deepEqual(results.map((message) => message.tool_call_id), ['call_a', 'call_b']);
    assert.match(String(results[0].content), /"sun":true/);
  });

  test(`${protocol.name}: thinking`, async (t) => {
    const mock = await provider(t, [['why', { content: 'So.', reasoning: 'Let me see.', reasoningSignature: 'c2lnbmF0dXJl' }]]);
    const answer = await ask(mock, protocol, { messages: [user('why')] });
    assert.equal(answer.end, 'complete');
    assert.equal(answer.text, 'So.');
    const thinking = answer.message.content.filter((part) => part.type === 'thinking');
    assert.deepEqual(thinking.map((part) => part.text), ['Let me see.']);
    if (protocol.name === 'anthropic') assert.equal(thinking[0].signature, 'c2lnbmF0dXJl');
  });

  test(`${protocol.name}: usage is kept`, async (t) => {
    const names = protocol.name === 'anthropic' ? ['input_tokens', 'output_tokens'] : ['prompt_tokens', 'completion_tokens'];
    const usage = { [names[0]]: 321, [names[1]]: 45, total_tokens: 366 };
    const mock = await provider(t, [['count', { content: 'One two.', usage }]]);
    const answer = await ask(mock, protocol, { messages: [user('count')] });
    assert.equal(answer.message.metadata.tokens.prompt_tokens, 321);
    assert.equal(answer.message.metadata.tokens.completion_tokens, 45);
  });

  test(`${protocol.name}: errors are judged`, async (t) => {
    const error = (status, type, message, more = {}) => ({ error: { message, type }, status, ...more });
    const mock = await provider(t, [
      ['fast', error(429, 'rate_limit_error', 'Slow down', { retryAfter: 7 })],
      ['busy', error(529, 'overloaded_error', 'Overloaded')],
      ['broken', error(500, 'api_error', 'Oops')],
      ['long', error(400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum')],
      ['key', error(401, 'authentication_error', 'invalid x-api-key')],
    ]);
    const end = async (text) => (await ask(mock, protocol, { messages: [user(text)] })).end;
    assert.equal(await end('fast'), 'fault rate_limit 429 7000 Slow down');
    assert.equal(await end('busy'), 'fault overloaded 529 -1 Overloaded');
    assert.equal(await end('broken'), 'fault server 500 -1 Oops');
    assert.equal(await end('long'), 'fault too_long 400 -1 prompt is too long: 210000 tokens > 200000 maximum');
    assert.equal(await end('key'), 'fault auth 401 -1 invalid x-api-key');
  });

  test(`${protocol.name}: an answer that is cut keeps its text and says so`, async (t) => {
    const said = 'word '.repeat(200);
    const mock = await provider(t, [['tale', { content: said }, { chunkSize: 5, latency: 2, truncateAfterChunks: 20 }]]);
    const answer = await ask(mock, protocol, { messages: [user('tale')] });
    assert.match(answer.end, /^fault cut 200 /);
    assert.equal(answer.message.metadata.interrupted, true);
    assert.ok(answer.text.length > 0 && said.startsWith(answer.text), answer.text);
  });
}

test('anthropic: what was sent once stays the beginning of what is sent', async (t) => {
  const [protocol] = protocols;
  const mock = await provider(t, [['why', { content: 'So.', reasoning: 'Hm.', reasoningSignature: 'c2ln' }]]);
  const first = await ask(mock, protocol, { messages: [user('why')] });
  await ask(mock, protocol, { messages: [user('why'), first.message, user('why not')] });
  const [before, after] = mock.getRequests().map((entry) => JSON.stringify(entry.body.messages));
  assert.ok(after.startsWith(before.slice(0, -1)), `${before}\n${after}`);
});
