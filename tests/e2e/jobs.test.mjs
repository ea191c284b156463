// Maintenance over HTTP: jobs that are started, followed, cancelled and interrupted.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { ok } from './helper.mjs';
import { Chat, Stream, restart, serveTurns, until } from './turns.mjs';

const steps = [
  { match: 'long', times: 100, play: [{ text: 'It begins' }, { delay_ms: 600000 }, { text: 'never' }] },
  { match: '*', times: 1000, play: [{ text: 'yes' }] },
];
const bearer = (key) => ({ authorization: `Bearer ${key}` });
const start = async (server, kind, body = {}, headers) => (await server.expect(202, 'POST', `/v1/maintenance/${kind}`, body, headers)).job;
const get = async (server, id, headers) => (await server.expect(200, 'GET', `/v1/jobs/${id}`, undefined, headers)).job;

async function ended(server, { id }, headers) {
  await until(async () => (await get(server, id, headers)).ended_at !== null);
  return get(server, id, headers);
}

// Starts it and waits for its end; gives the report.
async function does(server, kind, body, headers) {
  const job = await ended(server, await start(server, kind, body, headers), headers);
  assert.equal(job.state, 'done', JSON.stringify(job));
  return job.report;
}

async function talk(server, n = 3, headers = {}) {
  const chat = await Chat.create(server, {}, { headers });
  for (let i = 0; i < n; i++) await chat.send(`question ${i}`);
  return chat;
}

test('a context is compressed, checked and unpacked while clients use it', async (t) => {
  const server = await serveTurns(t, { steps });
  const chat = await talk(server);
  const stream = await chat.follow({ after: 0 });
  const packed = await does(server, 'compress', { context_id: chat.id });
  assert.equal(packed.messages, 6);
  assert.equal(packed.failed, 0);
  assert.ok(packed.bytes_after > 0);
  assert.ok(fs.existsSync(path.join(server.data, 'contexts', chat.id, 'messages.jsonl.zst')));
  assert.deepEqual((await chat.state()).total, 6);
  await chat.send('one more'); // the stream that was open before goes on
  await stream.until((event) => event.type === 'message' && event.role === 'assistant' && event.seq > 20);
  stream.close();
  const checked = await does(server, 'check', { context_id: chat.id });
  assert.deepEqual([checked.contexts, checked.messages, checked.problems, checked.found], [1, 8, 0, []]);
  assert.equal((await does(server, 'decompress')).messages, 6);
  const whole = await does(server, 'check');
  assert.equal(whole.contexts, 1);
  assert.equal(whole.problems, 0);
  assert.deepEqual((await chat.state()).total, 8);
});

test('old messages are archived, and a dry run changes nothing', async (t) => {
  const server = await serveTurns(t, { steps });
  const chat = await talk(server);
  const now = Date.now();
  await until(() => Date.now() > now); // a message of this millisecond is not older than it
  const planned = await does(server, 'archive', { older_than_days: 0, dry_run: true });
  assert.equal(planned.messages, 6);
  assert.equal((await server.expect(200, 'GET', `${chat.at}/size`)).archived_messages, 0);
  assert.equal((await does(server, 'archive', {})).messages, 0, 'none is half a year old');
  assert.equal((await does(server, 'archive', { older_than_days: 0 })).messages, 6);
  assert.equal((await server.expect(200, 'GET', `${chat.at}/size`)).archived_messages, 6);
});

test('the search index is rebuilt', async (t) => {
  const server = await serveTurns(t, { steps });
  await talk(server);
  await talk(server);
  assert.deepEqual(await does(server, 'reindex'), { contexts: 2, failed: 0, failures: [] });
  assert.equal((await server.expect(200, 'GET', '/v1/search?q=question')).hits.length, 6);
});

test('a check reports a damaged message, and a repair deals with it', async (t) => {
  const server = await serveTurns(t, { steps });
  const sound = await talk(server, 1);
  const chat = await talk(server, 1);
  const { messages } = await chat.state();
  const file = path.join(server.data, 'contexts', chat.id, 'messages', 'branch-main', `${messages[0].id}.json`);
  fs.writeFileSync(file, 'broken');
  const { problems, found, contexts } = await does(server, 'check');
  assert.equal(contexts, 2);
  assert.equal(problems, 1);
  assert.equal(found[0].problem, 'MESSAGE_CORRUPT');
  assert.equal(found[0].context_id, chat.id);
  assert.equal((await does(server, 'check', { context_id: sound.id })).problems, 0);
  const repaired = await does(server, 'check', { context_id: chat.id, repair: true });
  assert.equal(repaired.repaired, repaired.problems);
  assert.equal((await does(server, 'check')).problems, 0);
});

test('the stream of a job has its progress and its end', async (t) => {
  const server = await serveTurns(t, { steps });
  for (let i = 0; i < 5; i++) await talk(server, 1);
  const job = await start(server, 'compress');
  const answer = await fetch(`${server.url}/v1/jobs/${job.id}/events`);
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  const events = (await answer.text()).trim().split('\n\n').map((text) => Object.fromEntries(text.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)])));
  const last = events.at(-1);
  assert.equal(last.event, 'end');
  assert.deepEqual(JSON.parse(last.data), await get(server, job.id));
  for (const event of events.slice(0, -1)) {
    assert.equal(event.event, 'progress');
    assert.equal(JSON.parse(event.data).report, null);
  }
  assert.equal(JSON.parse(last.data).done, 5);
});

test('a context whose turn has just ended is in nobody\'s way', async (t) => {
  const server = await serveTurns(t, { steps });
  for (let i = 0; i < 40; i++) {
    const chat = await talk(server, 1);
    assert.equal((await does(server, 'compress', { context_id: chat.id })).messages, 2);
  }
});

test('a context in which a turn runs is left alone, and the turn goes on', async (t) => {
  const server = await serveTurns(t, { steps });
  const idle = await talk(server, 1);
  const busy = await Chat.create(server);
  await busy.begin('send_message', { content: 'long' });
  await busy.reach('StreamingLLMResponse');
  const report = await does(server, 'compress');
  assert.equal(report.messages, 2);
  assert.deepEqual(report.failures.map((one) => [one.context_id, one.code]), [[busy.id, 'BUSY']]);
  assert.equal((await busy.state()).state, 'StreamingLLMResponse');
  const alone = await ended(server, await start(server, 'compress', { context_id: busy.id }));
  assert.equal(alone.state, 'failed');
  assert.equal(alone.error.code, 'BUSY');
  assert.equal((await idle.state()).total, 2);
});

// A job waits for a context that a request is using for up to two seconds: here for so many of them.
async function stuck(t, server, count) {
  const chats = [];
  for (let i = 0; i < count; i++) {
    const chat = await Chat.create(server);
    const turn = chat.act('send_message', { content: 'long' }).catch(() => {});
    await chat.reach('StreamingLLMResponse');
    t.after(() => turn);
    chats.push(chat);
  }
  const job = await start(server, 'compress');
  await until(async () => (await get(server, job.id)).state !== 'queued');
  return { chats, job };
}

test('the same work is not started twice, and a job can be cancelled', async (t) => {
  const server = await serveTurns(t, { steps });
  const other = await talk(server, 1);
  // It waits for each of these: as long as this test needs them, also on a busy machine.
  const { chats, job } = await stuck(t, server, 10);
  await server.refuses(409, 'CONFLICT', new RegExp(`job ${job.id} does this already`), 'POST', '/v1/maintenance/compress');
  const second = await start(server, 'archive', { older_than_days: 0 }); // now both threads have something to do
  await until(async () => (await get(server, second.id)).state !== 'queued');
  const queued = await start(server, 'compress', { context_id: other.id });
  const dropped = (await server.expect(200, 'DELETE', `/v1/jobs/${queued.id}`)).job;
  assert.equal(dropped.state, 'cancelled');
  assert.equal(dropped.started_at, null);
  await server.expect(202, 'DELETE', `/v1/jobs/${second.id}`);
  assert.equal((await ended(server, second)).state, 'cancelled');
  for (const chat of chats) await chat.act('cancel', {});
  assert.equal((await ended(server, job)).state, 'done');
  const { jobs } = await server.expect(200, 'GET', '/v1/jobs');
  assert.deepEqual(jobs.map((one) => one.id), [queued.id, second.id, job.id]);
});

test('SIGTERM in the middle of a job ends the server in time, and the job is not found after that', async (t) => {
  const server = await serveTurns(t, { steps });
  for (let i = 0; i < 20; i++) await talk(server, 1);
  const { job } = await stuck(t, server, 1);
  await start(server, 'archive', { older_than_days: 0 });
  const again = await restart(t, server, 'SIGTERM');
  await again.refuses(404, 'NOTFOUND', /the server was restarted since/, 'GET', `/v1/jobs/${job.id}`);
  assert.deepEqual((await again.expect(200, 'GET', '/v1/jobs')).jobs, []);
  assert.equal((await does(again, 'check')).problems, 0);
});

test('kill -9 in the middle of a job loses nothing', async (t) => {
  const server = await serveTurns(t, { steps });
  const chats = [];
  for (let i = 0; i < 10; i++) chats.push(await talk(server, 2));
  await start(server, 'compress');
  await start(server, 'archive', { older_than_days: 0 });
  const again = await restart(t, server, 'SIGKILL');
  assert.equal((await does(again, 'check')).problems, 0);
  await does(again, 'compress');
  for (const chat of chats) assert.equal((await chat.on(again).state()).total, 4);
});

test('an owner maintains its own contexts and sees its own jobs', async (t) => {
  const server = await serveTurns(t, { steps });
  const key = (...args) => ok(server.data, ['key', 'create', ...args]).trim();
  const [alice, bob, admin, write, aliceAdmin] = [['--owner', 'alice'], ['--owner', 'bob'], ['--scope', 'admin'], [], ['--owner', 'alice', '--scope', 'admin']].map((args) => bearer(key(...args)));
  await until(async () => (await fetch(`${server.url}/v1/jobs`, { headers: aliceAdmin })).status === 200 && (await fetch(`${server.url}/v1/jobs`)).status === 401);
  const hers = await talk(server, 1, alice);
  const his = await talk(server, 1, bob);
  assert.equal((await does(server, 'compress', {}, alice)).messages, 2);
  assert.equal((await server.expect(200, 'GET', `${his.at}/size`, undefined, bob)).archived_messages, 0);
  const report = await does(server, 'check', {}, alice);
  assert.equal(report.contexts, 1);
  const { jobs } = await server.expect(200, 'GET', '/v1/jobs', undefined, alice);
  assert.deepEqual(jobs.map((job) => job.kind), ['check', 'compress']);
  assert.deepEqual((await server.expect(200, 'GET', '/v1/jobs', undefined, bob)).jobs, []);
  for (const method of ['GET', 'DELETE']) await server.refuses(404, 'NOTFOUND', /^Job not found$/, method, `/v1/jobs/${jobs[0].id}`, undefined, bob);
  await server.refuses(404, 'NOTFOUND', /^Context not found$/, 'POST', '/v1/maintenance/gc', { context_id: hers.id }, bob);
  await server.refuses(403, 'DENIED', /whole store.*admin/, 'POST', '/v1/maintenance/check', {}, write);
  await server.refuses(403, 'DENIED', /without an owner/, 'POST', '/v1/maintenance/reindex', {}, aliceAdmin);
  assert.equal((await does(server, 'check', { context_id: hers.id }, write)).contexts, 1);
  assert.equal((await does(server, 'compress', {}, admin)).contexts, 2);
  assert.equal((await server.expect(200, 'GET', '/v1/jobs', undefined, admin)).jobs.length, 4);
  const stream = await Stream.open(server, 'GET', `/v1/jobs/${jobs[0].id}/events`, { headers: bob });
  assert.equal(stream.status, 404);
});

// ---- import ----

async function imports(server, body, headers) {
  const { job } = await server.expect(202, 'POST', '/v1/import', body, headers);
  return ended(server, job, headers);
}
const chat = { id: 'c-1', title: 'Knots', createdAt: 1700000000000 };
const said = [{ id: 'm-1', role: 'user', content: 'How many knots?', timestamp: 1700000001000 }, { id: 'm-2', role: 'assistant', content: 'Two.', timestamp: 1700000002000 }];
const dump = JSON.stringify({ copilot_chats_v2: JSON.stringify([chat]), 'copilot_messages_v2_c-1': JSON.stringify(said) });

test('a dump of LocalStorage is imported once, and its parts are reported', async (t) => {
  const server = await serveTurns(t, { steps });
  const first = await imports(server, dump);
  assert.equal(first.state, 'done', JSON.stringify(first));
  assert.deepEqual([first.report.imported, first.report.messages, first.report.failed], [1, 2, 0]);
  const [{ context_id: id }] = first.report.items;
  assert.equal((await server.expect(200, 'GET', `/v1/contexts/${id}/state`)).total, 2);
  assert.equal((await server.expect(200, 'GET', '/v1/search?q=knots')).hits.length, 1);
  const again = await imports(server, dump);
  assert.deepEqual([again.report.imported, again.report.already], [0, 1]);
  assert.deepEqual(fs.readdirSync(path.join(server.data, 'tmp')).filter((name) => name.startsWith('import')), [], 'nothing is left');
});

test('an old context in one file is imported, and what is no such file is refused', async (t) => {
  const server = await serveTurns(t, { steps });
  const { id } = await talk(server, 2);
  const to = path.join(server.data, '..', 'old');
  await server.stop();
  ok(server.data, ['rollback', id, '--to', to]);
  const fresh = await serveTurns(t, { steps });
  const job = await imports(fresh, fs.readFileSync(path.join(to, `${id}.json`)));
  assert.equal(job.state, 'done', JSON.stringify(job));
  assert.deepEqual([job.report.imported, job.report.messages, job.report.items[0].context_id], [1, 4, id]);
  assert.equal((await fresh.expect(200, 'GET', `/v1/contexts/${id}/state`)).total, 4);
  for (const text of ['{"anything":1}', '[]', 'not JSON', '{"copilot_chats_v2":']) {
    const refused = await imports(fresh, text);
    assert.equal(refused.state, 'failed', text);
    assert.equal(refused.error.code, 'INVALID');
  }
  assert.equal((await fresh.expect(200, 'GET', '/v1/contexts')).contexts.length, 1);
});

test('what a key with an owner imports belongs to that owner', async (t) => {
  const plain = await serveTurns(t, { steps });
  const old = await talk(plain, 1);
  const to = path.join(plain.data, '..', 'owned');
  await plain.stop();
  ok(plain.data, ['rollback', old.id, '--to', to]);
  const oldFile = fs.readFileSync(path.join(to, `${old.id}.json`));

  const before = await serveTurns(t, { steps });
  await before.stop();
  const key = (...args) => bearer(ok(before.data, ['key', 'create', ...args]).trim());
  const [alice, bob, admin] = [key('--owner', 'alice'), key('--owner', 'bob'), key('--scope', 'admin')];
  const server = await serveTurns(t, { data: before.data, steps });
  const prompts = JSON.stringify([{ id: 'terse', name: 'Terse', content: 'Be terse.' }]);
  const full = JSON.stringify({ ...JSON.parse(dump), system_prompts: prompts, copilot_chats_v2: JSON.stringify([{ ...chat, config: { systemPromptId: 'terse', baseSystemPrompt: 'Be terse.' } }]) });
  const ids = [];
  for (const who of [alice, bob]) {
    const job = await imports(server, full, who);
    assert.deepEqual([job.state, job.report.imported, job.report.failed], ['done', 1, 0], JSON.stringify(job));
    const { contexts } = await server.expect(200, 'GET', '/v1/contexts', undefined, who);
    assert.deepEqual(contexts.map((row) => row.title), ['Knots'], 'each has its own');
    ids.push(contexts[0].id);
    assert.equal((await imports(server, full, who)).report.already, 1);
  }
  assert.notEqual(ids[0], ids[1]);
  await server.refuses(404, 'NOTFOUND', /not found/, 'GET', `/v1/contexts/${ids[0]}`, undefined, bob);
  const names = (await server.expect(200, 'GET', '/v1/system-prompts', undefined, admin)).prompts.map((prompt) => prompt.id);
  assert.ok(names.length > 0 && names.every((id) => /^(alice|bob):/.test(id)), String(names));

  const theirs = await imports(server, oldFile, alice);
  assert.deepEqual([theirs.state, theirs.report.imported], ['done', 1], JSON.stringify(theirs));
  assert.equal((await server.expect(200, 'GET', `/v1/contexts/${old.id}`, undefined, alice)).owner, 'alice');
  assert.equal((await imports(server, oldFile, alice)).report.already, 1);
  const taken = await imports(server, oldFile, bob);
  assert.deepEqual([taken.state, taken.error.code], ['failed', 'EXISTS']);
  await server.refuses(404, 'NOTFOUND', /not found/, 'GET', `/v1/contexts/${old.id}`, undefined, bob);
});

test('a file may be larger than a request body, up to a limit of its own', async (t) => {
  const server = await serveTurns(t, { steps, args: ['--max-body', '4K', '--max-import', '64K'] });
  const long = [{ ...said[0], content: 'k'.repeat(20000) }, said[1]];
  const large = JSON.stringify({ copilot_chats_v2: JSON.stringify([chat]), 'copilot_messages_v2_c-1': JSON.stringify(long) });
  assert.equal((await imports(server, large)).report.messages, 2);
  const tooLarge = JSON.stringify({ copilot_chats_v2: 'x'.repeat(70000) });
  await server.refuses(413, 'TOOBIG', /65536/, 'POST', '/v1/import', tooLarge);
  const chunked = await server.raw(`POST /v1/import HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${(70000).toString(16)}\r\n${'y'.repeat(70000)}\r\n0\r\n\r\n`);
  assert.match(chunked, /^HTTP\/1\.1 413 /);
  await server.refuses(413, 'TOOBIG', /4096/, 'POST', '/v1/contexts', { title: 'x'.repeat(5000) });
  await server.refuses(400, 'INVALID', /missing/, 'POST', '/v1/import');
  assert.deepEqual(fs.readdirSync(path.join(server.data, 'tmp')).filter((name) => name.startsWith('import')), [], 'nothing is left');
});
