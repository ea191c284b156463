// Servers of one's own report their models: which ones they have, their windows, and whether they
// take images. The shapes are those of llama.cpp, vLLM, LM Studio and Ollama.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { freePort } from './pages.mjs';
import { Chat, serveTurns, until } from './turns.mjs';

const sse = (model, text) =>
  [{ choices: [{ index: 0, delta: { content: text }, finish_reason: null }] }, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }, { choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } }]
    .map((chunk) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model, ...chunk })}\n\n`)
    .join('') + 'data: [DONE]\n\n';

const address = (port) => ({ OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` });
const silence = { asked: 0 }; // the route of a request that gets no answer

// A server with these routes; every other one is 404. `asked` has what came to /v1/chat/completions.
async function fake(t, routes, port = 0) {
  const asked = [];
  const server = http.createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (data) => (text += data));
    request.on('end', () => {
      const body = text ? JSON.parse(text) : undefined;
      if (request.url === '/v1/chat/completions') {
        asked.push(body);
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        return response.end(sse(body.model, `I am ${body.model}.`));
      }
      const route = routes[`${request.method} ${request.url}`];
      if (route === silence) return route.asked++;
      const answer = typeof route === 'function' ? route(body) : route;
      response.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' });
      return response.end(JSON.stringify(answer ?? { error: { message: 'not found' } }));
    });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { asked, port: server.address().port, env: address(server.address().port) };
}

// Answers in the shapes that the sources of the servers print.
const fixture = (name) => JSON.parse(fs.readFileSync(new URL(`../fixtures/models/${name}.json`, import.meta.url), 'utf8'));
const llamacpp = (vision) => ({
  'GET /v1/models': fixture('llamacpp-list'),
  'GET /props': { ...fixture('llamacpp-props'), default_generation_settings: { params: {}, n_ctx: 8192 }, modalities: { vision, audio: false } },
});
const vllm = { 'GET /v1/models': fixture('vllm-list') };
const lmstudio = { 'GET /v1/models': fixture('lmstudio-list'), 'GET /api/v0/models': fixture('lmstudio-v0') };
const ollama = {
  'GET /v1/models': fixture('ollama-list'),
  'GET /api/tags': fixture('ollama-tags'),
  'POST /api/show': (body) => fixture(body.model.startsWith('llava') ? 'ollama-show-vision' : 'ollama-show'),
  'GET /api/ps': fixture('ollama-ps'),
};

// Waits until the models of a provider are listed, and gives id and window of each.
async function models(server, provider) {
  let mine;
  await until(async () => {
    mine = (await server.expect(200, 'GET', '/v1/models')).models.filter((model) => model.provider === provider);
    return mine.length > 0;
  });
  return mine;
}

const windows = (list) => list.map((model) => [model.id, model.window]);

for (const [name, routes, want] of [
  ['llama.cpp', llamacpp(false), [['qwen3-4b.gguf', 8192]]],
  ['vLLM', vllm, [['mistral-small', 16384], ['my-lora', 16384]]],
  ['LM Studio', lmstudio, [['qwen2-vl-7b-instruct', 4096], ['meta-llama-3.1-8b-instruct', 32000]]],
  ['Ollama', ollama, [['llama3.2:latest', 32768], ['llava:7b', 4096]]],
])
  test(`${name}: its models and windows are listed, its first model answers, and no price is invented`, async (t) => {
    const far = await fake(t, routes);
    const server = await serveTurns(t, { env: far.env });
    const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
    const chat = new Chat(server, id); // at once: the question waits for the server's answer
    const { messages } = await chat.send('who are you?');
    assert.equal(far.asked[0].model, want[0][0]);
    const { metadata } = messages.at(-1);
    assert.equal(metadata.cost_usd, undefined);
    assert.equal(metadata.tokens.total_tokens, 15);
    await until(async () => JSON.stringify(windows(await models(server, 'openai'))) === JSON.stringify(want));
    const list = await server.expect(200, 'GET', '/v1/models');
    assert.equal(list.default, `openai/${want[0][0]}`);
    assert.ok(list.models.filter((model) => model.provider === 'openai').every((model) => model.available && model.input_price === undefined));
  });

test('the protocol of Ollama: the models that can answer, with the windows that they run with', async (t) => {
  const far = await fake(t, ollama);
  const server = await serveTurns(t, { args: ['--ollama-url', `http://127.0.0.1:${far.port}`] });
  await until(async () => JSON.stringify(windows(await models(server, 'ollama'))) === JSON.stringify([['llama3.2:latest', 32768]]));
});

test('a model that the server knows to take no images gets a stub at the first try', async (t) => {
  const picture = 'iVBORw0KGgotbm90LW11Y2gtb2YtYS1waWN0dXJl';
  for (const vision of [false, true]) {
    const far = await fake(t, llamacpp(vision));
    const server = await serveTurns(t, { env: far.env });
    const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
    await new Chat(server, id).send([{ type: 'text', text: '?' }, { type: 'image', url: `data:image/png;base64,${picture}` }]);
    assert.equal(JSON.stringify(far.asked[0]).includes(picture), vision);
  }
});

test('a server that starts later is asked when it is needed', async (t) => {
  const port = await freePort();
  const server = await serveTurns(t, { env: address(port) });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const chat = new Chat(server, id);
  const failed = await chat.send('hello?');
  assert.equal(failed.state, 'Failed');
  assert.match(failed.state_detail.error.message, /provider 'openai' has not reported its models: Failed to connect to 127\.0\.0\.1 .*; check its URL, or name the model to use/);
  await fake(t, vllm, port);
  assert.equal((await chat.does('retry', {})).state, 'Idle');
});

test('a question without a context has the server asked for its models, for the next one', async (t) => {
  const port = await freePort();
  const server = await serveTurns(t, { env: address(port) });
  const body = JSON.stringify({ model: '', messages: [{ role: 'user', content: 'hello?' }] });
  const ask = async () => {
    const answer = await fetch(`${server.url}/openai/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    return { status: answer.status, body: await answer.json() };
  };
  const refused = await ask();
  assert.equal(refused.status, 404, JSON.stringify(refused.body));
  assert.match(refused.body.error.message, /has not reported its models/);
  await fake(t, vllm, port);
  await until(async () => (await ask()).status === 200);
});

test('a turn whose model is named does not ask the server for its models', async (t) => {
  const far = await fake(t, { 'GET /v1/models': silence });
  const server = await serveTurns(t, { env: far.env });
  await until(() => silence.asked > 0); // at the start
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { model_id: 'openai/mine' });
  const chat = new Chat(server, id);
  for (const text of ['one', 'two']) assert.equal((await chat.send(text)).state, 'Idle');
  assert.deepEqual(far.asked.map((body) => body.model), ['mine', 'mine']);
  assert.equal(silence.asked, 1);
});

test('models of a server on this machine are listed although the environment names a proxy', async (t) => {
  const far = await fake(t, vllm);
  const proxy = 'http://127.0.0.1:1'; // nothing listens there
  const server = await serveTurns(t, { env: { ...far.env, http_proxy: proxy, ALL_PROXY: proxy } });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  assert.equal((await new Chat(server, id).send('hello?')).state, 'Idle');
  assert.equal(far.asked[0].model, 'mistral-small');
});
