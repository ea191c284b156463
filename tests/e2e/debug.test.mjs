// What docs/turns.md shows of the state machine is what the program has.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { jsonLines, ok } from './helper.mjs';

// The text of the fenced block of a language in docs/turns.md.
function block(language) {
  const page = fs.readFileSync('docs/turns.md', 'utf8');
  const match = page.match(new RegExp('^```' + language + '\\n(.*?)^```$', 'ms'));
  assert.ok(match, `docs/turns.md has no block of ${language}`);
  return match[1];
}

test('the table in the documentation is the table of the program', () => {
  assert.equal(block('text'), ok(undefined, ['debug', 'fsm']));
});

test('the picture in the documentation is the picture of the program', () => {
  assert.equal(block('dot'), ok(undefined, ['debug', 'fsm', '--dot']));
});

test('the table as JSON has a line for each cell that is possible', () => {
  const cells = jsonLines(ok(undefined, ['debug', 'fsm', '--json']));
  assert.equal(cells.length, block('text').split('\n').filter((line) => line.includes(' -> ')).length);
  assert.ok(cells.every((cell) => cell.state && cell.event && cell.to && cell.action));
});
