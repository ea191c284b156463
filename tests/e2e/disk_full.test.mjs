// A disk that is full: lists and searches are answered all the same, and nothing kills the server. On an ext4 file
// system of its own, with small blocks, so that a file that is mapped into memory can have holes.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { atEnd, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

function mount(t) {
  const dir = tempDir(t);
  const image = path.join(dir, 'image');
  const place = path.join(dir, 'mnt');
  fs.mkdirSync(place);
  fs.writeFileSync(image, '');
  fs.truncateSync(image, 80 << 20);
  execFileSync('mkfs.ext4', ['-q', '-b', '1024', '-m', '0', image]);
  if (spawnSync('mount', ['-o', 'loop', image, place]).status) return null;
  atEnd(t, () => execFileSync('umount', ['-l', place]));
  return place;
}

const free = (place) => {
  const { bavail, bsize } = fs.statfsSync(place);
  return bavail * bsize;
};

// Leaves so many bytes.
function fill(place, leave) {
  const fd = fs.openSync(path.join(place, 'filler'), 'w');
  let step = 1 << 20;
  while (step >= 1024) {
    const room = free(place) - leave;
    if (room < step) {
      step >>= 1;
      continue;
    }
    try {
      fs.writeSync(fd, Buffer.alloc(step));
      fs.fsyncSync(fd);
    } catch (e) {
      if (e.code !== 'ENOSPC') throw e;
      step >>= 1;
    }
  }
  fs.closeSync(fd);
}

const create = async (server, title) => (await server.expect(201, 'POST', '/v1/contexts', { title })).id;
// Until the server has noticed that there is room again, which it looks for at most once a second.
async function createWhenThereIsRoom(server, title) {
  for (;;) {
    const answer = await server.ask('POST', '/v1/contexts', { title });
    if (answer.status !== 507) return answer.body.id;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
const say = (server, id, text) => server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text });
const titles = async (server) => (await server.expect(200, 'GET', '/v1/contexts')).contexts.map((c) => c.title).sort();
const hits = async (server, word) => (await server.expect(200, 'GET', `/v1/search?q=${word}`)).hits.length;

test('lists and searches are answered on a full disk, and catch up', { skip: process.getuid() !== 0 && 'only root can mount' }, async (t) => {
  for (const room of [100, 79, 75, 71, 40, 8, 0]) {
    await t.test(`${room} kB`, async (t) => {
      const place = mount(t);
      if (!place) return t.skip('nothing can be mounted here');
      const data = path.join(place, 'data');
      const server = await serve(t, { data });
      const first = await create(server, 'one');
      await say(server, first, 'hello knots');
      await create(server, 'two');
      fill(place, room << 10);
      assert.deepEqual(await titles(server), ['one', 'two']);
      assert.equal(await hits(server, 'knots'), 1);
      await server.expect(204, 'DELETE', `/v1/contexts/${first}`);
      assert.deepEqual(await titles(server), ['two']);
      assert.equal(await hits(server, 'knots'), 0);
      fs.rmSync(path.join(place, 'filler'));
      await say(server, await createWhenThereIsRoom(server, 'three'), 'more knots');
      assert.deepEqual(await titles(server), ['three', 'two']);
      assert.equal(await hits(server, 'knots'), 1);
      await server.stop();
      assert.equal(ok(data, ['ls']).split('\n').length, 3);
      fill(place, room << 10);
      assert.equal(ok(data, ['ls']).split('\n').length, 3);
      assert.match(ok(data, ['search', 'knots']), /more/);
    });
  }
});

// A start after kill -9 asks the catalogue for turns that were left in the middle, and SQLite makes its shared memory
// anew then. `listed`: there is a catalogue already.
test('a server starts on a nearly full disk and answers lists', { skip: process.getuid() !== 0 && 'only root can mount' }, async (t) => {
  for (const room of [115, 105, 100, 95, 79, 75, 71, 40, 0])
    for (const listed of [true, false])
      await t.test(`${room} kB, ${listed ? 'with' : 'without'} a catalogue`, async (t) => {
        const place = mount(t);
        if (!place) return t.skip('nothing can be mounted here');
        const data = path.join(place, 'data');
        const killed = await serve(t, { data });
        await say(killed, await create(killed, 'one'), 'hello knots');
        if (listed) assert.deepEqual(await titles(killed), ['one']);
        await create(killed, 'two');
        await killed.stop('SIGKILL');
        fill(place, room << 10);
        const server = await serve(t, { data });
        assert.deepEqual(await titles(server), ['one', 'two']);
        assert.equal(await hits(server, 'knots'), 1);
        fs.rmSync(path.join(place, 'filler'));
        await createWhenThereIsRoom(server, 'three');
        assert.deepEqual(await titles(server), ['one', 'three', 'two']);
        await server.stop();
      });
});
