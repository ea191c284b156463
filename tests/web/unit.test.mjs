// The parts of the page that need no browser: the parser of event streams and its client, the reducer of
// events, the splitter and renderer of Markdown. They are bundled as the page is, and run in Node.js.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import esbuild from 'esbuild';

let web;

before(async () => {
  const out = path.join(fs.mkdtempSync(path.join(process.env.TMPDIR ?? '/tmp', 'quipu-web-')), 'unit.mjs');
  await esbuild.build({
    stdin: {
      contents: `export * from './sse'; export * from './reduce'; export * from './blocks'; export { render } from './markdown'; export { alternativesOf } from '../chat/branches'; export * as words from './words';`,
      resolveDir: 'web/src/lib',
      loader: 'ts',
    },
    bundle: true,
    format: 'esm',
    outfile: out,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'error',
  });
  web = await import(pathToFileURL(out));
});

// ---- server-sent events ----

const sample = ': quipu\nretry: 2000\n\nid: 12\nevent: text\ndata: {"a":"é"}\n\ndata: one\r\ndata: two\r\n\r\nevent: x\rdata\r\rid: 13\ndata:  spaced\n\n';

test('an event stream is parsed the same in pieces of any size', () => {
  const parse = (size) => {
    const found = [];
    const parser = new web.EventParser((type, data, id) => found.push([type, data, id]));
    for (let at = 0; at < sample.length; at += size) parser.push(sample.slice(at, at + size));
    assert.equal(parser.retry, 2000);
    return found;
  };
  const whole = parse(sample.length);
  assert.deepEqual(whole, [['text', '{"a":"é"}', '12'], ['message', 'one\ntwo', '12'], ['x', '', '12'], ['message', ' spaced', '13']]);
  for (let size = 1; size < 20; size++) assert.deepEqual(parse(size), whole, `pieces of ${size}`);
});

const streamOf = (...events) => new Response(events.map((event) => `id: ${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''), { headers: { 'content-type': 'text/event-stream' } });

test('a lost stream is resumed after the last event, and an event that comes twice counts once', async () => {
  const asked = [];
  const answers = [
    () => streamOf({ seq: 1, type: 'text' }, { seq: 2, type: 'text' }),
    () => Promise.reject(new TypeError('network')),
    () => new Response('{}', { status: 503 }),
    () => streamOf({ seq: 2, type: 'text' }, { seq: 3, type: 'text' }),
    () => new Response('{}', { status: 404 }),
  ];
  const heard = [];
  const statuses = [];
  let refused = 0;
  await web.follow({
    url: '/events',
    after: 0,
    headers: () => ({ authorization: 'Bearer k' }),
    signal: new AbortController().signal,
    onEvent: (event) => heard.push(event.seq),
    onStatus: (status, failures) => statuses.push(`${status}${failures}`),
    onRefused: (status) => (refused = status),
    pause: () => Promise.resolve(),
    fetch: (url, init) => {
      assert.equal(init.headers.authorization, 'Bearer k');
      asked.push(url);
      return Promise.resolve(answers.shift()());
    },
  });
  assert.deepEqual(heard, [1, 2, 3]);
  assert.deepEqual(asked.map((url) => url.split('=')[1]), ['0', '2', '2', '2', '3']);
  assert.deepEqual(statuses, ['open0', 'lost1', 'lost2', 'lost3', 'open0', 'lost1']);
  assert.equal(refused, 404);
});

test('a stream that is silent for too long is opened again', async () => {
  const stop = new AbortController();
  let opened = 0;
  await web.follow({
    url: '/events',
    after: 7,
    headers: () => ({}),
    signal: stop.signal,
    silence: 5,
    onEvent: () => undefined,
    onStatus: () => undefined,
    onRefused: () => undefined,
    pause: () => Promise.resolve(),
    fetch: (_url, init) =>
      new Promise((_, reject) => {
        if (++opened === 3) stop.abort();
        init.signal.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
        if (init.signal.aborted) reject(new DOMException('aborted', 'AbortError'));
      }),
  });
  assert.equal(opened, 3);
});

// ---- the reducer ----

function play(events, turn = web.newTurn(0, 'Idle', undefined, 'main')) {
  const stale = [];
  let seq = turn.seq;
  for (const event of events) {
    const step = web.reduce(turn, { seq: ++seq, ...event });
    turn = step.turn;
    stale.push(...step.stale);
  }
  return { turn, stale };
}

test('events make the answer piece by piece, with thinking and calls', () => {
  const { turn } = play([
    { type: 'state', state: 'AwaitingLLMResponse' },
    { type: 'answer', model: 'demo' },
    { type: 'state', state: 'StreamingLLMResponse' },
    { type: 'thinking', block: 0, text: 'Hm' },
    { type: 'text', block: 1, text: 'Hello ' },
    { type: 'text', block: 1, text: 'you' },
    { type: 'call', block: 2, id: 'c1', name: 'grep' },
    { type: 'arguments', block: 2, text: '{"pat' },
    { type: 'call_end', block: 2, text: '{"pattern":"x"}' },
    { type: 'usage', output: 12 },
  ]);
  assert.equal(web.textOf(turn.answer), 'Hello you');
  assert.equal(web.thinkingOf(turn.answer), 'Hm');
  assert.deepEqual(turn.answer.blocks[2], { kind: 'call', text: '{"pattern":"x"}', id: 'c1', name: 'grep' });
  assert.equal(turn.answer.output, 12);
});

test('the reducer says what is out of date, and ignores what it has seen', () => {
  const one = play([{ type: 'answer', model: 'm' }, { type: 'text', block: 0, text: 'a' }]);
  assert.deepEqual(one.stale, []);
  assert.equal(web.reduce(one.turn, { seq: 1, type: 'text', block: 0, text: 'again' }).turn, one.turn);
  const stored = web.reduce(one.turn, { seq: 9, type: 'message', id: 'm1', role: 'assistant', branch: 'main' });
  assert.deepEqual(stored.stored, { id: 'm1', role: 'assistant', branch: 'main' });
  assert.equal(stored.turn.answer.done, true);
  assert.deepEqual(play([{ type: 'branch', branch: 'other', new: true }]).stale, ['branch']);
  assert.deepEqual(play([{ type: 'gap' }]).stale, ['all']);
  assert.deepEqual(play([{ type: 'compact', id: 'x' }]).stale, ['compaction']);
  // The provider is asked again: what it had begun to say is dropped.
  assert.equal(play([{ type: 'answer' }, { type: 'text', block: 0, text: 'x' }, { type: 'state', state: 'TransientFailure' }]).turn.answer, null);
  const tools = play([{ type: 'tool_start', id: 'c1', name: 'grep' }, { type: 'tool_end', id: 'c1', name: 'grep', is_error: true, ms: 7 }]).turn.tools;
  assert.deepEqual(tools, [{ id: 'c1', name: 'grep', ended: { isError: true, ms: 7 } }]);
});

// ---- Markdown ----

const text = 'Para one\nwith a line.\n\n- a\n- b\n\n  more b\n\n```c\nint x;\n\nint y;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$\nx^2\n$$\n\nLast **words** here.\n';
const shape = (blocks) => blocks.map((block) => [block.key, block.kind === 'tokens' ? block.tokens.map((token) => `${token.type}${token.content}`).join() : block.code]);

test('a text in pieces gives the blocks of the whole text, and settled blocks are never touched again', () => {
  const whole = shape(new web.Splitter().update(text, false));
  for (const size of [1, 3, 7, 50]) {
    const splitter = new web.Splitter();
    const settled = new Map();
    for (let at = size; at < text.length; at += size)
      for (const block of splitter.update(text.slice(0, at), true))
        if (block.settled) {
          assert.equal(settled.get(block.key) ?? block, block, 'the same object');
          settled.set(block.key, block);
        }
    const end = splitter.update(text, false);
    for (const [key, block] of settled) assert.equal(end[key], block);
    assert.deepEqual(shape(end), whole, `pieces of ${size}`);
  }
});

test('an open fence grows without being parsed', () => {
  const splitter = new web.Splitter();
  let code = '```js\n';
  for (let n = 0; n < 2000; n++) code += `let v${n} = ${n};\n`;
  const [open] = splitter.update(code, true);
  assert.equal(open.kind, 'fence');
  assert.equal(open.info, 'js');
  const parse = web.markdown.parse;
  web.markdown.parse = () => assert.fail('parsed again');
  try {
    assert.ok(splitter.update(`${code}more`, true)[0].code.endsWith('more'));
  } finally {
    web.markdown.parse = parse;
  }
  assert.equal(splitter.update(`${code}\`\`\`\n\nafter`, true).length, 2);
});

function html(nodes) {
  if (nodes === null || nodes === undefined || nodes === false) return '';
  if (Array.isArray(nodes)) return nodes.map(html).join('');
  if (typeof nodes !== 'object') return String(nodes).replaceAll('<', '&lt;');
  const { type, props } = nodes;
  const name = typeof type === 'string' ? type : type.name;
  const shown = ['href', 'class', 'tex', 'code', 'src', 'start', 'checked'].filter((key) => props[key] !== undefined && props[key] !== false).map((key) => ` ${key}="${props[key]}"`);
  return `<${name}${shown.join('')}>${html(props.children)}</${name}>`;
}
const show = (source) => html(web.render(web.markdown.parse(source, {})));

test('Markdown becomes nodes; dangerous addresses and HTML stay text', () => {
  assert.equal(show('a **b** `c`'), '<p>a <strong>b</strong> <code>c</code></p>');
  assert.equal(show('[x](https://a.b/c)'), '<p><a href="https://a.b/c">x</a></p>');
  assert.equal(show('[x](javascript:alert(1))'), '<p>[x](javascript:alert(1))</p>');
  assert.equal(show('[x](data:text/html,hi)'), '<p>[x](data:text/html,hi)</p>');
  assert.equal(show('<b onclick=x>y</b>'), '<p>&lt;b onclick=x>y&lt;/b></p>');
  assert.match(show('![p](https://evil.example/x.png)'), /<Picture/);
  assert.match(show('3. three'), /<ol start="3">/);
  assert.equal(show('# H'), '<h3 class="md-h1">H</h3>');
});

test('addresses that are written out become links, without the sentence around them', () => {
  assert.equal(show('see https://a.b/c.'), '<p>see <a href="https://a.b/c">https://a.b/c</a>.</p>');
  assert.equal(show('(https://a.b/w_(x)) and http://c.d?e=1, too'), '<p>(<a href="https://a.b/w_(x)">https://a.b/w_(x)</a>) and <a href="http://c.d?e=1">http://c.d?e=1</a>, too</p>');
  assert.equal(show('[https://a.b](https://c.d)'), '<p><a href="https://c.d">https://a.b</a></p>', 'no link in a link');
  assert.equal(show('`https://a.b` javascript://x https://'), '<p><code>https://a.b</code> javascript://x https://</p>');
});

test('math is found where models write it, and money is not', () => {
  assert.match(show('so $x+1$ and \\(y\\)'), /tex="x\+1".*tex="y"/);
  assert.match(show('\\[\nz\n\\]'), /tex="z"/);
  assert.match(show('$$a$$'), /tex="a"/);
  assert.equal(show('from $5 to $10 per month'), '<p>from $5 to $10 per month</p>');
});

// ---- alternatives ----

test('branches that part at the same place are alternatives, each once', () => {
  const fork = (name, forkAt, first, created) => ({ name, fork_at: forkAt, first, messages: 9, created_at: created });
  const outline = { branch: 'main', count: 6, items: [], branches: [fork('main', 6, null, '1'), fork('b', 2, 'x', '2'), fork('c', 2, 'x', '3'), fork('d', 2, 'y', '4'), fork('e', 4, 'z', '5')] };
  const found = web.alternativesOf(outline, 'main');
  assert.deepEqual(found.get(2), { at: 0, names: ['main', 'b', 'd'] });
  assert.deepEqual(found.get(4), { at: 0, names: ['main', 'e'] });
});
