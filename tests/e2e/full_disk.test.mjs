// A disk without a free block, of a real file system: what quipu can do then to make room, and that a
// server becomes writable again by itself. Needs root for the mount, and is skipped without.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { Running, lines, run } from './helper.mjs';
import { serve } from './server.mjs';
import { until } from './turns.mjs';

// A directory on a file system of its own; undefined: it cannot be mounted here.
function mountDisk(t, mib = 48) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-disk-'));
  const image = `${dir}.img`;
  t.after(() => {
    spawnSync('umount', ['-l', dir]);
    fs.rmSync(image, { force: true });
    fs.rmdirSync(dir);
  });
  fs.writeFileSync(image, '');
  fs.truncateSync(image, mib << 20);
  for (const [command, ...args] of [['mkfs.ext4', '-q', '-F', '-m', '0', image], ['mount', '-o', 'loop', image, dir]])
    if (spawnSync(command, args).status !== 0) return undefined;
  return dir;
}

// Takes every block that is left.
function fill(dir) {
  const fd = fs.openSync(path.join(dir, 'filler'), 'a');
  for (let piece = Buffer.alloc(1 << 20, 'x'); piece.length > 0; )
    try {
      fs.writeSync(fd, piece);
    } catch (error) {
      assert.equal(error.code, 'ENOSPC');
      piece = piece.subarray(0, Math.floor(piece.length / 2));
    }
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

const post = (server, id, text) => server.ask('POST', `/v1/contexts/${id}/messages`, { role: 'user', text });

// A server that was killed when the disk had not a block left, and what it had acknowledged.
async function killFull(t) {
  const dir = mountDisk(t);
  if (!dir) return undefined;
  const server = await serve(t, { data: path.join(dir, 'data') });
  const contexts = [];
  for (let i = 0; i < 4; i++) contexts.push({ id: (await server.expect(201, 'POST', '/v1/contexts', {})).id, saved: [] });
  let answer;
  for (let i = 0; i === 0 || answer.status === 201; i++) {
    const { id, saved } = contexts[i % contexts.length];
    answer = await post(server, id, 'x'.repeat(300_000));
    if (answer.status === 201) saved.push(answer.body.message_id);
  }
  assert.equal(answer.body.error.code, 'FULL', answer.text);
  fill(dir);
  assert.equal((await post(server, contexts[0].id, 'x'.repeat(9000))).body.error.code, 'FULL');
  await server.refuses(503, 'FULL', /the disk is full/, 'GET', '/readyz');
  await server.stop('SIGKILL');
  return { dir, data: server.data, contexts };
}

// It succeeds, and may warn of the disk.
function works(data, args) {
  const result = run(data, args);
  assert.equal(result.status, 0, `quipu ${args.join(' ')}\n${result.stdout}${result.stderr}`);
  assert.match(result.stderr, /^(quipu: warning: the disk is [^\n]*\n)*$/);
  return result.stdout;
}
const ids = (data, id) => lines(works(data, ['show', id, '--ids']));

const expectAll = (data, contexts) => {
  for (const { id, saved } of contexts) assert.deepEqual(ids(data, id).slice(0, saved.length), saved);
};

for (const [name, command] of Object.entries({ rm: (id) => ['rm', id, '--yes'], compress: (id) => ['compress', id], gc: () => ['gc'] }))
  test(`after kill -9 on a full disk '${name}' works`, async (t) => {
    const left = await killFull(t);
    if (!left) return t.skip('a file system cannot be mounted here');
    const { data, contexts } = left;
    works(data, command(contexts[0].id));
    expectAll(data, name === 'rm' ? contexts.slice(1) : contexts);
    works(data, ['check']);
  });

test('after kill -9 on a full disk a server reads, deletes, and takes writes again by itself', async (t) => {
  const left = await killFull(t);
  if (!left) return t.skip('a file system cannot be mounted here');
  const { dir, data, contexts } = left;
  expectAll(data, contexts); // the first command finishes what the kill cut short, and frees a part of the journal
  fill(dir);
  const server = await serve(t, { data });
  await server.process.logged(/level=error feature=reserve msg="the disk is (nearly )?full/);
  await server.refuses(503, 'FULL', /the disk is full: delete contexts or other files/, 'GET', '/readyz');
  assert.equal((await server.expect(200, 'GET', `/v1/contexts/${contexts[1].id}/messages`)).messages.length > 0, true);
  assert.equal((await post(server, contexts[1].id, 'x'.repeat(9000))).body.error.code, 'FULL');
  await server.expect(204, 'DELETE', `/v1/contexts/${contexts[0].id}`);
  await until(async () => (await server.ask('GET', '/readyz')).status === 200);
  const { body } = await post(server, contexts[1].id, 'x'.repeat(9000));
  assert.ok(body.message_id, JSON.stringify(body));
  await server.process.logged(/the disk has free space again/);
  await server.stop();
  expectAll(data, contexts.slice(1));
  assert.equal(ids(data, contexts[1].id).at(-1), body.message_id);
  assert.ok(fs.existsSync(path.join(data, 'journal/reserve')));
  works(data, ['check']);
});

test('a server that needs room to start waits for it', async (t) => {
  const dir = mountDisk(t, 32);
  if (!dir) return t.skip('a file system cannot be mounted here');
  fill(dir);
  const waiting = new Running(t, path.join(dir, 'data'), ['serve', '--listen', '127.0.0.1:0']);
  await waiting.logged(/the disk is full; the server starts when there is space/);
  fs.rmSync(path.join(dir, 'filler'));
  assert.match(await waiting.next(), /^quipu serves http/);
  waiting.child.kill('SIGTERM');
  assert.equal((await waiting.ended).status, 0);
  works(path.join(dir, 'data'), ['check']);
});
