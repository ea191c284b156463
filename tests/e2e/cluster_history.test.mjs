// Three servers, many clients, servers killed, stopped and ended at random: history.mjs decides whether what the
// clients saw fits one store that loses nothing. QUIPU_TEST_SEED repeats the choices; QUIPU_TEST_LONG takes some minutes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { Cluster, missing } from './cluster.mjs';
import { ok } from './helper.mjs';
import { findProblems } from './history.mjs';
import { Load } from './load.mjs';
import { Model } from './model.mjs';
import { makeWorkspace, until } from './turns.mjs';

// ---- the checker itself ----

const good = () => ({
  operations: [
    { kind: 'append', branch: 'a', text: 'one', outcome: 'ok', from: 1, to: 2 },
    { kind: 'append', branch: 'a', text: 'two', outcome: 'unknown', from: 3, to: 6 },
    { kind: 'append', branch: 'a', text: 'three', outcome: 'ok', from: 4, to: 5 },
    { kind: 'append', branch: 'a', text: 'four', outcome: 'refused', from: 5, to: 7 },
    { kind: 'read', branch: 'a', total: 2, texts: ['one', 'two'], from: 4, to: 6 },
    { kind: 'read', branch: 'a', total: 3, texts: ['two', 'three'], from: 7, to: 8 },
  ],
  branches: new Map([['a', ['one', 'two', 'three']]]),
  streams: [{ name: 's', events: [{ seq: 1, type: 'state' }, { seq: 2, type: 'text' }, { seq: 9, type: 'state' }], log: [{ seq: 1, type: 'state' }, { seq: 9, type: 'state' }] }],
  turns: [{ name: 't', sent: ['hi', 'ho'], texts: ['hi', 'hu', 'ho'] }],
  calls: [{ id: 'x', done: true }, { id: 'y', done: false }, { id: 'z', done: false }],
  runs: ['x', 'y'],
});

const damages = {
  'an acknowledged message is lost': [(h) => h.branches.set('a', ['two', 'three']), /one was acknowledged and is stored 0 times/],
  'a message is stored twice': [(h) => h.branches.get('a').push('two'), /two is stored 2 times/],
  'a refused message is stored': [(h) => h.branches.get('a').push('four'), /four was refused/],
  'a message comes from nowhere': [(h) => h.branches.get('a').push('five'), /nobody sent five/],
  'the order is another one': [(h) => h.branches.set('a', ['two', 'one', 'three']), /one was acknowledged before two was sent/],
  'a branch is gone': [(h) => h.branches.delete('a'), /a is gone/],
  'a read is old': [(h) => (h.operations[5] = { ...h.operations[5], total: 2, texts: ['one', 'two'] }), /shows 2 messages, and 3 were there/],
  'a read is older than a read before it': [(h) => h.operations.push({ kind: 'read', branch: 'a', total: 2, texts: ['one', 'two'], from: 9, to: 9 }), /shows 2 messages, and 3/],
  'a read shows what is not stored': [(h) => (h.operations[4].texts = ['one', 'three']), /no beginning of the branch/],
  'an event was not seen': [(h) => h.streams[0].events.shift(), /"seq":1.* was not seen/],
  'an event was seen in another form': [(h) => (h.streams[0].events[0].type = 'text'), /seen as/],
  'an event came twice': [(h) => h.streams[0].events.splice(1, 0, h.streams[0].events[0]), /event 1 behind 1/],
  'a gap was told': [(h) => h.streams[0].events.push({ type: 'gap' }), /a gap behind 9/],
  'a turn is lost': [(h) => h.turns[0].texts.pop(), /ho was acknowledged/],
  'a turn was carried out twice': [(h) => h.turns[0].texts.push('hi'), /hi was acknowledged and is stored 2 times/],
  'turns are in another order': [(h) => h.turns[0].texts.reverse(), /another order/],
  'a tool was executed twice': [(h) => h.runs.push('x'), /x was executed 2 times/],
  'a tool has a result from nowhere': [(h) => h.runs.shift(), /x has a result and was not executed/],
  'a tool was executed without a stored call': [(h) => h.runs.push('w'), /w was executed and its call is not stored/],
};

test('the checker accepts a good history', () => assert.deepEqual(findProblems(good()), []));
for (const [name, [damage, sentence]] of Object.entries(damages))
  test(`the checker notices: ${name}`, () => {
    const history = good();
    damage(history);
    assert.match(findProblems(history).join('\n'), sentence);
  });

// ---- servers that die ----

const long = Boolean(process.env.QUIPU_TEST_LONG);
const size = { contexts: 12, clients: 200, talks: 6, faults: long ? 150 : 12, pace: long ? 600 : 250 };

// One after another, a server is killed, ended, or stopped for longer than its lease.
async function breakServers(cluster, load) {
  const { chance, live } = load;
  for (let i = 0; i < size.faults; i++) {
    await load.progress(1 + chance.below(size.pace));
    const [victim] = live.splice(chance.below(live.length), 1);
    const kind = chance.one(['SIGKILL', 'SIGKILL', 'SIGKILL', 'SIGTERM', 'SIGSTOP']);
    load.count(kind);
    victim.process.child.kill(kind);
    if (kind === 'SIGSTOP') {
      const gone = () => cluster.sql(`SELECT count(*) FROM quipu.servers WHERE address = '${victim.url}'`) === '0';
      await until(gone, () => `the row of ${victim.url}`);
      await load.progress(20);
      victim.process.child.kill('SIGCONT');
      await victim.process.logged(/lost its contexts/);
      live.push(victim);
      continue;
    }
    if (chance.rarely(2)) await load.progress(30); // it may be missed for a while, or not
    live.push(await cluster.add());
    if (kind === 'SIGTERM') assert.equal((await victim.process.ended).status, 0, victim.process.stderr);
  }
}

test('three servers, many clients, servers die at random', { skip: missing }, async (t) => {
  const seed = Number(process.env.QUIPU_TEST_SEED ?? (long ? Math.floor(Math.random() * 2 ** 32) : 1));
  t.diagnostic(`QUIPU_TEST_SEED=${seed}`);
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const cluster = await Cluster.start(t, 3, { work: space.work, env: model.env, rules: ['auto run_command'], args: ['--log-level', 'warn'] });
  const load = new Load([...cluster.servers], seed);
  await load.start({ ...size, model });
  await breakServers(cluster, load);
  const history = await load.finish();
  history.runs = fs.existsSync(space.file('ran')) ? space.read('ran').split('\n').slice(0, -1) : [];
  t.diagnostic(load.summary());
  // Enough has happened to be worth a decision.
  assert.ok(load.saved() > 100 && history.runs.length > 5 && history.streams.every((one) => one.events.length > 10));
  const problems = findProblems(history);
  assert.deepEqual(problems.slice(0, 20), [], `${problems.length} problems; QUIPU_TEST_SEED=${seed}`);
  assert.match(ok(undefined, ['check', '--store', cluster.options.data]), /no problems/);
});
