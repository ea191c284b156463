// What comes in through `add --jsonl`: good lines, bad lines, hostile lines.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, bin, environment, exit, fails, ids, jsonLines, lines, makeContext, ok, run, uuid } from './helper.mjs';

const user = (text) => JSON.stringify({ role: 'user', text });
const textsOf = (data, ctx) =>
  JSON.parse(ok(data, ['show', ctx, '--json'])).messages.map((m) => m.content.map((p) => p.text).join(''));

test('one id a line, in order; empty lines are passed over; the last newline may lack', (t) => {
  const { data, ctx } = makeContext(t);
  const input = `${user('a')}\n\n  \t\r\n${user('b')}\r\n${user('c')}`;
  const printed = lines(ok(data, ['add', ctx, '--jsonl', '-'], { input }));
  assert.equal(printed.length, 3);
  for (const id of printed) assert.match(id, uuid);
  assert.deepEqual([...printed].sort(), printed, 'ids rise');
  assert.deepEqual(ids(data, ctx), printed);
  assert.deepEqual(textsOf(data, ctx), ['a', 'b', 'c']);
});

test('no lines at all', (t) => {
  const { data, ctx } = makeContext(t);
  assert.equal(ok(data, ['add', ctx, '--jsonl', '-'], { input: '' }), '');
  assert.equal(ok(data, ['add', ctx, '--jsonl', '-'], { input: '\n\n' }), '');
});

test('from a file, into a branch, with --json', (t) => {
  const { data, ctx } = makeContext(t);
  ok(data, ['branch', ctx, 'fork', 'alt']);
  const file = path.join(path.dirname(data), 'in.jsonl');
  fs.writeFileSync(file, `${user('a')}\n\n${user('b')}\n`);
  const printed = jsonLines(ok(data, ['add', ctx, '--jsonl', file, '--branch', 'alt', '--json']));
  assert.deepEqual(printed.map((p) => p.line), [1, 3]);
  assert.deepEqual(ids(data, ctx, '--branch', 'alt'), printed.map((p) => p.id));
  assert.deepEqual(ids(data, ctx), []);
  fails(data, ['add', ctx, '--jsonl', '/nonexistent'], 'NOTFOUND', /cannot open '\/nonexistent'/);
  fails(data, ['add', ctx, '--jsonl', '/'], 'IO', /directory/);
  fails(data, ['add', ctx, '--jsonl', '-', '--branch', 'nope'], 'NOTFOUND', /nope/, { input: 'never read' });
});

test('a whole message keeps its id, its time and fields that quipu does not know', (t) => {
  const { data, ctx } = makeContext(t);
  const message = {
    id: '01920000-0000-7000-8000-0000000000aa',
    role: 'assistant',
    type: 'plan',
    created_at: '2024-02-29T12:34:56.789Z',
    content: [{ type: 'text', text: 'step one', lang: 'en' }],
    metadata: { tokens: { prompt_tokens: 3, completion_tokens: 5 } },
    'x-custom': { deep: [1, 2, { three: null }] },
  };
  const input = JSON.stringify(message);
  assert.equal(ok(data, ['add', ctx, '--jsonl', '-'], { input }), `${message.id}\n`);
  const [stored] = JSON.parse(ok(data, ['show', ctx, '--json'])).messages;
  assert.deepEqual(stored, { ...message, parent_id: null });
  assert.match(ok(data, ['show', ctx]), /^#1 assistant \(plan\) 2024-02-29 12:34:56 0192/m);
  fails(data, ['add', ctx, '--jsonl', '-'], 'EXISTS', /line 1: /, { input });
});

test('a bad line ends it; what was printed stays; the line is named', (t) => {
  const { data, ctx } = makeContext(t);
  const input = `${user('a')}\n${user('b')}\n\nnot json\n${user('c')}\n`;
  const result = fails(data, ['add', ctx, '--jsonl', '-'], 'INVALID', /^quipu: line 4: /, { input });
  assert.deepEqual(ids(data, ctx), lines(result.stdout));
  assert.deepEqual(textsOf(data, ctx), ['a', 'b']);
});

test('--keep-going passes over bad lines, reports each and counts them', (t) => {
  const { data, ctx } = makeContext(t);
  const twice = '{"id":"01920000-0000-7000-8000-0000000000bb","role":"user","text":"x"}';
  const input = [user('a'), '[1]', user('b'), twice, twice, '{"role":"robot","text":"x"}', user('c')].join('\n');
  const result = fails(data, ['add', ctx, '--jsonl', '-', '--keep-going'], 'INVALID', /line 2: /, { input });
  assert.deepEqual(ids(data, ctx), lines(result.stdout));
  assert.deepEqual(textsOf(data, ctx), ['a', 'b', 'x', 'c']);
  const reports = lines(result.stderr);
  assert.deepEqual(reports.map((line) => line.match(/line (\d)/)?.[1]), ['2', '5', '6', undefined]);
  assert.equal(reports[3], 'quipu: 3 of 7 lines were not saved');
});

test('--batch saves together and prints in order', (t) => {
  const { data, ctx } = makeContext(t);
  const all = Array.from({ length: 25 }, (_, i) => `n${i}`);
  const printed = lines(ok(data, ['add', ctx, '--jsonl', '-', '--batch', '10'], { input: all.map(user).join('\n') }));
  assert.equal(printed.length, 25);
  assert.deepEqual(ids(data, ctx), printed);
  assert.deepEqual(textsOf(data, ctx), all);
  for (const n of ['0', '10001', 'x']) fails(data, ['add', ctx, '--jsonl', '-', '--batch', n], 'INVALID', /--batch/);
});

test('--batch with bad lines: the good ones before are saved, and with --keep-going all good ones', (t) => {
  const { data, ctx } = makeContext(t);
  const input = [user('a'), user('b'), 'bad', user('c'), '{"role":"user"', user('d')].join('\n');
  const stopped = fails(data, ['add', ctx, '--jsonl', '-', '--batch', '100'], 'INVALID', /line 3: /, { input });
  assert.equal(lines(stopped.stdout).length, 2);
  const went = fails(data, ['add', ctx, '--jsonl', '-', '--batch', '100', '-k'], 'INVALID', /line 3: /, { input });
  assert.deepEqual(ids(data, ctx), [...lines(stopped.stdout), ...lines(went.stdout)]);
  assert.deepEqual(textsOf(data, ctx), ['a', 'b', 'a', 'b', 'c', 'd']);
  assert.match(went.stderr, /line 5: /);
});

test('lines that are no messages are refused with a sentence', (t) => {
  const { data, ctx } = makeContext(t);
  const cases = [
    'nonsense',
    '{"role":"user","text":"unfinished',
    '{"role":"user","text":"x"} trailing',
    '{"role":"user","role":"tool","text":"x"}',
    '[]',
    '"text"',
    '42',
    'null',
    '{}',
    '{"text":"nobody said it"}',
    '{"role":7,"text":"x"}',
    '{"role":"robot","text":"x"}',
    '{"role":"user","text":7}',
    '{"role":"user","content":{"not":"a list"}}',
    '{"role":"user","id":"not-a-uuid","text":"x"}',
    '{"role":"user","id":"../../etc/passwd","text":"x"}',
    '{"role":"user","parent_id":"zzz","text":"x"}',
    '{"role":"user","created_at":"yesterday","text":"x"}',
    '{"role":"user","text":"x","tool_calls":{}}',
    '[[[[',
    '\ufeff',
  ];
  for (const input of cases) {
    const result = run(data, ['add', ctx, '--jsonl', '-'], { input });
    assert.equal(result.status, exit.INVALID, input);
    assert.match(result.stderr, /^quipu: line 1: \S/);
    assert.equal(result.stdout, '', input);
  }
  assert.deepEqual(ids(data, ctx), []);
});

test('JSON nested 10,000 deep is refused, not followed', (t) => {
  const { data, ctx } = makeContext(t);
  const deep = '['.repeat(10_000) + ']'.repeat(10_000);
  const nested = '{"a":'.repeat(10_000) + '1' + '}'.repeat(10_000);
  for (const value of [deep, nested, '['.repeat(10_000)]) {
    const input = `{"role":"user","text":"x","extra":${value}}`;
    fails(data, ['add', ctx, '--jsonl', '-'], 'INVALID', /line 1: .*(nested|deep)/, { input });
  }
  fails(data, ['new', '--parameters', `{"a":${deep}}`], 'INVALID', /nested|deep/);
  assert.deepEqual(ids(data, ctx), []);
});

test('bytes that are not UTF-8, and NUL bytes', (t) => {
  const { data, ctx } = makeContext(t);
  const around = (...bytes) => Buffer.concat([Buffer.from('{"role":"user","text":"a'), Buffer.from(bytes), Buffer.from('b"}\n')]);
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82], [0x00], [0x0a]]) {
    const input = around(...bytes);
    const result = fails(data, ['add', ctx, '--jsonl', '-'], 'INVALID', /line 1: /, { input });
    assert.equal(result.stdout, '');
  }
  fails(data, ['add', ctx, '--text', '-'], 'INVALID', /UTF-8/, { input: Buffer.from([0x61, 0xff]) });
  assert.deepEqual(ids(data, ctx), []);
  const escaped = '{"role":"user","text":"a\\u0000b \\ud83e\\uddf6"}';
  const result = run(data, ['add', ctx, '--jsonl', '-'], { input: escaped });
  if (result.status === 0) assert.deepEqual(textsOf(data, ctx), ['a\0b 🧶']);
  else assert.equal(result.status, exit.INVALID);
});

test('arguments that are not UTF-8', (t) => {
  const { data, ctx } = makeContext(t);
  const raw = "$'a\\xffb'"; // bash spells the byte; node would not pass it
  for (const line of [`branch $CTX fork ${raw}`, `add $CTX --text ${raw}`, `new --title ${raw}`, `show ${raw}`]) {
    const env = environment(data, { Q: bin, CTX: ctx });
    const result = spawnSync('bash', ['-c', `"$Q" ${line} --json`], { encoding: 'utf8', env });
    assert.equal(result.status, exit.INVALID, line);
    assert.equal(result.stdout, '');
    assert.equal(JSON.parse(result.stderr).error.code, 'INVALID');
  }
});

test('any text comes back as it went in', (t) => {
  const { data, ctx } = makeContext(t);
  const all = ['', ' ', 'ÄÖ 🧶 漢字 \u202e', '\u0001\u001b[31m\u007f\u0085', '"\\/\b\f\n\r\t', '\ud7ff\ue000\u{10ffff}', 'x'.repeat(1 << 20)];
  ok(data, ['add', ctx, '--jsonl', '-'], { input: all.map(user).join('\n') });
  assert.deepEqual(textsOf(data, ctx), all);
});

// Writes `size` bytes of one line and tells how it ended and how much memory it took at most.
function pour(data, args, size) {
  return new Promise((resolve) => {
    const child = spawn(bin, args, { env: environment(data) });
    const chunk = Buffer.alloc(1 << 20, 'x');
    let left = size;
    let peak = 0;
    let stderr = '';
    const look = () => {
      try {
        const status = fs.readFileSync(`/proc/${child.pid}/status`, 'utf8');
        peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0));
      } catch {
        // It has ended.
      }
    };
    const more = () => {
      look();
      if (left <= 0) return child.stdin.end('"}\n');
      left -= chunk.length;
      return child.stdin.write(chunk, more);
    };
    child.stdin.on('error', () => {});
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
    child.on('close', (status) => resolve({ status, stderr, peakKb: peak }));
    child.stdin.write('{"role":"user","text":"', more);
  });
}

test('a message of 200 MB is refused without taking 200 MB', async (t) => {
  const { data, ctx } = makeContext(t);
  const first = add(data, ctx, 'before');
  const line = await pour(data, ['add', ctx, '--jsonl', '-'], 200 << 20);
  assert.equal(line.status, exit.TOOBIG, line.stderr);
  assert.match(line.stderr, /^quipu: line 1: longer than \d+ bytes\n$/);
  const text = await pour(data, ['add', ctx, '--text', '-'], 200 << 20);
  assert.equal(text.status, exit.TOOBIG, text.stderr);
  if (!process.env.ASAN_OPTIONS) assert.ok(Math.max(line.peakKb, text.peakKb) < 150_000, `${line.peakKb} kB`);
  assert.deepEqual(ids(data, ctx), [first]);
  ok(data, ['check']);
});

test('an over-long line is passed over with --keep-going', (t) => {
  const { data, ctx } = makeContext(t);
  const input = `${user('a')}\n${user('x'.repeat(40 << 20))}\n${user('b')}\n${'y'.repeat(34 << 20)}`;
  fails(data, ['add', ctx, '--jsonl', '-', '-k'], 'TOOBIG', /line 2: longer than/, { input });
  assert.deepEqual(textsOf(data, ctx), ['a', 'b']);
});

test('a message over the limit of the store is refused, one below is kept', (t) => {
  const { data, ctx } = makeContext(t);
  fails(data, ['add', ctx, '--jsonl', '-'], 'TOOBIG', /line 1: /, { input: user('x'.repeat(17 << 20)) });
  const big = 'y'.repeat(15 << 20);
  ok(data, ['add', ctx, '--jsonl', '-'], { input: user(big) });
  assert.equal(textsOf(data, ctx)[0].length, big.length);
});
