// `quipu chat`: a conversation from a pipe and at a terminal, on a data directory and with a server.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { bin, environment, exit, fails, jsonLines, lines, ok, run, Running, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

// A data directory of its own with a script for the demo model and a workspace for its tools.
function setting(t, steps, interval = 0) {
  const dir = tempDir(t);
  const data = path.join(dir, 'data');
  const script = path.join(dir, 'script.json');
  const workspace = path.join(dir, 'work');
  fs.mkdirSync(workspace);
  fs.writeFileSync(script, JSON.stringify({ interval_ms: interval, steps }));
  return { dir, data, workspace, args: ['--demo-script', script, '--workspace', workspace] };
}

const say = (match, ...play) => ({ match, play });
const text = (words) => ({ text: words });
const chat = (s, words, input, ...more) => ok(s.data, ['chat', ...words, ...s.args, ...more], { input });
const newest = (data) => JSON.parse(ok(data, ['ls', '--json']).split('\n')[0]).id;
const stored = (data, ctx = newest(data)) => jsonLines(ok(data, ['show', ctx, '--raw']));
const texts = (data, ctx) => stored(data, ctx).map((m) => m.content.map((part) => part.text).join(''));
const state = (data, ctx = newest(data)) => JSON.parse(ok(data, ['show', ctx, '--no-messages', '--json'])).current_state;
const writing = (file, id) => ({ call: 'write_file', arguments: { path: file, content: 'knot' }, id });

// Both ways to a context: `more` are the words that `quipu chat` gets, `data` is where one can look.
async function local(t, s) {
  return { more: s.args, end: async () => {} };
}
async function remote(t, s) {
  const server = await serve(t, { data: s.data, args: s.args });
  return { more: ['--server', server.url], end: () => server.stop() };
}

// ---- the same on a data directory and with a server ----

for (const [where, begin] of [['here', local], ['with a server', remote]]) {
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
    const question = 'allow write_file {"path":"a.txt","content":"knot"}? [y]es / [n]o / [a]ll / reason: \n';
    const begun = '[thinking] A file, then.\nI write it.\n→ write_file {"path":"a.txt","content":"knot"}\n' + question;
    const denied = ok(s.data, ['chat', '--new', ...way.more], { input: 'write\nnot today\n' });
    assert.ok(denied.startsWith(begun), denied);
    assert.match(denied, /write_file: error\n[^\n]*not today[^\n]*\nThat was it\.\n$/);
    assert.ok(!fs.existsSync(path.join(s.workspace, 'a.txt')));
    const allowed = ok(s.data, ['chat', '--new', ...way.more], { input: 'write\n\n/help\ny\n' });
    assert.ok(allowed.startsWith(begun), allowed);
    assert.match(allowed, /\[y runs it, n does not.*\]\n/);
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
    fails(s.data, ['chat', '--new', ...way.more], 'STOPPED', /goes on waiting for an answer; 'quipu chat /, { input: 'write\n' });
    assert.equal(state(s.data), 'AwaitingToolApproval');
    const out = ok(s.data, ['chat', ...way.more], { input: 'yes\n' });
    assert.match(out, /^allow write_file .*\n[^]*Done\.\n$/);
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
    if (begin === local) fs.writeFileSync(s.args[1], JSON.stringify({ steps: [{ play: [text('Better.')] }] }));
    const out = ok(s.data, ['chat', ...way.more], { input: '/retry\n' });
    assert.equal(out, '[failed: bad key; /retry asks the model again]\nBetter.\n');
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

// ---- what is wrong is said ----

test('wrong words, options and commands', (t) => {
  const s = setting(t, []);
  const wrong = (code, sentence, words, input = '') => fails(s.data, ['chat', ...words], code, sentence, { input });
  wrong('INVALID', /there is no \/hlep; did you mean \/help\?/, ['--new'], '/hlep\n');
  wrong('INVALID', /there is no \/xyzzy; \/help lists/, ['--new'], '/xyzzy\n');
  wrong('INVALID', /\/switch needs NAME/, ['--new'], '/switch\n');
  wrong('INVALID', /\/quit takes nothing/, ['--new'], '/quit now\n');
  wrong('NOTFOUND', /has not begun/, ['--new'], '/retry\n');
  wrong('INVALID', /--new does not go/, ['--new', '0192f0c4']);
  wrong('NOTFOUND', /no branch 'side'/, ['--new', '--branch', 'side']);
  wrong('INVALID', /is not the URL of a server/, ['--server', 'localhost']);
  wrong('INVALID', /for people/, ['--json']);
  wrong('NOTFOUND', /'0192f0c4'/, ['0192f0c4']);
  assert.match(ok(s.data, ['chat', '--new'], { input: '/help\n' }), /^\/regenerate +another answer, on a new branch$/m);
  assert.equal(ok(s.data, ['ls']), '', 'nothing was begun');
});

test('a server that is not there, or wants a key', async (t) => {
  const s = setting(t, [say('*', text('Hello.'))]);
  fails(s.data, ['chat', '--server', 'http://127.0.0.1:1'], 'IO', /127\.0\.0\.1:1: .*[Cc]onnect/);
  const key = JSON.parse(ok(s.data, ['key', 'create', '--name', 'me', '--json'])).key;
  const server = await serve(t, { data: s.data, args: s.args });
  fails(s.data, ['chat', '--new'], 'DENIED', /key/, { input: 'hi\n' });
  assert.equal(ok(s.data, ['chat', '--new', '--key', key], { input: 'hi\n' }), 'Hello.\n');
  assert.equal(ok(undefined, ['chat', '--server', server.url], { input: 'hi\n', env: { QUIPU_KEY: key } }), 'Hello.\n');
  await server.stop();
});

test('the server that holds the data directory is found', async (t) => {
  const s = setting(t, [say('*', text('From the server.'))]);
  const server = await serve(t, { data: s.data, args: s.args });
  assert.equal(ok(s.data, ['chat', '--new'], { input: 'hi\n' }), 'From the server.\n');
  await server.stop();
  assert.deepEqual(texts(s.data), ['hi', 'From the server.']);
});

test('a turn that another client has begun is followed', async (t) => {
  const s = setting(t, [say('*slow*', text('one\n' + 'and on '.repeat(60))), say('*quick*', text('Here.'))], 20);
  const server = await serve(t, { data: s.data, args: s.args });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  await server.expect(202, 'POST', `/v1/contexts/${id}/actions/send_message`, { content: 'slow' }, { prefer: 'respond-async' });
  const out = ok(s.data, ['chat', id], { input: 'quick\n' });
  assert.match(out, /^\[a turn is under way: \w+\]\n[^]*and on *\nHere\.\n$/);
  await server.stop();
  assert.deepEqual(stored(s.data, id).map((m) => m.role), ['user', 'assistant', 'user', 'assistant']);
});

test('a server that dies in the middle of an answer and comes back is found again', async (t) => {
  const s = setting(t, [say('*slow*', text('one\n' + 'and on '.repeat(400)))], 20);
  const server = await serve(t, { data: s.data, args: s.args });
  const process = new Running(t, s.data, ['chat', '--new', '--server', server.url]);
  await process.write('slow\n');
  assert.equal(await process.next(), 'one');
  await server.stop('SIGKILL');
  const second = new Running(t, s.data, ['serve', '--listen', `127.0.0.1:${server.port}`, ...s.args]);
  assert.match(await second.next(), /^quipu serves /);
  const end = await process.ended;
  assert.equal(end.status, exit.IO);
  assert.match(end.stderr, /the turn failed: /);
  second.child.kill('SIGTERM');
  await second.ended;
  assert.equal(state(s.data), 'Failed');
  assert.equal(texts(s.data)[0], 'slow');
});

test('a signal at the prompt of a pipe ends it', async (t) => {
  const s = setting(t, [say('*', text('Ready.'))]);
  const process = new Running(t, s.data, ['chat', '--new', ...s.args]);
  await process.write('hi\n');
  assert.equal(await process.next(), 'Ready.');
  process.child.kill('SIGINT');
  assert.equal((await process.ended).status, exit.STOPPED);
});

test('the death of the program leaves a conversation that goes on', async (t) => {
  const s = setting(t, [say('*slow*', text('one\n' + 'and on '.repeat(400))), say('*', text('Still here.'))], 25);
  const process = new Running(t, s.data, ['chat', '--new', ...s.args]);
  await process.write('slow\n');
  assert.equal(await process.next(), 'one');
  process.child.kill('SIGKILL');
  await process.ended;
  const out = chat(s, [], 'hi\n');
  assert.match(out, /^\[failed: .*\/retry asks the model again\]\nStill here\.\n$/);
  assert.equal(stored(s.data)[0].content[0].text, 'slow');
});

// ---- at a terminal ----

// quipu on a terminal of its own: what it prints is awaited, what is typed is sent.
class Terminal {
  constructor(t, s, args) {
    const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;
    this.child = spawn('script', ['-qec', 'exec ' + [bin, ...args].map(quote).join(' '), '/dev/null'], {
      env: environment(s.data, { SHELL: '/bin/sh', TERM: 'vt100', XDG_STATE_HOME: path.join(s.dir, 'state') }),
    });
    this.output = '';
    this.seen = 0;
    this.child.stdin.on('error', () => {});
    this.child.stdout.setEncoding('utf8').on('data', (more) => {
      this.output += more;
      this.wake?.();
    });
    this.ended = new Promise((resolve) => this.child.on('close', (status) => resolve(status)));
    this.ended.then(() => this.wake?.());
    t.after(() => this.child.kill('SIGKILL'));
  }

  type(keys) {
    this.child.stdin.write(keys);
  }

  // Waits for this in what came since the last one.
  async until(pattern) {
    let over = false;
    this.ended.then(() => (over = true));
    for (;;) {
      const found = pattern.exec(this.output.slice(this.seen));
      if (found) {
        this.seen += found.index + found[0].length;
        return found;
      }
      assert.ok(!over, `${pattern} did not come: ${JSON.stringify(this.output.slice(this.seen))}`);
      await new Promise((resolve) => (this.wake = resolve));
    }
  }
}

test('a terminal: prompt, line editing, streaming, Ctrl-C, history', async (t) => {
  const s = setting(t, [say('hello world', { thinking: 'Hm.' }, text('Well met.')), say('*slow*', text('one\n' + 'and on '.repeat(400)))], 20);
  const tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/\[a new conversation; \/help lists commands\]/);
  await tty.until(/> /);
  tty.type('world\x01hello \r'); // Ctrl-A: the beginning of the line
  await tty.until(/\x1b\[2mHm\.\x1b\[0m\r\nWell met\.\r\n/);
  await tty.until(/> /);
  tty.type('slow\r');
  await tty.until(/one\r\nand/);
  tty.type('\x03'); // Ctrl-C ends the answer
  await tty.until(/\[cancelled\]/);
  await tty.until(/> /);
  tty.type('never sent');
  await tty.until(/never sent/);
  tty.type('\x03'); // and gives up the line
  await tty.until(/> /);
  tty.type('\x1b[A\x1b[A\r'); // the line before the last one
  await tty.until(/Well met\./);
  await tty.until(/> /);
  tty.type('/nope\r');
  await tty.until(/quipu: there is no \/nope; /);
  await tty.until(/> /);
  tty.type('\x04');
  assert.equal(await tty.ended, 0);
  assert.deepEqual(texts(s.data).filter((_, i) => i % 2 === 0), ['hello world', 'slow', 'hello world']);
  const file = path.join(s.dir, 'state', 'quipu', 'chat_history');
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  assert.match(fs.readFileSync(file, 'utf8'), /slow/);

  // The history is there the next time, and what was said last is shown.
  const again = new Terminal(t, s, ['chat', ...s.args]);
  await again.until(/branch main, model demo, 6 messages/);
  await again.until(/Well met\./);
  await again.until(/> /);
  again.type('\x10\x10\r'); // Ctrl-P
  await again.until(/Well met\./);
  await again.until(/> /);
  again.type('/edit\r');
  await again.until(/edit> hello world/);
  again.type('\x15slow\r'); // Ctrl-U
  await again.until(/one\r\nand/);
  again.type('\x03');
  await again.until(/\[cancelled\]/);
  await again.until(/> /);
  again.type('/quit\r');
  assert.equal(await again.ended, 0);
});

test('a terminal: a tool is asked about, and can be left waiting', async (t) => {
  const s = setting(t, [{ after_tool: 'write_file', play: [text('Done.')] }, say('*write*', writing('a.txt', 'c1'))]);
  const tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/> /);
  tty.type('write\r');
  await tty.until(/allow write_file \{"path":"a.txt","content":"knot"\}\?\r\n/);
  await tty.until(/\[y\]es \/ \[n\]o \/ \[a\]ll \/ reason: /);
  tty.type('\x04');
  await tty.until(/goes on waiting/);
  assert.equal(await tty.ended, 0);
  const again = new Terminal(t, s, ['chat', ...s.args]);
  await again.until(/allow write_file/);
  await again.until(/reason: /);
  again.type('y\r');
  await again.until(/Done\./);
  await again.until(/> /);
  again.type('\x04');
  assert.equal(await again.ended, 0);
  assert.ok(fs.existsSync(path.join(s.workspace, 'a.txt')));
});

test('a terminal: Ctrl-C instead of an answer cancels the turn', async (t) => {
  const s = setting(t, [say('*write*', writing('a.txt', 'c1'))]);
  const tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/> /);
  tty.type('write\r');
  await tty.until(/reason: /);
  tty.type('\x03');
  await tty.until(/\[cancelled\]/);
  await tty.until(/> /);
  tty.type('/quit\r');
  assert.equal(await tty.ended, 0);
  assert.equal(state(s.data), 'Idle');
  assert.ok(!fs.existsSync(path.join(s.workspace, 'a.txt')));
});
