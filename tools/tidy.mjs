#!/usr/bin/env node
// Runs clang-tidy over the C files of src and examples, several at a time. A file that passed is
// not looked at again while its text, the headers of ours that it includes, .clang-tidy and
// clang-tidy itself stay the same: build/lint-cache holds one empty file for each such state.
// The analyzer looks at a third of the paths that it would by itself, which takes less than half
// of the time; LINT_DEEP=1 has it look at all.

import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const cache = path.join(root, 'build', 'lint-cache');
const deep = process.env.LINT_DEEP === '1';
const analyzerHeader = 'tools/analyzer.h';
const definesFailures = ['src/base/err.c', 'src/cli/out.c'];
process.chdir(root);

function list(dir) {
  if (!fs.existsSync(dir)) return [];
  return fs.readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const name = `${dir}/${entry.name}`;
    if (entry.isDirectory()) return list(name);
    return name.endsWith('.c') ? [name] : [];
  });
}

const libpq = execFileSync('pkg-config', ['--cflags', 'libpq'], { encoding: 'utf8' }).trim().split(/\s+/);

function flagsOf(file) {
  // With the assertions of checked builds, the analyzer knows what functions rely on.
  const flags = ['-std=c11', '-D_GNU_SOURCE', '-DQP_CHECKED=1', '-Wall', '-Wextra', '-Wpedantic', '-Iinclude'];
  if (file.startsWith('src/')) flags.push('-Isrc');
  if (file.startsWith('src/store/postgres/')) flags.push(...libpq);
  if (file.startsWith('src/cli/')) flags.push('-DANALYZE_CLI');
  if (file.startsWith('src/') && !definesFailures.includes(file))
    flags.push('-include', analyzerHeader);
  if (!deep) flags.push('-Xclang', '-analyzer-config', '-Xclang', 'max-nodes=75000');
  return flags;
}

// The file and every header of ours that it reaches.
function reach(file, seen = new Set()) {
  if (seen.has(file)) return seen;
  seen.add(file);
  const include = /^\s*#\s*include\s*["<]([^">]+)[">]/gm;
  for (const found of fs.readFileSync(file, 'utf8').matchAll(include))
    for (const dir of ['src', 'include']) {
      const header = `${dir}/${found[1]}`;
      if (fs.existsSync(header)) reach(header, seen);
    }
  return seen;
}

const tool = execFileSync('clang-tidy', ['--version'], { encoding: 'utf8' });
const config = fs.readFileSync('.clang-tidy');

function keyOf(file) {
  const hash = crypto.createHash('sha256').update(tool).update(config);
  hash.update(flagsOf(file).join(' '));
  for (const name of [...reach(file), ...reach(analyzerHeader)])
    hash.update(`\0${name}\0`).update(fs.readFileSync(name));
  return hash.digest('hex');
}

function tidy(file) {
  return new Promise((resolve) => {
    const child = spawn('clang-tidy', ['--quiet', file, '--', ...flagsOf(file)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let text = '';
    let errors = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
    child.stderr.setEncoding('utf8').on('data', (piece) => (errors += piece));
    child.on('error', (error) => resolve({ failed: true, text: `${file}:1: ${error.message}\n` }));
    child.on('close', (code) =>
      resolve({ failed: code !== 0, text: text.replaceAll(`${root}/`, '') || errors }),
    );
  });
}

fs.mkdirSync(cache, { recursive: true });
const keys = new Map([...list('src'), ...list('examples')].map((file) => [file, keyOf(file)]));
const known = new Set(keys.values());
for (const name of fs.readdirSync(cache)) if (!known.has(name)) fs.rmSync(path.join(cache, name));

const queue = [...keys].filter(([, key]) => !fs.existsSync(path.join(cache, key)));
let failures = 0;
const work = async () => {
  for (let job = queue.shift(); job; job = queue.shift()) {
    const [file, key] = job;
    const { failed, text } = await tidy(file);
    if (failed) {
      failures++;
      process.stdout.write(text);
    } else {
      fs.writeFileSync(path.join(cache, key), '');
    }
  }
};
await Promise.all(Array.from({ length: os.availableParallelism() }, work));
process.exitCode = failures > 0 ? 1 : 0;
