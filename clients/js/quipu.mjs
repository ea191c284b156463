// A client of a quipu server, for Node.js and browsers; it needs nothing but fetch.
//
//   const chat = await new Quipu('http://127.0.0.1:7878').create({ title: 'Knots' });
//   console.log((await chat.send('How many knots?')).text);

const retries = 3;
const pause = 200;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));

// A request that the server has refused. `code` and `status` are in docs/errors.md.
export class QuipuError extends Error {
  constructor(status, code, message, state) {
    super(message);
    Object.assign(this, { name: 'QuipuError', status, code, state });
  }
}

// The events of a stream of server-sent events.
async function* events(response) {
  const decoder = new TextDecoder();
  let rest = '';
  let data = [];
  for await (const bytes of response.body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines)
      if (line.startsWith('data:')) data.push(line.slice(5).trimStart());
      else if (line === '' && data.length > 0) {
        yield JSON.parse(data.join('\n'));
        data = [];
      }
  }
}

// A server. Requests that were lost on the way are sent again; each is executed once.
export class Quipu {
  constructor(url = 'http://127.0.0.1:7878', { key, fetch: send = globalThis.fetch } = {}) {
    Object.assign(this, { url: url.replace(/\/+$/, ''), key, fetch: send });
  }

  // The open response; a refused request throws.
  async open(method, path, { body, query = {}, headers = {}, signal } = {}) {
    const search = new URLSearchParams(given(query)).toString();
    const init = {
      method, signal,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...(this.key ? { authorization: `Bearer ${this.key}` } : {}), ...(method === 'GET' ? {} : { 'idempotency-key': crypto.randomUUID() }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    };
    for (let attempt = 0; ; attempt++) {
      let error;
      try {
        const send = this.fetch;
        const response = await send(this.url + path + (search ? `?${search}` : ''), init);
        if (response.ok) return response;
        const text = await response.text();
        let told;
        try {
          told = JSON.parse(text).error;
        } catch {
          told = { code: 'HTTP', message: text || `HTTP status ${response.status}` };
        }
        error = new QuipuError(response.status, told.code, told.message, told.state);
      } catch (failure) {
        error = failure;
      }
      const again = error instanceof QuipuError ? error.status === 503 && error.code !== 'NO_ENGINE' : error.name !== 'AbortError';
      if (!again || attempt === retries) throw error;
      await sleep(pause * 2 ** attempt);
    }
  }

  // The decoded body; undefined when there is none.
  async request(method, path, options) {
    const text = await (await this.open(method, path, options)).text();
    return text ? JSON.parse(text) : undefined;
  }

  async create(fields = {}) {
    return new Context(this, (await this.request('POST', '/v1/contexts', { body: fields })).id);
  }

  context(id) {
    return new Context(this, id);
  }

  // Visits all contexts, the newest first.
  async *contexts({ limit } = {}) {
    for (let cursor; ; ) {
      const page = await this.request('GET', '/v1/contexts', { query: { limit, cursor } });
      yield* page.contexts;
      cursor = page.next_cursor;
      if (!cursor) return;
    }
  }

  search(q, { limit } = {}) {
    return this.request('GET', '/v1/search', { query: { q, limit } });
  }

  async models() {
    return (await this.request('GET', '/v1/models')).models;
  }
}

// The state after an action: the text of the last answer, and the calls that wait.
function answer(state) {
  return Object.defineProperties(state, {
    text: { get: () => state.messages.filter((message) => message.role === 'assistant').at(-1)?.text ?? '' },
    calls: { get: () => state.state_detail?.pending ?? state.pending_tool_calls ?? [] },
  });
}

// A conversation.
export class Context {
  constructor(client, id) {
    Object.assign(this, { client, id, path: `/v1/contexts/${encodeURIComponent(id)}` });
  }

  info() {
    return this.client.request('GET', this.path);
  }

  async state({ last } = {}) {
    return answer(await this.client.request('GET', `${this.path}/state`, { query: { last } }));
  }

  update(fields) {
    return this.client.request('PATCH', this.path, { body: fields });
  }

  delete() {
    return this.client.request('DELETE', this.path);
  }

  // Visits the messages of a branch.
  async *messages({ branch, limit = 100, order } = {}) {
    for (let cursor; ; ) {
      const page = await this.client.request('GET', `${this.path}/messages`, { query: { branch, limit, order, cursor } });
      yield* page.messages;
      cursor = page.next_cursor;
      if (!cursor) return;
    }
  }

  // Stores a message as it is, or a list of them at once; no model is called.
  append(message, { branch } = {}) {
    return this.client.request('POST', `${this.path}/messages`, { body: message, query: { branch } });
  }

  async branches() {
    return (await this.client.request('GET', `${this.path}/branches`)).branches;
  }

  fork(name, { at, from } = {}) {
    return this.client.request('POST', `${this.path}/branches`, { body: given({ name, at, from }) });
  }

  // Does an action and waits until the turn stops.
  async act(action, body = {}, options = {}) {
    return answer(await this.client.request('POST', `${this.path}/actions/${action}`, { ...options, body }));
  }

  send(content, { tools, branch, key, signal } = {}) {
    return this.act('send_message', given({ content, tools, branch }), { signal, headers: key ? { 'idempotency-key': key } : {} });
  }

  // Sends a message and visits the events of the turn (docs/turns.md).
  async *stream(content, { tools, branch, key, signal } = {}) {
    const headers = { accept: 'text/event-stream', ...(key ? { 'idempotency-key': key } : {}) };
    yield* events(await this.client.open('POST', `${this.path}/actions/send_message`, { body: given({ content, tools, branch }), headers, signal }));
  }

  // Visits the events of the context, from the next one or after a number, without end.
  async *events({ after, signal } = {}) {
    yield* events(await this.client.open('GET', `${this.path}/events`, { query: { after }, headers: { accept: 'text/event-stream' }, signal }));
  }

  approve(approved = [], { denied = [], reason, always } = {}) {
    return this.act('approve_tools', given({ approved, denied, reason, always }));
  }

  // Brings results of tools that this program runs: { "call id": value or Error }.
  submit(results) {
    const rows = Object.entries(results).map(([tool_call_id, value]) => (value instanceof Error ? { tool_call_id, error: value.message } : { tool_call_id, result: value ?? null }));
    return this.act('submit_tool_results', { results: rows });
  }

  // Sends a message and runs the functions that the model calls, until it is done. Calls that wait
  // for a person end it too.
  async run(content, functions, options = {}) {
    let told = await this.send(content, options);
    while (told.state === 'AwaitingToolApproval') {
      const calls = told.calls.filter((call) => call.kind === 'client');
      if (calls.length === 0) break;
      const results = await Promise.all(calls.map(async ({ id, tool_name, arguments: args }) => {
        try {
          return [id, await functions[tool_name](args)];
        } catch (error) {
          return [id, error instanceof Error ? error : new Error(String(error))]; // the model is told
        }
      }));
      told = await this.submit(Object.fromEntries(results));
    }
    return told;
  }

  cancel() {
    return this.act('cancel');
  }

  retry() {
    return this.act('retry');
  }

  regenerate(message_id) {
    return this.act('regenerate', given({ message_id }));
  }

  edit(message_id, content) {
    return this.act('edit_message', { message_id, content });
  }

  switch(branch) {
    return this.act('switch_branch', { branch });
  }
}
