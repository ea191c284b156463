// What the tests of compaction share: models with a small window, and conversations that outgrow it.

import fs from 'node:fs';
import path from 'node:path';
import { tempDir } from './helper.mjs';

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
