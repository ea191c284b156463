// `quipu chat` at a terminal: prompt, line editing, streaming, Ctrl-C, history, questions.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { say, setting, state, stored, text, texts, writing } from './chat.mjs';
import { ok } from './helper.mjs';
import { Terminal } from './terminal.mjs';

test('with NO_COLOR nothing is styled', async (t) => {
  const s = setting(t, [say('*', { thinking: 'Hm.' }, text('# Well\nand **so** on'))]);
  const tty = new Terminal(t, s, ['chat', '--new', '--model', 'demo', ...s.args], { NO_COLOR: '1' });
  await tty.until(/> /);
  tty.type('hello\r');
  await tty.until(/\[thinking\] Hm\.\r\n# Well\r\nand \*\*so\*\* on\r\n/);
  assert.equal(await tty.leave(), 0);
  assert.doesNotMatch(tty.output, /\x1b\[[0-9;]*[1-9][0-9;]*m/);
});

test('a terminal: prompt, line editing, streaming, Ctrl-C, history', async (t) => {
  const s = setting(t, [say('hello world', { thinking: 'Hm.' }, text('Well met.')), say('*slow*', text('one\n' + 'and on '.repeat(400)))], 20);
  const tty = new Terminal(t, s, ['chat', '--new', '--model', 'demo', ...s.args]);
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
  assert.equal(await tty.leave(), 0);
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
  await tty.until(/\[y\]es \/ \[n\]o \/ \[a\]ll \/ always \/ reason: /);
  assert.equal(await tty.leave(), 0);
  await tty.until(/still waits for approval/);
  const again = new Terminal(t, s, ['chat', ...s.args]);
  await again.until(/allow write_file/);
  await again.until(/reason: /);
  again.type('y\r');
  await again.until(/Done\./);
  await again.until(/> /);
  assert.equal(await again.leave(), 0);
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

// What a terminal sends for a paste.
const paste = (words) => `\x1b[200~${words}\x1b[201~`;

test('a terminal: pasted lines are one message', async (t) => {
  const s = setting(t, [say('*', text('Seen.')), say('*', text('Seen.')), say('*', text('Seen.'))]);
  const tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/\x1b\[\?2004h> /);
  tty.type(`look: ${paste('first line\rsecond\r\r/help is text here\r')}`);
  await tty.until(/\[pasted 4 lines\]/);
  tty.type(' thanks\r');
  await tty.until(/Seen\./);
  await tty.until(/> /);
  tty.type(`${paste('one line')}\r`);
  await tty.until(/Seen\./);
  await tty.until(/> /);
  tty.type('//etc/hosts is a file\r');
  await tty.until(/Seen\./);
  await tty.until(/> /);
  assert.equal(await tty.leave(), 0);
  const said = texts(s.data).filter((_, i) => i % 2 === 0);
  assert.deepEqual(said, ['look: first line\nsecond\n\n/help is text here thanks', 'one line', '/etc/hosts is a file']);
});

test('a terminal: every byte of a long command is shown, page by page, before it can be allowed', async (t) => {
  const lines = Array.from({ length: 90 }, (_, i) => `echo line-${i}-${'x'.repeat(20)}`);
  lines[40] = 'echo \x1b[2K\u202eevil\u202c \u0085';
  const command = lines.join('\n');
  const s = setting(t, [{ after_tool: 'run_command', play: [text('Done.')] }, say('*run*', { call: 'run_command', arguments: { command }, id: 'c1' })]);
  const tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/> /);
  tty.type('run\r');
  await tty.until(/allow run_command\? \(\d+ bytes of arguments\)/);
  const from = tty.seen;
  for (let page = 1; !/reason: /.test(tty.output.slice(tty.seen)); page++) {
    await tty.until(/-- more: |always \/ (?=reason: )/);
    if (/reason: /.test(tty.output.slice(tty.seen))) break;
    tty.type('\r');
  }
  const shown = tty.output.slice(from);
  lines.forEach((line, i) => i === 40 || assert.ok(shown.includes(line), line));
  assert.ok(shown.includes('echo \\x1b[2K\\xe2\\x80\\xaeevil\\xe2\\x80\\xac \\xc2\\x85'), 'control and direction characters are visible');
  assert.doesNotMatch(shown, /\u202e|\x1b\[2K\u202e/);
  tty.type('n\r');
  await tty.until(/Done\.|> /);
  await tty.leave();
});

test('a terminal: ok allows once; always shows a rule, stores it, and holds in the next chat too', async (t) => {
  const s = setting(t, [
    { after_tool: 'write_file', times: 9, play: [text('Done.')] },
    say('*one*', writing('1.txt', 'c1')),
    say('*two*', writing('2.txt', 'c2')),
    say('*three*', writing('2.txt', 'c3')),
  ]);
  let tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/> /);
  tty.type('one\r');
  await tty.until(/reason: /);
  tty.type('ok\r');
  await tty.until(/Done\.[^]*> /);
  tty.type('two\r');
  await tty.until(/reason: /);
  // The rule is shown before it is stored, and who says no is asked as before.
  tty.type('always\r');
  await tty.until(/the rule: write_file runs without asking when its paths and commands are exactly those above/);
  await tty.until(/store this rule\? \[y\]es \/ \[n\]o: /);
  tty.type('n\r');
  await tty.until(/reason: /);
  assert.ok(!fs.existsSync(path.join(s.data, 'rules.json')));
  tty.type('always\r');
  await tty.until(/store this rule\? /);
  tty.type('y\r');
  await tty.until(/Done\.[^]*> /);
  assert.equal(fs.statSync(path.join(s.data, 'rules.json')).mode & 0o777, 0o600);
  const from = tty.seen;
  tty.type('three\r');
  await tty.until(/Done\.[^]*> /);
  assert.doesNotMatch(tty.output.slice(from), /reason: /, 'the same path, another text: no question');
  assert.equal(await tty.leave(), 0);
  const [id, owner, tool, args] = ok(s.data, ['tool', 'rules']).trim().split('\t');
  assert.deepEqual([owner, tool, JSON.parse(args)], ['-', 'write_file', { path: '2.txt' }]);
  // Another program, later: the rule holds for its path alone, until it is removed.
  tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/> /);
  tty.type('three\r');
  await tty.until(/Done\.[^]*> /);
  assert.doesNotMatch(tty.output, /reason: /);
  tty.type('one\r');
  await tty.until(/reason: /);
  tty.type('n\r');
  await tty.until(/Done\.[^]*> /);
  assert.equal(ok(s.data, ['tool', 'rules', 'rm', id]), '');
  assert.equal(ok(s.data, ['tool', 'rules']), '');
  tty.type('three\r');
  await tty.until(/reason: /);
  tty.type('n\r');
  await tty.until(/Done\.[^]*> /);
  assert.equal(await tty.leave(), 0);
});

test('a terminal: Markdown is shown, and words are not broken at the edge', async (t) => {
  const long = 'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon';
  const answer = `# Title\n\nSome **bold** and \`code\` here.\n- item\n\n\`\`\`sh\n${'x'.repeat(100)}\n\`\`\`\n${long}\n`;
  const s = setting(t, [say('*', text(answer))]);
  const tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/> /);
  tty.type('stty\r');
  await tty.until(/\x1b\[1mTitle\x1b\[0m\r\n/);
  await tty.until(/Some \x1b\[0m\x1b\[1mbold\x1b\[0m and \x1b\[0m\x1b\[36mcode\x1b\[0m here\.\r\n/);
  await tty.until(/• item\r\n/);
  await tty.until(/x{100}/);
  const [words] = await tty.until(/alpha[^]*upsilon/);
  assert.equal(words.replace(/\r\n/g, ' '), long, 'wrapped between words only');
  assert.ok(words.split('\r\n').length === 2 && words.split('\r\n').every((line) => line.length <= 60), words);
  await tty.until(/> /);
  assert.equal(await tty.leave(), 0);
});

test('a terminal: files are attached, conversations listed and titled', async (t) => {
  const s = setting(t, [say('*', text('A picture.')), say('*', text('Hm.'))]);
  const picture = path.join(s.dir, 'dot.png');
  fs.writeFileSync(picture, Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg==', 'base64'));
  const tty = new Terminal(t, s, ['chat', '--new', ...s.args]);
  await tty.until(/> /);
  tty.type(`/attach ${picture}\r`);
  await tty.until(/attached to the next message: [^\r]*dot\.png \(image\/png\)/);
  await tty.until(/> /);
  tty.type('What do you see in this picture of mine?\r');
  await tty.until(/A picture\./);
  await tty.until(/> /);
  tty.type('/list\r');
  await tty.until(/\* [0-9a-f-]{36} [^\r]*What do you see in this picture of mine\?/);
  await tty.until(/> /);
  assert.equal(await tty.leave(), 0);
  const [message] = stored(s.data);
  assert.deepEqual(message.content.map((part) => part.type), ['text', 'image']);
});
