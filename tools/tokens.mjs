#!/usr/bin/env node
// The reference for the token estimator of src/compact/count.h: gpt-tokenizer's o200k_base.
//
//   tools/tokens.mjs FILE...            prints the number of tokens and the name of each file
//   tools/tokens.mjs --write            counts the texts of tests/fixtures/compact/ into counts.json
//                                     and their beginnings into parts.json
//   tools/tokens.mjs --learn FILE...    prints src/compact/count_table.h, learned from the files
//   tools/tokens.mjs --words            prints src/compact/count_words.h, from the vocabulary
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

// The names of the texts. Those below held/ were written after the estimator and never used to tune
// it.
function names() {
  const list = (dir) => fs.readdirSync(path.join(fixtures, dir)).filter((name) => name.endsWith('.txt'));
  return [...list('.'), ...list('held').map((name) => `held/${name}`)].map((name) => name.slice(0, -4)).sort();
}

export function counts() {
  return Object.fromEntries(names().map((name) => [name, count(path.join(fixtures, `${name}.txt`))]));
}

// The first 80 % of each text, up to the end of a line, sentence or word: what a provider has
// reported when the fifth message of a conversation comes.
export function parts() {
  const result = {};
  for (const name of names()) {
    const text = fs.readFileSync(path.join(fixtures, `${name}.txt`), 'utf8');
    const most = text.slice(0, Math.ceil((text.length * 80) / 100));
    const end = Math.max(...['\n', '. ', '。', ' '].map((mark) => most.lastIndexOf(mark) + 1));
    const part = end > most.length * 0.9 ? most.slice(0, end) : most;
    result[name] = { bytes: Buffer.byteLength(part), tokens: encode(part).length };
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

// Tokens of scripts whose words are looked up: a mark or none, then letters; and marks of Chinese and
// Japanese. The ranges are those of is_listed() in src/compact/count.c.
const letters =
  '\\u0590-\\u0dff\\u3005-\\u3007\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u9fff\\uf900-\\ufaff\\ufb1d-\\ufdff\\ufe70-\\ufefe';
const marks = '\\u3000-\\u3004\\u3008-\\u303f\\uff01-\\uff0f\\uff1a-\\uff20\\uff3b-\\uff40\\uff5b-\\uff65';
const listed = new RegExp(`^(?:[^\\r\\n\\p{L}\\p{N}]?[${letters}]+|[${marks}]+\\n*)$`, 'u');
const LONGEST = 10; // characters of a token that is looked up …
const LONGEST_EAST = 5; // … of Chinese and Japanese
const BITS_EACH = 14;
const PROBES = 10;
const COLUMNS = 95;

// FNV-1a with a last mix, as hash_on() and hash_end() in src/compact/count.c.
function hash(bytes, start) {
  let h = start;
  for (const b of bytes) h = Math.imul(h ^ b, 16777619);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

// A Bloom filter of these tokens, six bits to a character.
export function words() {
  const tokens = [];
  for (let i = 0; i < 199998; i++) {
    const token = decode([i]);
    const longest = token > '\u3000' || token.slice(1) > '\u3000' ? LONGEST_EAST : LONGEST;
    if (listed.test(token) && [...token].length <= longest) tokens.push(Buffer.from(token));
  }
  const rows = Math.ceil((tokens.length * BITS_EACH) / (6 * COLUMNS));
  const size = rows * COLUMNS * 6;
  const digits = new Uint8Array(rows * COLUMNS);
  for (const token of tokens) {
    const a = hash(token, 0x811c9dc5);
    const b = (hash(token, 0x01000193) | 1) >>> 0;
    for (let i = 0; i < PROBES; i++) {
      const bit = ((a + Math.imul(i, b)) >>> 0) % size;
      digits[Math.floor(bit / 6)] |= 1 << (bit % 6);
    }
  }
  // From '(' on; without the backslash and the question mark, which begins trigraphs.
  const text = [...digits].map((d) => (d === 52 ? '~' : d === 23 ? '}' : String.fromCharCode(40 + d)));
  const lines = [];
  for (let i = 0; i < rows; i++) lines.push(text.slice(i * COLUMNS, (i + 1) * COLUMNS).join(''));
  return `/* count_words.h - the tokens of o200k_base in Arabic, Hebrew, the scripts of India, Chinese and
 * Japanese, ${tokens.length} of them, as a Bloom filter: bit i is bit i % 6 of character i / 6.
 *
 * Written by "tools/tokens.mjs --words". A character is '(' and the value, but '~' is 52 and '}'
 * is 23. */
#ifndef QP_COMPACT_COUNT_WORDS_H
#define QP_COMPACT_COUNT_WORDS_H

#define WORDS_ROWS ${rows}
#define WORDS_COLUMNS ${COLUMNS}
#define WORDS_PROBES ${PROBES}
#define WORDS_LONGEST ${LONGEST}     /* characters of a token … */
#define WORDS_LONGEST_EAST ${LONGEST_EAST} /* … of Chinese and Japanese */

static const char known_words[WORDS_ROWS][WORDS_COLUMNS + 1] = {
${lines.map((line) => `  "${line}",`).join('\n')}
};

#endif
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [first, ...rest] = process.argv.slice(2);
  if (first === '--write')
    for (const [name, value] of Object.entries({ counts: counts(), parts: parts() }))
      fs.writeFileSync(path.join(fixtures, `${name}.json`), `${JSON.stringify(value, null, 2)}\n`);
  else if (first === '--learn') printTable(learn(rest));
  else if (first === '--words') process.stdout.write(words());
  else if (first && !first.startsWith('-'))
    for (const file of [first, ...rest]) console.log(`${count(file)} ${file}`);
  else {
    console.error('usage: tools/tokens.mjs FILE... | --write | --learn FILE... | --words');
    process.exitCode = 2;
  }
}
