#!/usr/bin/env node
// Writes the list of messages in docs/errors.md from the source: every sentence that is given to a function
// which reports a failure or a warning. A reader can judge the sentences there side by side.
//
//   tools/errors.mjs            write docs/errors.md
//   tools/errors.mjs --check    fail if docs/errors.md is not up to date

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const page = path.join(root, 'docs', 'errors.md');
const mark = '<!-- the list begins: written by tools/errors.mjs -->\n';

// Functions that report: by their name, which is checked in one place here instead of a list.
const reports = /(^|_)(fail|failed|failure|refuse|refused|error|warn|wrong|bad|damaged|invalid|reject|problem|note)(_|$)/;

const reasons = /\b(?:return|(?:why|problem|reason|hint|sentence|cause|detail)\s*=)\s+((?:"|[^;{}"()]*\?)[^;{}]*);/g;

const areas = {
  base: 'Input and output in general',
  os: 'Operating system',
  model: 'Messages, metadata and prompts',
  old: 'Old formats',
  store: 'The store',
  llm: 'Models',
  tool: 'Tools, rules and MCP servers',
  turn: 'Turns',
  http: 'The server',
  cli: 'The command line',
};

// The arguments of the call whose opening parenthesis is at `from`, each as text; comments are gone already.
function callArguments(text, from) {
  const args = [''];
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    const c = text[i];
    if (c === '"' || c === "'") {
      const literal = /^(["'])(?:\\.|(?!\1)[^\\])*\1/.exec(text.slice(i, i + 5000))[0];
      args[args.length - 1] += literal;
      i += literal.length - 1;
    } else if (c === '(' || c === '{' || c === '[') {
      if (depth++) args[args.length - 1] += c;
    } else if (c === ')' || c === '}' || c === ']') {
      if (--depth === 0) return args;
      args[args.length - 1] += c;
    } else if (c === ',' && depth === 1) args.push('');
    else args[args.length - 1] += c;
  }
  return args;
}

// Adjacent literals are one; a placeholder of printf becomes "…".
function sentences(argument) {
  const plain = argument.replace(/\bPRI[a-zX]\w+/g, '"@"');
  const found = [];
  for (const [run] of plain.matchAll(/"(?:\\.|[^"\\])*"(?:\s*"(?:\\.|[^"\\])*")*/g)) {
    const text = [...run.matchAll(/"((?:\\.|[^"\\])*)"/g)].map(([, part]) => part).join('');
    const shown = text
      .replace(/%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|j|t|L)?[diouxXeEfFgGaAcspn@]/g, '…')
      .replaceAll('%%', '%')
      .replace(/\\n/g, ' ')
      .replace(/\\(.)/g, '$1');
    if (/[a-zA-Z]{2}/.test(shown) && /[a-z] /.test(shown)) found.push(shown.trim());
  }
  return found;
}

export function readMessages() {
  const found = [];
  const files = fs.readdirSync(path.join(root, 'src'), { recursive: true }).filter((name) => name.endsWith('.c'));
  for (const file of files.sort()) {
    const text = fs.readFileSync(path.join(root, 'src', file), 'utf8').replace(/\/\*[^]*?\*\//g, ' ');
    for (const match of text.matchAll(/\b([a-z]\w*)\(/g)) {
      if (!reports.test(match[1]) || match[1].startsWith('is_')) continue;
      const args = callArguments(text, match.index + match[1].length);
      const code = args.map((arg) => /^\s*QP_([A-Z]+)\s*$/.exec(arg)?.[1]).find(Boolean);
      const system = /_sys$|_errno$/.test(match[1]);
      for (const arg of args)
        for (const message of sentences(arg)) {
          const shown = match[1].endsWith('_nomem') ? `out of memory: ${message}` : system ? `${message}: …` : message;
          found.push({ area: file.split('/')[0], message: shown, code: code ?? (/_nomem$/.test(match[1]) ? 'NOMEM' : '') });
        }
    }
    // Reasons that are put into a message elsewhere.
    for (const [, statement] of text.matchAll(reasons))
      for (const message of sentences(statement))
        if (message.split(' ').length > 2) found.push({ area: file.split('/')[0], message, code: '' });
  }
  return found;
}

// Whether a sentence that was seen contains a message of the list: its words in their order, around the values.
export function isListed(sentence, messages) {
  if (/Couldn't connect to server/.test(sentence)) return true; // libcurl's own words
  return messages.some(({ message }) => {
    const parts = message.split('…').filter((part) => /[a-z]{3}/.test(part));
    let at = 0;
    return parts.length > 0 && parts.every((part) => (at = sentence.indexOf(part, at) + 1) > 0);
  });
}

function list() {
  const cell = (text) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
  let text = '';
  const all = readMessages();
  for (const [area, title] of Object.entries(areas)) {
    const rows = new Map();
    for (const { message, code } of all.filter((m) => m.area === area)) {
      rows.set(message, new Set([...(rows.get(message) ?? []), code].filter(Boolean)));
    }
    if (!rows.size) continue;
    text += `\n### ${title}\n\n| message | code |\n|---|---|\n`;
    for (const [message, codes] of [...rows].sort(([a], [b]) => (a < b ? -1 : 1)))
      text += `| ${cell(message)} | ${[...codes].sort().join(', ')} |\n`;
  }
  return text;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const old = fs.readFileSync(page, 'utf8');
  const at = old.indexOf(mark);
  if (at < 0) throw new Error(`${page} has no line "${mark.trim()}"`);
  const now = old.slice(0, at) + mark + list();
  if (process.argv[2] === '--check') {
    if (now !== old) {
      console.log('docs/errors.md:1: is not up to date; run tools/errors.mjs');
      process.exit(1);
    }
  } else fs.writeFileSync(page, now);
}
