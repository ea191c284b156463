// `quipu chat` on a data directory, from a pipe.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { chat, say, scenarios, setting, stored, text } from './chat.mjs';
import { exit, fails, ok, Running } from './helper.mjs';

scenarios('here', async (t, s) => ({ more: s.args, end: async () => {} }));

test('wrong words, options and commands', (t) => {
  const s = setting(t, []);
  const wrong = (code, sentence, words, input = '') => fails(s.data, ['chat', ...words], code, sentence, { input });
  wrong('INVALID', /there is no \/hlep; did you mean \/help\?/, ['--new'], '/hlep\n');
  wrong('INVALID', /there is no \/xyzzy; \/help lists/, ['--new'], '/xyzzy\n');
  wrong('INVALID', /\/switch needs an argument: NAME/, ['--new'], '/switch\n');
  wrong('INVALID', /\/quit takes no argument/, ['--new'], '/quit now\n');
  wrong('NOTFOUND', /has not begun/, ['--new'], '/retry\n');
  wrong('INVALID', /--new cannot be used/, ['--new', '0192f0c4']);
  wrong('NOTFOUND', /no branch 'side'/, ['--new', '--branch', 'side']);
  wrong('INVALID', /is not the URL of a server/, ['--server', 'localhost']);
  wrong('INVALID', /for people/, ['--json']);
  wrong('NOTFOUND', /'0192f0c4'/, ['0192f0c4']);
  assert.match(ok(s.data, ['chat', '--new'], { input: '/help\n' }), /^\/regenerate +another answer, on a new branch$/m);
  assert.equal(ok(s.data, ['ls']), '', 'nothing was begun');
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

// The names of the abstract Unix sockets that a process has.
function abstractSockets(pid) {
  const target = (fd) => {
    try {
      return fs.readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return ''; // it was closed meanwhile
    }
  };
  const inodes = fs.readdirSync(`/proc/${pid}/fd`).map((fd) => /^socket:\[(\d+)\]$/.exec(target(fd))?.[1]);
  return fs
    .readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .map((line) => line.split(/ +/))
    .filter((words) => words[7]?.startsWith('@') && inodes.includes(words[6]))
    .map((words) => words[7].slice(1));
}

test('no other process can use the server inside, and it leaves no file', async (t) => {
  const s = setting(t, [say('*', text('Ready.'))]);
  const process = new Running(t, s.data, ['chat', '--new', ...s.args]);
  await process.write('hi\n');
  assert.equal(await process.next(), 'Ready.');
  const names = abstractSockets(process.child.pid);
  assert.equal(names.length > 0, true, 'it has a socket');
  for (const name of new Set(names)) {
    const curl = spawnSync('curl', ['-sS', '--max-time', '20', '--abstract-unix-socket', name, 'http://127.0.0.1/v1/contexts'], { encoding: 'utf8' });
    assert.ok(curl.status !== 0 || /DENIED/.test(curl.stdout), `${curl.status} ${curl.stdout}`);
    assert.doesNotMatch(curl.stdout, /"contexts"/);
  }
  await process.write('hi\n');
  assert.equal(await process.next(), 'Ready.');
  assert.equal((await process.end()).status, 0);
  assert.ok(!fs.readdirSync(s.data).includes('quipu.sock'));
});

test('a key of the data directory is not asked for where no server runs, and its path may be long', (t) => {
  const s = setting(t, [say('*', text('Ready.'))]);
  s.data = path.join(s.dir, 'long'.repeat(40), 'data');
  fs.mkdirSync(path.dirname(s.data));
  ok(s.data, ['key', 'create', '--name', 'me']);
  assert.equal(chat(s, ['--new'], 'hi\n'), 'Ready.\n');
});
