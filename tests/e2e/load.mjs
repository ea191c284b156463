// Many clients of several servers, who write down what they saw, for history.mjs.

import assert from 'node:assert/strict';
import http from 'node:http';
import { Chance } from './random.mjs';
import { Stream, until } from './turns.mjs';

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

// Up to the last message, where followers go.
async function readLog(load, talk) {
  const stream = await Stream.open({ url: load.url() }, 'GET', `${talk.at}/events?after=0`, { headers: load.headers });
  const events = await stream.until((event) => event.type === 'message' && event.id === talk.last);
  stream.close();
  return events;
}

export class Load {
  // `live`: the servers that can be asked; it may change. `headers` of every request.
  constructor(live, seed, headers = {}) {
    Object.assign(this, { live, headers, chance: new Chance(seed), branches: [], talks: [], history: { operations: [], branches: new Map(), streams: [], turns: [], calls: [], runs: [] }, acks: 0, over: false, counts: {}, waiting: [] });
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  url() {
    return this.chance.one(this.live).url;
  }

  ask(method, target, body, headers) {
    return ask(this.url(), method, target, body, { ...this.headers, ...headers });
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
    await until(async () => (answer = await this.ask(method, target, body, headers)).status === status, () => `${method} ${target}: ${answer.status} ${answer.text}`);
    return answer.body;
  }

  async append(branch, text) {
    const from = performance.now();
    const answer = await this.ask('POST', `${branch.messages}?branch=${branch.name}`, { role: 'user', text });
    const outcome = answer.status === 201 ? 'ok' : answer.status >= 400 && answer.status < 500 ? 'refused' : 'unknown';
    this.history.operations.push({ kind: 'append', branch: branch.key, text, outcome, from, to: performance.now() });
    this.count(`append ${answer.status}`);
    if (outcome === 'ok') this.acknowledge();
  }

  async read(branch) {
    const from = performance.now();
    const answer = await this.ask('GET', `${branch.messages}?branch=${branch.name}&order=newest&limit=${pageOf}`);
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
        const answer = await this.ask('POST', `${talk.at}/actions/send_message`, { content }, { 'idempotency-key': content });
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
        stream = await Stream.open({ url: this.url() }, 'GET', `${talk.at}/events?after=0`, { headers: { ...this.headers, ...headers } });
      } catch (error) {
        assert.ok(['ECONNREFUSED', 'ECONNRESET', 'EPIPE'].includes(error.code), error);
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
      if (talk.done) stream.close(); // it was cut behind the last event, and nothing comes any more
      await stream.ended;
    }
  }

  // ---- from beginning to end ----

  // Starts clients that append and read in two branches of each context, and conversations with a model that calls tools.
  async start({ contexts, clients, talks = 0, model }) {
    for (let i = 0; i < contexts; i++) {
      const { id } = await this.must(201, 'POST', '/v1/contexts', {});
      await this.must(201, 'POST', `/v1/contexts/${id}/branches`, { name: 'side', from: 'main' });
      for (const name of ['main', 'side']) this.branches.push({ key: `${id}/${name}`, name, messages: `/v1/contexts/${id}/messages` });
    }
    for (let i = 0; i < talks; i++) {
      const { id } = await this.must(201, 'POST', '/v1/contexts', { model_id: 'openai/knots' });
      this.talks.push({ name: `t${i}`, at: `/v1/contexts/${id}`, sent: [], events: [], done: false });
    }
    this.played = model && playModel(model, this);
    this.clients = [...Array.from({ length: clients }, (_, i) => this.client(i, this.branches)), ...this.talks.map((talk) => this.talk(talk))];
    this.followers = this.talks.map((talk) => this.follow(talk));
  }

  // Ends the clients, and reads what is stored. Gives the history.
  async finish() {
    const { history, talks } = this;
    this.over = true;
    await Promise.all(this.clients);
    for (const talk of talks) await this.must(200, 'POST', `${talk.at}/actions/send_message`, { content: 'the end' }, { 'idempotency-key': 'the end' });
    this.end();
    await this.played;
    for (const branch of this.branches) history.branches.set(branch.key, (await readBranch(this, branch)).map((message) => message.text));
    for (const talk of talks) {
      const messages = await readBranch(this, { messages: `${talk.at}/messages`, name: 'main' });
      talk.last = messages.at(-1).id;
      talk.done = talk.events.some((event) => event.id === talk.last);
      if (talk.done) talk.stream.close();
      history.turns.push({ name: talk.name, sent: [...talk.sent, 'the end'], texts: messages.filter((one) => one.role === 'user').map((one) => one.text) });
      const results = new Map(messages.filter((one) => one.tool_result).map((one) => [one.tool_result.request_id, !one.tool_result.is_error]));
      for (const call of messages.flatMap((one) => one.tool_calls)) history.calls.push({ id: call.id, done: results.get(call.id) === true });
    }
    await Promise.all(this.followers);
    for (const talk of talks) history.streams.push({ name: talk.name, events: talk.events, log: await readLog(this, talk) });
    return history;
  }

  // How many messages were acknowledged.
  saved() {
    return this.history.operations.filter((one) => one.outcome === 'ok').length;
  }

  summary() {
    const { operations, turns, runs, streams } = this.history;
    const events = streams.reduce((sum, one) => sum + one.events.length, 0);
    return `${operations.length} operations, ${this.saved()} messages, ${turns.flatMap((one) => one.sent).length} turns, ${runs.length} tools, ${events} events; ${JSON.stringify(this.counts)}`;
  }
}
