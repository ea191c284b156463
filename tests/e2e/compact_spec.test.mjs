// The scenarios of the specification of auto-compact, with aimock as the provider: everything that
// goes over the wire is seen.

import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import { jsonLines, ok } from './helper.mjs';
import { answer, narrative, ofType, prose, questions, summaries, talkUntilCompacted, textOf, withAnthropic } from './compact.mjs';
import { restart, stored, until } from './turns.mjs';

test('Scenario: Short conversation (no compact)', async (t) => {
  const { tap, chat } = await withAnthropic(t);
  const events = [];
  for (let n = 0; n < 3; n++) events.push(...(await (await chat.stream('send_message', { content: `Question ${n}?` })).all()));
  assert.deepEqual(events.filter((event) => event.type.startsWith('compact')), []);
  assert.equal(summaries(tap).length, 0);
  const { messages } = tap.sent.at(-1).body;
  assert.deepEqual(messages.map(textOf), ['Question 0?', answer, 'Question 1?', answer, 'Question 2?']);
  const { window } = await chat.state('?last=0');
  assert.ok(window.used < window.threshold);
  assert.equal(window.window, 4000);
  assert.equal(window.threshold, 3200);
  assert.equal(window.compaction, null);
});

test('Scenario: Long conversation triggers compact', async (t) => {
  const { tap, chat } = await withAnthropic(t, { body: { compaction: { recall_tokens: 0 } } });
  const { events, sent } = await talkUntilCompacted(chat, { tokens: 60 });
  // A fast model has written the summary, without tools.
  assert.equal(summaries(tap).length, 1);
  const request = summaries(tap)[0].body;
  assert.match(request.model, /^claude-haiku/);
  assert.ok(!request.tools?.length);
  // The event.
  const [event, ...more] = ofType(events, 'compact');
  assert.equal(more.length, 0);
  assert.ok(event.kept > 0 && event.covered > 0);
  assert.equal(event.covered + event.kept, 2 * sent - 1);
  assert.ok(event.tokens_after < event.tokens_before);
  assert.ok(event.tokens_after <= 2400, 'at most 60 % of the window');
  assert.equal(event.reason, 'threshold');
  assert.match(event.model, /claude-haiku/);
  // What was sent: the summary, and the kept messages byte for byte.
  const state = await chat.state();
  const stored = state.messages.map((message) => message.text);
  const { messages } = questions(tap).at(-1).body;
  const kept = stored.slice(event.covered, -1);
  assert.equal(kept.length, event.kept);
  assert.match(textOf(messages[0]), new RegExp(narrative.slice(0, 40)));
  const wire = messages.map(textOf).join('\n');
  for (const text of kept) assert.ok(wire.includes(text), `kept: ${text.slice(0, 40)}`);
  assert.equal(textOf(messages.at(-1)), stored.at(-2), 'the last message of the user is last');
  assert.ok(messages.length <= event.kept + 2, 'the covered messages are not sent');
  assert.ok(JSON.stringify(questions(tap).at(-1).body).length < JSON.stringify(questions(tap).at(-2).body).length);
  // The gauge describes what is sent now.
  assert.ok(state.window.used < 3200);
  assert.equal(state.window.compaction.id, event.id);
  assert.equal(state.window.compaction.covered, event.covered);
});

test('Scenario: Long conversation triggers compact: six messages are kept when they are small', async (t) => {
  const { chat, tap } = await withAnthropic(t, { body: { compaction: { recall_tokens: 0 } } });
  await chat.send(`An old question: ${prose(5, 1500)}`);
  for (let n = 0; n < 3; n++) await chat.send(`Short ${n}?`);
  const answerOf = await chat.does('compact', {});
  assert.equal(answerOf.window.compaction.kept, 6);
  assert.equal(answerOf.window.compaction.covered, 2);
  assert.equal(summaries(tap).length, 1);
});

test('Scenario: Compact preserves context', async (t) => {
  const { tap, chat } = await withAnthropic(t);
  await chat.send('The budget is $1,250 and the deadline is 2026-12-01. Do not delete archive/cords.csv. My order is HAT-4711.');
  await talkUntilCompacted(chat, { first: 1 });
  await chat.send('Which order was mine, and what may you not delete?');
  const wire = JSON.stringify(tap.sent.at(-1).body.messages);
  for (const fact of ['1,250', '2026-12-01', 'archive/cords.csv', 'HAT-4711', 'red cords first']) assert.ok(wire.includes(fact), `${fact} is in what the model is sent`);
  const names = tap.sent.at(-1).body.tools?.map((tool) => tool.name) ?? [];
  assert.ok(names.includes('search_history') && names.includes('read_history'), 'it can look for the rest');
});

test('Scenario: Compact indicator displayed', async (t) => {
  const { server, chat } = await withAnthropic(t);
  const { events } = await talkUntilCompacted(chat);
  const [event] = ofType(events, 'compact');
  const page = await server.expect(200, 'GET', `${chat.at}/messages?limit=1000`);
  assert.equal(page.compactions.length, 1);
  const [mark] = page.compactions;
  assert.equal(mark.id, event.id);
  assert.equal(mark.kept, event.kept);
  assert.equal(page.messages.findIndex((message) => message.id === mark.after), event.covered - 1, 'it stands between the covered and the kept messages');
  // The same for people and in every export, read beside the server.
  const sentence = new RegExp(`compacted: the model gets a summary of ${event.covered} messages; ${event.kept} messages were kept`);
  assert.match(ok(server.data, ['show', chat.id]), sentence);
  const md = ok(server.data, ['export', chat.id]);
  assert.match(md, sentence);
  assert.equal(md.slice(0, md.search(sentence)).match(/^## (User|Assistant)/gm).length, event.covered);
  const lines = jsonLines(ok(server.data, ['export', chat.id, '--format', 'jsonl']));
  assert.equal(lines.findIndex((line) => line.compaction), event.covered);
  const whole = JSON.parse(ok(server.data, ['export', chat.id, '--format', 'json']));
  assert.equal(whole.branches.main.compactions[0].after, mark.after);
  // What was exported can be added again.
  const other = ok(path.join(server.settings.dir, 'other'), ['new']).trim();
  ok(path.join(server.settings.dir, 'other'), ['add', other, '--jsonl', '-'], { input: ok(server.data, ['export', chat.id, '--format', 'jsonl']) });
});

test('Scenario: Summary persisted to database', async (t) => {
  const { server, chat } = await withAnthropic(t);
  const { events } = await talkUntilCompacted(chat);
  const [event] = ofType(events, 'compact');
  const list = await server.expect(200, 'GET', `${chat.at}/compactions`);
  assert.equal(list.active, event.id);
  const record = list.compactions.find((one) => one.id === event.id);
  assert.ok(record.narrative.includes('red cords first'));
  assert.equal(record.covered, event.covered);
  assert.match(record.model, /claude-haiku/);
  assert.equal(record.generation, 1);
  assert.equal(record.parent, null);
  // In a file that a person can read …
  const dir = path.join(server.data, 'contexts', chat.id);
  await until(() => stored(dir, 'red cords first'), () => 'the summary is in a file of the context');
  // … and in the row of the conversation.
  await until(async () => (await server.expect(200, 'GET', '/v1/contexts')).contexts[0].summary?.includes('red cords first'), () => 'the row has no summary');
});

test('Scenario: Resume compacted conversation', async (t) => {
  const { tap, server, chat } = await withAnthropic(t, { body: { compaction: { recall_tokens: 0 } } });
  const { events, sent } = await talkUntilCompacted(chat);
  const [event] = ofType(events, 'compact');
  const before = questions(tap).at(-1);
  assert.equal(summaries(tap).length, 1);
  await chat.send('A short one.');
  assert.equal(summaries(tap).length, 1, 'the second turn uses the stored summary');
  const second = questions(tap).at(-1);
  const plain = (text) => text.replaceAll(/,"cache_control":\{[^}]*\}/g, '');
  assert.ok(plain(second.text).startsWith(plain(before.text).slice(0, -2)), 'what was sent before is the beginning');
  // After a restart too.
  const again = chat.on(await restart(t, server));
  await again.send('Another short one.');
  assert.equal(summaries(tap).length, 1, 'and after a restart');
  assert.ok(plain(questions(tap).at(-1).text).startsWith(plain(second.text).slice(0, -2)), 'with the same beginning');
  const page = await again.server.expect(200, 'GET', `${again.at}/messages?limit=1000`);
  assert.equal(page.total, 2 * sent + 4, 'the user sees the full history');
  assert.equal(page.messages[0].text.slice(0, 11), 'Question 0:');
  assert.equal(page.compactions.at(-1).id, event.id);
  assert.equal((await again.state('?last=0')).window.compaction.id, event.id);
});

test('Scenario: Continue conversation', async (t) => {
  const { tap, chat } = await withAnthropic(t);
  let compactions = 0;
  for (let n = 0; n < 45; n++) {
    const events = await (await chat.stream('send_message', { content: `Question ${n}: ${prose(n, 100)}?` })).all();
    compactions += ofType(events, 'compact').length;
    assert.equal(events.at(-1).state, 'Idle');
  }
  assert.ok(compactions >= 2, `${compactions} compactions`);
  // A fifth of the window is free after each: no compaction soon after another.
  assert.ok(summaries(tap).length <= compactions + 2, `${summaries(tap).length} calls for ${compactions} compactions`);
  for (const { body } of questions(tap)) assert.ok(encode(body.messages.map(textOf).join('\n')).length < 4000, 'no request is larger than the window');
  const state = await chat.state('?last=0');
  assert.equal(state.total, 90);
  assert.ok(state.window.compaction.covered > 40);
});
