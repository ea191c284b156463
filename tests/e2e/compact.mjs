// What the tests of compaction share: models with a small window, and conversations that outgrow it.

import fs from 'node:fs';
import path from 'node:path';
import { LLMock } from '@copilotkit/aimock';
import { tempDir } from './helper.mjs';
import { Tap } from './model.mjs';
import { Chat, serveTurns } from './turns.mjs';

// A flag that gives these models a window: { 'demo/demo': 4000 }.
export function windows(t, rows) {
  const file = path.join(tempDir(t), 'models.json');
  fs.writeFileSync(
    file,
    JSON.stringify(
      Object.entries(rows).map(([name, window]) => {
        const [provider, id] = name.split('/');
        return { id, provider, window, max_output: 200, input_price: 1, output_price: 2 };
      }),
    ),
  );
  return ['--model-table', file];
}

// A text of about so many tokens, other for each number.
const words = ['knot', 'cord', 'number', 'record', 'colour', 'harvest', 'village', 'road', 'runner', 'census', 'wool', 'thread'];
export const prose = (n, tokens) => Array.from({ length: tokens }, (_, i) => words[(i * 7 + n * 3 + ((i * i) % 5)) % words.length]).join(' ');

// Sends messages until the conversation is compacted; gives the events of that turn and how many
// messages were sent.
export async function talkUntilCompacted(chat, { tokens = 120, most = 60, first = 0 } = {}) {
  for (let n = first; n < first + most; n++) {
    const events = await (await chat.stream('send_message', { content: `Question ${n}: ${prose(n, tokens)}?` })).all();
    if (events.some((event) => event.type === 'compact')) return { events, sent: n + 1 };
  }
  throw new Error(`${most} messages, and no compaction: ${JSON.stringify((await chat.state('?last=0')).window)}`);
}

export const ofType = (events, type) => events.filter((event) => event.type === type);

// ---- aimock as Anthropic: everything that goes over the wire is seen ----

export const narrative = 'Goal: count the cords of the archive. Decision: red cords first. Do not cut any knot.';
export const answer = `Noted. ${prose(1, 150)}.`;
const isSummary = (request) => String(request.model).startsWith('claude-haiku');

// A server that asks aimock as Anthropic, with a window of 4,000 tokens. `fast` means claude-haiku at
// Anthropic's own address only, where no test may go: so it is named.
export async function withAnthropic(t, { summary = { content: narrative }, models = { 'anthropic/claude-test': 4000 }, body = {}, env: more = {} } = {}) {
  const mock = new LLMock({ port: 0, host: '127.0.0.1', strict: true, logLevel: 'silent' });
  mock.addFixture({ match: { predicate: isSummary }, response: summary });
  mock.onMessage(/./, { content: answer });
  await mock.start();
  t.after(() => mock.stop());
  const tap = await Tap.start(t, mock.url);
  const env = { ANTHROPIC_API_KEY: 'sk-test-of-nobody', ANTHROPIC_BASE_URL: tap.url, ...more };
  const server = await serveTurns(t, { env, args: ['--retry-pause', '10', '--summarizer', 'anthropic/claude-haiku-4-5', ...windows(t, models)] });
  const chat = await Chat.create(server, { model_id: 'anthropic/claude-test', title: 'Cords', ...body });
  return { tap, server, chat };
}

export const summaries = (tap) => tap.sent.filter(({ body }) => isSummary(body));
export const questions = (tap) => tap.sent.filter(({ body }) => !isSummary(body));
export const textOf = (message) => (typeof message.content === 'string' ? message.content : message.content.map((part) => part.text ?? '').join('\n'));
