// Standard output that breaks, fills up or is a terminal.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { bin, environment, exit, ids, lines, makeContext, ok, onTerminal, run } from './helper.mjs';

const user = (text) => JSON.stringify({ role: 'user', text });

// A line of bash with "$Q" as quipu and $CTX as the conversation.
function shell(data, ctx, line, input = '') {
  return spawnSync('bash', ['-c', line], { encoding: 'utf8', input, env: environment(data, { Q: bin, CTX: ctx }) });
}

function filled(t, n) {
  const made = makeContext(t);
  const input = Array.from({ length: n }, (_, i) => user(`message ${i} ${'x'.repeat(50)}`)).join('\n');
  ok(made.data, ['add', made.ctx, '--jsonl', '-', '--batch', '1000'], { input });
  return made;
}

test('a reader who leaves early ends it as shells expect', (t) => {
  const { data, ctx } = filled(t, 2500);
  for (const form of ['', '--raw', '--json', '--ids']) {
    const result = shell(data, ctx, `set -o pipefail; "$Q" show $CTX ${form} | head -c 100 >/dev/null; echo $?`);
    assert.equal(result.stdout, '141\n', form);
    assert.equal(result.stderr, '');
  }
});

test('when nobody takes the ids nothing further is saved', (t) => {
  const { data, ctx } = makeContext(t);
  const input = Array.from({ length: 2000 }, (_, i) => user(`m${i}`)).join('\n');
  const result = shell(data, ctx, 'set -o pipefail; "$Q" add $CTX --jsonl - | head -1; echo $?', input);
  const [first, code] = lines(result.stdout);
  assert.equal(code, '141');
  const stored = ids(data, ctx);
  assert.equal(stored[0], first);
  assert.ok(stored.length < 2000, `${stored.length} were saved`);
  ok(data, ['check']);
});

test('a full disk under standard output is an error', (t) => {
  const { data, ctx } = filled(t, 100);
  for (const args of ['ls', 'show $CTX', 'show $CTX --raw', 'show $CTX --json', 'version', 'help', 'size', 'check', 'add $CTX --text x']) {
    const result = shell(data, ctx, `"$Q" ${args} > /dev/full`);
    assert.equal(result.status, exit.FULL, `${args}: ${result.stderr}`);
    assert.match(result.stderr, args.includes('--json') ? /^\{"error":\{"code":"FULL","message":"cannot write to standard output: No space/ : /^quipu: cannot write to standard output: No space left on device\n/);
  }
});

test('closed standard descriptors never become files of the store', (t) => {
  const { data, ctx, dir } = filled(t, 3);
  const before = ids(data, ctx);
  assert.equal(shell(data, ctx, '"$Q" add $CTX --text hidden >&-').status, exit.IO);
  assert.equal(shell(data, ctx, '"$Q" add $CTX --text hidden >&- 2>&- <&-').status, exit.IO);
  assert.equal(shell(data, ctx, '"$Q" show $CTX >&-').status, exit.IO);
  assert.equal(shell(data, ctx, '"$Q" add $CTX --text - <&-').status, exit.IO);
  assert.deepEqual(ids(data, ctx).slice(0, 3), before);
  ok(data, ['check']);
  for (const name of fs.readdirSync(dir, { recursive: true })) {
    const file = `${dir}/${name}`;
    if (fs.statSync(file).isFile()) assert.doesNotMatch(fs.readFileSync(file, 'utf8'), /quipu:/);
  }
});

test('stored text cannot drive a terminal, a pipe neither', (t) => {
  const { data, ctx } = makeContext(t, '--title', 'red \x1b[31malert\x07\nsecond line');
  const nasty = 'a\x1b]0;owned\x07b\rc\u009b31md\x7fe\tf\ng';
  const call = {
    role: 'assistant',
    content: [{ type: 'thinking', text: nasty }, { type: 'image', url: nasty }],
    tool_calls: [{ id: nasty, tool_name: nasty, arguments: nasty }],
  };
  const result = { role: 'tool', tool_result: { request_id: nasty, result: nasty } };
  const input = [user(nasty), JSON.stringify(call), JSON.stringify(result)].join('\n');
  ok(data, ['add', ctx, '--jsonl', '-'], { input });
  ok(data, ['prompt', 'create', '--id', 'p', '--name', nasty, '--description', nasty, '--content', nasty]);
  const safe = (text) => assert.doesNotMatch(text, /[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
  for (const args of [['show', ctx], ['ls'], ['prompt'], ['prompt', 'show', 'p']]) {
    safe(ok(data, args));
    safe(onTerminal(data, args).output);
  }
  assert.match(ok(data, ['show', ctx]), /^ {4}a\\x1b\]0;owned\\x07b\\x0dc\\xc2\\x9b31md\\x7fe\tf\n {4}g$/m);
  assert.match(ok(data, ['show', ctx]), /^red \\x1b\[31malert\\x07\\nsecond line$/m);
  const error = run(data, ['show', '\x1b[2J']);
  safe(error.stderr);
  assert.match(error.stderr, /\\x1b\[2J/);
  assert.equal(JSON.parse(ok(data, ['show', ctx, '--json'])).messages[0].content[0].text, nasty);
});

test('--verbose tells more on standard error and changes nothing else', (t) => {
  const { data, ctx } = filled(t, 2);
  const plain = ok(data, ['show', ctx]);
  const result = run(data, ['show', ctx, '--verbose']);
  assert.equal(result.status, 0);
  assert.equal(result.stdout, plain);
  for (const line of lines(result.stderr)) assert.match(line, /^quipu: /);
});
