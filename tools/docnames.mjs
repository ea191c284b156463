#!/usr/bin/env node
// Checks the pages for developers: every file and function that they name must exist, and a function that is
// followed by a file in brackets, `qp_message_save` (`store/context/message_save.c`), must be defined in that file.
// Prints "page:line: sentence" for each violation.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
const pages = ['docs/ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/writing-a-driver.md'].filter((page) => fs.existsSync(page));
const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' }).split('\n').filter((name) => fs.existsSync(name));
const code = files.filter((name) => /^(src|include|tests|bench|tools)\/.*\.[ch]$/.test(name));
const text = new Map(code.map((name) => [name, fs.readFileSync(name, 'utf8').replace(/\/\*[^]*?\*\//g, ' ')]));

const isFile = /^[\w.*/-]+\.(c|h|mjs|yaml|json|md|supp)$/;
const isFunction = /^(qp__?\w+|[a-z]+_\w+)(\(\))?$/;

// A name with a wildcard needs one file at least. `chat_*.c` and `store/files/lock.h` are found by their ends.
function find(name) {
  const pattern = new RegExp(`(^|/)${name.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}$`);
  return files.filter((file) => pattern.test(file));
}

// Known as a function, a type, a field, a macro or a constant: the word occurs in the code outside of comments.
function occurs(word, within) {
  const pattern = new RegExp(`\\b${word}\\b`);
  return within.some((file) => pattern.test(text.get(file) ?? fs.readFileSync(file, 'utf8')));
}

// A definition begins a line: the return type is on the line above.
function isDefined(word, within) {
  const pattern = new RegExp(`^(${word}\\(|(struct|enum) ${word} \\{|.*\\b${word}\\b.*[;{,]$|#define ${word}\\b)`, 'm');
  return within.some((file) => pattern.test(text.get(file) ?? ''));
}

let failed = false;
for (const page of pages) {
  const body = fs.readFileSync(page, 'utf8');
  const report = (at, sentence) => {
    failed = true;
    console.log(`${page}:${body.slice(0, at).split('\n').length}: ${sentence}`);
  };
  for (const match of body.matchAll(/`([^`\n]+)`(?:\*\*)?(?:\s+\((?:in )?`([^`\n]+)`)?/g)) {
    const [, span, place] = match;
    if (/[A-Z]{4}/.test(span) && !/^QP/.test(span)) continue; // a placeholder, as in cmd_NAME.c
    const word = span.replace(/^(struct|enum) /, '').replace(/\(\)$/, '');
    if (isFile.test(span) && !span.startsWith('/') && /\.[ch]$|\//.test(span)) {
      if (/\.(c|h|mjs)$/.test(span) && !find(span).length) report(match.index, `there is no file '${span}'`);
    } else if (isFunction.test(word) && /^qp_/.test(word)) {
      if (!occurs(word, code)) report(match.index, `nothing in the code is called '${word}'`);
    }
    if (place && isFile.test(place) && /^\w+$/.test(word)) {
      const at = find(place).filter((name) => /\.[ch]$/.test(name));
      if (at.length && !isDefined(word, at)) report(match.index, `'${word}' is not defined in '${place}'`);
    }
  }
}
process.exit(failed ? 1 : 0);
