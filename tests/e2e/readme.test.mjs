// README.md tells the truth: its tour runs and prints what it says, its program compiles, its tables agree.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { build, environment, ids, jsonLines, lines, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

const readme = fs.readFileSync('README.md', 'utf8');

function section(title) {
  const from = readme.indexOf(`\n## ${title}\n`);
  assert.ok(from >= 0, `README.md has a section ${title}`);
  const to = readme.indexOf('\n## ', from + 1);
  return readme.slice(from, to < 0 ? undefined : to);
}

// The blocks of a section: commands, and what they print when the README shows it.
function sectionBlocks(title) {
  const blocks = [];
  for (const [, kind, text] of section(title).matchAll(/^```(\w+)\n([^]*?)^```$/gm)) {
    if (kind === 'sh') blocks.push({ commands: text });
    else blocks.at(-1).output = text;
  }
  return blocks;
}

// The first block of the tour sets the path up and is left out.
function tourBlocks() {
  const blocks = sectionBlocks('Five minutes');
  assert.match(blocks[0].commands, /^export PATH=/);
  return blocks.slice(1);
}

// Runs blocks as one script on a terminal and compares what each prints.
function runBlocks(t, blocks) {
  const dir = tempDir(t);
  const mark = '----- block -----';
  const script = blocks.map((block) => `${block.commands}echo '${mark}'\n`).join('');
  fs.writeFileSync(path.join(dir, 'blocks.sh'), `set -e\n${script}`);
  const env = environment(path.join(dir, 'data'), { PATH: `${build}:${process.env.PATH}`, TMPDIR: dir });
  const result = spawnSync('script', ['-qec', 'bash "$TMPDIR/blocks.sh"', '/dev/null'], { encoding: 'utf8', input: '', env });
  assert.equal(result.status, 0, result.stdout);
  // On a slow machine a progress bar comes and goes.
  const text = result.stdout.replaceAll('\r\n', '\n').replace(/\r\x1b\[K(\[[^\r\n]*)?/g, '');
  const printed = text.split(`${mark}\n`);
  blocks.forEach((block, i) => assert.equal(plain(printed[i]), plain(block.output ?? ''), block.commands));
}

// Ids and times differ from run to run, and jq's colours from version to version.
const plain = (text) =>
  text
    .replace(/\x1b\[[0-9;]*m/g, '')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replace(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3}Z)?/g, 'TIME');

test('the tour of README.md prints what README.md shows, on a terminal', (t) => {
  const blocks = tourBlocks();
  assert.ok(blocks.length >= 7);
  runBlocks(t, blocks);
});

test('what README.md shows of old chats, disk space and sessions is what they print', (t) => {
  const blocks = ['Old chats in, and out again', 'Disk space', 'Sessions for bots'].flatMap(sectionBlocks);
  assert.ok(blocks.length >= 6);
  runBlocks(t, blocks);
});

for (const title of ['A turn', 'Over HTTP'])
  test(`the curl commands of README.md print what README.md shows: ${title}`, async (t) => {
    const work = tempDir(t);
    fs.writeFileSync(path.join(work, 'cords.txt'), 'one knot\n');
    const slow = path.join(tempDir(t), 'demo.json');
    fs.writeFileSync(slow, JSON.stringify({ interval_ms: 30, steps: [] }));
    const args = ['--workspace', work, '--demo-script', slow];
    const { url, data } = await serve(t, { args });
    const blocks = sectionBlocks(title);
    assert.ok(blocks.length >= 3);
    assert.match(blocks[0].commands, /^URL=http:\/\/127\.0\.0\.1:7878\/v1\n/);
    blocks[0].commands = blocks[0].commands.replace('http://127.0.0.1:7878', url);
    for (const block of blocks) {
      if (!block.commands.includes('kill -9')) continue;
      // Who reads starts the server again.
      const again = ['quipu', 'serve', '--quiet', '--data', data, '--listen', url.slice('http://'.length), ...args];
      block.commands = block.commands.replace('sleep 0.5', 'sleep 0.9').replace('data/quipu.lock', path.join(data, 'quipu.lock'));
      block.commands += `while ! curl -s ${url}/healthz > /dev/null; do sleep 0.1; [ -n "$again" ] || { ${again.join(' ')} > /dev/null 2>&1 & again=$!; }; done\n`;
      blocks.at(-1).commands += 'kill $again; wait $again || true\n';
    }
    runBlocks(t, blocks);
  });

test('tools/tour takes the same steps, and can be taken twice', (t) => {
  const data = path.join(tempDir(t), 'data');
  const steps = tourBlocks().flatMap((block) => lines(block.commands));
  for (let round = 1; round <= 2; round++) {
    const env = environment(data, { QUIPU_BUILD: build, TMPDIR: tempDir(t) });
    const result = spawnSync('tools/tour', [], { encoding: 'utf8', env });
    assert.equal(result.status, 0, result.stderr);
    assert.equal(result.stderr, '');
    const shown = lines(result.stdout).filter((line) => line.startsWith('$ '));
    assert.deepEqual(shown.map((line) => line.slice(2)), steps);
    assert.match(result.stdout, /\n\$ grep -vxFf [^\n]*\n0\n/, 'no printed id is missing');
    assert.match(result.stdout, /: no problems\n/);
    assert.equal(lines(ok(data, ['ls'])).length, round);
  }
});

test('tools/tour says what is missing before a build', (t) => {
  const env = environment(tempDir(t), { QUIPU_BUILD: '/nonexistent' });
  const result = spawnSync('tools/tour', [], { encoding: 'utf8', env });
  assert.equal(result.status, 1);
  assert.match(result.stderr, /\/nonexistent\/quipu is missing; run make first/);
});

test('the program in README.md compiles and runs', (t) => {
  const dir = tempDir(t);
  const source = /^```c\n([^]*?)^```$/m.exec(section('The library'))[1];
  fs.writeFileSync(path.join(dir, 'hello.c'), source);
  const options = JSON.parse(fs.readFileSync(path.join(build, 'meson-info', 'intro-buildoptions.json'), 'utf8'));
  const sanitize = options.find((option) => option.name === 'b_sanitize')?.value ?? 'none';
  const args = ['-std=c11', '-Wall', '-Wextra', '-Wpedantic', '-Werror', '-Iinclude', '-o', path.join(dir, 'hello')];
  if (sanitize !== 'none') args.push(`-fsanitize=${sanitize}`);
  const compiled = spawnSync('cc', [...args, path.join(dir, 'hello.c'), `-L${build}`, '-lquipu'], { encoding: 'utf8' });
  assert.equal(compiled.status, 0, compiled.stderr);
  const env = { ...process.env, LD_LIBRARY_PATH: build };
  const result = spawnSync(path.join(dir, 'hello'), [], { cwd: dir, env, encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
  const [, stored] = /^user: (.*)\n$/.exec(result.stdout);
  assert.equal(JSON.parse(stored).content[0].text, 'hello');
  const data = path.join(dir, 'knots');
  const ctx = JSON.parse(ok(data, ['ls', '--json'])).id;
  assert.deepEqual(ids(data, ctx), [JSON.parse(stored).id]);
});

test('the exit codes of README.md are those of the command', () => {
  const rows = [...section('Exit codes').matchAll(/^\| (\d+) \| (\w+) \| (.*) \|$/gm)];
  assert.deepEqual(
    rows.map(([, exit_code, code, text]) => ({ exit_code: Number(exit_code), code, text })),
    jsonLines(ok(undefined, ['help', 'exit-codes', '--json'])),
  );
});

test('every file that README.md links to is there', () => {
  for (const [, target] of readme.matchAll(/\]\(([^)#:]+)\)/g)) assert.ok(fs.existsSync(target), target);
});

test('the files on disk are those that README.md lists', (t) => {
  const data = path.join(tempDir(t), 'data');
  const ctx = ok(data, ['new']).trim();
  ok(data, ['add', ctx, '--text', 'x']);
  ok(data, ['prompt', 'create', '--content', 'x']);
  const text = section('Files on disk');
  for (const name of fs.readdirSync(data)) assert.ok(text.includes(`      ${name}`), name);
  for (const name of fs.readdirSync(path.join(data, 'contexts', ctx))) assert.ok(text.includes(name), name);
});
