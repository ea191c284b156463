// Each command on real data: what it prints for people, for programs and for scripts.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, fails, ids, jsonLines, lines, makeContext, messageFile, ok, onTerminal, run, tempDir, uuid } from './helper.mjs';

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

// ---- new ----

test('new prints the id alone, and metadata.json holds what was asked for', (t) => {
  const data = path.join(tempDir(t), 'data');
  const prompt = ok(data, ['prompt', 'create', '--content', 'Be brief.']).trim();
  const parent = ok(data, ['new']).trim();
  const id = '0192f000-1234-7abc-8def-0123456789ab';
  const args = ['--model', 'm1', '--mode', 'plan', '--role', 'planner', '--title', 'Knots “ü”'];
  const more = ['--system-prompt', prompt, '--parent', parent, '--parameters', '{"temperature":0.5}', '--id', id];
  assert.equal(ok(data, ['new', ...args, ...more]), `${id}\n`);
  const meta = JSON.parse(fs.readFileSync(path.join(data, 'contexts', id, 'metadata.json'), 'utf8'));
  assert.equal(meta.id, id);
  assert.equal(meta.parent_id, parent);
  assert.equal(meta.title, 'Knots “ü”');
  assert.deepEqual(meta.config, {
    model_id: 'm1',
    mode: 'plan',
    agent_role: 'planner',
    parameters: { temperature: 0.5 },
    system_prompt_id: prompt,
  });
  fails(data, ['new', '--id', id], 'EXISTS', /./);
});

test('new with --json, defaults, and what it refuses', (t) => {
  const data = path.join(tempDir(t), 'data');
  const { id } = JSON.parse(ok(data, ['new', '--json']));
  assert.match(id, uuid);
  const shown = JSON.parse(ok(data, ['show', id, '--json']));
  assert.equal(shown.config.model_id, '');
  assert.equal(shown.config.mode, 'chat');
  assert.deepEqual(shown.messages, []);
  fails(data, ['new', '--system-prompt', 'nope'], 'NOTFOUND', /nope/);
  fails(data, ['new', '--parent', 'abcdabcd'], 'NOTFOUND', /--parent: no context/);
  fails(data, ['new', '--parent', 'zzz'], 'INVALID', /--parent: /);
  fails(data, ['new', '--parameters', '[1]'], 'INVALID', /./);
  fails(data, ['new', '--parameters', '{'], 'INVALID', /./);
  assert.equal(lines(ok(data, ['ls'])).length, 1, 'what was refused left nothing behind');
});

// ---- add ----

test('add prints the id of the message, which is then the head', (t) => {
  const { data, ctx, dir } = makeContext(t);
  const first = add(data, ctx, 'hello');
  const second = add(data, ctx, 'hi there', '--role', 'assistant');
  assert.match(first, uuid);
  assert.deepEqual(ids(data, ctx), [first, second]);
  const stored = JSON.parse(fs.readFileSync(messageFile(dir, second), 'utf8'));
  assert.equal(stored.id, second);
  assert.equal(stored.parent_id, first);
  assert.equal(stored.role, 'assistant');
  assert.match(stored.created_at, time);
  assert.deepEqual(stored.content, [{ type: 'text', text: 'hi there' }]);
  assert.deepEqual(Object.keys(JSON.parse(ok(data, ['add', ctx, '--text', 'x', '--json']))), ['id']);
});

test('add --text - reads standard input and drops one newline at its end', (t) => {
  const { data, ctx } = makeContext(t);
  for (const [input, text] of [['plain', 'plain'], ['line\n', 'line'], ['two\n\n', 'two\n'], ['a\nb', 'a\nb']]) {
    ok(data, ['add', ctx, '--text', '-'], { input });
    const [last] = JSON.parse(ok(data, ['show', ctx, '--last', '1', '--json'])).messages;
    assert.equal(last.content[0].text, text);
  }
});

test('add --role takes the four roles and refuses others', (t) => {
  const { data, ctx } = makeContext(t);
  for (const role of ['system', 'user', 'assistant', 'tool']) add(data, ctx, role, '--role', role);
  const { messages } = JSON.parse(ok(data, ['show', ctx, '--json']));
  assert.deepEqual(messages.map((m) => m.role), ['system', 'user', 'assistant', 'tool']);
  fails(data, ['add', ctx, '--text', 'x', '--role', 'robot'], 'INVALID', /robot|role/);
});

test('add --branch appends there; --parent appends only after that message', (t) => {
  const { data, ctx } = makeContext(t);
  const first = add(data, ctx, 'one');
  ok(data, ['branch', ctx, 'fork', 'alt']);
  const onAlt = add(data, ctx, 'two', '--branch', 'alt');
  assert.deepEqual(ids(data, ctx), [first]);
  assert.deepEqual(ids(data, ctx, '--branch', 'alt'), [first, onAlt]);
  fails(data, ['add', ctx, '--text', 'x', '--branch', 'alt', '--parent', first], 'CONFLICT', /./);
  fails(data, ['add', ctx, '--text', 'x', '--parent', 'abc'], 'INVALID', /--parent: /);
  fails(data, ['add', ctx, '--text', 'x', '--branch', 'nope'], 'NOTFOUND', /nope/);
  const third = add(data, ctx, 'three', '--branch', 'alt', '--parent', onAlt);
  assert.deepEqual(ids(data, ctx, '--branch', 'alt'), [first, onAlt, third]);
});

// ---- ids ----

test('a context is found by the beginning of its id', (t) => {
  const data = path.join(tempDir(t), 'data');
  const a = 'aaaa1111-0000-7000-8000-000000000001';
  const b = 'aaaa2222-0000-7000-8000-000000000002';
  for (const id of [a, b]) ok(data, ['new', '--id', id]);
  for (const text of ['aaaa1', 'AAAA1', 'aaaa1111-0000-7', a, a.toUpperCase()])
    assert.equal(JSON.parse(ok(data, ['show', text, '--json'])).id, a);
  const result = fails(data, ['show', 'aaaa'], 'INVALID', /'aaaa' is ambiguous: 2 ids begin with it:/);
  assert.ok(result.stderr.includes(a) && result.stderr.includes(b));
  fails(data, ['show', 'bbbb'], 'NOTFOUND', /no context has an id that begins with 'bbbb'/);
  fails(data, ['show', 'aaaa3333-0000-7000-8000-000000000003'], 'NOTFOUND', /aaaa3333/);
  for (const text of ['aaa', '', 'xyz1', '../..', 'aaaa1111x', `${a}0`, 'aaaa1111_0000'])
    fails(data, ['show', text], 'INVALID', /is not the id of a context/);
  fails(data, ['show', 'aaaa1111-0000-7000-8000-00000000000g'], 'INVALID', /./);
  for (const args of [['add', 'aaaa1', '--text', 'x'], ['branch', 'aaaa1'], ['size', 'aaaa1'], ['check', 'aaaa1']])
    ok(data, args);
  ok(data, ['rm', 'aaaa1', '--yes']);
  assert.equal(lines(ok(data, ['ls'])).length, 1);
});

test('at most five of the ids that a beginning fits are listed', (t) => {
  const data = path.join(tempDir(t), 'data');
  for (let i = 0; i < 7; i++) ok(data, ['new', '--id', `aaaa000${i}-0000-7000-8000-000000000000`]);
  const { stderr } = fails(data, ['show', 'aaaa000'], 'INVALID', /7 ids begin with it/);
  assert.equal(stderr.match(/aaaa000\d-0000-7000-8000-000000000000/g).length, 5);
});

// ---- ls ----

test('ls lists the newest first, in three forms', (t) => {
  const { data, ctx } = makeContext(t, '--title', 'First');
  add(data, ctx, 'hello');
  ok(data, ['branch', ctx, 'fork', 'alt']);
  const second = ok(data, ['new']).trim();
  const rows = lines(ok(data, ['ls'])).map((line) => line.split('\t'));
  assert.deepEqual(rows.map((row) => row[0]), [second, ctx]);
  assert.match(rows[1][1], time);
  assert.match(rows[1][2], time);
  assert.ok(rows[1][2] >= rows[1][1]);
  assert.deepEqual(rows[1].slice(3), ['2', '1', 'Idle', 'First']);
  assert.deepEqual(rows[0].slice(3), ['1', '0', 'Idle', '-']);
  const objects = jsonLines(ok(data, ['ls', '--json']));
  assert.deepEqual(Object.keys(objects[1]), ['id', 'title', 'created_at', 'updated_at', 'branches', 'messages', 'state', 'needs_migration']);
  assert.deepEqual([objects[1].id, objects[1].branches, objects[1].messages], [ctx, 2, 1]);
  assert.deepEqual(lines(ok(data, ['ls', '--limit', '1'])).map((l) => l.split('\t')[0]), [second]);
  assert.equal(ok(data, ['ls', '-n0']), '');
  const { output } = onTerminal(data, ['ls']);
  assert.match(output, new RegExp(`^${second}  \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d    1 branch         0 messages  Idle  -\n`));
});

test('ls tells when the last message came', async (t) => {
  const { data, ctx } = makeContext(t);
  const before = JSON.parse(ok(data, ['ls', '--json'])).updated_at;
  await new Promise((resolve) => setTimeout(resolve, 5));
  add(data, ctx, 'later');
  assert.ok(JSON.parse(ok(data, ['ls', '--json'])).updated_at > before);
});

// ---- show ----

function conversation(t, n) {
  const made = makeContext(t, '--title', 'Counting', '--model', 'demo', '--mode', 'chat');
  const input = Array.from({ length: n }, (_, i) =>
    JSON.stringify({ role: i % 2 ? 'assistant' : 'user', text: `number ${i + 1}` }),
  ).join('\n');
  made.ids = lines(ok(made.data, ['add', made.ctx, '--jsonl', '-'], { input }));
  return made;
}

const texts = (out) => [...out.matchAll(/^ {4}(\S.*)$/gm)].map((found) => found[1]);

test('show prints what the conversation is, then its messages', (t) => {
  const { data, ctx, ids: all } = conversation(t, 3);
  const text = ok(data, ['show', ctx]);
  const [title, ...rest] = text.split('\n');
  assert.equal(title, 'Counting');
  assert.ok(rest.includes(`  id       ${ctx}`));
  assert.ok(rest.includes('  model    demo'));
  assert.ok(rest.includes('  mode     chat'));
  assert.ok(rest.includes('  state    Idle'));
  assert.ok(rest.includes('  branches * main (3 messages)'));
  assert.match(text, new RegExp(`^#2 assistant \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d ${all[1]}\n    number 2\n`, 'm'));
  assert.deepEqual(texts(text), ['number 1', 'number 2', 'number 3']);
});

test('show in windows', (t) => {
  const { data, ctx, ids: all } = conversation(t, 10);
  const window = (...args) => texts(ok(data, ['show', ctx, ...args])).map((line) => Number(line.split(' ')[1]));
  assert.deepEqual(window('--last', '3'), [8, 9, 10]);
  assert.deepEqual(window('-n', '3'), [8, 9, 10]);
  assert.deepEqual(window('--last', '0'), []);
  assert.deepEqual(window('--last', '99'), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assert.deepEqual(window('--first', '2'), [1, 2]);
  assert.deepEqual(window('--from', '9'), [9, 10]);
  assert.deepEqual(window('--from', '4', '--count', '2'), [4, 5]);
  assert.deepEqual(window('--from', '11'), []);
  assert.deepEqual(window('--from', '18446744073709551615', '--count', '18446744073709551615'), []);
  assert.deepEqual(ids(data, ctx, '--from', '4', '--count', '2'), [all[3], all[4]]);
  assert.deepEqual(ids(data, ctx, '--last', '1'), [all[9]]);
  fails(data, ['show', ctx, '--last', '1', '--first', '1'], 'INVALID', /choose one/);
  fails(data, ['show', ctx, '--count', '1'], 'INVALID', /choose one/);
  fails(data, ['show', ctx, '--from', '0'], 'INVALID', /--from must be a whole number, 1 or more/);
});

test('show --no-messages, --ids and --json', (t) => {
  const { data, ctx, dir, ids: all } = conversation(t, 4);
  const short = ok(data, ['show', ctx, '--no-messages']);
  assert.deepEqual(texts(short), []);
  assert.match(short, /\* main \(4 messages\)/);
  const json = JSON.parse(ok(data, ['show', ctx, '--json']));
  assert.equal(json.id, ctx);
  assert.equal(json.title, 'Counting');
  assert.equal(json.branch, 'main');
  assert.equal(json.message_count, 4);
  assert.equal(json.branches.main.head, all[3]);
  assert.equal(json.branches.main.messages, 4);
  assert.deepEqual(json.messages.map((m) => m.id), all);
  assert.deepEqual(json.messages[2], JSON.parse(fs.readFileSync(messageFile(dir, all[2]), 'utf8')));
  assert.equal('messages' in JSON.parse(ok(data, ['show', ctx, '--json', '--no-messages'])), false);
  assert.equal(JSON.parse(ok(data, ['show', ctx, '--json', '--last', '1'])).messages.length, 1);
  assert.deepEqual(JSON.parse(ok(data, ['show', ctx, '--json', '--ids'])), { id: ctx, branch: 'main', message_ids: all });
});

test('show --raw prints what add --jsonl takes back', (t) => {
  const { data, ctx, dir, ids: all } = conversation(t, 5);
  const raw = ok(data, ['show', ctx, '--raw']);
  assert.equal(lines(raw)[1], fs.readFileSync(messageFile(dir, all[1]), 'utf8').trimEnd());
  const copy = ok(data, ['new']).trim();
  assert.deepEqual(lines(ok(data, ['add', copy, '--jsonl', '-'], { input: raw })), all);
  assert.equal(ok(data, ['show', copy, '--raw']), raw);
});

test('show of an empty conversation and of a branch that is not there', (t) => {
  const { data, ctx } = makeContext(t);
  assert.match(ok(data, ['show', ctx]), /^\(no title\)\n[^]*\nno messages yet\n$/);
  assert.equal(ok(data, ['show', ctx, '--raw']), '');
  fails(data, ['show', ctx, '--branch', 'nope'], 'NOTFOUND', /no branch 'nope'/);
});

test('show prints tool calls, results, images and thoughts compactly', (t) => {
  const { data, ctx } = makeContext(t);
  const call = {
    role: 'assistant',
    content: [
      { type: 'thinking', text: `hmm ${'o'.repeat(500)}` },
      { type: 'text', text: 'Let me look.' },
      { type: 'image', url: `data:image/png;base64,${'A'.repeat(5000)}` },
      { type: 'hologram', depth: 3 },
    ],
    tool_calls: [{ id: 'call_1', tool_name: 'read_file', arguments: { path: 'a.txt' }, approval_status: 'Approved' }],
  };
  const result = { role: 'tool', tool_result: { request_id: 'call_1', result: 'x'.repeat(900), is_error: true } };
  ok(data, ['add', ctx, '--jsonl', '-'], { input: `${JSON.stringify(call)}\n${JSON.stringify(result)}\n` });
  const text = ok(data, ['show', ctx]);
  assert.match(text, /^ {4}\[thinking\] hmm o{190,200}…$/m);
  assert.match(text, /^ {4}Let me look\.$/m);
  assert.match(text, /^ {4}\[image\] data:image\/png;base64,A{150,200}…$/m);
  assert.match(text, /^ {4}\[a part of an unknown type/m);
  assert.match(text, /^ {4}\[call call_1, Approved\] read_file \{"path": ?"a.txt"\}$/m);
  assert.match(text, /^ {4}\[error of call_1\] "x{190,200}…$/m);
  const { messages } = JSON.parse(ok(data, ['show', ctx, '--json']));
  assert.deepEqual(messages[0].content[3], { type: 'hologram', depth: 3 });
});

// ---- branch ----

test('branch: fork, list, switch, rename, rewind, delete', (t) => {
  const { data, ctx, ids: all } = conversation(t, 4);
  assert.equal(ok(data, ['branch', ctx, 'fork', 'alt', '--at', all[1]]), "made branch 'alt'\n");
  assert.deepEqual(ids(data, ctx, '--branch', 'alt'), all.slice(0, 2));
  ok(data, ['branch', ctx, 'fork', 'deep', '--from', 'alt', '--switch']);
  const rows = lines(ok(data, ['branch', ctx])).map((line) => line.split('\t'));
  assert.deepEqual(rows.map((row) => [row[0], row[1], row[2], row[4]]), [
    ['alt', '', '2', all[1]],
    ['deep', '*', '2', all[1]],
    ['main', '', '4', all[3]],
  ]);
  assert.equal(ok(data, ['branch', ctx, 'list']), ok(data, ['branch', ctx]));
  const objects = jsonLines(ok(data, ['branch', ctx, '--json']));
  assert.deepEqual(objects.map((b) => [b.name, b.active, b.messages, b.head]), [
    ['alt', false, 2, all[1]],
    ['deep', true, 2, all[1]],
    ['main', false, 4, all[3]],
  ]);
  assert.match(objects[0].created_at, time);
  assert.equal(ok(data, ['branch', ctx, 'switch', 'main']), "switched to 'main'\n");
  assert.equal(ok(data, ['branch', ctx, 'rename', 'deep', 'deeper']), "renamed it to 'deeper'\n");
  assert.equal(ok(data, ['branch', ctx, 'rewind', 'deeper', '--to', all[0]]), "rewound 'deeper'\n");
  assert.deepEqual(ids(data, ctx, '--branch', 'deeper'), [all[0]]);
  ok(data, ['branch', ctx, 'rewind', 'deeper', '--to', 'none']);
  assert.deepEqual(ids(data, ctx, '--branch', 'deeper'), []);
  ok(data, ['branch', ctx, 'rewind', 'deeper', '--to', all[3]]);
  assert.deepEqual(ids(data, ctx, '--branch', 'deeper'), all, 'rewinding forgets nothing');
  assert.equal(ok(data, ['branch', ctx, 'delete', 'deeper']), "deleted 'deeper'\n");
  assert.deepEqual(jsonLines(ok(data, ['branch', ctx, '--json'])).map((b) => b.name), ['alt', 'main']);
  assert.deepEqual(ids(data, ctx), all, 'no branch harms another');
});

test('branch with --json answers the branch as it is now', (t) => {
  const { data, ctx, ids: all } = conversation(t, 2);
  const json = (...args) => JSON.parse(ok(data, ['branch', ctx, ...args, '--json']));
  assert.deepEqual(json('fork', 'b', '--at', all[0]).head, all[0]);
  assert.equal(json('switch', 'b').active, true);
  assert.equal(json('rename', 'b', 'c').name, 'c');
  assert.equal(json('rewind', 'c', '--to', 'none').head, null);
  assert.equal(json('switch', 'main').name, 'main');
  assert.deepEqual(json('delete', 'c'), { name: 'c', deleted: true });
});

test('branch refuses what cannot be', (t) => {
  const { data, ctx, ids: all } = conversation(t, 2);
  const missing = '01920000-0000-7000-8000-00000000dead';
  fails(data, ['branch', ctx, 'fork', 'main'], 'EXISTS', /main/);
  fails(data, ['branch', ctx, 'fork', 'x', '--from', 'nope'], 'NOTFOUND', /nope/);
  fails(data, ['branch', ctx, 'fork', 'x', '--at', missing], 'NOTFOUND', /dead/);
  fails(data, ['branch', ctx, 'fork', 'x', '--at', 'nonsense'], 'INVALID', /--at: /);
  fails(data, ['branch', ctx, 'switch', 'nope'], 'NOTFOUND', /nope/);
  fails(data, ['branch', ctx, 'delete', 'main'], 'CONFLICT', /active|main/);
  fails(data, ['branch', ctx, 'rename', 'nope', 'x'], 'NOTFOUND', /nope/);
  fails(data, ['branch', ctx, 'rewind', 'main'], 'INVALID', /--to MSG/);
  fails(data, ['branch', ctx, 'rewind', 'main', '--to', missing], 'NOTFOUND', /dead/);
  fails(data, ['branch', ctx, 'prompt', 'main'], 'INVALID', /the prompt is missing/);
  fails(data, ['branch', ctx, 'prompt', 'main', 'nope'], 'NOTFOUND', /nope/);
  assert.deepEqual(ids(data, ctx), all);
});

test('branch names: slashes, dots, spaces and emoji stay inside the context', (t) => {
  const { data, ctx, dir } = makeContext(t);
  const names = ['a/b', '..', '.', '../../../escape', 'zwei Wörter', '🧶🪢', '%41', '-dash', 'main '];
  for (const name of names) {
    ok(data, ['branch', ctx, 'fork', '--', name]);
    add(data, ctx, `on ${name}`, `--branch=${name}`);
    assert.deepEqual(texts(ok(data, ['show', ctx, `--branch=${name}`])), [`on ${name}`]);
  }
  const listed = jsonLines(ok(data, ['branch', ctx, '--json'])).map((b) => b.name);
  assert.deepEqual([...listed].sort(), [...names, 'main'].sort());
  assert.deepEqual(fs.readdirSync(path.dirname(data)), ['data']);
  assert.deepEqual(fs.readdirSync(path.join(data, 'contexts')), [ctx]);
  for (const name of fs.readdirSync(path.join(dir, 'messages'))) assert.match(name, /^branch-/);
  ok(data, ['check']);
});

test('branch names that cannot be are refused with a reason', (t) => {
  const { data, ctx } = makeContext(t);
  for (const name of ['', 'x'.repeat(4096), 'x'.repeat(201), 'a\nb', 'a\x1bb', '/'.repeat(100)]) {
    fails(data, ['branch', ctx, 'fork', name], 'INVALID', /./);
    fails(data, ['branch', ctx, 'rename', 'main', name], 'INVALID', /./);
  }
  const result = run(data, ['branch', ctx, 'fork', Buffer.from([0x61, 0xff, 0x62]).toString('latin1')]);
  assert.equal(result.status, 0, 'as UTF-8 that is a name');
  assert.deepEqual(jsonLines(ok(data, ['branch', ctx, '--json'])).map((b) => b.name).sort(), ['aÿb', 'main']);
});

// ---- prompt ----

test('prompt: create, list, show, update, delete', (t) => {
  const { data, ctx } = makeContext(t);
  const file = path.join(path.dirname(data), 'prompt.txt');
  fs.writeFileSync(file, 'You are brief.\nVery brief.\n');
  assert.equal(ok(data, ['prompt', 'create', '--id', 'brief', '--name', 'Brief', '--description', 'short answers', '--file', file]), 'brief\n');
  const made = ok(data, ['prompt', 'create', '--content', 'x']).trim();
  const piped = JSON.parse(ok(data, ['prompt', 'create', '--file', '-', '--json'], { input: 'from a pipe' })).id;
  assert.deepEqual(jsonLines(ok(data, ['prompt', 'list', '--json'])).map((p) => p.id), [made, piped, 'brief'].sort());
  assert.equal(ok(data, ['prompt']), ok(data, ['prompt', 'list']));
  assert.match(ok(data, ['prompt']), /^brief\t\d{4}-\d\d-\d\dT[\d:.]+Z\t27\tBrief$/m);
  assert.match(ok(data, ['prompt', 'show', 'brief']), /^Brief\n  id       brief\n  updated  .* UTC\n  about    short answers\n\n    You are brief\.\n    Very brief\.\n$/);
  assert.equal(ok(data, ['prompt', 'show', 'brief', '--raw']), 'You are brief.\nVery brief.\n');
  assert.equal(ok(data, ['prompt', 'show', piped, '--raw']), 'from a pipe');

  ok(data, ['branch', ctx, 'prompt', 'main', 'brief']);
  assert.equal(JSON.parse(ok(data, ['branch', ctx, '--json'])).system_prompt_id, 'brief');
  assert.equal(ok(data, ['prompt', 'update', 'brief', '--content', 'Terse.']), 'updated brief\n');
  const json = JSON.parse(ok(data, ['prompt', 'show', 'brief', '--json']));
  assert.deepEqual([json.name, json.description, json.content, json.bytes], ['Brief', 'short answers', 'Terse.', 6]);
  ok(data, ['branch', ctx, 'prompt', 'main', '--none']);
  assert.equal(JSON.parse(ok(data, ['branch', ctx, '--json'])).system_prompt_id, null);

  ok(data, ['branch', ctx, 'prompt', 'main', 'brief']);
  assert.equal(ok(data, ['prompt', 'delete', 'brief']), 'deleted brief\n');
  assert.equal(JSON.parse(ok(data, ['branch', ctx, '--json'])).system_prompt_id, null, 'the reference went too');
  assert.deepEqual(JSON.parse(ok(data, ['prompt', 'delete', made, '--json'])), { id: made, deleted: true });
  ok(data, ['check']);
});

test('prompt refuses what cannot be', (t) => {
  const { data } = makeContext(t);
  ok(data, ['prompt', 'create', '--id', 'a', '--content', 'x']);
  fails(data, ['prompt', 'create', '--id', 'a', '--content', 'y'], 'EXISTS', /./);
  for (const id of ['../x', '.hidden', '', 'a b', 'x'.repeat(129), 'ü'])
    fails(data, ['prompt', 'create', '--id', id, '--content', 'y'], 'INVALID', /./);
  for (const action of ['show', 'delete']) fails(data, ['prompt', action, 'nope'], 'NOTFOUND', /nope/);
  fails(data, ['prompt', 'update', 'nope', '--name', 'n'], 'NOTFOUND', /nope/);
  fails(data, ['prompt', 'create', '--file', '/nonexistent'], 'NOTFOUND', /cannot open '\/nonexistent'/);
  fails(data, ['prompt', 'create', '--file', '-'], 'INVALID', /NUL/, { input: 'a\0b' });
  fails(data, ['prompt', 'create', '--file', '-'], 'TOOBIG', /./, { input: 'x'.repeat(6 << 20) });
  fails(data, ['prompt', 'create', '--file', '-'], 'INVALID', /UTF-8/, { input: Buffer.from([0x61, 0xff]) });
});

// ---- size ----

test('size counts metadata and messages as they are stored', (t) => {
  const { data, ctx, dir, ids: all } = conversation(t, 3);
  ok(data, ['branch', ctx, 'fork', 'alt', '--at', all[0]]);
  const sizes = all.map((id) => fs.readFileSync(messageFile(dir, id), 'utf8').trimEnd().length);
  const sum = sizes.reduce((a, b) => a + b);
  const json = JSON.parse(ok(data, ['size', ctx, '--json']));
  assert.equal(json.metadata_bytes, fs.statSync(path.join(dir, 'metadata.json')).size);
  assert.equal(json.messages, 3);
  assert.ok(Math.abs(json.message_bytes - sum) <= 3, 'with or without the newline of each file');
  assert.equal(json.total_bytes, json.metadata_bytes + json.message_bytes);
  assert.deepEqual(json.branches.map((b) => [b.name, b.messages]), [['alt', 1], ['main', 3]]);
  const rows = lines(ok(data, ['size', ctx])).map((line) => line.split('\t'));
  assert.deepEqual(rows, [
    ['metadata', String(json.metadata_bytes)],
    ['messages', String(json.message_bytes), '3'],
    ['branch', String(json.branches[0].message_bytes), '1', 'alt'],
    ['branch', String(json.branches[1].message_bytes), '3', 'main'],
    ['total', String(json.total_bytes), '3'],
  ]);
  assert.match(onTerminal(data, ['size', ctx]).output, /^metadata +\d+ B\nmessages +\d+ B +3 messages\nbranch +\d+ B +1 message   alt\n/);
});

test('size without a context sums all of them', (t) => {
  const { data, ctx } = conversation(t, 3);
  const other = ok(data, ['new']).trim();
  add(data, other, 'x');
  const [first, second, { total }] = jsonLines(ok(data, ['size', '--json']));
  assert.deepEqual([first.id, second.id], [other, ctx]);
  assert.equal(total.contexts, 2);
  assert.equal(total.messages, 4);
  assert.equal(total.total_bytes, first.total_bytes + second.total_bytes);
  assert.deepEqual(lines(ok(data, ['size'])).at(-1), `total\t${total.total_bytes}\t4`);
  assert.match(onTerminal(data, ['size']).output, /\ntotal {31} +\d+\.\d kB +4 messages\n$/);
});

// ---- rm ----

test('rm deletes one conversation, after a question or with --yes', (t) => {
  const { data, ctx, dir } = conversation(t, 2);
  const other = ok(data, ['new']).trim();
  fails(data, ['rm', ctx], 'INVALID', /--yes/);
  const kept = onTerminal(data, ['rm', ctx], { input: 'n\n' });
  assert.match(kept.output, /with 2 messages for good\? \[y\/N\]/);
  assert.equal(kept.status, 16);
  assert.ok(fs.existsSync(dir));
  assert.equal(ok(data, ['rm', ctx, '--yes']), `deleted ${ctx}\n`);
  assert.ok(!fs.existsSync(dir));
  fails(data, ['show', ctx], 'NOTFOUND', /./);
  fails(data, ['rm', ctx, '--yes'], 'NOTFOUND', /./);
  const asked = onTerminal(data, ['rm', other, '--json'], { input: 'y\n' });
  assert.equal(asked.status, 0);
  assert.ok(asked.output.includes(`{"id":"${other}","deleted":true}`));
  assert.equal(ok(data, ['ls']), '');
  ok(data, ['check']);
});
