// What a crash leaves is finished without more room than there is, and one context that cannot be
// written stays alone with that. Both need root: for a small file system of their own, and for a
// server that runs as somebody else.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { atEnd, bin, fails, ids, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

const isRoot = process.getuid() === 0;
const nobody = { uid: 65534, gid: 65534 };
const nobodyCan = isRoot && spawnSync(bin, ['--version'], nobody).status === 0;

const say = (server, ctx, text) => server.ask('POST', `/v1/contexts/${ctx}/messages`, { role: 'user', text });
const make = async (server) => (await server.expect(201, 'POST', '/v1/contexts', {})).id;

// A file system with few inodes; undefined where none can be mounted.
function smallDisk(t) {
  const dir = tempDir(t);
  const image = path.join(dir, 'image');
  const disk = path.join(dir, 'disk');
  fs.writeFileSync(image, '');
  fs.truncateSync(image, 96 << 20);
  fs.mkdirSync(disk);
  if (spawnSync('mkfs.ext4', ['-q', '-F', '-N', '256', '-m', '0', image]).status !== 0) return undefined;
  if (spawnSync('mount', ['-o', 'loop', image, disk]).status !== 0) return undefined;
  atEnd(t, () => spawnSync('umount', [disk]));
  return disk;
}

test('after a crash on a disk without inodes everything is there', { skip: !isRoot && 'needs root' }, async (t) => {
  const disk = smallDisk(t);
  if (!disk) return t.skip('no loop device');
  const data = path.join(disk, 'data');
  const server = await serve(t, { data });
  const [a, b] = [await make(server), await make(server)];
  const said = [];
  const more = async (n) => {
    for (let i = 0; i < n; i++) {
      let answer = await say(server, a, `message ${said.length}`);
      while (answer.body?.error?.code === 'FULL') { // until the server has seen that there is room
        await server.ask('GET', '/readyz');
        answer = await say(server, a, `message ${said.length}`);
      }
      assert.equal(answer.status, 201, answer.text);
      said.push(answer.body.message_id);
    }
  };
  await more(30);
  await server.expect(201, 'POST', `/v1/contexts/${a}/branches`, { name: 'side' });
  let answer;
  do answer = await say(server, b, 'filler');
  while (answer.status === 201);
  assert.equal(answer.body.error.code, 'FULL');
  await server.expect(204, 'DELETE', `/v1/contexts/${b}`);
  await more(60);
  await server.expect(200, 'PATCH', `/v1/contexts/${a}`, { title: 'v59' });
  await server.expect(204, 'DELETE', `/v1/contexts/${a}/branches/side`);
  server.process.child.kill('SIGKILL');
  await server.process.ended;
  for (let i = 0; ; i++) {
    try {
      fs.writeFileSync(path.join(disk, `theirs-${i}`), '');
    } catch (error) {
      assert.equal(error.code, 'ENOSPC');
      break;
    }
  }
  assert.deepEqual(ids(data, a), said);
  assert.match(ok(data, ['ls']), /v59/);
  assert.doesNotMatch(ok(data, ['ls', '--json']), new RegExp(b));
  assert.doesNotMatch(ok(data, ['branch', a]), /side/);
  assert.match(ok(data, ['check']), /no problems/);
  return undefined;
});

test('one context of somebody else stops nobody', { skip: !nobodyCan && 'needs root, and a build that others may run' }, async (t) => {
  const data = path.join(tempDir(t), 'data');
  fs.mkdirSync(data);
  for (let dir = path.dirname(data); path.basename(dir).match(/quipu|e2e/); dir = path.dirname(dir)) fs.chmodSync(dir, 0o711);
  fs.chownSync(data, nobody.uid, nobody.gid);
  let server = await serve(t, { data, as: nobody });
  const [a, b] = [await make(server), await make(server)];
  const owner = (uid) => assert.equal(spawnSync('chown', ['-R', `${uid}:${uid}`, path.join(data, 'contexts', a)]).status, 0);
  const kept = new RegExp(`${a}.*Permission denied`);
  assert.equal((await say(server, a, 'one')).status, 201);
  assert.equal((await say(server, b, 'one')).status, 201);
  for (let i = 0; i < 40; i++) await make(server); // what the server keeps open is of others now
  owner(0);
  const first = await say(server, a, 'two');
  assert.equal(first.status, 500, first.text);
  assert.match(first.body.error.message, kept);
  assert.equal((await say(server, b, 'two')).status, 201);
  await server.expect(200, 'GET', '/readyz');
  await server.expect(200, 'GET', '/v1/contexts?limit=100');

  server.process.child.kill('SIGKILL');
  await server.process.ended;
  server = await serve(t, { data, as: nobody });
  await server.process.logged(kept);
  const refused = await server.ask('GET', `/v1/contexts/${a}`);
  assert.ok(refused.status === 403 || refused.status === 500, refused.text);
  assert.match(refused.body.error.message, kept);
  assert.equal((await say(server, b, 'three')).status, 201);
  fails(data, ['show', a], 'IO', /could not be written to its files yet/);

  owner(nobody.uid);
  assert.equal((await say(server, a, 'three')).status, 201);
  const { messages } = await server.expect(200, 'GET', `/v1/contexts/${a}/messages`);
  assert.deepEqual(
    messages.map((message) => message.text),
    ['one', 'two', 'three'],
  );
  server.process.child.kill('SIGTERM');
  assert.equal((await server.process.ended).status, 0);
  assert.match(ok(data, ['check']), /no problems/);
});
