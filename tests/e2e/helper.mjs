// What the end-to-end tests share: running the built command line on a data directory of their own.
//
// QUIPU_BUILD names the build directory (default: build), QUIPU_BIN the program in it; the tests start in the repository's root.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { isListed, readMessages } from '../../tools/errors.mjs';

export const build = path.resolve(process.env.QUIPU_BUILD ?? 'build');
export const bin = path.resolve(process.env.QUIPU_BIN ?? path.join(build, 'quipu'));
// Whether the program is built with a sanitizer.
const options = path.join(build, 'meson-info', 'intro-buildoptions.json');
export const sanitized = fs.existsSync(options) && JSON.parse(fs.readFileSync(options, 'utf8')).some((one) => one.name === 'b_sanitize' && one.value !== 'none');
export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

// From the table in src/cli/cmd_help.c.
export const exit = {
  OK: 0,
  INVALID: 2,
  NOTFOUND: 3,
  BUSY: 4,
  EXISTS: 5,
  TOOBIG: 6,
  READONLY: 7,
  CONFLICT: 8,
  UNAVAILABLE: 9,
  IO: 11,
  CORRUPT: 12,
  FULL: 14,
  DENIED: 15,
  STOPPED: 16,
};

// What is done when a test ends, the newest first: a process ends before its directory is removed. All of it is done, also
// when a part of it fails: a process that is left would keep this one.
const ends = new WeakMap();

export function atEnd(t, end) {
  if (!ends.has(t)) {
    ends.set(t, []);
    t.after(async () => {
      const failures = [];
      for (const one of ends.get(t).reverse())
        try {
          await one();
        } catch (error) {
          failures.push(error);
        }
      if (failures.length > 0) throw failures[0];
    });
  }
  ends.get(t).push(end);
}

// A directory that is removed when the test ends.
export function tempDir(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-e2e-'));
  // A process that a test has started may still write something into it.
  atEnd(t, () => fs.rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));
  return dir;
}

export function environment(data, more = {}) {
  const mine = Object.entries(process.env).filter(([name]) => !/^(QUIPU|ANTHROPIC|OPENAI)_/.test(name));
  const env = { ...Object.fromEntries(mine), TZ: 'UTC', LC_ALL: 'C.UTF-8', ...more };
  if (data !== undefined) env.QUIPU_DATA = data;
  return env;
}

// Runs quipu to its end. `options`: input (text or Buffer), env, cwd, stdio.
export function run(data, args, options = {}) {
  const result = spawnSync(bin, args, {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    input: '',
    ...options,
    env: environment(data, options.env),
  });
  if (result.error && result.error.code !== 'EPIPE') throw result.error;
  return result;
}

// The same, and it must succeed without a word on standard error, but the progress that a slow machine
// shows; returns what it printed.
export function ok(data, args, options = {}) {
  const result = run(data, args, options);
  assert.equal(result.status, 0, `quipu ${args.join(' ')}\n${result.stderr}`);
  assert.equal(result.stderr.replace(/^\d+ of \d+ \w+, [^\n]* left\n/gm, ''), '');
  return result.stdout;
}

let messages;

// The same, and it must fail with this code and one sentence that matches; returns the whole result.
export function fails(data, args, code, sentence, options = {}) {
  const result = run(data, args, options);
  assert.equal(result.status, exit[code], `quipu ${args.join(' ')}\n${result.stdout}${result.stderr}`);
  if (args.includes('--json')) assert.match(JSON.parse(lines(result.stderr).at(-1)).error.message, sentence);
  else assert.match(result.stderr, /^quipu: [^\n]+\n/);
  assert.match(result.stderr, sentence);
  assert.ok(isListed(result.stderr, (messages ??= readMessages())), `docs/errors.md does not list: ${result.stderr}`);
  return result;
}

export const lines = (text) => text.split('\n').slice(0, -1);
export const jsonLines = (text) => lines(text).map((line) => JSON.parse(line));
export const ids = (data, ctx, ...more) => lines(ok(data, ['show', ctx, '--ids', ...more]));

// A store with one conversation in it.
export function makeContext(t, ...args) {
  const data = path.join(tempDir(t), 'data');
  const ctx = ok(data, ['new', ...args]).trim();
  assert.match(ctx, uuid);
  return { data, ctx, dir: path.join(data, 'contexts', ctx) };
}

export const add = (data, ctx, text, ...more) => ok(data, ['add', ctx, '--text', text, ...more]).trim();

export function messageFile(dir, id) {
  const found = fs
    .readdirSync(path.join(dir, 'messages'), { recursive: true })
    .filter((name) => name.endsWith(`${id}.json`));
  assert.equal(found.length, 1, `one file for message ${id}`);
  return path.join(dir, 'messages', found[0]);
}

// The files below a directory, as [path, bytes]. A server may be at work there: what goes meanwhile is left out.
export function* filesBelow(dir) {
  const meanwhile = (read) => {
    try {
      return read();
    } catch (error) {
      assert.equal(error.code, 'ENOENT');
      return undefined;
    }
  };
  for (const entry of meanwhile(() => fs.readdirSync(dir, { withFileTypes: true })) ?? []) {
    const file = path.join(dir, entry.name);
    if (entry.isDirectory()) yield* filesBelow(file);
    const bytes = entry.isFile() ? meanwhile(() => fs.readFileSync(file)) : undefined;
    if (bytes) yield [file, bytes];
  }
}

// quipu as a running process whose output is awaited line by line. `env`: more of its environment;
// `as`: a user and group, { uid, gid }.
export class Running {
  // `as`: options of spawn, and `limits`: commands of the shell that are run before it, as 'ulimit -n 64'; `under`: a
  // command that runs it, with its arguments.
  constructor(t, data, args, env = {}, { limits, under = [], ...as } = {}) {
    const options = { env: environment(data, env), ...as };
    const [program, ...words] = [...under, bin, ...args];
    this.child = limits ? spawn('sh', ['-c', `${limits} && exec "$0" "$@"`, bin, ...args], options) : spawn(program, words, options);
    this.lines = [];
    this.waiting = [];
    this.stderr = '';
    let rest = '';
    this.child.stdin.on('error', () => {}); // it may end before it has read all
    this.logWaiters = [];
    this.child.stderr.setEncoding('utf8').on('data', (text) => {
      this.stderr += text;
      for (const wake of this.logWaiters.splice(0)) wake();
    });
    this.child.stdout.setEncoding('utf8').on('data', (text) => {
      const parts = (rest + text).split('\n');
      rest = parts.pop();
      for (const line of parts) {
        this.lines.push(line);
        this.waiting.shift()?.(line);
      }
    });
    this.ended = new Promise((resolve) => {
      this.child.on('close', (status, signal) => {
        for (const wake of this.waiting) wake(undefined);
        resolve({ status, signal, lines: this.lines, stderr: this.stderr, rest });
      });
    });
    atEnd(t, () => {
      this.child.kill('SIGKILL');
      return this.ended;
    });
  }

  // The next line that has not been awaited yet; undefined when the process ended before.
  next() {
    this.taken = (this.taken ?? 0) + 1;
    if (this.lines.length >= this.taken) return Promise.resolve(this.lines[this.taken - 1]);
    return Promise.race([new Promise((resolve) => this.waiting.push(resolve)), this.ended.then(() => undefined)]);
  }

  // Waits until standard error, from position `from` on, matches `pattern`; the pipe may deliver a log
  // line after the answer that it belongs to. Fails when the process ends first, or after a minute. Returns the text.
  async logged(pattern, from = 0) {
    const missing = () => `in vain: a log line like ${pattern}:\n${this.stderr.slice(-4000)}`;
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, 60_000, 'late')));
    let end;
    try {
      while (!pattern.test(this.stderr.slice(from))) {
        assert.ok(!end, missing());
        end = await Promise.race([new Promise((resolve) => this.logWaiters.push(() => resolve(undefined))), this.ended.then(() => 'ended'), late]);
      }
    } finally {
      clearTimeout(timer);
    }
    return this.stderr.slice(from);
  }

  write(text) {
    return new Promise((resolve) => this.child.stdin.write(text, resolve));
  }

  end() {
    this.child.stdin.end();
    return this.ended;
  }
}

// What quipu prints on a terminal, which is 80 columns wide and ends lines with \r\n.
export function onTerminal(data, args, options = {}) {
  const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;
  const command = [bin, ...args].map(quote).join(' ');
  const result = spawnSync('script', ['-qec', command, '/dev/null'], {
    encoding: 'utf8',
    input: '',
    ...options,
    env: environment(data, { SHELL: '/bin/sh', TERM: 'dumb' }),
  });
  if (result.error) throw result.error;
  return { status: result.status, output: result.stdout.replaceAll('\r\n', '\n') };
}
