// `quipu chat` on a data directory, from a pipe.

import assert from 'node:assert/strict';
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
