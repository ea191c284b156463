// `quipu export`: documents for people, lines and objects for programs, of contexts in any shape.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { add, fails, ids, jsonLines, lines, makeContext, messageFile, ok, onTerminal, run, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

const feed = (data, ctx, messages, ...more) =>
  lines(ok(data, ['add', ctx, '--jsonl', '-', ...more], { input: messages.map((m) => JSON.stringify(m) + '\n').join('') }));
const when = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g;

// A conversation with everything that a message can have, and three branches.
function everything(t) {
  const made = makeContext(t, '--title', 'Knots & more');
  const { data, ctx } = made;
  const first = feed(data, ctx, [
    { role: 'user', created_at: '2024-01-02T03:04:05.678Z', text: 'How do I tie ````one````?\nThe second line.' },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', text: 'They want\n\na knot.', signature: 'c2ln' },
        { type: 'text', text: 'Let me look.' },
        { type: 'image', url: 'https://example.org/a b.png' },
        { type: 'image', url: 'data:image/png;base64,AAAA' },
      ],
      tool_calls: [{ id: 'call_1', tool_name: 'read_file', arguments: { path: 'a```b' }, approval_status: 'Approved' }],
    },
    { role: 'tool', tool_result: { request_id: 'call_1', result: 'one\n`````\ntwo', is_error: false } },
    { role: 'tool', tool_result: { request_id: 'call_2', result: { exit_code: 1 }, is_error: true } },
    { role: 'assistant', text: 'Like this.' },
  ]);
  ok(data, ['branch', ctx, 'fork', 'side', '--at', first[2]]);
  add(data, ctx, 'aside', '--branch', 'side');
  ok(data, ['branch', ctx, 'fork', 'twig', '--from', 'side']);
  add(data, ctx, 'on the twig', '--branch', 'twig');
  return { ...made, first };
}

test('a document: headings, texts as they are, and fences that nothing inside can end', (t) => {
  const { data, ctx } = everything(t);
  const text = ok(data, ['export', ctx]);
  assert.equal(
    text.replace(when, 'TIME'),
    `# Knots & more

- context: ${ctx}
- branch: main
- created: TIME
- updated: TIME

## User, TIME

How do I tie \`\`\`\`one\`\`\`\`?
The second line.

## Assistant, TIME

> *Thinking*
>
> They want
>
> a knot.

Let me look.

![image](<https://example.org/a%20b.png>)

*(an image in the message itself, data:image/png;base64, 4 B)*

**Tool call** \`read_file\` (\`call_1\`, Approved)

\`\`\`\`json
{"path":"a\`\`\`b"}
\`\`\`\`

## Tool, TIME

**Tool result** (\`call_1\`)

\`\`\`\`\`\`text
one
\`\`\`\`\`
two
\`\`\`\`\`\`

## Tool, TIME

**Tool error** (\`call_2\`)

\`\`\`json
{"exit_code":1}
\`\`\`

## Assistant, TIME

Like this.
`,
  );
  assert.equal(ok(data, ['export', ctx, '--format', 'md']), text);
  const side = ok(data, ['export', ctx, '--branch', 'side']);
  assert.match(side, /^- branch: side$/m);
  assert.match(side, /\naside\n$/);
  assert.doesNotMatch(side, /Like this/);
});

test('lines are what is stored, and another context takes them', (t) => {
  const { data, ctx } = everything(t);
  const text = ok(data, ['export', ctx, '--format', 'jsonl']);
  assert.equal(text, ok(data, ['show', ctx, '--raw']));
  assert.equal(jsonLines(text).length, 5);
  const other = path.join(tempDir(t), 'data');
  const copy = ok(other, ['new', '--title', 'Knots & more']).trim();
  ok(other, ['add', copy, '--jsonl', '-'], { input: text });
  assert.equal(ok(other, ['export', copy, '--format', 'jsonl']), text);
  assert.equal(
    ok(other, ['export', copy]).replace(when, '').replace(copy, ctx),
    ok(data, ['export', ctx]).replace(when, ''),
  );
});

test('one object: metadata, every branch with its ids, every message once, parents first', (t) => {
  const { data, ctx } = everything(t);
  const object = JSON.parse(ok(data, ['export', ctx, '--format', 'json']));
  assert.equal(object.metadata.id, ctx);
  assert.equal(object.metadata.title, 'Knots & more');
  assert.deepEqual(Object.keys(object.branches), ['main', 'side', 'twig']);
  for (const [name, branch] of Object.entries(object.branches)) {
    assert.deepEqual(branch.message_ids, ids(data, ctx, '--branch', name));
    assert.equal(branch.active, name === 'main');
  }
  const all = new Set(Object.values(object.branches).flatMap((branch) => branch.message_ids));
  assert.equal(all.size, 7);
  assert.deepEqual(new Set(object.messages.map((m) => m.id)), all);
  assert.equal(object.messages.length, 7);
  const seen = new Set([null]);
  for (const message of object.messages) {
    assert.ok(seen.has(message.parent_id), 'the parent stands before it');
    seen.add(message.id);
  }
  assert.deepEqual(JSON.parse(ok(data, ['export', ctx, '--json'])), object);

  // A context without a message has an object too.
  const empty = ok(data, ['new']).trim();
  assert.deepEqual(JSON.parse(ok(data, ['export', empty, '--format', 'json'])).messages, []);
  assert.equal(ok(data, ['export', empty, '--format', 'jsonl']), '');
  assert.match(ok(data, ['export', empty]), /^# Conversation\n/);
});

test('archived and compressed contexts export the same', (t) => {
  const { data, ctx } = everything(t);
  const forms = () => ['md', 'json', 'jsonl'].map((format) => ok(data, ['export', ctx, '--format', format]));
  const before = forms();
  ok(data, ['compress', ctx]);
  assert.deepEqual(forms(), before);
  ok(data, ['decompress', ctx]);
  assert.deepEqual(forms(), before);
  assert.match(ok(data, ['archive', ctx, '--older-than', '1y']), /\t1\t/);
  assert.deepEqual(forms(), before);
});

test('it reads beside a running server', async (t) => {
  const server = await serve(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: 'Held' });
  await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'from the server' });
  assert.match(ok(server.data, ['export', id]), /\nfrom the server\n$/);
});

test('a file is complete or not there', (t) => {
  const { data, ctx } = everything(t);
  const dir = tempDir(t);
  const file = path.join(dir, 'talk.md');
  assert.equal(ok(data, ['export', ctx, '--output', file]), `5 messages in ${file}\n`);
  assert.equal(fs.readFileSync(file, 'utf8'), ok(data, ['export', ctx]));
  const json = path.join(dir, 'talk.json');
  assert.deepEqual(JSON.parse(ok(data, ['export', ctx, '-f', 'json', '-o', json, '--json'])), {
    file: json,
    format: 'json',
    messages: 7,
  });
  assert.equal(JSON.parse(fs.readFileSync(json, 'utf8')).messages.length, 7);
  ok(data, ['export', ctx, '--format', 'jsonl', '-o', file]); // another content in its place
  assert.equal(fs.readFileSync(file, 'utf8'), ok(data, ['export', ctx, '--format', 'jsonl']));
  assert.deepEqual(fs.readdirSync(dir).sort(), ['talk.json', 'talk.md']);
  fails(data, ['export', ctx, '-o', path.join(dir, 'no', 'where.md')], 'NOTFOUND', /cannot write '.*where.md'/);
  fails(data, ['export', ctx, '-o', '/dev/full'], 'FULL', /cannot write '\/dev\/full': No space/);
});

test('a message that is gone is marked, and the exit code says so', (t) => {
  const { data, ctx, dir, first } = everything(t);
  fs.rmSync(messageFile(dir, first[4]));
  const md = run(data, ['export', ctx]);
  assert.equal(md.status, 9);
  assert.match(md.stdout, /## Assistant, [^\n]+\n\n\*\(this message is unavailable: its file is damaged or gone\)\*\n$/);
  assert.match(md.stderr, /warning: message .* is unavailable/);
  assert.match(md.stderr, /1 message could not be exported/);
  const json = run(data, ['export', ctx, '--format', 'json']);
  assert.equal(json.status, 9);
  const lost = JSON.parse(json.stdout).messages.find((m) => m.id === first[4]);
  assert.deepEqual(lost, { id: first[4], role: 'assistant', status: 'unavailable' });
  const jsonl = run(data, ['export', ctx, '--format', 'jsonl']);
  assert.equal(jsonl.status, 9);
  assert.equal(jsonLines(jsonl.stdout).length, 4);
});

test('what is wrong is said', (t) => {
  const { data, ctx } = everything(t);
  fails(data, ['export', ctx, '--format', 'pdf'], 'INVALID', /--format is md, json or jsonl, not 'pdf'/);
  fails(data, ['export', ctx, '--format', 'json', '--branch', 'side'], 'INVALID', /--branch needs --format md or jsonl/);
  fails(data, ['export', ctx, '--branch', 'nope'], 'NOTFOUND', /no branch 'nope'/);
  fails(data, ['export', 'ffff0000'], 'NOTFOUND', /no context has an id/);
});

test('on a terminal no stored text is obeyed; in a file it stays as it is', (t) => {
  const { data, ctx } = makeContext(t);
  add(data, ctx, 'red \x1b[31m\tand \u009b31m');
  assert.match(onTerminal(data, ['export', ctx]).output, /red \\x1b\[31m\tand \\xc2\\x9b31m\n/);
  assert.match(ok(data, ['export', ctx]), /red \x1b\[31m\tand \u009b31m\n/);
});
