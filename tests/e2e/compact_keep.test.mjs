// What becomes of a compaction afterwards: it is made once, it is kept in backups and on branches, it
// is erased with its context, and it survives a change of the provider.
//
// Where the complaints about other systems are tested. Section 1, compaction:
//   1  fails when it is over the limit   conformance/test_compaction one_message_that_is_larger_than_the_window,
//                                        an_overflow_that_the_provider_reports; unit/test_compact_frame (chunks);
//                                        unit/test_compact_property (fits any window)
//   2  compaction loop                   conformance/test_compaction a_second_overflow_ends_the_turn,
//                                        test_compaction_model three_failures_open_the_breaker; bench_compact run
//   3  decisions and values lost         compact_spec "Compact preserves context"; unit/test_compact_ledger; bench_compact facts
//   4  system prompt forgotten           compact_api "a pinned message and the system prompt are always sent as they are"
//   5  call and result parted            compact_api "a turn with many tool calls is compacted inside"; unit/test_compact_property
//   6  summary of a summary decays       unit/test_compact_record (generations, rebuilt from the originals); bench_compact facts
//   7  history gone after a failure      compact_api "an empty, cut, failing or tool-calling summariser"; fault/test_compaction_faults;
//                                        crash/test_compaction_kill
//   8  garbage accepted as a summary     compact_api, the same; unit/test_compact_frame; conformance/test_compaction_model
//   9  summarised again every turn       compact_spec "Resume compacted conversation"; here "two messages at the threshold"
//  10  wrong window                      compact_api "every number of the window says where it comes from"
//  11  cannot be turned off              compact_api "off means off", "manual waits for the person"
//  12  nothing is seen                   compact_spec "Compact indicator displayed"; compact_api "a summary has a cost"
//  13  no undo, branches inconsistent    compact_api "undo brings the view back", "branches inherit what covers them"
//  14  cost                              compact_api "a summary has a cost"; conformance/test_compaction the_sent_beginning_stays_the_same
//  15  stops or answers an old prompt    unit/test_compact_property (the last user message is exact and last); compact_spec
//   -  images, first message, crash      conformance/test_compaction a_history_of_images_fits, nothing_to_compact_in_a_short_conversation,
//                                        a_restart_while_a_person_compacts; crash/test_compaction_kill
// Section 2, what no other system has:
//   1  reversible, edited, expanded      compact_api "undo …", "the summary can be edited, and covered messages sent again"
//   2  cannot lose or wedge              fault/test_compaction_faults, crash/test_compaction_kill, unit/test_compact_property
//   3  pins                              compact_api "a pinned message …"; unit/test_compact_property
//   4  a turn that survives kill -9      crash/test_turn_kill, crash/test_compaction_kill
//   5  event log                         turn_events.test.mjs
//   6  search over everything            compact_chat; conformance/test_compaction the_model_searches_and_reads, an_old_message_is_found
//   7  import                            import.test.mjs        8  limits            compact_api "a summary has a cost"
//   9  erasure                           here "erasing a context"   10  concurrent writers  compact_api "actions are executed once"
// Section 4 (what goes wrong with compaction): the same tests, and here "another provider", "thinking".

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { filesBelow, ok, tempDir } from './helper.mjs';
import { narrative, ofType, prose, questions, summaries, talkUntilCompacted, textOf, withAnthropic } from './compact.mjs';
import { Model } from './model.mjs';
import { restart, serveTurns, until } from './turns.mjs';

const quiet = { body: { compaction: { recall_tokens: 0 } } };

// The files of a directory that have a text.
const filesWith = (dir, text) => [...filesBelow(dir)].filter(([, bytes]) => bytes.includes(text)).map(([file]) => file);

test('two messages at the threshold at once make one summary', async (t) => {
  const { tap, chat } = await withAnthropic(t, quiet);
  // Filled without the model, so that nothing is prepared.
  for (let n = 0; n < 24; n++) await chat.server.expect(201, 'POST', `${chat.at}/messages`, { role: n % 2 ? 'assistant' : 'user', text: `Part ${n}: ${prose(n, 150)}.` });
  const answers = await Promise.allSettled([chat.send('First of two.'), chat.send('Second of two.')]);
  assert.ok(answers.some(({ status }) => status === 'fulfilled'), JSON.stringify(answers));
  for (const { reason } of answers) assert.match(String(reason ?? '409'), /409/, 'the other is refused while the first is answered');
  await until(async () => (await chat.state('?last=0')).state === 'Idle', () => 'the turn does not end');
  assert.equal(summaries(tap).length, 1);
  const { compactions } = await chat.server.expect(200, 'GET', `${chat.at}/compactions`);
  assert.equal(compactions.length, 1);
});

test('a backup has the summary, and the restored conversation uses it', async (t) => {
  const { tap, server, chat } = await withAnthropic(t, quiet);
  const { events } = await talkUntilCompacted(chat);
  const [event] = ofType(events, 'compact');
  const before = await server.expect(200, 'GET', `${chat.at}/view`);
  const asked = summaries(tap).length;
  const dir = tempDir(t);
  ok(server.data, ['backup', path.join(dir, 'backups')]);
  const restored = path.join(dir, 'restored');
  ok(server.data, ['restore', path.join(dir, 'backups'), restored]);
  const copy = await serveTurns(t, { env: server.settings.env, args: server.settings.args, data: restored });
  const again = chat.on(copy);
  assert.equal((await copy.expect(200, 'GET', `${again.at}/compactions`)).active, event.id);
  assert.deepEqual(await copy.expect(200, 'GET', `${again.at}/view`), before);
  await again.send('Still there?');
  assert.equal(summaries(tap).length, asked, 'it is not made again');
});

test('erasing a context leaves nothing of its summary, also after a restart', async (t) => {
  const { server, chat } = await withAnthropic(t, quiet);
  await talkUntilCompacted(chat);
  await server.expect(200, 'GET', '/v1/contexts'); // the catalogue has it too
  assert.ok(filesWith(server.data, 'red cords first').length > 0);
  await server.expect(204, 'DELETE', `${chat.at}?erase=true`);
  assert.deepEqual(filesWith(server.data, 'red cords first'), []);
  const next = await restart(t, server);
  assert.deepEqual(filesWith(next.data, 'red cords first'), []);
});

test('a branch that was copied uses the summary, and a second compaction writes only its own record', async (t) => {
  const { tap, server, chat } = await withAnthropic(t, quiet);
  const { events, sent } = await talkUntilCompacted(chat);
  const [first] = ofType(events, 'compact');
  const dir = path.join(server.data, 'contexts', chat.id, 'compactions');
  const read = () => Object.fromEntries(fs.readdirSync(dir).map((name) => [name, fs.readFileSync(path.join(dir, name), 'utf8')]));
  const old = read();
  await server.expect(201, 'POST', `${chat.at}/branches`, { name: 'copy' });
  assert.equal((await server.expect(200, 'GET', `${chat.at}/compactions?branch=copy`)).active, first.id);
  assert.deepEqual(read(), old, 'a branch writes no record');
  await talkUntilCompacted(chat, { first: sent });
  const now = read();
  for (const [name, text] of Object.entries(old)) assert.equal(now[name], text, `${name} is as it was`);
  const { compactions } = await server.expect(200, 'GET', `${chat.at}/compactions`);
  assert.equal(compactions.length, 2);
  assert.equal(compactions[1].parent, first.id);
  // The copy uses the second one only if that covers nothing but what both have.
  const { total } = await server.expect(200, 'GET', `${chat.at}/messages?branch=copy&limit=1`);
  const holding = compactions.filter((record) => record.covered <= total).at(-1);
  assert.equal((await server.expect(200, 'GET', `${chat.at}/compactions?branch=copy`)).active, holding.id);
  assert.ok(summaries(tap).length >= 2);
});

test('another provider goes on with the same summary', async (t) => {
  const model = await Model.start(t);
  const { tap, server, chat } = await withAnthropic(t, { ...quiet, env: model.env, models: { 'anthropic/claude-test': 4000, 'openai/knots': 4000 } });
  await talkUntilCompacted(chat);
  const asked = summaries(tap).length;
  await server.expect(200, 'PATCH', chat.at, { model_id: 'openai/knots' });
  const sending = chat.send('Go on with the other one.');
  const request = await model.asked();
  const texts = request.body.messages.map(textOf);
  assert.ok(texts.some((text) => text.includes('red cords first')), 'the summary is sent to it');
  assert.ok(texts.at(-1).includes('Go on with the other one.'));
  await request.answer('As you wish.');
  await sending;
  assert.equal(summaries(tap).length, asked, 'and it was not made again');
});

// Row of section 4: signed thinking must be sent back as it was while its answer is in the request.
test('thinking that is kept is sent back with its signature', async (t) => {
  const { tap, chat } = await withAnthropic(t, quiet);
  const post = (body) => chat.server.expect(201, 'POST', `${chat.at}/messages`, body);
  for (let n = 0; n < 24; n++) await post({ role: n % 2 ? 'assistant' : 'user', text: `Part ${n}: ${prose(n, 150)}.` });
  await post({ role: 'user', text: 'Count the cords.' });
  await post({
    role: 'assistant',
    content: [
      { type: 'thinking', text: 'Red ones first.', signature: 'c2lnbmVk' },
      { type: 'text', text: 'Three cords.' },
    ],
    metadata: { provider: 'anthropic', model: 'claude-test' },
  });
  await chat.send('And the knots?');
  assert.equal(summaries(tap).length, 1);
  const { messages } = questions(tap).at(-1).body;
  assert.ok(textOf(messages[0]).includes(narrative.slice(0, 30)));
  const kept = messages.find((message) => textOf(message).includes('Three cords.'));
  assert.deepEqual(
    kept.content.filter((part) => part.type === 'thinking').map(({ thinking, signature }) => ({ thinking, signature })),
    [{ thinking: 'Red ones first.', signature: 'c2lnbmVk' }],
  );
});
