// tools/cluster, as docs/postgres.md shows it: three servers on a PostgreSQL of their own behind nginx. The tour of
// README.md and a turn run against it; a server is killed in the middle of a stream, and the client goes on.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { missing, patiently } from './cluster.mjs';
import { atEnd, build, environment, tempDir } from './helper.mjs';
import { freePort, plain, read, sectionBlocks } from './pages.mjs';
import { Server } from './server.mjs';
import { Chat, said, script } from './turns.mjs';

// Runs it until the test ends. Gives what it printed, as { url, store, pids }.
async function startCluster(t, options) {
  const port = await freePort();
  const child = spawn('tools/cluster', ['--port', String(port), '--', ...options], { env: environment(undefined, { QUIPU_BUILD: build, QUIPU_BIN: process.env.QUIPU_BIN }) });
  let told = '';
  let wrong = '';
  const ended = new Promise((resolve) => child.on('close', (status) => resolve(status)));
  child.stderr.setEncoding('utf8').on('data', (text) => (wrong += text));
  const ready = new Promise((resolve) => child.stdout.setEncoding('utf8').on('data', (text) => /Ctrl-C/.test((told += text)) && resolve()));
  atEnd(t, async () => {
    child.stdin.end();
    assert.equal(await ended, 0, wrong);
    assert.ok(!fs.existsSync(logs), 'its directory is removed');
  });
  await Promise.race([ready, ended.then((status) => assert.fail(`tools/cluster ended with ${status}: ${wrong}`))]);
  const logs = path.dirname(/their logs +(\S+)/.exec(told)[1]);
  const pids = new Map([...told.matchAll(/^ +(\d+) {2}(http:\S+)$/gm)].map(([, pid, url]) => [url, Number(pid)]));
  return { url: `http://127.0.0.1:${port}`, port, store: /QUIPU_STORE='(.*)'/.exec(told)[1], pids };
}

// The address of the server that has a context.
function holder(cluster, id) {
  const sql = `SELECT s.address FROM quipu.leases l JOIN quipu.servers s ON s.server = l.holder WHERE l.context = '${id}'`;
  const end = spawnSync('psql', ['-At', '-d', cluster.store, '-c', sql], { encoding: 'utf8' });
  assert.equal(end.status, 0, end.stderr);
  return end.stdout.trim();
}

test('the command of docs/postgres.md: the tour, a turn, and a server that is killed in mid-stream', { skip: missing }, async (t) => {
  assert.match(read('docs/postgres.md'), /^    tools\/cluster$/m);
  const dir = tempDir(t);
  const slow = path.join(dir, 'demo.json');
  const words = Array.from({ length: 400 }, (_, i) => `knot ${i} `);
  fs.writeFileSync(slow, JSON.stringify({ interval_ms: 30, steps: [{ match: 'count', play: [{ text: words.join('') }] }] }));
  const cluster = await startCluster(t, ['--lease', '2', '--demo-script', slow]);
  assert.equal(cluster.pids.size, 3);

  await t.test('README.md', () => {
    const mark = '----- block -----';
    const blocks = ['Three minutes', 'A turn'].flatMap((title) => sectionBlocks('README.md', title));
    const isFile = /^cat \$QUIPU_DATA.*\n/m; // messages in PostgreSQL are no files
    assert.equal(blocks.filter((block) => isFile.test(block.commands)).length, 1);
    let steps = 'set -e\n';
    for (const block of blocks) {
      if (isFile.test(block.commands)) block.output = block.output.replace(/^.*\n/, '');
      steps += block.commands.replace(isFile, '').replaceAll('http://127.0.0.1:7878', cluster.url) + `echo '${mark}'\n`;
    }
    fs.symlinkSync(build, path.join(dir, 'build'));
    fs.writeFileSync(path.join(dir, 'blocks.sh'), steps);
    const result = spawnSync('script', ['-qec', 'bash blocks.sh', '/dev/null'], { encoding: 'utf8', input: '', cwd: dir, env: environment(undefined, { QUIPU_STORE: cluster.store }) });
    const printed = result.stdout.replaceAll('\r\n', '\n').split(`${mark}\n`);
    blocks.forEach((block, i) => assert.equal(plain(printed[i] ?? '(nothing: the script ended)'), plain(block.output ?? ''), block.commands));
    assert.equal(result.status, 0, result.stdout);
  });

  await t.test('a server is killed in mid-stream', async () => {
    const proxy = new Server(undefined, cluster.url);
    proxy.settings = {};
    const chat = await Chat.create(proxy);
    const stream = await chat.stream('send_message', { content: 'count' });
    await stream.until((event) => event.type === 'text');
    const killed = holder(cluster, chat.id);
    process.kill(cluster.pids.get(killed), 'SIGKILL');
    assert.equal(await stream.ended, false, 'the stream is cut');
    // What a browser's EventSource does.
    const again = await patiently(() => chat.follow({ last: stream.events.at(-1).seq }));
    await again.reaches('Failed');
    const events = [...stream.events, ...again.events];
    again.close();
    assert.deepEqual(events.filter((event) => event.type === 'gap'), []);
    const left = await chat.state();
    assert.equal(left.state_detail.error.kind, 'interrupted');
    // The text of all events begins with what is stored: the end of a stream is written a moment later than told.
    const [asked, answered = ''] = script(left); // perhaps nothing is stored yet
    assert.equal(asked, 'user: count');
    assert.ok(said(events).startsWith(answered.replace('assistant!: ', '')), answered);
    const after = await chat.send('Who are you?');
    assert.equal(after.state, 'Idle');
    assert.match(script(after).at(-1), /^assistant: I am the demo model/);
    for (const url of cluster.pids.keys()) {
      if (url === killed) continue;
      const seen = await new Chat(new Server(undefined, url), chat.id).state();
      assert.deepEqual(script(seen), script(after));
    }
  });
});
