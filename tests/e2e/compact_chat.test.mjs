// A long conversation in `quipu chat` at a terminal, with the demo model: it is compacted by itself,
// says so, goes on, finds a covered message again, survives a restart without a second summary, and
// undo brings the full view back.

import assert from 'node:assert/strict';
import test from 'node:test';
import { newest, say, setting, text } from './chat.mjs';
import { prose, windows } from './compact.mjs';
import { ok } from './helper.mjs';
import { Terminal } from './terminal.mjs';

test('a conversation that is longer than the window of its model', async (t) => {
  const s = setting(t, [
    { match: '*which code*', times: 1, play: [{ call: 'search_history', arguments: { query: 'code of the vault' } }] },
    say('*note*', text(`Noted. ${prose(2, 140)}.`)),
    say('*remember*', text('I shall.')),
    say('*short*', text('Noted.')),
  ]);
  const table = windows(t, { 'demo/demo': 4000 });
  const args = [...s.args, ...table];
  const compactions = () => JSON.parse(ok(s.data, ['compact', newest(s.data), ...args, '--list', '--json'])).compactions;
  const view = () => JSON.parse(ok(s.data, ['show', newest(s.data), '--view', 'model', '--json'], { env: { QUIPU_MODEL_TABLE: table[1] } }));

  // It compacts by itself, and says so.
  let tty = new Terminal(t, s, ['chat', '--new', '--model', 'demo/demo', ...args], { NO_COLOR: '1' });
  await tty.until(/> /);
  tty.type('Remember that the code of the vault is ZX-4711-Q.\r');
  await tty.until(/\[window: ~?\d+ of 4000 tokens, \d+ %\]/);
  let said;
  for (let n = 0; n < 40 && !said; n++) {
    await tty.until(/> /);
    tty.type(`Note ${n}: ${prose(n, 40)}\r`);
    const found = await tty.until(/\[compacted: the model gets a summary of (\d+) messages; (\d+) messages? (?:was|were) kept; (\d+) → (\d+)\s+tokens[^]*?\[window: ~?(\d+) of 4000|\[window: ~?(\d+) of 4000 tokens/);
    if (found[1]) said = { covered: Number(found[1]), kept: Number(found[2]), before: Number(found[3]), after: Number(found[4]), used: Number(found[5]) };
  }
  assert.ok(said, tty.output.slice(-500));
  assert.ok(said.after < said.before && said.used < 3200);

  // It goes on, and finds what is covered again.
  await tty.until(/> /);
  tty.type('And which code did I tell you?\r');
  await tty.until(/→ search_history/);
  await tty.until(/ZX-4711-Q/);
  await tty.until(/\[window:/);
  assert.equal(await tty.leave(), 0);
  const made = compactions();
  assert.ok(made.length >= 1);
  const total = JSON.parse(ok(s.data, ['show', newest(s.data), '--json', '--no-messages'])).message_count;
  assert.ok(view().messages.length < total);

  // After a restart there is no second summary, and the mark is where it was.
  tty = new Terminal(t, s, ['chat', ...args], { NO_COLOR: '1' });
  await tty.until(/\[window: ~?\d+ of 4000 tokens, \d+ %\]/);
  await tty.until(/> /);
  tty.type('Short.\r');
  await tty.until(/Noted\./);
  await tty.until(/\[window:/);
  assert.doesNotMatch(tty.output, /\[compact/);

  // Undo brings the full view back.
  await tty.until(/> /);
  tty.type('/undo-compact\r');
  await tty.until(/\[the compaction is undone/);
  await tty.until(/\[window:/);
  assert.equal(await tty.leave(), 0);
  const all = compactions();
  assert.deepEqual(all.slice(0, made.length), made, 'no second summary');
  assert.deepEqual(all.slice(made.length).map((one) => one.kind), ['undo']);
  const back = view();
  const stored = JSON.parse(ok(s.data, ['show', newest(s.data), '--json'])).messages;
  if (made.length === 1) {
    assert.equal(back.messages.length, stored.length);
    assert.deepEqual(back.messages.map((message) => message.id), stored.map((message) => message.id));
  }
});

test('/compact, /pin and their help', async (t) => {
  const s = setting(t, [say('*', text(`Noted. ${prose(2, 140)}.`))]);
  const args = [...s.args, ...windows(t, { 'demo/demo': 4000 })];
  const input = [...Array.from({ length: 6 }, (_, n) => `Note ${n}`), '/pin 1', '/compact keep the numbers', '/undo-compact', '/redo-compact', '/unpin 1', '/help'];
  const out = ok(s.data, ['chat', '--new', '--model', 'demo/demo', ...args], { input: input.map((line) => `${line}\n`).join('') });
  assert.match(out, /\[pinned: this message is always sent unchanged\]\n/);
  assert.match(out, /\[compacting: older messages are being summarised\]\n\[compacted: the model gets a summary of \d+ messages; \d+ messages were kept; \d+ → \d+ tokens\]\n/);
  assert.match(out, /\[the compaction is undone; the model gets the messages again\]\n\[the compaction is used again\]\n\[no longer pinned\]\n/);
  assert.match(out, /^\/compact \[WISH\] +/m);
  assert.match(out, /^\/undo-compact +/m);
  assert.doesNotMatch(out, /\[window:/, 'the gauge is for people');
});
