// What the tests of `quipu chat` share, and the scenarios that are the same on a data directory and
// with a server.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fails, jsonLines, lines, ok, run, Running, tempDir } from './helper.mjs';

// A data directory of its own with a script for the demo model and a workspace for its tools.
export function setting(t, steps, interval = 0) {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  const script = path.join(dir, 'script.json');
  const workspace = path.join(dir, 'work');
  fs.mkdirSync(workspace);
  fs.writeFileSync(script, JSON.stringify({ interval_ms: interval, steps }));
  return { dir, data, workspace, args: ['--demo-script', script, '--workspace', workspace] };
}

export const say = (match, ...play) => ({ match, play });
export const text = (words) => ({ text: words });
export const chat = (s, words, input, ...more) => ok(s.data, ['chat', ...words, ...s.args, ...more], { input });
export const newest = (data) => JSON.parse(ok(data, ['ls', '--json']).split('\n')[0]).id;
export const stored = (data, ctx = newest(data)) => jsonLines(ok(data, ['show', ctx, '--raw']));
export const texts = (data, ctx) => stored(data, ctx).map((m) => m.content.map((part) => part.text).join(''));
export const state = (data, ctx = newest(data)) => JSON.parse(ok(data, ['show', ctx, '--no-messages', '--json'])).current_state;
export const writing = (file, id) => ({ call: 'write_file', arguments: { path: file, content: 'knot' }, id });

// `begin(t, s)` gives `more`, the words that `quipu chat` gets, and `end`, after which nobody holds the
// data directory.
export function scenarios(where, begin) {
  test(`${where}: questions are answered, and the conversation goes on`, async (t) => {
    const s = setting(t, [say('*hello*', text('Good day to you.')), say('*bye*', text('Farewell.\n'))]);
    const way = await begin(t, s);
    const first = ok(s.data, ['chat', '--new', '--model', 'demo', ...way.more], { input: '/title A talk\n\n  hello there\n' });
    assert.equal(first, 'Good day to you.\n');
    const ctx = newest(s.data);
    assert.equal(ok(s.data, ['chat', ...way.more], { input: 'bye\n' }), 'Farewell.\n');
    assert.equal(ok(s.data, ['chat', ctx.slice(0, 18), ...way.more], { input: 'bye\\\nnow\n' }), 'Farewell.\n');
    await way.end();
    assert.deepEqual(texts(s.data, ctx), ['hello there', 'Good day to you.', 'bye', 'Farewell.\n', 'bye\nnow', 'Farewell.\n']);
    assert.equal(JSON.parse(ok(s.data, ['show', ctx, '--no-messages', '--json'])).title, 'A talk');
    assert.equal(lines(ok(s.data, ['ls', '--json'])).length, 1);
  });

  test(`${where}: a tool runs when it is allowed, and not when it is denied`, async (t) => {
    const s = setting(t, [
      { after_tool: 'write_file', times: 9, play: [text('That was it.')] },
      say('*write*', { thinking: 'A file, then.' }, text('I write it.'), writing('a.txt', 'c1')),
    ]);
    const way = await begin(t, s);
    const diff = '  --- /dev/null\n  +++ b/a.txt\n  @@ -0,0 +1 @@\n  +knot\n  \\ No newline at end of file\n';
    const question = `${diff}allow write_file {"path":"a.txt","content":"knot"}? [y]es / [n]o / [a]ll / always / reason: \n`;
    const begun = '[thinking] A file, then.\nI write it.\n→ write_file {"path":"a.txt","content":"knot"}\n' + question;
    const denied = ok(s.data, ['chat', '--new', ...way.more], { input: 'write\nnot today\n' });
    assert.ok(denied.startsWith(begun), denied);
    assert.match(denied, /write_file: error\n[^\n]*not today[^\n]*\nThat was it\.\n$/);
    assert.ok(!fs.existsSync(path.join(s.workspace, 'a.txt')));
    const allowed = ok(s.data, ['chat', '--new', ...way.more], { input: 'write\n\n/help\ny\n' });
    assert.ok(allowed.startsWith(begun), allowed);
    assert.match(allowed, /\[y runs the call, n refuses it.*\]\n/);
    assert.match(allowed, /\nThat was it\.\n$/);
    await way.end();
    assert.equal(fs.readFileSync(path.join(s.workspace, 'a.txt'), 'utf8'), 'knot');
    const result = stored(s.data).find((m) => m.tool_result);
    assert.equal(result.tool_result.is_error, false);
  });

  test(`${where}: several calls are asked about one by one, or all at once`, async (t) => {
    const s = setting(t, [
      { after_tool: 'write_file', times: 9, play: [text('Done.')] },
      say('*three*', writing('1.txt', 'c1'), writing('2.txt', 'c2'), writing('3.txt', 'c3')),
    ]);
    const way = await begin(t, s);
    const out = ok(s.data, ['chat', '--new', ...way.more], { input: 'three\nn\na\n' });
    assert.deepEqual([...out.matchAll(/allow write_file \{"path":"(\d)/g)].map((found) => found[1]), ['1', '2']);
    assert.match(out, /\nDone\.\n$/);
    await way.end();
    assert.deepEqual(fs.readdirSync(s.workspace).sort(), ['2.txt', '3.txt']);
  });

  test(`${where}: who leaves a question open is asked again`, async (t) => {
    const s = setting(t, [{ after_tool: 'write_file', play: [text('Done.')] }, say('*write*', writing('a.txt', 'c1'))]);
    const way = await begin(t, s);
    fails(s.data, ['chat', '--new', ...way.more], 'STOPPED', /still waits for approval; 'quipu chat /, { input: 'write\n' });
    assert.equal(state(s.data), 'AwaitingToolApproval');
    const out = ok(s.data, ['chat', ...way.more], { input: 'yes\n' });
    assert.match(out, /^  --- \/dev\/null\n[^]*\nallow write_file .*\n[^]*Done\.\n$/);
    await way.end();
    assert.equal(state(s.data), 'Idle');
  });

  test(`${where}: branches by editing, regenerating, forking and switching`, async (t) => {
    const s = setting(t, [say('*one*', text('First.')), say('*two*', text('Second.'))]);
    const way = await begin(t, s);
    const input = ['question one', '/edit question two', '/regenerate', '/fork mine', '/branches', '/switch main', '/history 2', '/history 1', '/quit', 'never'];
    const out = ok(s.data, ['chat', '--new', ...way.more], { input: input.map((line) => line + '\n').join('') });
    await way.end();
    const [first, edited, , regenerated, ...rest] = lines(out);
    assert.equal(first, 'First.');
    const names = [edited, regenerated].map((line) => /^\[branch (.+)\]$/.exec(line)?.[1]);
    assert.ok(names[0] && names[1] && names[0] !== names[1], out);
    assert.deepEqual(rest[0], 'Second.');
    assert.equal(rest[1], '[branch mine]');
    const listed = rest.slice(2, 6).map((line) => line.replace(/ +/g, ' ').trim());
    assert.deepEqual(listed.sort(), ['* mine 2 messages', 'main 2 messages', ...names.map((name) => `${name} 2 messages`)].sort());
    assert.deepEqual(rest.slice(6), ['[branch main]', 'user: question one', 'assistant: First.', 'assistant: First.']);
    assert.equal(lines(ok(s.data, ['branch', newest(s.data)])).length, 4);
  });

  test(`${where}: SIGINT ends the answer and not the program`, async (t) => {
    const s = setting(t, [say('*slow*', text('one\n' + 'and on '.repeat(400))), say('*quick*', text('Here.'))], 25);
    const way = await begin(t, s);
    const process = new Running(t, s.data, ['chat', '--new', ...way.more]);
    await process.write('slow\n');
    assert.equal(await process.next(), 'one');
    process.child.kill('SIGINT');
    let line = await process.next();
    if (line.startsWith('and')) line = await process.next(); // what had come of it by then
    assert.equal(line, '[cancelled]');
    await process.write('quick\n');
    assert.equal(await process.next(), 'Here.');
    assert.deepEqual((await process.end()).status, 0);
    await way.end();
    const answers = stored(s.data).filter((m) => m.role === 'assistant');
    assert.equal(answers[0].metadata.interrupted, true);
    assert.equal(answers[1].metadata.interrupted, undefined);
  });

  test(`${where}: what a model says cannot drive the terminal`, async (t) => {
    const evil = '\x1b]0;owned\x07\x1b[31mred\u009b2J\ttab\r\nline\rback\u0000';
    const s = setting(t, [say('*evil*', { thinking: evil }, text(evil), { call: 'run_command', arguments: { command: 'ls \u202e\x1b[2J' } })]);
    const way = await begin(t, s);
    const out = run(s.data, ['chat', '--new', ...way.more], { input: 'evil\n' }).stdout;
    await way.end();
    assert.doesNotMatch(out, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/);
    assert.ok(out.includes('\\x1b]0;owned\\x07\\x1b[31mred\\xc2\\x9b2J\ttab\nline\\x0dback\\x00\n'), out);
    assert.match(out, /allow run_command \{"command":"ls \\xe2\\x80\\xae\\u001b\[2J"\}\?/i);
  });

  test(`${where}: a turn that fails ends a pipe, and can be tried again`, async (t) => {
    const s = setting(t, [{ play: [{ error: { status: 401, type: 'authentication_error', message: 'bad key' } }] }, { play: [text('Better.')] }]);
    const way = await begin(t, s);
    fails(s.data, ['chat', '--new', ...way.more], 'IO', /the turn failed: .*bad key/, { input: 'hello\nnever sent\n' });
    if (where === 'here') fs.writeFileSync(s.args[1], JSON.stringify({ steps: [{ play: [text('Better.')] }] }));
    const out = ok(s.data, ['chat', ...way.more], { input: '/fork side\n/retry\n' });
    assert.equal(out, '[failed: bad key; /retry asks the model again]\n[branch side]\nBetter.\n');
    await way.end();
    assert.deepEqual(stored(s.data).map((m) => m.role), ['user', 'assistant']);
  });

  test(`${where}: tools, models and other conversations`, async (t) => {
    const s = setting(t, [say('*', text('Yes.'))]);
    const way = await begin(t, s);
    const out = ok(s.data, ['chat', '--new', ...way.more], { input: '/tools\n/models\na\n/new\nb\n/model demo\n' });
    assert.match(out, /^write_file +ask +\S/m);
    assert.match(out, /^read_file +auto +\S/m);
    assert.match(out, /^demo +demo$/m);
    assert.match(out, /Yes\.\n\[a new conversation\]\nYes\.\n\[model demo\]\n$/);
    const [b, a] = lines(ok(s.data, ['ls', '--json'])).map((line) => JSON.parse(line).id);
    assert.deepEqual([texts(s.data, a)[0], texts(s.data, b)[0]], ['a', 'b']);
    assert.equal(ok(s.data, ['chat', ...way.more], { input: `/open ${a}\n/history 1\n` }), 'assistant: Yes.\n');
    fails(s.data, ['chat', ...way.more], 'NOTFOUND', /begins with 'ffff0000'/, { input: '/open ffff0000\n' });
    await way.end();
  });
}
