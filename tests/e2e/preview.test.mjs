// What a person sees of a tool call before deciding: the preview, computed by the tool; a file that
// changes afterwards; arguments that the person changes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { Chat, makeWorkspace, restart, serveTurns } from './turns.mjs';

const call = (tool, args, id = 'call_1') => ({ call: tool, arguments: args, id });

// A chat whose model makes these calls when it is asked to "go".
async function asked(t, calls, options = {}) {
  const place = makeWorkspace(t);
  const steps = [{ match: 'go', times: 1, play: calls }, { match: '*', times: 100, play: [{ text: 'done' }] }];
  const server = await serveTurns(t, { steps, work: place.work, ...options });
  const chat = await Chat.create(server);
  const state = await chat.send('go');
  assert.equal(state.state, 'AwaitingToolApproval');
  return { ...place, server, chat, pending: state.state_detail.pending };
}

const result = (state, id = 'call_1') => state.messages.find((message) => message.tool_result?.request_id === id).tool_result;

test('writes, edits and deletions are shown as diffs against the file', async (t) => {
  const { pending } = await asked(t, [
    call('write_file', { path: 'notes.txt', content: 'one knot\nthree knots\n' }, 'w'),
    call('edit_file', { path: './notes.txt', old_string: 'one', new_string: 'a' }, 'e'),
    call('delete_file', { path: 'notes.txt' }, 'd'),
    call('write_file', { path: 'new/file.txt', content: 'x' }, 'n'),
  ]);
  const previews = Object.fromEntries(pending.map(({ id, preview }) => [id, preview]));
  assert.equal(previews.w.diff, '--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n one knot\n-two knots\n+three knots\n');
  assert.equal(previews.e.diff, '--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n-one knot\n+a knot\n two knots\n');
  assert.equal(previews.d.diff, '--- a/notes.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one knot\n-two knots\n');
  assert.equal(previews.n.diff, '--- /dev/null\n+++ b/new/file.txt\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n');
  for (const { kind, base } of Object.values(previews)) assert.deepEqual([kind, /^[0-9a-f]{32}$/.test(base)], ['diff', true]);
  assert.equal(previews.e.path, 'notes.txt');
});

test('commands, other tools and calls that will fail', async (t) => {
  const { work, pending } = await asked(t, [
    call('run_command', { command: ['ls', '-l', "a 'b'"] }, 'c'),
    call('run_command', { command: 'make test', directory: 'sub' }, 's'),
    call('edit_file', { path: 'notes.txt', old_string: 'nowhere', new_string: 'x' }, 'f'),
  ]);
  assert.deepEqual(pending.map(({ preview }) => preview), [
    { kind: 'command', command: "ls -l 'a '\\''b'\\'''", directory: work },
    { kind: 'command', command: 'make test', directory: `${work}/sub` },
    { kind: 'arguments', error: "'notes.txt' does not contain old_string; it must match exactly, with the same white space" },
  ]);
});

test('a file that has changed since it was shown is not written', async (t) => {
  const { chat, file, read } = await asked(t, [call('write_file', { path: 'notes.txt', content: 'mine\n' }), call('delete_file', { path: 'notes.txt' }, 'd'), call('write_file', { path: 'new.txt', content: 'mine\n' }, 'n')]);
  fs.writeFileSync(file('notes.txt'), 'of another program\n');
  fs.writeFileSync(file('new.txt'), 'of another program\n');
  const state = await chat.does('approve_tools', { approved: ['call_1', 'd', 'n'] });
  for (const id of ['call_1', 'd', 'n']) {
    assert.equal(result(state, id).is_error, true);
    assert.match(result(state, id).result, /has changed since this call was shown for approval, so nothing was done; read the file again/);
  }
  assert.equal(read('notes.txt'), 'of another program\n');
  assert.equal(read('new.txt'), 'of another program\n');
});

test('the preview and its file survive a restart', async (t) => {
  const { server, chat, file, read, pending } = await asked(t, [call('write_file', { path: 'notes.txt', content: 'mine\n' }), call('write_file', { path: 'b.txt', content: 'b\n' }, 'b')]);
  await chat.does('approve_tools', { approved: ['call_1'] }); // the other one still waits, so nothing runs
  const there = chat.on(await restart(t, server, 'SIGKILL'));
  assert.deepEqual((await there.state()).state_detail.pending, pending.slice(1));
  fs.writeFileSync(file('notes.txt'), 'other\n');
  const state = await there.does('approve_tools', { approved: ['b'] });
  assert.match(result(state).result, /has changed since/);
  assert.equal(result(state, 'b').is_error, false);
  assert.deepEqual([read('notes.txt'), read('b.txt')], ['other\n', 'b\n']);
});

test('a person can change the arguments and approve', async (t) => {
  const { chat, read, file } = await asked(t, [call('write_file', { path: 'notes.txt', content: 'mine\n' })], { rules: ['deny write_file path=*.pem'] });
  const edit = (args, more) => ({ approved: ['call_1'], arguments: { call_1: args }, ...more });
  await chat.refuses(400, 'INVALID', /the policy does not allow the changed arguments of 'call_1'/, 'approve_tools', edit({ path: 'key.pem', content: 'x' }));
  await chat.refuses(400, 'INVALID', /names the call 'call_2', which is not approved/, 'approve_tools', { approved: ['call_1'], arguments: { call_2: {} } });
  await chat.refuses(400, 'INVALID', /must be an object/, 'approve_tools', edit('text'));
  const state = await chat.does('approve_tools', edit({ path: 'other.txt', content: 'better\n' }));
  assert.equal(result(state).is_error, false);
  assert.match(result(state).result, /^\[the user has changed the arguments of this call to \{"path":"other.txt","content":"better\\n"\}\]\ncreated other.txt/);
  assert.equal(read('other.txt'), 'better\n');
  assert.equal(read('notes.txt'), 'one knot\ntwo knots\n');
  assert.ok(!fs.existsSync(file('key.pem')));
});

test('"always" names the rules that it stores', async (t) => {
  const { chat } = await asked(t, [call('write_file', { path: 'notes.txt', content: 'mine\n' })]);
  const { rules } = await chat.does('approve_tools', { approved: ['call_1'], always: true });
  assert.deepEqual(rules, [{ tool: 'write_file', arguments: { path: 'notes.txt' } }]);
});

test('a large or binary file has a bounded preview', async (t) => {
  const place = makeWorkspace(t);
  fs.writeFileSync(place.file('bin'), Buffer.from([0, 1, 2]));
  const steps = [{ match: 'go', times: 1, play: [call('write_file', { path: 'bin', content: 'x' }), call('write_file', { path: 'big', content: 'line\n'.repeat(50000) }, 'big')] }];
  const server = await serveTurns(t, { steps, work: place.work });
  const chat = await Chat.create(server);
  const [bin, big] = (await chat.send('go')).state_detail.pending.map(({ preview }) => preview);
  assert.deepEqual([bin.binary, bin.diff], [true, '']);
  assert.equal(big.cut, true);
  assert.ok(big.diff.length < 33 * 1024 && big.diff.endsWith('\n'));
});
