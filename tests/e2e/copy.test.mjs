// `quipu copy` between directories and PostgreSQL: what comes back is equal byte for byte, a copy that
// was killed is continued, and nothing else is overwritten.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { talkUntilCompacted, withAnthropic } from './compact.mjs';
import { missing, newDatabase } from './cluster.mjs';
import { add, fails, ids, lines, messageFile, ok, run, Running, tempDir } from './helper.mjs';
import { serve } from './server.mjs';
import { until } from './turns.mjs';

const copy = (from, to, ...more) => JSON.parse(ok(undefined, ['copy', from, to, '--json', ...more]));
const oldId = '00000007-0000-4000-9000-000000000000';

// The files of a store that a copy promises to keep: path to bytes. Archives are compared as messages.
function kept(data) {
  const all = {};
  for (const entry of fs.readdirSync(data, { recursive: true, withFileTypes: true })) {
    const full = path.join(entry.parentPath ?? entry.path, entry.name);
    const name = path.relative(data, full);
    if (entry.isFile() && /^(prompts|sessions|blobs)\/|^contexts\/[^/]+\/(metadata\.json$|messages\/|trash\/|events\/|compactions\/)/.test(name))
      all[name] = fs.readFileSync(full).toString('latin1');
  }
  return all;
}

// The prompt that a migration makes has the time of the migration.
function sameFiles(a, b) {
  const [x, y] = [kept(a), kept(b)];
  for (const files of [x, y]) if ('prompts/older.json' in files) files['prompts/older.json'] = JSON.parse(files['prompts/older.json']).content;
  assert.deepEqual(Object.keys(x).sort(), Object.keys(y).sort());
  for (const name of Object.keys(x)) assert.ok(x[name] === y[name], `${name} differs`);
  return Object.keys(x).length;
}

// A conversation of an older program, with a prompt of its own.
function writeOld(data) {
  const id = (i) => `00000007-0000-4000-8000-00000000000${i}`;
  const message = (i, role) => ({ id: id(i), message: { role, content: [{ type: 'text', text: `old ${i}` }], metadata: null }, parent_id: i > 1 ? id(i - 1) : null });
  const pool = { [id(1)]: message(1, 'User'), [id(2)]: message(2, 'Assistant') };
  const branch = { name: 'main', message_ids: Object.keys(pool), system_prompt: { id: 'older', content: 'Be old.' }, user_prompt: null };
  const context = { id: oldId, parent_id: null, config: { model_id: 'gpt-4', mode: 'chat', parameters: {} }, message_pool: pool, branches: { main: branch }, active_branch_name: 'main', current_state: 'Idle' };
  const file = path.join(data, 'contexts', `${oldId}.json`);
  fs.writeFileSync(file, JSON.stringify(context));
  fs.utimesSync(file, 1.7e9, 1.7e9); // its time becomes that of the context
}

// A store with some of everything.
async function makeStore(t) {
  const { server, chat } = await withAnthropic(t, { body: { compaction: { recall_tokens: 0 } } });
  await talkUntilCompacted(chat);
  await chat.does('send_message', { content: 'once' }, { 'idempotency-key': 'key-1' });
  await server.stop('SIGTERM');
  const { data } = server;
  ok(data, ['import', path.resolve('tests/fixtures/localstorage/v2.json')]);
  ok(data, ['prompt', 'create', '--id', 'terse', '--content', 'Be terse. \u{1f9f6}']);
  for (const id of ['bot-1', 'bot 2'])
    ok(data, ['session', 'new', '--id', id, '--title', `of ${id}`, '--chunk-size', '10']);
  ok(data, ['session', 'append', 'bot-1', '--jsonl', '-'], { input: Array.from({ length: 25 }, (_, i) => `${JSON.stringify({ role: 'user', content: `s${i}` })}\n`).join('') });
  const tree = ok(data, ['new', '--title', 'tree', '--system-prompt', 'terse']).trim();
  for (let i = 0; i < 6; i++) add(data, tree, `m${i} \u0001 "\\ ü`);
  ok(data, ['branch', tree, 'fork', 'side', '--at', ids(data, tree)[2]]);
  add(data, tree, 'on the side', '--branch', 'side');
  ok(data, ['branch', tree, 'fork', 'a/b ü', '--at', ids(data, tree)[1]]);
  const lost = add(data, tree, 'goes', '--branch', 'a/b ü');
  ok(data, ['branch', tree, 'delete', 'a/b ü']);
  ok(data, ['gc', tree]); // moves it to the trash
  assert.equal(fs.readdirSync(path.join(data, 'contexts', tree, 'trash')).length, 1);
  const gone = ids(data, tree)[4];
  fs.rmSync(messageFile(path.join(data, 'contexts', tree), gone));
  run(data, ['check', '--repair']);
  const packed = ok(data, ['new', '--title', 'packed']).trim();
  ok(data, ['add', packed, '--jsonl', '-', '--batch', '200'], { input: Array.from({ length: 400 }, (_, i) => `${JSON.stringify({ role: i % 2 ? 'assistant' : 'user', text: `packed ${i}` })}\n`).join('') });
  ok(data, ['compress', packed]);
  ok(data, ['new', '--title', 'empty']);
  writeOld(data);
  return { data, tree, packed, lost, gone, chat: chat.id };
}

test('directory to PostgreSQL and back: every message, prompt, session, record and mark is the same', { skip: missing }, async (t) => {
  const made = await makeStore(t);
  const { data, tree, packed } = made;
  const { url, sql } = newDatabase(t);
  const back = path.join(tempDir(t), 'back');
  const direct = path.join(tempDir(t), 'direct');
  const contexts = lines(ok(data, ['ls', '--json'])).length;

  const there = copy(data, url);
  assert.equal(there.contexts, contexts);
  assert.equal(there.copied, contexts);
  assert.equal(there.migrated, 1);
  assert.equal(there.unavailable, 1);
  assert.deepEqual([there.changed, there.problems, there.equal], [0, 0, 0]);
  assert.ok(there.compared >= 430, `${there.compared} messages were compared`);
  assert.equal(sql("SELECT count(*) FROM quipu.marks WHERE trashed IS NOT NULL"), '1');
  assert.equal(sql(`SELECT count(*) FROM quipu.marks WHERE status IS NOT NULL AND id = '${made.gone}'`), '1');

  const again = copy(data, url);
  assert.deepEqual([again.copied, again.equal, again.files, again.messages], [0, contexts, 0, 0]);
  assert.equal(again.files_equal, there.files);

  const returned = copy(url, back);
  assert.deepEqual([returned.copied, returned.migrated, returned.unavailable, returned.problems], [contexts, 0, 1, 0]);
  assert.equal(copy(data, direct).copied, contexts);

  // As the source, once it has neither packs nor old formats.
  const plain = path.join(tempDir(t), 'plain');
  fs.cpSync(data, plain, { recursive: true, preserveTimestamps: true });
  ok(plain, ['decompress', packed]);
  run(plain, ['migrate']);
  const count = sameFiles(plain, back);
  assert.ok(count > 450, `${count} files`);
  sameFiles(plain, direct);
  for (const name of fs.readdirSync(path.join(back, 'contexts')).filter((n) => n.length === 36))
    assert.equal(fs.readFileSync(path.join(back, 'contexts', name, 'index.json'), 'latin1'), fs.readFileSync(path.join(direct, 'contexts', name, 'index.json'), 'latin1'));

  for (const store of [data, url, back]) {
    assert.equal(ok(store, ['show', tree, '--raw', '--branch', 'side']), ok(data, ['show', tree, '--raw', '--branch', 'side']));
    assert.equal(ok(store, ['session', 'read', 'bot-1', '--json']), ok(data, ['session', 'read', 'bot-1', '--json']));
    assert.match(ok(store, ['show', oldId]), /old 2/);
    assert.match(ok(store, ['search', 'packed']), /packed/);
  }
  assert.match(ok(back, ['check']), /marked as lost[^]*no problems/);
  ok(back, ['branch', tree, 'fork', 'again', '--at', made.lost]); // from the trash
  assert.match(ok(back, ['show', tree, '--branch', 'again']), /goes/);
});

test('a copy that was killed is continued, to PostgreSQL and to a directory', { skip: missing }, async (t) => {
  const data = path.join(tempDir(t), 'data');
  const { url, sql } = newDatabase(t);
  const back = path.join(tempDir(t), 'back');
  for (let i = 0; i < 120; i++) {
    const ctx = ok(data, ['new', '--title', `c${i}`]).trim();
    if (i % 3 === 0) ok(data, ['add', ctx, '--jsonl', '-', '--batch', '50'], { input: Array.from({ length: 40 }, (_, k) => `${JSON.stringify({ role: 'user', text: `${i} ${k} ${'x'.repeat(500)}` })}\n`).join('') });
  }
  const empty = path.join(tempDir(t), 'empty');
  fs.mkdirSync(path.join(empty, 'contexts'), { recursive: true });
  assert.equal(copy(empty, url).contexts, 0); // the tables are there
  const reached = {
    [url]: () => Number(sql('SELECT count(*) FROM quipu.contexts')),
    [back]: () => (fs.existsSync(path.join(back, 'contexts')) ? fs.readdirSync(path.join(back, 'contexts')).length : 0),
  };
  for (const [from, to] of [[data, url], [url, back]]) {
    const copying = new Running(t, undefined, ['copy', from, to]);
    await until(() => reached[to]() >= 15);
    copying.child.kill('SIGKILL');
    await copying.ended;
    const before = reached[to]();
    const report = copy(from, to);
    assert.equal(report.contexts, 120);
    assert.equal(report.copied + report.equal, 120);
    assert.ok(report.equal >= before, `${report.equal} of ${before} were skipped`);
    assert.equal(report.compared, 40 * 40);
  }
  sameFiles(data, back);
});

test('what TO has under the same id is not overwritten, unless it is an older copy', { skip: missing }, (t) => {
  const data = path.join(tempDir(t), 'data');
  const other = path.join(tempDir(t), 'other');
  const { url } = newDatabase(t);
  const ctx = ok(data, ['new', '--title', 'one']).trim();
  add(data, ctx, 'first');
  ok(data, ['prompt', 'create', '--id', 'p', '--content', 'one']);
  ok(data, ['session', 'new', '--id', 's']);
  ok(data, ['session', 'append', 's', '--text', 'one']);
  for (const to of [url, other]) copy(data, to);

  // The source goes on.
  add(data, ctx, 'second');
  ok(data, ['prompt', 'update', 'p', '--content', 'two']);
  ok(data, ['session', 'append', 's', '--text', 'two']);
  const extra = ok(data, ['new', '--title', 'extra']).trim();
  for (const to of [url, other]) {
    const end = fails(undefined, ['copy', data, to], 'CONFLICT', /nothing was copied: context .* another content.*--update/);
    assert.match(end.stderr, /prompts\/p\.json: the store to copy to has this file with another content/);
    assert.match(end.stderr, /sessions\/session-s\.1\.jsonl/);
    assert.equal(run(to, ['show', extra]).status !== 0, true, 'nothing was copied');
    const report = copy(data, to, '--update');
    assert.deepEqual([report.copied, report.updated, report.equal, report.files], [2, 1, 0, 3]);
    assert.match(ok(to, ['show', ctx]), /second/);
    assert.match(ok(to, ['session', 'read', 's']), /two/);
  }

  // The copy goes on: it is not an older one any more.
  for (const to of [url, other]) {
    add(to, ctx, 'only here');
    for (const more of [[], ['--update']]) fails(undefined, ['copy', data, to, ...more], 'CONFLICT', /another content/);
    assert.match(ok(to, ['show', ctx]), /only here/);
  }
  ok(other, ['session', 'new', '--id', 'only-there']);
  fails(undefined, ['copy', data, other, '--update'], 'CONFLICT', /session/);
  fails(undefined, ['copy', path.join(other, 'nowhere'), url], 'NOTFOUND', /FROM: directory/);
});

test('a server goes on with the source; what it changes meanwhile is counted', { skip: missing }, async (t) => {
  const server = await serve(t);
  const { url } = newDatabase(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: 'live' });
  await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'before' });
  assert.equal(copy(server.data, url).copied, 1);
  await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'after' });
  assert.equal(copy(server.data, url, '--update').updated, 1);
  assert.match(ok(url, ['show', id]), /before[^]*after/);
  // A target that a server uses is refused: a directory by its lock.
  fails(undefined, ['copy', url, server.data], 'BUSY', /TO: .*(server|process)/);
});
