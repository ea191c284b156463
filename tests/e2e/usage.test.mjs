// The command line before any data is touched: help, version, options, exit codes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, exit, fails, lines, jsonLines, makeContext, ok, run, tempDir, uuid } from './helper.mjs';

const commands = ['new', 'add', 'ls', 'search', 'show', 'branch', 'prompt', 'session', 'import', 'migrate', 'rollback', 'check', 'size', 'gc', 'archive', 'compress', 'decompress', 'backup', 'restore', 'copy', 'reindex', 'rm', 'export', 'chat', 'compact', 'tool', 'serve', 'mcp', 'key', 'debug', 'version', 'help'];

test('help lists every command and the data directory', () => {
  const text = ok(undefined, ['help']);
  for (const name of commands) assert.match(text, new RegExp(`^  ${name} +\\S`, 'm'));
  assert.match(text, /--data, else \$QUIPU_DATA, else \.\/data/);
  assert.equal(ok(undefined, ['--help']), text);
  assert.equal(ok(undefined, ['-h']), text);
});

test('every command explains itself, in two spellings and as JSON', () => {
  for (const name of commands) {
    const text = ok(undefined, ['help', name]);
    assert.match(text, new RegExp(`^usage: quipu ${name} `, 'm'));
    for (const global of ['--data DIR', '--json', '--verbose', '--help', '--version'])
      assert.ok(text.includes(global), `${name} mentions ${global}`);
    assert.equal(ok(undefined, [name, '--help']), text);
    assert.equal(ok(undefined, ['--help', name]), text);
    const json = JSON.parse(ok(undefined, [name, '--help', '--json']));
    assert.equal(json.name, name);
    for (const option of json.options) assert.ok(text.includes(`--${option.name}`));
  }
});

test('help of everything as JSON names every command', () => {
  const all = JSON.parse(ok(undefined, ['help', '--json']));
  assert.deepEqual(all.commands.map((c) => c.name), commands);
  assert.deepEqual(all.options.map((o) => o.name), ['data', 'store', 'json', 'verbose', 'help', 'version']);
});

test('version', () => {
  assert.match(ok(undefined, ['version']), /^quipu \d+\.\d+\.\d+\n$/);
  assert.equal(ok(undefined, ['--version']), ok(undefined, ['version']));
  const json = JSON.parse(ok(undefined, ['version', '--json']));
  assert.equal(`quipu ${json.version}\n`, ok(undefined, ['version']));
});

test('the table of exit codes has every error of the library', () => {
  const header = fs.readFileSync('include/quipu/base.h', 'utf8');
  const map = header.slice(header.indexOf('#define QP_RC_MAP'), header.indexOf('enum qp_rc {'));
  const rows = [...map.matchAll(/X\((\w+), -?\d+, "([^"]*)"\)/g)];
  assert.ok(rows.length > 10);
  const expected = jsonLines(ok(undefined, ['help', 'exit-codes', '--json']));
  const sorted = (list) => list.sort((a, b) => (a.code < b.code ? -1 : 1));
  assert.deepEqual(
    sorted(expected.map(({ code, text }) => ({ code, text }))),
    sorted(rows.map(([, code, text]) => ({ code, text }))),
  );
  const numbers = expected.map((row) => row.exit_code);
  assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b));
  assert.ok(numbers.at(-1) < 126);
  const text = ok(undefined, ['help', 'exit-codes']);
  assert.deepEqual(
    lines(text).map((line) => line.trim().split(/ {2,}/)[0]),
    expected.map((row) => String(row.exit_code)),
  );
  for (const [code, number] of Object.entries(exit))
    assert.equal(expected.find((row) => row.code === code)?.exit_code, number);
});

test('no command: the overview on standard error, exit 2', () => {
  const result = run(undefined, []);
  assert.equal(result.status, 2);
  assert.equal(result.stdout, '');
  assert.match(result.stderr, /usage: quipu COMMAND/);
  assert.match(result.stderr, /quipu: no command was given\n$/);
});

test('usage errors name what is wrong and what was perhaps meant', () => {
  const cases = [
    [['shwo'], /unknown command 'shwo'; did you mean 'show'\?/],
    [['frobnicate'], /unknown command 'frobnicate'; 'quipu help' lists/],
    [['help', 'brnach'], /did you mean 'branch'\?/],
    [['--jsno', 'ls'], /unknown option --jsno; did you mean --json\?/],
    [['add', 'x', '--brnch', 'b'], /unknown option --brnch; did you mean --branch\?/],
    [['add', 'x', '--bra', 'b'], /did you mean --branch\?/],
    [['ls', '--colour'], /unknown option --colour; --help lists/],
    [['ls', `--${'x'.repeat(5000)}`], /unknown option --x+; --help lists/],
    [['ls', '-z'], /unknown option -z/],
    [['add', 'x', '--text'], /--text needs a value/],
    [['ls', '--limit'], /--limit needs a value/],
    [['ls', '--limit', 'many'], /--limit must be a whole number/],
    [['ls', '--limit=-1'], /--limit must be a whole number/],
    [['ls', '--limit', '99999999999999999999'], /--limit must be a whole number/],
    [['ls', '--json=yes'], /--json takes no value/],
    [['add', 'x', '--text', 'a', '--text', 'b'], /--text is given twice/],
    [['ls', 'extra'], /unexpected argument 'extra'/],
    [['show'], /missing argument; usage: quipu show CTX/],
    [['show', 'x', '--last', '1', '--first', '1'], /./],
    [['branch', 'x', 'frok'], /'branch' has no action 'frok'; did you mean 'fork'\?/],
    [['branch', 'x', 'explode'], /'quipu help branch' lists/],
    [['branch', 'x', 'fork'], /'branch fork' takes NAME/],
    [['branch', 'x', 'rename', 'a'], /'branch rename' takes OLD NEW/],
    [['branch', 'x', 'switch', 'a', '--at', 'y'], /--at cannot be used with 'branch switch'/],
    [['branch', 'x', 'list', 'y'], /'branch list' takes no more arguments/],
    [['prompt', 'creat'], /did you mean 'create'\?/],
    [['prompt', 'list', '--raw'], /--raw cannot be used with 'prompt list'/],
    [['prompt', 'create'], /the text of the prompt is missing/],
    [['prompt', 'create', '--content', 'a', '--file', 'b'], /cannot be used together/],
    [['prompt', 'update', 'x'], /nothing to change/],
    [['add', 'x'], /nothing to add/],
    [['add', 'x', '--text', 'a', '--jsonl', '-'], /cannot be used together/],
    [['add', 'x', '--text', 'a', '--batch', '3'], /--batch needs --jsonl/],
    [['add', 'x', '--text', 'a', '--keep-going'], /--keep-going needs --jsonl/],
    [['add', 'x', '--jsonl', '-', '--role', 'user'], /--role cannot be used with --jsonl/],
    [['show', 'x', '--ids', '--raw'], /choose one/],
    [['new', '--id', 'nonsense'], /--id: /],
    [['--data', '', 'ls'], /--data needs a directory/],
    [['rm', 'x'], /use --yes to delete without asking/],
  ];
  for (const [args, sentence] of cases) {
    const result = fails('/nonexistent/quipu-data', args, args.includes('--first') ? 'NOTFOUND' : 'INVALID', sentence);
    assert.equal(result.stdout, '', args.join(' '));
    assert.equal(lines(result.stderr).length, 1, 'one line');
  }
});

test('with --json an error is one JSON object on standard error and nothing else', () => {
  for (const args of [['ls', '--bogus', '--json'], ['--json', 'show', 'zz'], ['nope', '--json']]) {
    const result = run('/nonexistent/quipu-data', args);
    const { error } = JSON.parse(result.stderr);
    assert.match(error.message, /./);
    assert.equal(exit[error.code], result.status);
  }
});

test('options stand before or after the command, with = or without, and -- ends them', (t) => {
  const { data, ctx } = makeContext(t);
  add(data, ctx, 'one');
  const expected = ok(data, ['ls']);
  for (const args of [
    ['--data', data, 'ls'],
    [`--data=${data}`, 'ls'],
    ['ls', '--data', data],
    ['ls', `--data=${data}`],
    ['-d', data, 'ls'],
    [`-d${data}`, 'ls'],
    ['ls', '--limit', '5', '--data', data],
    ['-v', 'ls', '-n5', '-d', data],
    ['--data', data, '--', 'ls'],
  ])
    assert.equal(run(undefined, args).stdout, expected, args.join(' '));
  const id = ok(data, ['add', '--text', '--not-an-option', '--', ctx]).trim();
  assert.match(ok(data, ['show', ctx, '--last', '1']), new RegExp(`${id}\n    --not-an-option\n`));
});

test('the data directory: --data, else QUIPU_DATA, else ./data', (t) => {
  const dir = tempDir(t);
  const here = ok(undefined, ['new'], { cwd: dir }).trim();
  assert.ok(fs.existsSync(path.join(dir, 'data', 'contexts', here)));
  const env = ok(path.join(dir, 'env'), ['new'], { cwd: dir }).trim();
  assert.ok(fs.existsSync(path.join(dir, 'env', 'contexts', env)));
  const option = ok(path.join(dir, 'env'), ['new', '--data', path.join(dir, 'option')], { cwd: dir }).trim();
  assert.ok(fs.existsSync(path.join(dir, 'option', 'contexts', option)));
  assert.equal(ok('', ['ls'], { cwd: dir }).split('\t')[0], here, 'an empty QUIPU_DATA counts as none');
});

test('commands that read or change something do not make a store', (t) => {
  const data = path.join(tempDir(t), 'none');
  const id = '01920000-0000-7000-8000-000000000000';
  for (const args of [
    ['ls'],
    ['show', id],
    ['add', id, '--text', 'x'],
    ['branch', id],
    ['branch', id, 'switch', 'main'],
    ['check'],
    ['check', '--repair'],
    ['size'],
    ['rm', id, '--yes'],
    ['prompt', 'list'],
    ['prompt', 'delete', 'x'],
  ]) {
    fails(data, args, 'NOTFOUND', /no quipu data in '.*none'; 'quipu new' creates it/);
    assert.ok(!fs.existsSync(data), args.join(' '));
  }
  assert.match(ok(data, ['new']).trim(), uuid);
});

test('new and prompt create do make one', (t) => {
  const dir = tempDir(t);
  ok(path.join(dir, 'a'), ['new']);
  ok(path.join(dir, 'b'), ['prompt', 'create', '--content', 'x']);
  assert.ok(fs.existsSync(path.join(dir, 'a', 'contexts')));
  assert.ok(fs.existsSync(path.join(dir, 'b', 'prompts')));
});
