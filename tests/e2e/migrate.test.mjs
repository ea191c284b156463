// quipu migrate and quipu rollback: the old program's files in, and out again to the byte.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { bin, exit, fails, jsonLines, lines, ok, onTerminal, run, Running, tempDir } from './helper.mjs';

const real = process.env.QUIPU_TEST_DATA
  ? path.join(process.env.QUIPU_TEST_DATA, 'legacy-contexts')
  : path.resolve('../shared/data/legacy-contexts');

const contextId = (n) => `${String(n).padStart(8, '0')}-0000-4000-9000-000000000000`;
const messageId = (n, i) => `${String(n).padStart(8, '0')}-0000-4000-8000-${String(i + 1).padStart(12, '0')}`;

// An old context of `count` messages "m0", "m1", …
function oldContext(n, count, more = {}) {
  const pool = {};
  for (let i = 0; i < count; i++)
    pool[messageId(n, i)] = {
      id: messageId(n, i),
      message: {
        role: i % 2 ? 'Assistant' : 'User',
        content: [{ type: 'text', text: `m${i} ${'.'.repeat(i % 50)}` }],
        metadata: null,
      },
      parent_id: i ? messageId(n, i - 1) : null,
    };
  return {
    id: contextId(n),
    parent_id: null,
    config: { model_id: 'gpt-4', mode: 'chat', parameters: {} },
    message_pool: pool,
    branches: {
      main: { name: 'main', message_ids: Object.keys(pool), system_prompt: null, user_prompt: null },
    },
    active_branch_name: 'main',
    current_state: 'Idle',
    ...more,
  };
}

function writeOld(dir, n, count, more) {
  fs.mkdirSync(dir, { recursive: true });
  fs.writeFileSync(path.join(dir, `${contextId(n)}.json`), JSON.stringify(oldContext(n, count, more), null, 2));
}

// Path to bytes of everything below `dir` that is a context's.
function contents(dir) {
  const all = {};
  for (const entry of fs.readdirSync(dir, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const full = path.join(entry.parentPath ?? entry.path, entry.name);
      all[path.relative(dir, full)] = fs.readFileSync(full, 'utf8');
    }
  return all;
}

test('the real files: migrated, clean, back to the byte, and the same a second time', (t) => {
  if (!fs.existsSync(real)) return t.skip(`${real} is missing`);
  const data = path.join(tempDir(t), 'data');
  const names = fs.readdirSync(real).filter((name) => name.endsWith('.json'));
  const untouched = contents(real);
  const report = ok(data, ['migrate', real]);
  assert.match(report, new RegExp(`^migrated ${names.length} of ${names.length} contexts: `, 'm'));
  assert.match(ok(data, ['check']), /: no problems\n$/);
  const first = contents(path.join(data, 'contexts'));
  ok(data, ['rollback', '--all']);
  for (const name of names)
    assert.ok(
      fs.readFileSync(path.join(real, name)).equals(fs.readFileSync(path.join(data, 'contexts', name))),
      `${name} comes back as it was`,
    );
  assert.equal(fs.readdirSync(path.join(data, 'contexts')).length, names.length, 'and nothing else');
  assert.match(ok(data, ['ls']), /\told format\n/);
  ok(data, ['migrate']);
  assert.deepEqual(contents(path.join(data, 'contexts')), first);
  assert.match(ok(data, ['migrate', real]), new RegExp(`${names.length} already there, 0 failed`));
  assert.deepEqual(contents(real), untouched);
});

test('a batch goes on over what is bad, and says so', (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  const old = path.join(dir, 'old/conversations');
  for (let n = 1; n <= 4; n++) writeOld(old, n, n);
  fs.writeFileSync(path.join(old, `${contextId(7)}.json`), '{"id": "');
  fs.writeFileSync(path.join(old, `${contextId(8)}.json`), '');
  writeOld(path.join(dir, 'old/z'), 2, 9); // another file of the same id
  fs.writeFileSync(path.join(old, 'notes.json'), '{"title": "not a conversation"}');
  const before = contents(old);
  const result = fails(data, ['migrate', path.join(dir, 'old'), '--json', '--jobs', '3'], 'INVALID', /could not be migrated/);
  const rows = jsonLines(result.stdout);
  const { summary } = rows.pop();
  assert.deepEqual(summary, {
    found: 7, migrated: 4, already: 0, failed: 3, not_tried: 0,
    messages: summary.messages, bytes: summary.bytes, notes: summary.notes, dry_run: false,
  });
  assert.equal(rows.length, 7);
  for (const row of rows) {
    assert.equal(row.outcome === 'failed', row.error !== null);
    if (row.error) assert.match(row.error.message, /\S/);
  }
  assert.ok(rows.some((row) => row.error?.code === 'EXISTS'));
  assert.deepEqual(contents(old), before);
  assert.match(ok(data, ['check']), /: no problems\n$/);
  const again = run(data, ['migrate', path.join(dir, 'old')]);
  assert.equal(again.status, exit.INVALID);
  assert.match(again.stdout, /migrated 0 of 7 contexts: .*4 already there, 3 failed/);
});

test('a dry run writes nothing', (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  writeOld(path.join(dir, 'old'), 1, 3);
  assert.match(ok(data, ['migrate', path.join(dir, 'old'), '--dry-run']), /would migrate 1 of 1 context: 3 messages/);
  assert.deepEqual(lines(ok(data, ['ls'])), []);
  assert.equal(ok(data, ['migrate', dir + '/data', '--dry-run']), 'nothing to migrate\n');
});

test('commands that write migrate first, commands that read do not', (t) => {
  const data = path.join(tempDir(t), 'data');
  ok(data, ['new', '--title', 'other']);
  const contexts = path.join(data, 'contexts');
  writeOld(contexts, 1, 3);
  const id = contextId(1);
  assert.match(ok(data, ['show', id]), /m2/);
  assert.ok(fs.existsSync(path.join(contexts, `${id}.json`)));
  assert.equal(jsonLines(ok(data, ['ls', '--json'])).find((row) => row.id === id).needs_migration, true);
  assert.match(ok(data, ['check']), new RegExp(`note contexts/${id}.json: in an old format`));
  ok(data, ['add', id, '--text', 'new']);
  assert.ok(fs.existsSync(path.join(contexts, `${id}.json.old`)));
  assert.match(ok(data, ['show', id]), /m2[^]*new/);
  ok(data, ['rm', id, '--yes']);
  assert.ok(!fs.readdirSync(contexts).some((name) => name.startsWith(id)));
});

test('a rollback elsewhere leaves the conversation as it is', (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  writeOld(path.join(dir, 'old'), 1, 3);
  ok(data, ['migrate', path.join(dir, 'old')]);
  const id = contextId(1);
  assert.match(ok(data, ['rollback', id, '--to', path.join(dir, 'out')]), /written {2}3 messages/);
  assert.deepEqual(contents(path.join(dir, 'out')), contents(path.join(dir, 'old')));
  assert.match(ok(data, ['rollback', id, '--to', path.join(dir, 'out')]), /already there/);
  fails(data, ['rollback'], 'INVALID', /--all/);
  fails(data, ['rollback', id, '--all'], 'INVALID', /--all/);
  fs.writeFileSync(path.join(dir, 'out', `${id}.json`), 'mine');
  fails(data, ['rollback', id, '--to', path.join(dir, 'out')], 'EXISTS', /other content/);
  assert.equal(fs.readFileSync(path.join(dir, 'out', `${id}.json`), 'utf8'), 'mine');
});

test('a source that cannot be written is only read', { skip: process.getuid() === 0 && 'root may write anywhere' }, (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  const old = path.join(dir, 'old');
  writeOld(old, 1, 3);
  fs.chmodSync(path.join(old, `${contextId(1)}.json`), 0o400);
  fs.chmodSync(old, 0o500);
  t.after(() => fs.chmodSync(old, 0o700));
  ok(data, ['migrate', old]);
  assert.match(ok(data, ['check']), /: no problems\n$/);
});

test('a terminal sees a bar, its errors and the sum', (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  for (let n = 1; n <= 5; n++) writeOld(path.join(dir, 'old'), n, 20);
  const { status, output } = onTerminal(data, ['migrate', path.join(dir, 'old')]);
  assert.equal(status, 0);
  assert.match(output, /migrated 5 of 5 contexts: 100 messages/);
  assert.doesNotMatch(output, /00000001-0000-4000-9000-000000000000 {2}migrated/);
});

// Ends the process after so many lines and a moment; the same command must bring it to its end.
async function killAt(t, data, args, linesSeen, wait) {
  const running = new Running(t, data, args);
  for (let i = 0; i < linesSeen; i++) await running.next();
  await new Promise((resolve) => setTimeout(resolve, wait));
  running.child.kill('SIGKILL');
  return running.ended;
}

test('kill -9 at any point of migrate and rollback: the same command goes on', async (t) => {
  const dir = tempDir(t);
  const old = path.join(dir, 'old');
  const count = 12;
  for (let n = 1; n <= count; n++) writeOld(old, n, 20 + 30 * (n % 4));
  const sources = contents(old);
  // What it should be, from a run that nobody disturbs.
  const calm = path.join(dir, 'calm');
  ok(calm, ['migrate', old]);
  const want = contents(path.join(calm, 'contexts'));
  for (let round = 0; round < 8; round++) {
    const data = path.join(dir, `data-${round}`);
    await killAt(t, data, ['migrate', old, '--jobs', String(1 + (round % 3))], round % 5, (round * 7) % 23);
    const seen = run(data, ['check']);
    if (fs.existsSync(path.join(data, 'contexts'))) assert.equal(seen.status, 0, seen.stdout + seen.stderr);
    ok(data, ['migrate', old]);
    assert.deepEqual(contents(path.join(data, 'contexts')), want);
    await killAt(t, data, ['rollback', '--all'], (round * 2) % 9, (round * 5) % 17);
    assert.equal(run(data, ['check']).status, 0);
    ok(data, ['rollback', '--all']);
    assert.deepEqual(contents(path.join(data, 'contexts')), sources);
    await killAt(t, data, ['migrate'], round % 7, (round * 3) % 19);
    ok(data, ['migrate']);
    assert.deepEqual(contents(path.join(data, 'contexts')), want);
    assert.match(ok(data, ['check']), /: no problems\n$/);
    assert.deepEqual(fs.readdirSync(path.join(data, 'tmp')), []);
  }
  assert.deepEqual(contents(old), sources);
});

test('SIGINT stops between two contexts, and the rest is counted', async (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  const count = 160; // more than it can do before the signal comes
  for (let n = 1; n <= count; n++) writeOld(path.join(dir, 'old'), n, 40);
  const running = new Running(t, data, ['migrate', path.join(dir, 'old'), '--jobs', '1']);
  await running.next();
  running.child.kill('SIGINT');
  const end = await running.ended;
  assert.equal(end.status, exit.STOPPED, end.stderr);
  assert.match(end.lines.at(-1), /, \d+ not tried/);
  assert.match(ok(data, ['migrate', path.join(dir, 'old')]), new RegExp(`of ${count} contexts`));
  assert.equal(lines(ok(data, ['ls'])).length, count);
});

test('the commands explain themselves', () => {
  for (const command of ['migrate', 'rollback']) assert.match(ok(undefined, ['help', command]), /Examples:/);
  assert.ok(fs.existsSync(bin));
});
