#!/usr/bin/env node
// The reference for the token estimator of src/compact/count.h: gpt-tokenizer's o200k_base.
//
//   tools/tokens.mjs FILE...            prints the number of tokens and the name of each file
//   tools/tokens.mjs --write            counts the texts of tests/fixtures/compact/ into counts.json
//                                     and their beginnings into parts.json
//   tools/tokens.mjs --learn FILE...    prints src/compact/count_table.h, learned from the files
//
// --learn wants plain text with Latin letters: prose of several languages, code and JSON, about a
// quarter of each, 100,000 characters or more in total.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { decode, encode } from 'gpt-tokenizer/encoding/o200k_base';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const fixtures = path.join(root, 'tests', 'fixtures', 'compact');
const ending = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?";
const before = '[^\\r\\n\\p{L}\\p{N}]?';
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]';
const lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
// How o200k_base cuts a text into pieces; no token spans two of them.
const pieces = new RegExp(
  `${before}${upper}*${lower}+${ending}|${before}${upper}+${lower}*${ending}|\\p{N}{1,3}` +
    '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
  'gu',
);
const kinds = ['of 2 to 4 letters', 'of 5 to 8', 'of 9 or more', 'that begin with two capitals'];

const count = (file) => encode(fs.readFileSync(file, 'utf8')).length;

export function counts() {
  const result = {};
  for (const name of fs.readdirSync(fixtures).sort())
    if (name.endsWith('.txt')) result[path.basename(name, '.txt')] = count(path.join(fixtures, name));
  return result;
}

// The first 80, 90 and 95 % of each text, up to the end of a line, sentence or word: what a provider
// has reported when the 5th, 10th or 20th message of a conversation comes.
export function parts() {
  const result = {};
  for (const name of Object.keys(counts())) {
    const text = fs.readFileSync(path.join(fixtures, `${name}.txt`), 'utf8');
    result[name] = {};
    for (const percent of [80, 90, 95]) {
      const most = text.slice(0, Math.ceil((text.length * percent) / 100));
      const end = Math.max(...['\n', '. ', '。', ' '].map((mark) => most.lastIndexOf(mark) + 1));
      const part = end > most.length * 0.9 ? most.slice(0, end) : most;
      result[name][percent] = { bytes: Buffer.byteLength(part), tokens: encode(part).length };
    }
  }
  return result;
}

const column = (letter) => {
  const c = letter.toLowerCase();
  return c >= 'a' && c <= 'z' ? c.charCodeAt(0) - 97 : 26;
};

// For each pair of neighbouring letters: how often a token ends between them.
function learn(files) {
  const cell = () => ({ ends: 0, all: 0 });
  const grid = () => [...Array(27)].map(() => [...Array(27)].map(cell));
  const tables = kinds.map(grid);
  const totals = kinds.map(cell);

  for (const file of files)
    for (const piece of fs.readFileSync(file, 'utf8').match(pieces)) {
      const word = /^([^\p{L}\p{N}]?)(\p{Script=Latin}+)('\p{L}+)?$/u.exec(piece);
      if (!word) continue;
      const letters = [...word[2]];
      const capitals = letters.length > 1 && letters.slice(0, 2).every((c) => c !== c.toLowerCase());
      const kind = capitals ? 3 : letters.length <= 4 ? 0 : letters.length <= 8 ? 1 : 2;
      const ends = new Set();
      let at = 0;
      for (const token of encode(piece)) ends.add((at += Buffer.byteLength(decode([token]))));
      at = Buffer.byteLength(word[1]);
      for (let i = 0; i + 1 < letters.length; i++) {
        at += Buffer.byteLength(letters[i]);
        for (const c of [tables[kind][column(letters[i])][column(letters[i + 1])], totals[kind]]) {
          c.ends += ends.has(at) ? 1 : 0;
          c.all++;
        }
      }
    }
  // Rare pairs lean towards the average of their kind.
  return tables.map((table, k) =>
    table.map((row) =>
      row
        .map((c) => (c.ends + (8 * totals[k].ends) / totals[k].all) / (c.all + 8))
        .map((share) => Math.min(35, Math.round(35 * share)).toString(36))
        .join(''),
    ),
  );
}

function printTable(tables) {
  console.log(`/* count_table.h - how often a token of o200k_base ends between two letters of a word.
 *
 * Written by "tools/tokens.mjs --learn". The row is the letter before, the column the letter after:
 * a to z, then all other Latin letters. A digit of base 36 is a share: 0 is never, z is always. */
#ifndef QP_COMPACT_COUNT_TABLE_H
#define QP_COMPACT_COUNT_TABLE_H

static const char ends_between[${kinds.length}][27][28] = {`);
  tables.forEach((table, k) => {
    console.log(`  /* in words ${kinds[k]} */\n  {`);
    for (const row of table) console.log(`      "${row}",`);
    console.log('  },');
  });
  console.log('};\n\n#endif');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [first, ...rest] = process.argv.slice(2);
  if (first === '--write')
    for (const [name, value] of Object.entries({ counts: counts(), parts: parts() }))
      fs.writeFileSync(path.join(fixtures, `${name}.json`), `${JSON.stringify(value, null, 2)}\n`);
  else if (first === '--learn') printTable(learn(rest));
  else if (first && !first.startsWith('-'))
    for (const file of [first, ...rest]) console.log(`${count(file)} ${file}`);
  else {
    console.error('usage: tools/tokens.mjs FILE... | --write | --learn FILE...');
    process.exitCode = 2;
  }
}
