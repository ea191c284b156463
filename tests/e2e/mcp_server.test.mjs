// quipu as an MCP server: the real client of @modelcontextprotocol/sdk over standard input and output
// and over HTTP, the stateless era by hand, keys and owners.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { add, bin, environment, makeContext, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };

async function connect(t, transport) {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport);
  t.after(() => client.close());
  return client;
}

const stdio = (t, data, ...args) => connect(t, new StdioClientTransport({ command: bin, args: ['mcp', ...args], env: environment(data) }));
const http = (t, server, query = '', key) => connect(t, new StreamableHTTPClientTransport(new URL(`${server.url}/mcp${query}`), { requestInit: key ? { headers: { authorization: `Bearer ${key}` } } : {} }));

// What a client that may only read sees.
async function reads(client, context) {
  assert.equal(client.getServerVersion().name, 'quipu');
  assert.match(client.getInstructions(), /no instruction/);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name), ['search_conversations', 'list_conversations', 'read_conversation']);
  for (const { annotations, inputSchema } of tools) {
    assert.equal(annotations.readOnlyHint, true);
    assert.equal(annotations.destructiveHint, false);
    assert.equal(inputSchema.type, 'object');
  }
  const found = await client.callTool({ name: 'search_conversations', arguments: { query: 'cords' } });
  assert.equal(found.structuredContent.hits[0].context_id, context);
  assert.match(found.content[0].text, /cords/);
  const list = await client.callTool({ name: 'list_conversations', arguments: { limit: 5 } });
  assert.equal(list.structuredContent.contexts[0].id, context);
  const read = await client.callTool({ name: 'read_conversation', arguments: { id: context, order: 'oldest', limit: 1 } });
  assert.match(read.content[0].text, /## user.*\n\nWhat is a quipu\?/);
  assert.ok(read.structuredContent.next_cursor);
  const rest = await client.callTool({ name: 'read_conversation', arguments: { id: context, cursor: read.structuredContent.next_cursor } });
  assert.match(rest.content[0].text, /knotted cords/);
  for (const [name, args, sentence] of [['search_conversations', {}, /query/], ['read_conversation', { id: 'nonsense' }, /./], ['read_conversation', { id: context, limit: 0 }, /limit/]]) {
    const wrong = await client.callTool({ name, arguments: args });
    assert.equal(wrong.isError, true);
    assert.match(wrong.content[0].text, sentence);
  }
  await assert.rejects(client.callTool({ name: 'save_message', arguments: { text: 'x' } }), /only reads/);
  const { resources } = await client.listResources();
  assert.deepEqual(resources.map(({ uri }) => uri), [`quipu://context/${context}`]);
  const { contents } = await client.readResource({ uri: resources[0].uri });
  assert.match(contents[0].text, /What is a quipu\?[\s\S]*knotted cords/);
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 2);
  await assert.rejects(client.readResource({ uri: 'quipu://context/nonsense' }), (error) => error.code === -32002);
  await assert.rejects(client.readResource({ uri: 'file:///etc/passwd' }), (error) => error.code === -32002);
  await client.ping();
}

async function writes(client, context) {
  assert.equal((await client.listTools()).tools.length, 5);
  const saved = await client.callTool({ name: 'save_message', arguments: { id: context, text: 'a note', role: 'assistant' } });
  assert.ok(!saved.isError, saved.content[0].text);
  const branched = await client.callTool({ name: 'branch', arguments: { id: context, name: 'side', at: saved.structuredContent.message_id } });
  assert.ok(!branched.isError, branched.content[0].text);
  const read = await client.callTool({ name: 'read_conversation', arguments: { id: context, branch: 'side', limit: 1 } });
  assert.match(read.content[0].text, /## assistant.*\n\na note/);
  const fresh = await client.callTool({ name: 'save_message', arguments: { text: 'begin', title: 'new' } });
  assert.notEqual(fresh.structuredContent.id, context);
  assert.equal((await client.callTool({ name: 'save_message', arguments: { id: context, text: 'x', role: 'nobody' } })).isError, true);
}

function example(t) {
  const { data, ctx } = makeContext(t, '--title', 'Knots');
  add(data, ctx, 'What is a quipu?');
  add(data, ctx, 'A record kept in knotted cords.', '--role', 'assistant');
  return { data, ctx };
}

test('quipu mcp reads a data directory, beside other commands', async (t) => {
  const { data, ctx } = example(t);
  const client = await stdio(t, data);
  await reads(client, ctx);
  add(data, ctx, 'Nobody is locked out.');
  const read = await client.callTool({ name: 'read_conversation', arguments: { id: ctx, limit: 1 } });
  assert.match(read.content[0].text, /locked out/);
});

test('quipu mcp --write changes it', async (t) => {
  const { data, ctx } = example(t);
  const client = await stdio(t, data, '--write');
  await writes(client, ctx);
  await client.close();
  assert.match(ok(data, ['show', ctx]), /a note/);
});

test('quipu mcp goes through a server that runs, and on when it ends', async (t) => {
  const { data, ctx } = example(t);
  const server = await serve(t, { data });
  const client = await stdio(t, data);
  await reads(client, ctx);
  await server.stop();
  const read = await client.callTool({ name: 'read_conversation', arguments: { id: ctx, limit: 1 } });
  assert.match(read.content[0].text, /knotted cords/);
});

test('the same over HTTP', async (t) => {
  const { data, ctx } = example(t);
  const server = await serve(t, { data });
  await reads(await http(t, server), ctx);
  await writes(await http(t, server, '?write=true'), ctx);
});

test('keys and owners apply', async (t) => {
  const data = path.join(tempDir(t), 'data');
  const key = (...args) => ok(data, ['key', 'create', ...args]).match(/qk_\S+/)[0];
  const admin = key('--scope', 'write');
  const alice = key('--scope', 'write', '--owner', 'alice');
  const bob = key('--scope', 'read', '--owner', 'bob');
  const server = await serve(t, { data });
  await assert.rejects(http(t, server), /401|Unauthorized|key/i);
  const hers = await http(t, server, '?write=true', alice);
  const { id } = (await hers.callTool({ name: 'save_message', arguments: { text: 'a secret of alice' } })).structuredContent;
  await assert.rejects(http(t, server, '?write=true', bob), /403|write/);
  const his = await http(t, server, '', bob);
  assert.deepEqual((await his.callTool({ name: 'search_conversations', arguments: { query: 'secret' } })).structuredContent.hits, []);
  assert.deepEqual((await his.callTool({ name: 'list_conversations', arguments: {} })).structuredContent.contexts, []);
  assert.deepEqual((await his.listResources()).resources, []);
  const read = await his.callTool({ name: 'read_conversation', arguments: { id } });
  assert.equal(read.isError, true);
  assert.doesNotMatch(JSON.stringify(read), /secret/);
  await assert.rejects(his.readResource({ uri: `quipu://context/${id}` }), (error) => error.code === -32002);
  const all = await http(t, server, '?write=true', admin);
  assert.match((await all.callTool({ name: 'read_conversation', arguments: { id } })).content[0].text, /secret of alice/);
});

test('the stateless era, batches and what is refused', async (t) => {
  const { data } = example(t);
  const server = await serve(t, { data });
  const post = (body, headers = {}) => server.ask('POST', '/mcp', body, headers);
  const ask = (method, params = {}, headers = {}) => post({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }, headers);
  const found = await ask('server/discover', {}, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover' });
  assert.deepEqual(found.body.result.supportedVersions, ['2026-07-28']);
  assert.equal(found.body.result.resultType, 'complete');
  const tools = (await ask('tools/list')).body.result;
  assert.equal(tools.cacheScope, 'private');
  assert.ok(tools.ttlMs > 0);
  assert.equal(tools._meta['io.modelcontextprotocol/serverInfo'].name, 'quipu');
  const called = await ask('tools/call', { name: 'list_conversations' }, { 'mcp-name': 'list_conversations' });
  assert.equal(called.body.result.structuredContent.contexts.length, 1);
  const refused = [
    [await ask('initialize'), 404, -32601],
    [await ask('ping'), 404, -32601],
    [await ask('tools/list', {}, { 'mcp-method': 'tools/call' }), 400, -32020],
    [await ask('resources/read', { uri: 'quipu://context/none' }), 200, -32602],
    [await post({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: { ...meta, 'io.modelcontextprotocol/protocolVersion': '2030-01-01' } } }), 400, -32022],
    [await post({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } } }), 400, -32602],
    [await post({ jsonrpc: '2.0', id: 1, method: 'server/discover' }), 200, -32601],
    [await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'none' } }), 200, -32602],
    [await post({ id: {}, method: 'ping' }), 400, -32600],
    [await post([]), 400, -32600],
    [await post(7), 400, -32600],
  ];
  for (const [answer, status, code] of refused) {
    assert.equal(answer.status, status, answer.text);
    assert.equal(answer.body.error.code, code, answer.text);
  }
  assert.equal((await post({ jsonrpc: '2.0', method: 'notifications/initialized' })).status, 202);
  assert.equal((await post({ jsonrpc: '2.0', id: 4, result: {} })).status, 202);
  const batch = await post([{ jsonrpc: '2.0', id: 1, method: 'ping' }, { jsonrpc: '2.0', method: 'notifications/x' }, { jsonrpc: '2.0', id: 2, method: 'none' }]);
  assert.deepEqual(batch.body.map(({ id, error }) => [id, error?.code]), [[1, undefined], [2, -32601]]);
  assert.equal((await server.ask('GET', '/mcp')).status, 405);
});
