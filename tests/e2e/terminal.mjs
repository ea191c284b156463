// `quipu` on a terminal of its own, for tests of `quipu chat`.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { bin, environment } from './helper.mjs';

// quipu on a terminal of its own: what it prints is awaited, what is typed is sent.
export class Terminal {
  constructor(t, s, args, env = {}) {
    const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;
    this.child = spawn('script', ['-qec', 'stty cols 60 rows 24; exec ' + [bin, ...args].map(quote).join(' '), '/dev/null'], {
      env: environment(s.data, { SHELL: '/bin/sh', TERM: 'vt100', NO_COLOR: '', XDG_STATE_HOME: path.join(s.dir, 'state'), ...env }),
    });
    this.output = '';
    this.seen = 0;
    this.child.stdin.on('error', () => {});
    this.child.stdout.setEncoding('utf8').on('data', (more) => {
      this.output += more;
      this.wake?.();
    });
    this.ended = new Promise((resolve) => this.child.on('close', (status) => resolve(status)));
    this.ended.then(() => {
      this.over = true;
      this.wake?.();
    });
    t.after(() => this.child.kill('SIGKILL'));
  }

  type(keys) {
    this.child.stdin.write(keys);
  }

  // Ctrl-U and Ctrl-D, until they are heard: the editor prompts a moment before it takes over the
  // terminal, and a Ctrl-D that is typed in between becomes a character of the line. Gives the exit
  // status.
  async leave() {
    for (;;) {
      this.type('\x15\x04');
      const status = await Promise.race([this.ended, setTimeout(300, undefined, { ref: false })]);
      if (status !== undefined) return status;
    }
  }

  // Waits for this in what came since the last one. The alarm only lets a failure say what came.
  async until(pattern) {
    let late = false;
    const alarm = globalThis.setTimeout(() => ((late = true), this.wake?.()), 90_000).unref();
    for (;;) {
      const found = pattern.exec(this.output.slice(this.seen));
      if (found) {
        this.seen += found.index + found[0].length;
        clearTimeout(alarm);
        return found;
      }
      assert.ok(!this.over && !late, `${pattern} did not come: ${JSON.stringify(this.output.slice(this.seen))}`);
      await new Promise((resolve) => (this.wake = resolve));
    }
  }
}
