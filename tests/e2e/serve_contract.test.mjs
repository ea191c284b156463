// The contract and the server: every operation does what the contract says, with the contract's own
// examples; the contract's files are up to date; and the checks of both can fail.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { readJson } from '../../tools/contract/contract.mjs';
import { lint } from '../../tools/contract/lint.mjs';
import { check, checkRaw, contract, seen } from './contract.mjs';
import { ok } from './helper.mjs';
import { Server, serve } from './server.mjs';
import { Chat, makeWorkspace, serveTurns, until } from './turns.mjs';

const operation = (id) => contract.operations.find((op) => op.id === id);
const example = (id) => operation(id).body.example;

test('api/openapi.json and docs/http-api.md are what api/openapi.yaml says', () => {
  const { status, stdout, stderr } = spawnSync('tools/contract.mjs', ['--check'], { encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
});

test('the server gives its contract to anybody', async (t) => {
  const server = await serve(t);
  const answer = await server.ask('GET', '/openapi.json');
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, readJson());
  assert.equal(answer.text, JSON.stringify(readJson()), 'compact');
  assert.match(ok(undefined, ['--version']), new RegExp(`\\b${answer.body.info.version.replaceAll('.', '\\.')}\\b`));
  const same = await server.ask('GET', '/openapi.json', undefined, { 'if-none-match': answer.headers.get('etag') });
  assert.equal(same.status, 304);
});

// Asks for each operation as the contract describes it, and gives back its body.
function walker(server) {
  return async (id, status, { params = {}, query = '', body, headers } = {}) => {
    const { method, route } = operation(id);
    const path = route.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(params[name]));
    const answer = await server.ask(method, path + query, body, headers);
    assert.equal(answer.status, status, `${id}: ${answer.text}`);
    return answer;
  };
}

async function walkContexts(go) {
  const made = await go('createContext', 201, { body: example('createContext') });
  const at = { params: { id: made.body.id } };
  const { message_id } = (await go('saveMessage', 201, { ...at, body: example('saveMessage') })).body;
  await go('listContexts', 200);
  await go('searchMessages', 200, { query: `?${operation('searchMessages').node['x-query']}` });
  await go('getUsage', 200, { query: '?owner=alice' });
  await go('getUsageReport', 200);
  await go('listSizes', 200);
  for (const query of ['', '?messages=none']) {
    const { etag } = Object.fromEntries((await go('getContext', 200, { ...at, query })).headers);
    await go('getContext', 304, { ...at, query, headers: { 'if-none-match': etag } });
  }
  const { etag } = Object.fromEntries((await go('getState', 200, at)).headers);
  await go('getState', 304, { ...at, headers: { 'if-none-match': etag } });
  await go('getContextSize', 200, at);
  await go('listMessages', 200, at);
  await go('listTrash', 200, at);
  await go('getOutline', 200, at);
  await go('getPreviews', 200, { ...at, query: `?ids=${message_id}` });
  await go('findInContext', 200, { ...at, query: '?q=knotted' });
  await go('listBranches', 200, at);
  const branch = { params: { ...at.params, name: 'other' } };
  await go('forkBranch', 201, { ...at, body: { ...example('forkBranch'), at: message_id } });
  await go('getBranch', 200, branch);
  await go('updateBranch', 200, { ...branch, body: { ...example('updateBranch'), head: message_id } });
  await go('putBranch', 200, { ...branch, body: example('putBranch') });
  await go('deleteBranch', 204, { params: { ...at.params, name: 'main' } });
  await go('updateContext', 200, { ...at, body: example('updateContext') });
  await go('putContext', 200, { ...at, body: example('putContext') });
  await go('deleteContext', 204, at);
}

async function walkPrompts(go) {
  await go('createPrompt', 201, { body: example('createPrompt') });
  const at = { params: { id: example('createPrompt').id } };
  await go('listPrompts', 200);
  await go('getPrompt', 200, at);
  await go('updatePrompt', 200, { ...at, body: example('updatePrompt') });
  await go('putPrompt', 200, { ...at, body: example('putPrompt') });
  await go('deletePrompt', 204, at);
}

async function walkSessions(go) {
  await go('createSession', 201, { body: example('createSession') });
  const at = { params: { id: example('createSession').id } };
  await go('appendToSession', 201, { ...at, body: example('appendToSession') });
  await go('listSessions', 200);
  await go('getSession', 200, at);
  await go('readSession', 200, at);
  await go('updateSession', 200, { ...at, body: example('updateSession') });
  await go('deleteSession', 204, at);
}

// Each action waits once, and once does not.
async function walkTurns(server, go) {
  await go('listModels', 200);
  await go('listTools', 200);
  const chat = await Chat.create(server);
  const at = { params: { id: chat.id } };
  const both = async (id, body, between = () => {}) => {
    await go(id, 200, { ...at, body });
    await between();
    await go(id, 202, { ...at, body, headers: { prefer: 'respond-async' } });
    await chat.reach('Idle', 'Failed', 'AwaitingToolApproval');
  };
  const deny = { denied: ['call_1'], reason: example('approveTools').reason };
  const again = () => chat.send('write');
  await both('sendMessage', example('sendMessage'));
  for (const id of ['approveTools', 'approvePendingTools']) {
    await again();
    await both(id, deny, again);
  }
  await again();
  await go('approveTools', 200, { ...at, body: { approved: ['call_1'], always: true } });
  const { rules } = (await go('listRules', 200)).body;
  await go('deleteRule', 204, { params: { id: rules[0].id } });
  await again();
  await both('cancelTurn', example('cancelTurn'), again);
  const offer = () => chat.does('send_message', { content: 'ask', tools: [{ name: 'clock' }] });
  await offer();
  await both('submitToolResults', { results: [{ tool_call_id: 'call_2', result: 'noon' }] }, offer);
  await chat.send('hi');
  await both('retryTurn', example('retryTurn'));
  await both('regenerateAnswer', {});
  await both('editMessage', { ...example('editMessage'), message_id: (await chat.state()).messages[0].id });
  await both('switchBranch', { branch: 'main' });
  await again(); // it waits for approval, so that messages wait too
  const waiting = { params: { ...at.params, item: (await go('queueMessage', 202, { ...at, body: example('queueMessage') })).body.message_id } };
  await go('listQueue', 200, at);
  await go('editQueuedMessage', 200, { ...waiting, body: example('editQueuedMessage') });
  await go('dropQueuedMessage', 204, waiting);
  waiting.params.item = (await go('queueMessage', 202, { ...at, body: example('queueMessage') })).body.message_id;
  await go('sendQueuedMessage', 202, waiting);
  (await chat.follow({ after: 0 })).close();
  seen.add('followContext 200'); // an answer without an end is checked by the client of streams
}

// A conversation that is long enough to gain something.
async function walkCompaction(server, go) {
  const chat = await Chat.create(server);
  const at = { params: { id: chat.id } };
  const both = async (id, body, between = () => {}) => {
    await go(id, 200, { ...at, body });
    await between();
    await go(id, 202, { ...at, body, headers: { prefer: 'respond-async' } });
    await chat.reach('Idle', 'Failed');
  };
  for (let n = 0; n < 8; n++) await chat.send(`Question ${n}: ${'knots and cords '.repeat(200)}`);
  const { messages } = await chat.state();
  const undo = () => chat.does('undo_compact');
  await both('compactContext', {}, undo);
  const text = example('editSummary').text;
  await both('editSummary', { text }, undo);
  await both('expandMessages', { from: messages[0].id, to: messages[1].id }, undo);
  await both('undoCompaction', {});
  await both('redoCompaction', {}, undo);
  const pin = { message_id: messages[0].id };
  await both('pinMessage', pin);
  await both('unpinMessage', pin, () => chat.does('pin', pin));
  await go('listCompactions', 200, at);
  await go('getView', 200, at);
}

// A job that has ended, and one that waits for a context which is in use.
async function walkJobs(server, go) {
  const chat = await Chat.create(server);
  const work = { context_id: chat.id };
  const ended = async (id) => until(async () => (await go('getJob', 200, { params: { id } })).body.job.ended_at !== null);
  for (const id of ['checkStore', 'collectGarbage', 'archiveMessages', 'compressContexts', 'decompressContexts'])
    await ended((await go(id, 202, { body: { ...example(id), ...work } })).body.job.id);
  for (const id of ['importFile', 'reindexStore', 'migrateStore']) await ended((await go(id, 202, { body: example(id) })).body.job.id);
  const turn = chat.act('send_message', { content: 'long' });
  await chat.reach('StreamingLLMResponse');
  const { id } = (await go('compressContexts', 202, { body: work })).body.job;
  await until(async () => (await go('getJob', 200, { params: { id } })).body.job.state === 'running');
  await go('cancelJob', 202, { params: { id } });
  await chat.act('cancel', {});
  await turn;
  await ended(id);
  await go('cancelJob', 200, { params: { id } });
  await go('followJob', 200, { params: { id } });
  await go('listJobs', 200);
}

// A file that the page refers to.
async function assetName(server) {
  const { text } = await server.ask('GET', '/', undefined, { accept: 'text/html' });
  return /"\/assets\/([^"]+)"/.exec(text)[1];
}

test('every operation gives every success that the contract promises', async (t) => {
  const calling = { call: 'write_file', arguments: { path: 'a.txt', content: 'a' }, id: 'call_1' };
  const steps = [
    { after_tool: 'write_file', times: 100, play: [{ text: 'As you like.' }] },
    { after_tool: 'clock', times: 100, play: [{ text: 'Late.' }] },
    { match: 'write', play: [calling] },
    { match: 'ask', play: [{ call: 'clock', arguments: {}, id: 'call_2' }] },
    { match: 'long', play: [{ text: 'It begins' }, { delay_ms: 600000 }] },
  ];
  const server = await serveTurns(t, { steps, work: makeWorkspace(t).work });
  const go = walker(server);
  seen.clear();
  for (const id of ['getIndex', 'getHealth', 'getReadiness', 'getMetrics']) await go(id, 200);
  for (const [id, params] of [['getIndex', {}], ['getConversationPage', { id: 'any' }], ['getIcon', {}], ['getAsset', { name: await assetName(server) }]]) {
    const page = await go(id, 200, { params, headers: { accept: 'text/html' } });
    await go(id, 304, { params, headers: { accept: 'text/html', 'if-none-match': page.headers.get('etag') } });
  }
  const { etag } = Object.fromEntries((await go('getContract', 200)).headers);
  await go('getContract', 304, { headers: { 'if-none-match': etag } });
  await walkContexts(go);
  await walkPrompts(go);
  await walkSessions(go);
  await walkTurns(server, go);
  await go('callMcp', 200, { body: example('callMcp') });
  await go('callMcp', 202, { body: { jsonrpc: '2.0', method: 'notifications/initialized' } });
  await walkCompaction(server, go);
  await walkJobs(server, go);
  const promised = contract.operations.flatMap((op) => [...op.responses.keys()].filter((status) => status < 400).map((status) => `${op.id} ${status}`));
  assert.ok(promised.length > 30);
  assert.deepEqual(promised.filter((one) => !seen.has(one)), []);
});

test('what the contract refuses, the server refuses', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  for (const op of contract.operations) {
    const path = op.route.replace('{id}', id).replace('{name}', 'main').replace('{item}', id);
    await server.refuses(400, 'INVALID', /unknown query parameter 'surely-not'/, op.method, `${path}?surely-not=1`, op.body && {});
    if (op.method === 'DELETE') await server.refuses(400, 'INVALID', /does not accept a body/, op.method, path, {});
  }
  for (const op of contract.operations.filter((one) => one.body && contract.resolve(one.body.schema).node.additionalProperties === false)) {
    const path = op.route.replace('{id}', op.route.includes('system-prompts') ? 'p' : id).replace('{name}', 'main').replace('{item}', id);
    const answer = await server.ask(op.method, path, { 'surely-not': 1 });
    assert.ok([400, 404].includes(answer.status), `${op.id}: ${answer.text}`);
    if (!/prompts|sessions/.test(op.route)) assert.match(answer.body.error.message, /unknown field "surely-not"/);
  }
});

// ---- the checks can fail ----

test('an answer that is not as the contract says fails the test', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const target = `/v1/contexts/${id}/state`;
  const good = await server.ask('GET', target);
  const wrong = (sentence, change, method = 'GET', where = target) => {
    const answer = { status: good.status, headers: new Headers(good.headers), text: good.text, body: structuredClone(good.body) };
    change(answer);
    if (answer.body) answer.text = JSON.stringify(answer.body);
    assert.throws(() => check(method, where, answer), sentence);
  };
  check('GET', target, good);
  wrong(/answered 418, which the contract does not know/, (a) => (a.status = 418));
  wrong(/answered 404, which the contract does not know/, (a) => (a.status = 404), 'GET', '/healthz');
  wrong(/answered 200, which the contract does not know/, () => {}, 'GET', '/v1/nothing');
  wrong(/answered 200, which the contract does not know/, () => {}, 'PATCH', '/healthz');
  wrong(/additional properties/, (a) => (a.body.more = 1));
  wrong(/must have required property 'total'/, (a) => delete a.body.total);
  wrong(/\/total must be integer/, (a) => (a.body.total = '0'));
  wrong(/\/state must be equal to one of/, (a) => (a.body.state = 'Bored'));
  wrong(/\/updated_at must match pattern/, (a) => (a.body.updated_at = '2026-11-15T19:55:40Z'));
  wrong(/promises etag/, (a) => {
    a.headers.delete('etag');
    a.headers.set('cache-control', 'no-store');
  });
  wrong(/etag: .*must match pattern/, (a) => a.headers.set('etag', 'W/"1"'));
  wrong(/Cache-Control/, (a) => a.headers.set('cache-control', 'public'));
  wrong(/X-Content-Type-Options/, (a) => a.headers.delete('x-content-type-options'));
  wrong(/does not know the header set-cookie/, (a) => a.headers.set('set-cookie', 'a=b'));
  wrong(/type of the body/, (a) => a.headers.set('content-type', 'text/html'));
  wrong(/body where none may be/, () => {}, 'HEAD');
  wrong(/body where none may be/, (a) => (a.status = 304));
  wrong(/must have required property 'error'/, (a) => {
    a.status = 400;
    a.headers.delete('etag');
    a.headers.set('cache-control', 'no-store');
  });
  const raw = `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
  const came = await server.raw(raw);
  checkRaw(raw, came);
  assert.throws(() => checkRaw(raw, came.replace('HTTP/1.1 200', 'HTTP/1.1 201')), /does not know/);
  assert.throws(() => checkRaw(raw, came.replace('"total":0', '"total":x')), /not JSON/);
  assert.throws(() => checkRaw('', came), /not sent/);
});

test('a server that answers something else fails the test that asks it', async (t) => {
  const other = http.createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end('{"status":"ok","version":"0"}');
  });
  await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.after(() => other.close());
  const server = new Server(undefined, `http://127.0.0.1:${other.address().port}`);
  await assert.rejects(server.ask('GET', '/healthz'), /X-Content-Type-Options/);
});

test('the lint of the contract finds what is wrong with it', async () => {
  const find = async (sentence, change) => {
    const doc = readJson();
    change(doc);
    const found = await lint(doc);
    assert.ok(found.some((one) => sentence.test(one)), `${sentence}: ${found.slice(0, 5).join('; ') || 'nothing was found'}`);
  };
  assert.deepEqual(await lint(readJson()), []);
  const contexts = (doc) => doc.paths['/v1/contexts'];
  const one = (doc) => doc.paths['/v1/contexts/{id}'];
  await find(/not OpenAPI 3\.1/, (doc) => delete doc.info.title);
  await find(/not OpenAPI 3\.1/, (doc) => (contexts(doc).get.responses = 7));
  await find(/points to nothing|resolve/, (doc) => (contexts(doc).get.responses['400'].$ref = '#/components/responses/Nope'));
  await find(/it is not used/, (doc) => (doc.components.schemas.Lonely = { type: 'string' }));
  await find(/operationId listContexts is taken/, (doc) => (contexts(doc).post.operationId = 'listContexts'));
  await find(/its example does not fit its schema/, (doc) => (doc.components.responses.NotFound.content['application/json'].example.error.code = 'INVALID'));
  await find(/its example does not fit its schema/, (doc) => (contexts(doc).post.requestBody.content['application/json'].example.titel = 'x'));
  await find(/has no example/, (doc) => delete contexts(doc).post.responses['201'].content['application/json'].example);
  await find(/has no schema/, (doc) => delete contexts(doc).post.responses['201'].content['application/json'].schema);
  await find(/\{id\} is not described/, (doc) => delete one(doc).parameters);
  await find(/does not tell of 412/, (doc) => delete one(doc).patch.responses['412']);
  await find(/does not tell of 401/, (doc) => delete contexts(doc).get.responses['401']);
  await find(/x-scope must be one of/, (doc) => delete contexts(doc).get['x-scope']);
  await find(/write \{\} instead of a boolean schema/, (doc) => (doc.components.schemas.ToolCall.properties.arguments = true));
  await find(/no answer has the code SILLY/, (doc) => doc.components.schemas.ErrorCode.enum.push('SILLY'));
});

test('the page for people tells of every operation, code and object that the contract has', () => {
  const page = fs.readFileSync('docs/http-api.md', 'utf8');
  for (const op of contract.operations) assert.ok(page.includes(`### ${op.method} ${op.route}\n`), op.id);
  for (const code of contract.doc.components.schemas.ErrorCode.enum) assert.ok(page.includes(`\`${code}\``), code);
  const anchors = new Set([...page.matchAll(/^#+ (.+)$/gm)].map((found) => found[1].toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-')));
  for (const [, id] of page.matchAll(/<a id="([^"]+)">/g)) anchors.add(id);
  for (const [, link] of page.matchAll(/\]\(#([^)]+)\)/g)) assert.ok(anchors.has(link), `#${link} leads nowhere`);
});
