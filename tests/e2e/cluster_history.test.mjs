// Three servers, many clients, servers killed, stopped and ended at random: history.mjs decides whether what the
// clients saw fits one store that loses nothing. QUIPU_TEST_SEED repeats the choices; QUIPU_TEST_LONG takes some minutes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { Cluster, leaseSeconds, missing } from './cluster.mjs';
import { ok } from './helper.mjs';
import { findProblems } from './history.mjs';
import { Model } from './model.mjs';
import { Chance } from './random.mjs';
import { makeWorkspace, Stream, until } from './turns.mjs';

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

// ---- clients ----

const long = Boolean(process.env.QUIPU_TEST_LONG);
const size = { contexts: 12, clients: 200, talks: 6, faults: long ? 150 : 12, pace: long ? 600 : 250 };
const pageOf = 40;

// Asks a server. `status` 0: no answer came.
function ask(url, method, target, body, headers = {}) {
  return new Promise((resolve) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const request = http.request(url + target, { method, agent: false, timeout: 60_000, headers: { ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }), ...headers } });
    const fail = (error) => resolve({ status: 0, text: String(error) });
    request.on('timeout', () => request.destroy(new Error('no answer in a minute')));
    request.on('error', fail);
    request.on('response', (response) => {
      let came = '';
      response.setEncoding('utf8').on('data', (data) => (came += data));
      response.on('error', fail);
      response.on('end', () => resolve({ status: response.statusCode, text: came, body: response.headers['content-type'] === 'application/json' && came ? JSON.parse(came) : undefined }));
    });
    request.end(text);
  });
}

class Load {
  constructor(cluster, chance) {
    Object.assign(this, { cluster, chance, history: { operations: [], branches: new Map(), streams: [], turns: [], calls: [], runs: [] }, acks: 0, over: false, counts: {}, waiting: [] });
    this.live = [...cluster.servers];
  }

  url() {
    return this.chance.one(this.live).url;
  }

  count(what) {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  // The clients have got this many more acknowledgements.
  async progress(n) {
    const goal = this.acks + n;
    while (this.acks < goal) await new Promise((resolve) => this.waiting.push(resolve));
  }

  acknowledge() {
    this.acks++;
    for (const wake of this.waiting.splice(0)) wake();
  }

  // Until it succeeds; for what is done before and after the faults.
  async must(status, method, target, body, headers) {
    let answer;
    await until(async () => (answer = await ask(this.url(), method, target, body, headers)).status === status, () => `${method} ${target}: ${answer.status} ${answer.text}`);
    return answer.body;
  }

  async append(branch, text) {
    const from = performance.now();
    const answer = await ask(this.url(), 'POST', `${branch.messages}?branch=${branch.name}`, { role: 'user', text });
    const outcome = answer.status === 201 ? 'ok' : answer.status >= 400 && answer.status < 500 ? 'refused' : 'unknown';
    this.history.operations.push({ kind: 'append', branch: branch.key, text, outcome, from, to: performance.now() });
    this.count(`append ${answer.status}`);
    if (outcome === 'ok') this.acknowledge();
  }

  async read(branch) {
    const from = performance.now();
    const answer = await ask(this.url(), 'GET', `${branch.messages}?branch=${branch.name}&order=newest&limit=${pageOf}`);
    this.count(`read ${answer.status}`);
    if (answer.status !== 200) return;
    const texts = answer.body.messages.map((message) => message.text).reverse();
    this.history.operations.push({ kind: 'read', branch: branch.key, total: answer.body.total, texts, from, to: performance.now() });
  }

  async client(number, branches) {
    for (let i = 0; !this.over; i++) {
      const branch = this.chance.one(branches);
      if (this.chance.rarely(3)) await this.read(branch);
      else await this.append(branch, `c${number}-${i}`);
    }
  }

  // Sends messages to a context that calls a tool for each. A request without an answer is repeated with its key.
  async talk(talk) {
    for (let i = 0; !this.over; i++) {
      const content = `${talk.name}-${i}`;
      for (;;) {
        const answer = await ask(this.url(), 'POST', `${talk.at}/actions/send_message`, { content }, { 'idempotency-key': content });
        this.count(`turn ${answer.status}`);
        if (answer.status === 200) break;
        assert.ok(answer.status !== 400 && answer.status !== 404, answer.text);
      }
      talk.sent.push(content);
    }
  }

  // Follows the events of a context, at another server after each cut.
  async follow(talk) {
    while (!talk.done) {
      const headers = talk.events.length ? { 'last-event-id': String(talk.events.at(-1).seq) } : {};
      let stream;
      try {
        stream = await Stream.open({ url: this.url() }, 'GET', `${talk.at}/events?after=0`, { headers });
      } catch (error) {
        assert.ok(['ECONNREFUSED', 'ECONNRESET', 'UND_ERR_SOCKET'].includes(error.code), error);
        continue;
      }
      this.count(`stream ${stream.status}`);
      if (stream.status !== 200) continue;
      talk.stream = stream;
      stream.onEvent = (event) => {
        talk.events.push(event);
        if (talk.last !== undefined && event.type === 'message' && event.id === talk.last) talk.done = true;
        if (talk.done) stream.close();
      };
      stream.events.forEach(stream.onEvent); // some have come with the head of the answer
      await stream.ended;
    }
  }
}

// ---- servers ----

// One after another, a server is killed, ended, or stopped for longer than its lease.
async function breakServers(load) {
  const { chance, cluster, live } = load;
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

// A model that calls a tool for each message of a person, and then says something. Its client may be gone.
async function answerModel(request, id) {
  if (request.body.messages.at(-1).role === 'tool') for (const word of ['There ', 'it ', 'is.']) await request.say(word);
  else await request.call('run_command', { command: `echo ${id} >> ran` }, id);
  await request.end();
}

async function playModel(model, load) {
  for (let i = 0; ; i++) {
    const request = await Promise.race([model.asked(), load.ended]);
    if (!request) return;
    void answerModel(request, `call_${i}`);
  }
}

// ---- the end ----

async function readBranch(load, branch) {
  const messages = [];
  let cursor = '';
  do {
    const page = await load.must(200, 'GET', `${branch.messages}?branch=${branch.name}&limit=200${cursor && `&cursor=${cursor}`}`);
    messages.push(...page.messages);
    cursor = page.next_cursor;
  } while (cursor);
  return messages;
}

async function readLog(load, talk) {
  const stream = await Stream.open({ url: load.url() }, 'GET', `${talk.at}/events?after=0`);
  await stream.until((event) => event.type === 'message' && event.id === talk.last);
  stream.close();
  return stream.events;
}

test('three servers, many clients, servers die at random', { skip: missing }, async (t) => {
  const seed = Number(process.env.QUIPU_TEST_SEED ?? (long ? Math.floor(Math.random() * 2 ** 32) : 1));
  t.diagnostic(`QUIPU_TEST_SEED=${seed}`);
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const cluster = await Cluster.start(t, 3, { work: space.work, env: model.env, rules: ['auto run_command'], args: ['--log-level', 'warn'] });
  const load = new Load(cluster, new Chance(seed));
  const { history } = load;
  let end;
  load.ended = new Promise((resolve) => (end = resolve));

  const branches = [];
  for (let i = 0; i < size.contexts; i++) {
    const { id } = await load.must(201, 'POST', '/v1/contexts', {});
    await load.must(201, 'POST', `/v1/contexts/${id}/branches`, { name: 'side', from: 'main' });
    for (const name of ['main', 'side']) branches.push({ key: `${id}/${name}`, name, messages: `/v1/contexts/${id}/messages` });
  }
  const talks = [];
  for (let i = 0; i < size.talks; i++) {
    const { id } = await load.must(201, 'POST', '/v1/contexts', { model_id: 'openai/knots' });
    talks.push({ name: `t${i}`, id, at: `/v1/contexts/${id}`, sent: [], events: [], done: false });
  }

  const played = playModel(model, load);
  const clients = Array.from({ length: size.clients }, (_, i) => load.client(i, branches));
  const talking = talks.map((talk) => load.talk(talk));
  const following = talks.map((talk) => load.follow(talk));
  await breakServers(load);
  load.over = true;
  await Promise.all([...clients, ...talking]);
  for (const talk of talks) await load.must(200, 'POST', `${talk.at}/actions/send_message`, { content: 'the end' }, { 'idempotency-key': 'the end' });
  end();
  await played;
  t.diagnostic(JSON.stringify(load.counts));

  for (const branch of branches) history.branches.set(branch.key, (await readBranch(load, branch)).map((message) => message.text));
  for (const talk of talks) {
    const messages = await readBranch(load, { messages: `${talk.at}/messages`, name: 'main' });
    talk.last = messages.at(-1).id;
    talk.done = talk.events.some((event) => event.id === talk.last);
    if (talk.done) talk.stream.close();
    history.turns.push({ name: talk.name, sent: [...talk.sent, 'the end'], texts: messages.filter((one) => one.role === 'user').map((one) => one.text) });
    const results = new Map(messages.filter((one) => one.tool_result).map((one) => [one.tool_result.request_id, !one.tool_result.is_error]));
    for (const call of messages.flatMap((one) => one.tool_calls)) history.calls.push({ id: call.id, done: results.get(call.id) === true });
  }
  await Promise.all(following);
  for (const talk of talks) history.streams.push({ name: talk.name, events: talk.events, log: await readLog(load, talk) });
  history.runs = fs.existsSync(space.file('ran')) ? space.read('ran').split('\n').slice(0, -1) : [];

  // Enough has happened to be worth a decision.
  const oks = history.operations.filter((one) => one.outcome === 'ok').length;
  t.diagnostic(`${history.operations.length} operations, ${oks} messages, ${history.turns.flatMap((one) => one.sent).length} turns, ${history.runs.length} tools, ${history.streams.reduce((sum, one) => sum + one.events.length, 0)} events, lease ${leaseSeconds} s`);
  assert.ok(oks > 100 && history.runs.length > 5 && history.streams.every((one) => one.events.length > 10));
  const problems = findProblems(history);
  assert.deepEqual(problems.slice(0, 20), [], `${problems.length} problems; QUIPU_TEST_SEED=${seed}`);
  assert.match(ok(undefined, ['check', '--store', cluster.options.data]), /no problems/);
});
