// `quipu backup` and `quipu restore` as a user sees them, beside a running server.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { add, fails, ids, makeContext, ok, tempDir } from './helper.mjs';
import { serve } from './server.mjs';

test('a backup beside a running server has what was acknowledged, and can be restored', async (t) => {
  const server = await serve(t);
  const dir = tempDir(t);
  const backups = path.join(dir, 'backups');
  const context = await server.expect(201, 'POST', '/v1/contexts', { title: 'kept' });
  const id = context.id ?? context.context?.id;
  await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'user', text: 'acknowledged before' });
  const report = JSON.parse(ok(server.data, ['backup', backups, '--json']));
  assert.equal(report.problems, 0);
  assert.ok(report.files >= 5);
  const backup = path.join(backups, report.name);
  assert.equal(report.path, backup);
  assert.deepEqual(fs.readdirSync(backup).sort(), ['backup.json', 'data', 'manifest.b2']);
  const sums = spawnSync('b2sum', ['-l', '128', '--quiet', '-c', 'manifest.b2'], { cwd: backup, encoding: 'utf8' });
  assert.equal(sums.status, 0, sums.stderr);
  fails(server.data, ['restore', backups, server.data], 'EXISTS', /is not empty/);
  fails(server.data, ['restore', backups, server.data, '--replace'], 'BUSY', /server/);
  const restored = path.join(dir, 'restored');
  assert.match(ok(server.data, ['restore', backups, restored]), /^restored 20.* files, /);
  assert.match(ok(restored, ['show', id]), /acknowledged before/);
  assert.match(ok(restored, ['check']), /no problems/);
});

test('backups share what did not change, and --keep deletes the oldest', (t) => {
  const { data, ctx } = makeContext(t);
  const backups = path.join(tempDir(t), 'backups');
  for (let i = 0; i < 4; i++) {
    add(data, ctx, `message ${i}`);
    const report = JSON.parse(ok(data, ['backup', backups, '--keep', '2', '--json']));
    assert.ok(report.linked >= i, 'the messages of the backup before');
  }
  assert.equal(fs.readdirSync(backups).length, 2);
  const restored = path.join(tempDir(t), 'restored');
  ok(data, ['restore', backups, restored]);
  assert.equal(ids(restored, ctx).length, 4);
  fails(data, ['backup', backups, '--keep', '0'], 'INVALID', /--keep must be a whole number from 1/);
  fails(data, ['restore', restored, path.join(backups, 'x')], 'NOTFOUND', /is not a backup and contains no backup/);
});

test('an interrupted backup is never restored, and the next one removes it', (t) => {
  const { data, ctx } = makeContext(t);
  const backups = path.join(tempDir(t), 'backups');
  add(data, ctx, 'first');
  const { name } = JSON.parse(ok(data, ['backup', backups, '--json']));
  const partial = path.join(backups, '.partial-9000-01-01T00-00-00.000Z');
  fs.cpSync(path.join(backups, name), partial, { recursive: true });
  const restored = path.join(tempDir(t), 'restored');
  assert.match(ok(data, ['restore', backups, restored]), new RegExp(name));
  ok(data, ['backup', backups]);
  assert.ok(!fs.existsSync(partial));
});
