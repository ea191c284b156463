#!/usr/bin/env node
// Runs the tests of a build directory: every C test program that Meson knows, every
// tests/e2e/*.test.mjs and every tests/web/*.test.mjs (the page in a browser). Each file runs in its
// own process group, with a time limit and its own temporary directory.
//
// Prints one line per file, the output of failed files, and at the end the sum over all test
// functions. A file that crashes, hangs, skips planned tests or runs no test counts as one more
// failure.
//
// The environment of a test has QUIPU_BIN (the built command line, with the checks of
// base/assert.h), QUIPU_BUILD (the build directory), TMPDIR (a private directory, removed
// afterwards) and, if PostgreSQL is installed, QUIPU_TEST_POSTGRES (the directory of the socket of a
// server). Its working directory is the root of the repository.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const allSuites = ['unit', 'conformance', 'fault', 'crash', 'embed', 'e2e', 'web'];
const usage = `usage: tools/run-tests.mjs [--build DIR] [--suite ${allSuites.join('|')}]...
                           [--jobs N] [--timeout SECONDS] [NAME]...
NAME runs only the files whose name contains it, such as unit/test_buf.`;
const outputLimit = 16_000_000; // characters of a file that are kept: the end of its output
const shownLines = 300; // characters of a failed file that are printed: the end of its output

function fail(sentence) {
  process.stderr.write(`run-tests: ${sentence}\n`);
  process.exit(2);
}

function parseArguments(args) {
  const options = {
    build: path.join(root, 'build'),
    suites: [],
    jobs: os.availableParallelism(),
    timeout: 120,
    names: [],
  };
  const number = (name, text) => {
    if (!/^[1-9][0-9]*$/.test(text ?? '')) fail(`${name} needs a whole number above 0`);
    return Number(text);
  };
  while (args.length > 0) {
    const arg = args.shift();
    if (arg === '--help') {
      process.stdout.write(`${usage}\n`);
      process.exit(0);
    } else if (arg === '--build') {
      options.build = path.resolve(args.shift() ?? fail('--build needs a directory'));
    } else if (arg === '--suite') {
      const suite = args.shift();
      if (!allSuites.includes(suite)) fail(`--suite must be one of ${allSuites.join(', ')}`);
      options.suites.push(suite);
    } else if (arg === '--jobs') {
      options.jobs = number(arg, args.shift());
    } else if (arg === '--timeout') {
      options.timeout = number(arg, args.shift());
    } else if (arg.startsWith('-')) {
      fail(`no option ${arg}\n${usage}`);
    } else {
      options.names.push(arg);
    }
  }
  if (options.suites.length === 0) options.suites = allSuites;
  return options;
}

// ---- the tests ----

// The program for the end-to-end tests: with the checks of base/assert.h. A release build has it as
// tests/quipu besides the product; it is brought up to date here, since "make" does not build it.
function buildProgram(options) {
  const targets = path.join(options.build, 'meson-info', 'intro-targets.json');
  const second = path.join(options.build, 'tests', 'quipu');
  if (!fs.existsSync(targets) || !fs.readFileSync(targets, 'utf8').includes(`"${second}"`))
    return path.join(options.build, 'quipu');
  const args = ['--quiet', '-C', options.build, '-j', String(options.jobs), 'tests/quipu'];
  const made = spawnSync('ninja', args, { encoding: 'utf8' });
  if (made.status !== 0) fail(`cannot build ${second}:\n${made.stdout}${made.stderr}`);
  return second;
}

function listPrograms(build) {
  const file = path.join(build, 'meson-info', 'intro-tests.json');
  let tests;
  try {
    tests = JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch (error) {
    fail(`${build} is not a configured build directory: ${error.message}`);
  }
  return tests.map((test) => ({
    name: test.name,
    suite: test.name.split('/')[0],
    command: test.cmd,
    count: countCmocka,
  }));
}

function listScripts(suite) {
  const dir = path.join(root, 'tests', suite);
  const all = fs.existsSync(dir) ? fs.readdirSync(dir) : [];
  const names = all.filter((name) => name.endsWith('.test.mjs'));
  return names.sort().map((name) => ({
    name: `${suite}/${name.slice(0, -'.test.mjs'.length)}`,
    suite,
    command: [process.execPath, '--test-reporter=spec', path.join(dir, name)],
    count: countNode,
  }));
}

// ---- counting ----

// cmocka's TAP: "1..N", then "ok 1 - name", "not ok 2 - name" or "not ok 3 # SKIP name"; one plan per group of
// tests. A line may begin with output of the test itself, and a forked child may print a line twice.
function countCmocka(output) {
  const sum = { passed: 0, failed: 0, skipped: 0, planned: 0 };
  let seen = new Set();
  for (const line of output.split('\n')) {
    const plan = /1\.\.(\d+)$/.exec(line);
    const result = /(not ok|ok) (\d+) (# SKIP|-) \S/.exec(line);
    if (plan) {
      sum.planned += Number(plan[1]);
      seen = new Set();
    } else if (result && !seen.has(result[2])) {
      seen.add(result[2]);
      if (result[3] === '# SKIP') sum.skipped++;
      else if (result[1] === 'ok') sum.passed++;
      else sum.failed++;
    }
  }
  return sum;
}

// The summary of Node's spec reporter. A test may print similar text, so the last one counts.
function countNode(output) {
  const last = (what) => {
    const all = [...output.matchAll(new RegExp(`^ℹ ${what} (\\d+)$`, 'gm'))];
    return all.length > 0 ? Number(all[all.length - 1][1]) : 0;
  };
  const sum = {
    passed: last('pass'),
    failed: last('fail') + last('cancelled'),
    skipped: last('skipped') + last('todo'),
  };
  return { ...sum, planned: sum.passed + sum.failed + sum.skipped };
}

// A problem with the run of a file besides failed tests, as a phrase; undefined: no problem.
function judge(sum, end, timeout) {
  const ran = sum.passed + sum.failed + sum.skipped;
  if (end.timedOut) return `still running after ${timeout} s`;
  if (end.error) return `cannot be run: ${end.error.message}`;
  if (end.signal) return `killed by ${end.signal}`;
  if (ran === 0) return `ran no test, exit status ${end.code}`;
  if (ran < sum.planned)
    return `ended after ${ran} of ${sum.planned} tests, exit status ${end.code}`;
  if (end.code !== 0 && sum.failed === 0) return `exit status ${end.code}`;
  return undefined;
}

// ---- PostgreSQL ----

// One server for all tests; it ends with its standard input, so also when this process is killed.
function startPostgres() {
  if (process.env.QUIPU_TEST_POSTGRES) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    const server = spawn(path.join(root, 'tools', 'scratch-postgres'), [], {
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    server.stdout.setEncoding('utf8').on('data', (line) => {
      process.env.QUIPU_TEST_POSTGRES = line.split(' ')[0];
      resolve(server);
    });
    server.on('error', () => resolve(undefined));
    server.on('exit', () => resolve(undefined));
  });
}

function stopPostgres(server) {
  if (!server || server.exitCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    server.on('exit', resolve);
    server.stdin.end();
  });
}

// ---- running ----

const running = new Set(); // process ids, each the leader of its group

function killGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The whole group has ended.
  }
}

function start(file, options, scratch) {
  const tmp = path.join(scratch, file.name.replace('/', '.'));
  fs.mkdirSync(tmp);
  const env = {
    ...process.env,
    CMOCKA_MESSAGE_OUTPUT: 'TAP',
    NO_COLOR: '1',
    QUIPU_BIN: options.bin ?? path.join(options.build, 'quipu'),
    QUIPU_BUILD: options.build,
    TMPDIR: tmp,
  };
  delete env.QUIPU_DATA; // tests must not use the data directory of the developer
  return new Promise((resolve) => {
    const end = { output: '' };
    const began = process.hrtime.bigint();
    const child = spawn(file.command[0], file.command.slice(1), {
      cwd: root,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const timer = setTimeout(() => {
      end.timedOut = true;
      killGroup(child.pid);
    }, options.timeout * 1000);
    const collect = (text) => {
      end.output = (end.output + text).slice(-outputLimit);
    };
    const finish = () => {
      clearTimeout(timer);
      running.delete(child.pid);
      end.seconds = Number(process.hrtime.bigint() - began) / 1e9;
      remove(tmp);
      resolve(end);
    };
    child.stdout.setEncoding('utf8').on('data', collect);
    child.stderr.setEncoding('utf8').on('data', collect);
    child.on('error', (error) => {
      end.error = error;
      finish();
    });
    // Processes that a test has left must not keep its pipes open, nor outlive it.
    child.on('exit', () => killGroup(child.pid));
    child.on('close', (code, signal) => {
      end.code = code;
      end.signal = signal;
      finish();
    });
    if (child.pid) running.add(child.pid);
  });
}

// A test that was killed may have left file systems that are mounted, and a browser that ends may still write.
function remove(dir) {
  const mounts = fs.readFileSync('/proc/self/mounts', 'utf8').split('\n').map((line) => line.split(' ')[1] ?? '');
  for (const place of mounts.filter((place) => place.startsWith(`${dir}/`)).reverse()) spawnSync('umount', ['-l', place]);
  try {
    fs.rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  } catch (error) {
    process.stderr.write(`run-tests: cannot remove ${dir}: ${error.message}\n`);
  }
}

function report(file, sum, end, complaint) {
  const skipped = sum.skipped > 0 ? `, ${sum.skipped} skipped` : '';
  const ran = sum.passed + sum.failed + sum.skipped;
  const detail = `(${ran} ${ran === 1 ? 'test' : 'tests'}${skipped}, ${end.seconds.toFixed(1)} s)`;
  if (sum.failed === 0 && !complaint) {
    process.stdout.write(`ok ${file.name} ${detail}\n`);
    return;
  }
  process.stdout.write(`FAILED ${file.name} ${detail}${complaint ? `: ${complaint}` : ''}\n`);
  const passed = /^(ok \d|1\.\.\d|\[ RUN |\[ +OK )/;
  const lines = end.output
    .trimEnd()
    .split('\n')
    .filter((line) => !passed.test(line));
  const hidden = lines.length - shownLines;
  if (hidden > 0) process.stdout.write(`    (${hidden} lines left out)\n`);
  for (const line of lines.slice(-shownLines)) process.stdout.write(`    ${line}\n`);
}

async function runAll(files, options, scratch) {
  const total = { passed: 0, failed: 0, skipped: 0, files: [] };
  const queue = [...files];
  const work = async () => {
    for (let file = queue.shift(); file; file = queue.shift()) {
      const end = await start(file, options, scratch);
      end.output = end.output.replace(/\x1b\[[0-9;]*m/g, '');
      const sum = file.count(end.output);
      const complaint = judge(sum, end, options.timeout);
      if (complaint) sum.failed++;
      total.passed += sum.passed;
      total.failed += sum.failed;
      total.skipped += sum.skipped;
      if (sum.failed > 0) total.files.push(file.name);
      report(file, { ...sum, failed: complaint ? sum.failed - 1 : sum.failed }, end, complaint);
    }
  };
  await Promise.all(Array.from({ length: Math.min(options.jobs, files.length) }, work));
  return total;
}

const options = parseArguments(process.argv.slice(2));
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-test-'));
const cleanUp = () => {
  for (const pid of running) killGroup(pid);
  remove(scratch);
};
process.on('exit', cleanUp);
process.stdout.on('error', () => process.exit(1)); // the reader of the output has gone
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(130));

const known = [...listPrograms(options.build), ...listScripts('e2e'), ...listScripts('web')];
const asked = known.filter((file) => options.suites.includes(file.suite));
const files = asked.filter(
  (file) => options.names.length === 0 || options.names.some((name) => file.name.includes(name)),
);
if (files.some((file) => file.suite === 'e2e' || file.suite === 'web')) options.bin = buildProgram(options);
const postgres = files.some((file) => file.suite !== 'unit') ? await startPostgres() : undefined;
const total = await runAll(files, options, scratch);
await stopPostgres(postgres);

const isEmpty = (suite) => !files.some((file) => file.suite === suite);
const empty = options.names.length > 0 ? [] : options.suites.filter(isEmpty);
for (const suite of empty) {
  process.stdout.write(`FAILED ${suite}: the suite has no tests\n`);
  total.failed++;
}
if (files.length === 0 && empty.length === 0) {
  process.stdout.write(`FAILED: no test is called ${options.names.join(' or ')}\n`);
  total.failed++;
}
if (total.files.length > 0) process.stdout.write(`failed: ${total.files.sort().join(' ')}\n`);
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
process.stdout.write(`${total.passed} passed, ${total.failed} failed${skipped}\n`);
process.exitCode = total.failed > 0 ? 1 : 0;
