// README.md, docs/tour.md, docs/library.md and docs/errors.md agree with the program: their commands print what
// the pages show, the C program compiles, the tables are those of the code.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { build, environment, ids, jsonLines, lines, ok, tempDir } from './helper.mjs';
import { freePort, plain, read, sectionBlocks } from './pages.mjs';

const pages = ['README.md', ...fs.readdirSync('docs').filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];
// The first block of the tour sets the path up and is left out.
function tourBlocks() {
  const blocks = sectionBlocks('docs/tour.md', 'Five minutes');
  assert.match(blocks[0].commands, /^export PATH=/);
  return blocks.slice(1);
}

// Where a page tells the reader to start or stop the server in another terminal, the script does it.
const serverFunctions = (port, script) => `
start_server() {
  mkdir -p work
  (quipu serve --quiet --listen 127.0.0.1:${port} --workspace work --demo-script ${script} > /dev/null 2>&1 & echo $! > server.pid)
  server=$(cat server.pid)
  until curl -sf http://127.0.0.1:${port}/healthz > /dev/null; do kill -0 $server; sleep 0.05; done
}
server_ends() { while kill -0 $server 2> /dev/null; do sleep 0.05; done; }
trap 'kill $server 2> /dev/null || true' EXIT
`;

const followed = [
  { page: 'README.md', titles: ['Three minutes', 'A turn'], least: 6 },
  {
    page: 'docs/tour.md',
    titles: ['Five minutes', 'A turn', 'Over HTTP', 'Import and export of old chats', 'Disk space', 'Sessions for bots'],
    least: 20,
  },
];

for (const { page, titles, least } of followed) {
  test(`${page} can be followed from top to bottom on one data directory, and prints what it shows`, async (t) => {
    const dir = tempDir(t);
    const port = await freePort();
    const mark = '----- block -----';
    const slow = path.join(dir, 'demo.json');
    fs.writeFileSync(slow, JSON.stringify({ interval_ms: 60, steps: [] }));
    fs.symlinkSync(path.resolve('tests'), path.join(dir, 'tests'));
    fs.symlinkSync(build, path.join(dir, 'build'));

    let script = `set -e\n${serverFunctions(port, slow)}`;
    const blocks = [];
    for (const title of titles) {
      const here = sectionBlocks(page, title);
      assert.ok(here.length >= 1, title);
      if (title === 'A turn') script += 'start_server\n';
      if (title === 'Import and export of old chats') script += 'kill $server; server_ends\n';
      for (const block of here) {
        // A busy machine may need longer than the half second of docs/tour.md until the answer streams.
        const streams = `until curl -s $URL/contexts/$CTX/state | grep -q '"state":"StreamingLLMResponse"'; do sleep 0.05; done; sleep 0.9`;
        script += block.commands.replaceAll('http://127.0.0.1:7878', `http://127.0.0.1:${port}`).replace('sleep 0.5; kill', `${streams}; kill`);
        if (block.commands.includes('kill -9 $(jq')) script += 'server_ends; start_server\n';
        script += `echo '${mark}'\n`;
        blocks.push(block);
      }
    }
    assert.ok(blocks.length >= least);
    fs.writeFileSync(path.join(dir, 'blocks.sh'), script);
    const env = environment(path.join(dir, 'data'), { TMPDIR: dir });
    const result = spawnSync('script', ['-qec', 'bash blocks.sh', '/dev/null'], { encoding: 'utf8', input: '', env, cwd: dir });
    // On a slow machine a progress bar appears and disappears.
    const text = result.stdout.replaceAll('\r\n', '\n').replace(/\r\x1b\[K(\[[^\r\n]*)?/g, '');
    const printed = text.split(`${mark}\n`);
    blocks.forEach((block, i) => assert.equal(plain(printed[i] ?? '(nothing: the script ended)'), plain(block.output ?? ''), block.commands));
    assert.equal(result.status, 0, result.stdout);
  });
}

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

test('the program in docs/library.md compiles and runs', (t) => {
  const dir = tempDir(t);
  const source = /^```c\n([^]*?)^```$/m.exec(read('docs/library.md'))[1];
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

test('the exit codes of docs/errors.md are those of the command', () => {
  const rows = [...read('docs/errors.md').matchAll(/^\| (\d+) \| (\w+) \| (.*) \|$/gm)];
  assert.deepEqual(
    rows.map(([, exit_code, code, text]) => ({ exit_code: Number(exit_code), code, text })),
    jsonLines(ok(undefined, ['help', 'exit-codes', '--json'])),
  );
});

test('every file that a page links to exists', () => {
  for (const page of pages)
    for (const [, target] of read(page).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g))
      assert.ok(fs.existsSync(path.join(path.dirname(page), target)), `${page}: ${target}`);
});

test('README.md has at most 200 lines', () => assert.ok(lines(read('README.md')).length <= 200));

test('the files on disk are those that docs/formats.md lists', (t) => {
  const data = path.join(tempDir(t), 'data');
  const ctx = ok(data, ['new']).trim();
  ok(data, ['add', ctx, '--text', 'x']);
  ok(data, ['prompt', 'create', '--content', 'x']);
  const text = read('docs/formats.md');
  for (const name of fs.readdirSync(data)) assert.ok(text.includes(`      ${name}`), name);
  for (const name of fs.readdirSync(path.join(data, 'contexts', ctx))) assert.ok(text.includes(name), name);
});
