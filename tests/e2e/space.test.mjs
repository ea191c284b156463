// The whole life of a conversation on disk through the command line: archived, compressed,
// decompressed, collected; readable all the time, with the zstd tool too, and clean for check.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, fails, ids, jsonLines, lines, makeContext, ok, onTerminal, run, Running, tempDir } from './helper.mjs';

const hasZstd = spawnSync('zstd', ['--version']).status === 0;
const day = 24 * 3600 * 1000;
const ago = (days) => new Date(Date.now() - days * day).toISOString();

// One message a line, `days` days old.
const old = (text, days) => JSON.stringify({ role: 'user', text, created_at: ago(days) });

function addLines(data, ctx, rows) {
  return lines(ok(data, ['add', ctx, '--jsonl', '-', '--batch', '100'], { input: rows.join('\n') + '\n' }));
}

const raw = (data, ctx, ...more) => ok(data, ['show', ctx, '--raw', ...more]);
const clean = (data) => assert.match(ok(data, ['check']), /: no problems\n$/);

function files(dir, ending) {
  return fs
    .readdirSync(dir, { recursive: true })
    .filter((name) => name.endsWith(ending))
    .sort();
}

const messageFiles = (dir) => files(path.join(dir, 'messages'), '.json');

// What the zstd tool makes of a pack.
function zstdcat(dir, name) {
  const dict = path.join(dir, 'messages.dict');
  const more = name === 'messages.jsonl.zst' && fs.existsSync(dict) ? ['-D', dict] : [];
  const result = spawnSync('zstd', ['-dcq', ...more, path.join(dir, name)], { encoding: 'utf8', maxBuffer: 1 << 28 });
  assert.equal(result.status, 0, result.stderr);
  return result.stdout;
}

// ---- a whole life ----

test('a conversation is archived, compressed, added to, decompressed, and never changes', (t) => {
  const { data, ctx, dir } = makeContext(t, '--title', 'Long ago');
  const year = addLines(data, ctx, Array.from({ length: 30 }, (_, i) => old(`message ${i} of last year, with some words in it`, 400 - i)));
  ok(data, ['branch', ctx, 'fork', 'side', '--at', year[9], '--switch']);
  addLines(data, ctx, Array.from({ length: 10 }, (_, i) => old(`aside ${i}`, 300)));
  ok(data, ['branch', ctx, 'switch', 'main']);
  addLines(data, ctx, Array.from({ length: 5 }, (_, i) => old(`message ${i} of today`, 0)));
  const before = { main: raw(data, ctx), side: raw(data, ctx, '--branch', 'side') };
  const same = () => {
    assert.equal(raw(data, ctx), before.main);
    assert.equal(raw(data, ctx, '--branch', 'side'), before.side);
    clean(data);
  };
  const stored = messageFiles(dir).map((name) => fs.readFileSync(path.join(dir, 'messages', name)));

  // Archive: what is old, by month.
  const dry = JSON.parse(ok(data, ['archive', ctx, '--older-than', '6mo', '--dry-run', '--json']));
  assert.equal(dry.messages, 40);
  assert.equal(dry.bytes_after, null);
  assert.equal(files(dir, '.zst').length, 0);
  const archived = JSON.parse(ok(data, ['archive', ctx, '--older-than', '6mo', '--json']));
  assert.equal(archived.messages, 40);
  assert.equal(archived.bytes_before, dry.bytes_before);
  assert.ok(archived.bytes_after < archived.bytes_before);
  assert.equal(messageFiles(dir).length, 5);
  const months = files(dir, '.zst');
  assert.ok(months.length >= 2 && months.every((name) => /^archive\/\d{4}-\d\d\.jsonl\.zst$/.test(name)), months.join());
  same();
  assert.equal(JSON.parse(ok(data, ['archive', ctx, '--json'])).messages, 0);

  // Archived messages are found one by one, and show in the size.
  assert.match(ok(data, ['show', ctx, '--last', '36', '--raw']), /of last year/);
  const size = JSON.parse(ok(data, ['size', ctx, '--json']));
  assert.equal(size.archived_messages, 40);
  assert.equal(size.pack_bytes, archived.bytes_after);
  assert.equal(size.messages, 45);
  assert.match(ok(data, ['size', ctx]), /^archived\t\d+\t40\npacks\t\d+$/m);

  if (hasZstd) {
    const found = months.flatMap((name) => lines(zstdcat(dir, name)));
    assert.deepEqual(
      found.map((line) => JSON.parse(line).id).sort(),
      [...new Set([...ids(data, ctx), ...ids(data, ctx, '--branch', 'side')])].filter((id) => !messageFiles(dir).some((name) => name.includes(id))).sort(),
    );
  }

  // Compress: all of it, archives too.
  const packed = JSON.parse(ok(data, ['compress', ctx, '--json']));
  assert.equal(packed.messages, 45);
  assert.deepEqual(files(dir, '.zst'), ['messages.jsonl.zst']);
  assert.equal(messageFiles(dir).length, 0);
  same();
  if (hasZstd) {
    const all = new Set(lines(before.main).concat(lines(before.side)));
    assert.deepEqual(new Set(lines(zstdcat(dir, 'messages.jsonl.zst'))), all);
  }

  // New messages at once, on every branch.
  const more = [add(data, ctx, 'new and plain'), add(data, ctx, 'also on the side', '--branch', 'side')];
  assert.equal(messageFiles(dir).length, 2);
  assert.equal(ids(data, ctx).at(-1), more[0]);
  clean(data);
  ok(data, ['branch', ctx, 'fork', 'from-archive', '--at', year[3]]);
  assert.equal(ids(data, ctx, '--branch', 'from-archive').length, 4);
  ok(data, ['branch', ctx, 'delete', 'from-archive']);
  ok(data, ['compress', ctx]);
  assert.equal(messageFiles(dir).length, 0);
  clean(data);

  // Decompress: the same files with the same bytes.
  assert.equal(JSON.parse(ok(data, ['decompress', ctx, '--json'])).messages, 47);
  assert.equal(files(dir, '.zst').length, 0);
  const names = messageFiles(dir).filter((name) => !more.some((id) => name.includes(id)));
  assert.deepEqual(names.map((name) => fs.readFileSync(path.join(dir, 'messages', name))), stored);
  clean(data);
  assert.equal(raw(data, ctx), before.main + raw(data, ctx, '--last', '1'));
});

test('gc moves what no branch reaches to the trash, and deletes it when its time has come', (t) => {
  const { data, ctx, dir } = makeContext(t);
  const keep = [add(data, ctx, 'one'), add(data, ctx, 'two')];
  const lost = [add(data, ctx, 'three'), add(data, ctx, 'four')];
  ok(data, ['branch', ctx, 'rewind', 'main', '--to', keep[1]]);
  const all = ['trashed', 'purged', 'waiting'];
  const gc = (...args) => {
    const r = JSON.parse(ok(data, ['gc', ctx, '--json', ...args]));
    return all.map((key) => r[key]);
  };
  assert.deepEqual(gc('--dry-run').slice(0, 2), [2, 0]);
  assert.equal(messageFiles(dir).length, 4, 'a dry run writes nothing');
  assert.deepEqual(gc(), [2, 0, 2]);
  assert.equal(messageFiles(dir).length, 2);
  clean(data);
  assert.deepEqual(gc(), [0, 0, 2]);
  assert.equal(JSON.parse(ok(data, ['size', ctx, '--json'])).trashed_messages, 2);

  // A branch that goes back to one brings it and its ancestors back.
  ok(data, ['branch', ctx, 'rewind', 'main', '--to', lost[1]]);
  assert.deepEqual(ids(data, ctx), [...keep, ...lost]);
  clean(data);
  assert.deepEqual(gc(), [0, 0, 0]);

  ok(data, ['branch', ctx, 'rewind', 'main', '--to', keep[1]]);
  assert.deepEqual(gc('--grace', '1h'), [2, 0, 2]);
  assert.deepEqual(gc('--grace', '1h'), [0, 0, 2]);
  assert.deepEqual(gc('--grace', '0', '--dry-run').slice(0, 2), [0, 2]);
  assert.deepEqual(gc('--grace', '0'), [0, 2, 0]);
  assert.deepEqual(gc('--grace', '0'), [0, 0, 0]);
  clean(data);
  fails(data, ['branch', ctx, 'rewind', 'main', '--to', lost[1]], 'NOTFOUND', /./);
  assert.deepEqual(ids(data, ctx), keep);
});

test('gc takes messages out of a compressed conversation too', (t) => {
  const { data, ctx, dir } = makeContext(t);
  const keep = add(data, ctx, 'stays');
  add(data, ctx, 'goes');
  ok(data, ['compress', ctx]);
  ok(data, ['branch', ctx, 'rewind', 'main', '--to', keep]);
  ok(data, ['gc', ctx]);
  clean(data);
  ok(data, ['gc', ctx, '--grace', '0']);
  clean(data);
  assert.deepEqual(ids(data, ctx), [keep]);
  if (hasZstd) assert.doesNotMatch(zstdcat(dir, 'messages.jsonl.zst'), /goes/);
  for (const name of ['index.json', 'index.log']) fs.rmSync(path.join(dir, name));
  ok(data, ['check', '--repair']);
  assert.doesNotMatch(ok(data, ['show', ctx, '--raw']), /goes/, 'what was deleted does not come back');
  ok(data, ['compress', ctx]);
  clean(data);
  ok(data, ['decompress', ctx]);
  assert.equal(messageFiles(dir).length, 1);
  clean(data);
});

// ---- many conversations ----

test('all conversations at once: lines, a total, and what fails does not stop the others', (t) => {
  const { data, ctx } = makeContext(t);
  const more = [ctx, ok(data, ['new']).trim(), ok(data, ['new']).trim()].sort();
  for (const id of more.slice(0, 2)) for (let i = 0; i < 3; i++) add(data, id, `message ${i}, again and again and again`);
  const rows = lines(ok(data, ['compress', '--all'])).map((line) => line.split('\t'));
  assert.deepEqual(rows.map((row) => row[0]), [more[1], more[0], 'total'], 'newest first, and none for an empty one');
  assert.deepEqual(rows.map((row) => row[1]), ['3', '3', '6']);
  assert.equal(Number(rows[0][3]) + Number(rows[1][3]), Number(rows[2][3]));
  clean(data);

  // One with damage, one that is no id.
  const metadata = path.join(data, 'contexts', more[0], 'messages.jsonl.zst');
  const bytes = fs.readFileSync(metadata);
  bytes[bytes.length - 6] ^= 0x55;
  fs.writeFileSync(metadata, bytes);
  const result = run(data, ['decompress', more[0], 'nothing', more[1], '--json']);
  assert.notEqual(result.status, 0);
  const objects = jsonLines(result.stdout);
  assert.deepEqual(objects[0].id, more[1]);
  assert.deepEqual(objects[1].total.contexts, 1);
  assert.deepEqual(objects[1].total.failed, 2);
  assert.match(result.stderr, new RegExp(`warning: ${more[0]}: `));
  assert.match(result.stderr, /warning: nothing: /);
  assert.match(JSON.parse(lines(result.stderr).at(-1)).error.message, /^2 of 3 contexts failed, the first because: /);
  fails(data, ['decompress', more[0]], 'CORRUPT', /./);
});

test('on a terminal the lines are for people', (t) => {
  const { data, ctx } = makeContext(t);
  addLines(data, ctx, Array.from({ length: 40 }, (_, i) => old(`the same words ${i}`, 10)));
  assert.match(onTerminal(data, ['archive', '--older-than', '1y']).output, /^total: 1 context, 0 messages, 0 B -> 0 B\n$/);
  assert.match(onTerminal(data, ['archive', '-n', '--older-than', '1w']).output, new RegExp(`^${ctx}  would archive 40 messages, 8\\.\\d kB\ntotal: 1 context, 40 messages, 8\\.\\d kB\n$`));
  assert.match(onTerminal(data, ['compress', ctx]).output, new RegExp(`^${ctx}  compressed 40 messages, 8\\.\\d kB -> \\d+ B \\(\\d\\d % saved\\)\n$`));
  assert.match(onTerminal(data, ['compress', ctx]).output, /  nothing to compress\n$/);
  assert.match(onTerminal(data, ['decompress', ctx]).output, /  decompressed 40 messages, \d+ B -> 8\.\d kB\n$/);
  assert.match(onTerminal(data, ['gc', '-n']).output, /^total: would move 0 to the trash \(0 B\) and delete 0 \(0 B\), 0 waiting\n$/);
  assert.match(onTerminal(data, ['gc']).output, /^total: 0 to the trash \(0 B\), 0 deleted \(0 B\), 0 waiting\n$/);
});

// ---- bad input ----

test('durations are understood or refused', (t) => {
  const { data, ctx } = makeContext(t);
  addLines(data, ctx, [old('a', 800), old('b', 200), old('c', 20), old('d', 2)]);
  const counts = { '3y': 0, '2y': 1, '24mo': 1, '1y': 1, '6mo': 2, '52w': 1, '90d': 2, '1w': 3, '48h': 4, '1d': 4, '25h': 4, '0': 4, '0d': 4, '1000y': 0 };
  for (const [age, count] of Object.entries(counts))
    assert.equal(JSON.parse(ok(data, ['archive', ctx, '--older-than', age, '-n', '--json'])).messages, count, age);
  for (const age of ['', '6', 'mo', '6m', '-1d', '1.5d', '6 mo', '6months', '1d1h', '٣d']) {
    fails(data, ['archive', `--older-than=${age}`], 'INVALID', /--older-than must be a time such as 12h, 90d, 2w, 6mo or 1y/);
    fails(data, ['gc', `--grace=${age}`], 'INVALID', /--grace must be a time/);
  }
  for (const age of ['9999999999999999999999d', '9000y', '1000001h']) fails(data, ['archive', '--older-than', age], 'INVALID', /too long/);
});

test('bad input is one clear sentence', (t) => {
  const { data, ctx } = makeContext(t);
  for (const command of ['compress', 'decompress']) {
    fails(data, [command], 'INVALID', /name the conversations to (de)?compress, or use --all/);
    fails(data, [command, ctx, '--all'], 'INVALID', /not both/);
  }
  for (const command of ['gc', 'archive', 'compress', 'decompress']) {
    fails(data, [command, 'abcdabcd'], 'NOTFOUND', /abcdabcd/);
    fails(data, [command, '0192f000-1234-7abc-8def-0123456789ab'], 'NOTFOUND', /./);
    fails(data, [command, ctx, '--dry'], 'INVALID', /did you mean --dry-run/);
    fails(path.join(tempDir(t), 'none'), [command, ctx], 'NOTFOUND', /no quipu data/);
  }
  assert.equal(ok(data, ['show', ctx, '--raw']), '');
  clean(data);
});

test('a dry run works while another process writes', async (t) => {
  const { data, ctx } = makeContext(t);
  add(data, ctx, 'here');
  const writer = new Running(t, data, ['add', ctx, '--jsonl', '-']);
  await writer.write('{"role":"user","text":"more"}\n');
  await writer.next();
  assert.equal(JSON.parse(ok(data, ['compress', ctx, '-n', '--json'])).messages, 2);
  fails(data, ['compress', ctx], 'BUSY', /./);
  await writer.end();
  clean(data);
});
