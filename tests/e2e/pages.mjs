// What the tests of README.md and docs/ share: the blocks of a page, and what of their output is compared.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';

export const read = (page) => fs.readFileSync(page, 'utf8');

function section(page, title) {
  const text = read(page);
  const from = text.indexOf(`\n## ${title}\n`);
  assert.ok(from >= 0, `${page} has a section ${title}`);
  const to = text.indexOf('\n## ', from + 1);
  return text.slice(from, to < 0 ? undefined : to);
}

// The blocks of a section: commands, and their output when the page shows it.
export function sectionBlocks(page, title) {
  const blocks = [];
  for (const [, kind, text] of section(page, title).matchAll(/^```(\w+)\n([^]*?)^```$/gm)) {
    if (kind === 'sh') blocks.push({ commands: text });
    else blocks.at(-1).output = text;
  }
  return blocks;
}

// Ids and times differ from run to run, and jq's colours from version to version.
export const plain = (text) =>
  text
    .replace(/\x1b\[[0-9;]*m/g, '')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replace(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3}Z)?/g, 'TIME');

// A port that nothing listens on now. It is below those that the system hands out by itself, so that no
// other test gets it by chance before it is used, or while a server on it is started again.
export async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = net.createServer();
    const free = await new Promise((resolve) => server.on('error', () => resolve(false)).listen(port, '127.0.0.1', () => server.close(() => resolve(true))));
    if (free) return port;
  }
}
