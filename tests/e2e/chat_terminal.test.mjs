// `quipu chat` at a terminal: prompt, line editing, streaming, Ctrl-C, history, questions.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { say, setting, state, text, texts, writing } from './chat.mjs';
import { bin, environment } from './helper.mjs';

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

  // Ctrl-D, until it is heard: the editor prompts a moment before it takes over the terminal, and what
  // is typed in between is the end of a file that nobody reads. Gives the exit status.
  async leave() {
    for (;;) {
      this.type('\x04');
      const status = await Promise.race([this.ended, setTimeout(300, undefined, { ref: false })]);
      if (status !== undefined) return status;
    }
  }

  // Waits for this in what came since the last one. The alarm only lets a failure say what came.
  async until(pattern) {
    let over = false;
    const alarm = globalThis.setTimeout(() => ((over = true), this.wake?.()), 90_000).unref();
    this.ended.then(() => (over = true));
    for (;;) {
      const found = pattern.exec(this.output.slice(this.seen));
      if (found) {
        this.seen += found.index + found[0].length;
        clearTimeout(alarm);
        return found;
      }
      assert.ok(!over, `${pattern} did not come: ${JSON.stringify(this.output.slice(this.seen))}`);
      await new Promise((resolve) => (this.wake = resolve));
    }
  }
}

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
  await tty.until(/\[y\]es \/ \[n\]o \/ \[a\]ll \/ reason: /);
  assert.equal(await tty.leave(), 0);
  await tty.until(/goes on waiting/);
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
