// Pass-through loses no field. golden/NAME.json is a request with every field that docs/openai.md
// calls supported or passed on (e2e/face_fields checks that none is missing). A provider of the same
// protocol gets it unchanged but for the differences named here; golden/NAME.PROTOCOL.json is what a
// provider of another protocol gets. QUIPU_GOLDEN=write writes these files anew: read the changes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { post, root } from './face.mjs';
import { Recorder } from './recorder.mjs';
import { serveTurns } from './turns.mjs';

const golden = path.join(root, 'tests/e2e/golden');
const read = (name) => JSON.parse(fs.readFileSync(path.join(golden, name), 'utf8'));

const faces = {
  chat: { own: 'openai', route: '/openai/v1/chat/completions', said: (answer) => answer.choices[0].message.content },
  messages: { own: 'anthropic', route: '/anthropic/v1/messages', said: (answer) => answer.content[0].text },
  responses: { route: '/openai/v1/responses', said: (answer) => answer.output.at(-1).content[0].text },
};

// What differs with a provider of the same protocol.
function expected(name, body) {
  const wanted = structuredClone(body);
  wanted.model = 'm';
  wanted.stream = true; // the answer is read as a stream, and put together for a client that wants one object
  if (name === 'chat') wanted.stream_options.include_usage = true;
  // Thinking of another provider has no signature that Anthropic accepts.
  else wanted.messages[3].content = wanted.messages[3].content.filter((block) => block.signature !== 'quipu');
  return wanted;
}

for (const [name, { own, route, said }] of Object.entries(faces))
  test(`${name}: a request with all fields`, async (t) => {
    const recorder = await Recorder.start(t);
    const server = await serveTurns(t, { env: recorder.env });
    const request = read(`${name}.json`);
    for (const provider of ['openai', 'anthropic', 'ollama'])
      for (const stream of [false, true]) {
        const { answer, sent } = await recorder.during(() => post(server, route, { ...request, model: `${provider}/m`, stream }));
        assert.equal(answer.status, 200, answer.text);
        if (stream) assert.match(answer.text, /Seen\./);
        else assert.equal(said(answer.body), 'Seen.');
        if (provider === own) {
          assert.deepEqual(sent, expected(name, request));
          continue;
        }
        const file = `${name}.${provider}.json`;
        if (process.env.QUIPU_GOLDEN === 'write') fs.writeFileSync(path.join(golden, file), `${JSON.stringify(sent, undefined, 2)}\n`);
        assert.deepEqual(sent, read(file));
      }
  });

test('the name of a context is not sent, the rest of the metadata is', async (t) => {
  const recorder = await Recorder.start(t);
  const server = await serveTurns(t, { env: recorder.env });
  const ask = (metadata) => recorder.during(() => post(server, '/openai/v1/chat/completions', { model: 'openai/m', metadata, messages: [{ role: 'user', content: 'x' }] }));
  assert.deepEqual((await ask({ a: 'b' })).sent.metadata, { a: 'b' });
  const kept = await ask({ a: 'b', quipu_context: 'mine' });
  assert.equal(kept.answer.status, 200);
  assert.ok(!JSON.stringify(kept.sent).includes('mine'));
});
