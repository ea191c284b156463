#!/usr/bin/env node
// Writes what the documentation says of the server's configuration from the program's own table:
// the part of docs/configuration.md between its two marks, and all of docs/quipu.conf.
//
//   tools/configdoc.mjs [BUILD]     BUILD is the build directory (default: build)
//
// tests/e2e/config.test.mjs fails when the files are not as this would write them.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const pageFile = path.join(root, 'docs', 'configuration.md');
export const exampleFile = path.join(root, 'docs', 'quipu.conf');
const marks = ['<!-- the table begins -->\n', '<!-- the table ends -->\n'];

// The table, with the values that are in effect without a file and an environment.
export function readTable(program) {
  const ours = /^(QUIPU|ANTHROPIC|OPENAI)_/;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
  const text = execFileSync(program, ['serve', '--print-config', '--json', '--config', '/dev/null'], { env, encoding: 'utf8' });
  return JSON.parse(text).values;
}

// By section, in the order of the table; the data directory, its last row, is the first of its section.
function sections(rows) {
  const found = new Map();
  for (const row of [rows.at(-1), ...rows.slice(0, -1)])
    found.set(row.section, [...(found.get(row.section) ?? []), row]);
  return [...found];
}

function size(n) {
  const units = [[2 ** 40, 'T'], [2 ** 30, 'G'], [2 ** 20, 'M'], [2 ** 10, 'K']];
  const [unit, letter] = units.find(([bytes]) => n > 0 && n % bytes === 0) ?? [1, ''];
  return `${n / unit}${letter}`;
}

function allowed(row) {
  if (row.type === 'number') return `${row.min} to ${row.max >= 1e12 ? '10¹²' : row.max}`;
  if (row.type === 'bytes') return row.max < 2 ** 50 ? `${size(row.min)} to ${size(row.max)}` : `${size(row.min)} or more`;
  if (row.type === 'choice' || row.type === 'switch') return row.value_name.replaceAll('|', ', ');
  if (row.type === 'money') return 'dollars';
  if (row.type === 'lines') return 'a list, one a line';
  return row.type === 'list' ? 'a list' : row.value_name;
}

function table(rows) {
  const lines = sections(rows).flatMap(([section, of]) => [
    `### [${section}]`,
    '',
    '| key | flag and environment | value | default | |',
    '|---|---|---|---|---|',
    ...of.map((row) =>
      [
        '',
        ` \`${row.key}\` `,
        ` \`--${row.flag}\` \`${row.environment}\` `,
        ` ${allowed(row)} `,
        row.default ? ` \`${row.default}\` ` : ' ',
        ` ${row.help}${row.live ? '' : ' *(restart)*'} `,
        '',
      ].join('|'),
    ),
    '',
  ]);
  return `${lines.join('\n')}\n`;
}

export function makePage(page, rows) {
  const [begin, end] = marks.map((mark) => page.indexOf(mark));
  if (begin < 0 || end < begin) throw new Error(`${pageFile} has lost its marks`);
  return `${page.slice(0, begin + marks[0].length)}\n${table(rows)}${page.slice(end)}`;
}

export function makeExample(rows) {
  const head = [
    '# quipu.conf: the configuration of `quipu serve`, with every key at its default.',
    '# It is looked for in the data directory, then in /etc/quipu; --config names another file.',
    '# docs/configuration.md tells more. This file is made by tools/configdoc.mjs.',
  ];
  const body = sections(rows).flatMap(([section, of]) => [
    '',
    `[${section}]`,
    ...of.flatMap((row) => [
      '',
      `# ${row.help} (${allowed(row)})${row.live ? '' : '; needs a restart'}`,
      `#${row.key} =${row.default ? ` ${row.default}` : ''}`,
    ]),
  ]);
  return `${[...head, ...body].join('\n')}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rows = readTable(path.resolve(process.argv[2] ?? path.join(root, 'build'), 'quipu'));
  fs.writeFileSync(pageFile, makePage(fs.readFileSync(pageFile, 'utf8'), rows));
  fs.writeFileSync(exampleFile, makeExample(rows));
}
