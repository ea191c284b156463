// Servers that reach PostgreSQL through pgbouncer, which is killed and started again. Transaction mode needs pgbouncer 1.21;
// QUIPU_TEST_PGBOUNCER names a program that is newer than Debian's.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { Cluster, missing } from './cluster.mjs';
import { atEnd, ok } from './helper.mjs';
import { findProblems } from './history.mjs';
import { Load } from './load.mjs';
import { until } from './turns.mjs';

const program = process.env.QUIPU_TEST_PGBOUNCER ?? ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find(fs.existsSync);
const version = program && /PgBouncer 1\.(\d+)/.exec(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout)?.[1];
const noSession = missing || (program ? false : 'pgbouncer is not installed');
const noTransactions = noSession || (version >= 21 ? false : `pgbouncer 1.${version} has no prepared statements in transaction mode`);

// It refuses to run as root.
const nobody = process.getuid() === 0 ? { uid: Number(spawnSync('id', ['-u', 'nobody'], { encoding: 'utf8' }).stdout), gid: Number(spawnSync('id', ['-g', 'nobody'], { encoding: 'utf8' }).stdout) } : {};

class Bouncer {
  constructor(t, mode) {
    this.dir = fs.mkdtempSync('/tmp/quipu-bouncer-');
    fs.chmodSync(this.dir, 0o777);
    fs.writeFileSync(path.join(this.dir, 'users'), '"quipu" ""\n');
    const settings = { unix_socket_dir: this.dir, listen_addr: '', listen_port: 5432, auth_type: 'trust', auth_file: path.join(this.dir, 'users'), pool_mode: mode, default_pool_size: 40, max_client_conn: 200, ...(mode === 'transaction' ? { max_prepared_statements: 200 } : {}) };
    fs.writeFileSync(path.join(this.dir, 'ini'), `[databases]\n* = host=${process.env.QUIPU_TEST_POSTGRES}\n[pgbouncer]\n${Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`).join('')}`);
    atEnd(t, async () => {
      await this.kill();
      fs.rmSync(this.dir, { recursive: true, force: true });
    });
  }

  async start() {
    this.child = spawn(program, [path.join(this.dir, 'ini')], { stdio: 'ignore', ...nobody });
    this.ended = new Promise((resolve) => this.child.on('close', resolve));
    await until(() => fs.existsSync(path.join(this.dir, '.s.PGSQL.5432')));
  }

  kill() {
    this.child?.kill('SIGKILL');
    return this.ended;
  }
}

async function loseNothing(t, mode) {
  const bouncer = new Bouncer(t, mode);
  await bouncer.start();
  const cluster = await Cluster.start(t, 0, { each: () => ({ data: `postgres://quipu@/${cluster.database.name}?host=${bouncer.dir}` }) });
  const load = new Load([await cluster.add(), await cluster.add()], 1);
  await load.start({ contexts: 6, clients: 40 });
  await load.progress(300);
  await bouncer.kill();
  fs.rmSync(path.join(bouncer.dir, '.s.PGSQL.5432'), { force: true });
  await bouncer.start();
  await load.progress(300);
  const history = await load.finish();
  t.diagnostic(load.summary());
  assert.deepEqual(findProblems(history).slice(0, 20), []);
  assert.match(ok(undefined, ['check', '--store', cluster.options.data]), /no problems/);
}

test('session mode: nothing is lost, also when pgbouncer dies', { skip: noSession }, (t) => loseNothing(t, 'session'));
test('transaction mode: nothing is lost, also when pgbouncer dies', { skip: noTransactions }, (t) => loseNothing(t, 'transaction'));
