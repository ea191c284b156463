// Databases of the scratch PostgreSQL that tools/run-tests.mjs starts, and several servers on one of them, with a model and a
// workspace that they share.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { atEnd, tempDir } from './helper.mjs';
import { serveTurns, until } from './turns.mjs';

export const missing = process.env.QUIPU_TEST_POSTGRES ? false : 'there is no PostgreSQL (tools/run-tests.mjs starts it)';
export const leaseSeconds = 2;

function programs() {
  const base = '/usr/lib/postgresql';
  const versions = fs.existsSync(base) ? fs.readdirSync(base).sort((a, b) => Number(b) - Number(a)) : [];
  return [...versions.map((version) => `${base}/${version}/bin`), process.env.PATH].join(':');
}

function command(name, args, host = process.env.QUIPU_TEST_POSTGRES) {
  const end = spawnSync(name, ['-h', host, '-U', 'quipu', ...args], { encoding: 'utf8', env: { ...process.env, PATH: programs() } });
  assert.equal(end.status, 0, `${name}: ${end.error ?? end.stderr}`);
  return end.stdout;
}

// A PostgreSQL server of the test's own; `args` of tools/scratch-postgres. `pid` is its postmaster.
export class Postgres {
  static async start(t, ...args) {
    const server = new Postgres();
    server.args = args;
    server.child = spawn('tools/scratch-postgres', args, { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
    server.ended = new Promise((resolve) => server.child.on('close', resolve));
    atEnd(t, () => server.stop());
    const line = await Promise.race([new Promise((resolve) => server.child.stdout.setEncoding('utf8').once('data', resolve)), server.ended]);
    const found = /^(\S+) (\d+)\n$/.exec(line);
    assert.ok(found, `tools/scratch-postgres: ${line}`);
    [server.dir, server.pid] = [found[1], Number(found[2])];
    return server;
  }

  sql(text) {
    return command('psql', ['-At', '-d', 'postgres', '-c', text], this.dir).trim();
  }

  // Whether its postmaster runs.
  get runs() {
    const status = `/proc/${this.pid}/stat`;
    return fs.existsSync(status) && !/\) Z /.test(fs.readFileSync(status, 'utf8'));
  }

  get answers() {
    try {
      return this.sql('SELECT 1') === '1';
    } catch {
      return false;
    }
  }

  // On the data of one that has stopped and was started with --keep.
  async startAgain(t) {
    await this.stop();
    return Postgres.start(t, ...this.args);
  }

  stop() {
    this.child.stdin.end();
    return this.ended;
  }
}

let made = 0;

// A database for one test: its URL, a function that runs SQL in it, and close() and open(): nobody can connect in between.
export function newDatabase(t) {
  const name = `test${process.pid}_${made++}`;
  const alter = (text) => command('psql', ['-d', 'postgres', '-c', text]);
  command('createdb', [name]);
  atEnd(t, () => command('dropdb', ['--force', '--if-exists', name]));
  return {
    name,
    url: `postgres://quipu@/${name}?host=${process.env.QUIPU_TEST_POSTGRES}`,
    sql: (text) => command('psql', ['-At', '-d', name, '-c', text]).trim(),
    close() {
      alter(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      alter(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    },
    open: () => alter(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`),
  };
}

export class Cluster {
  // `count` servers; `lease` in seconds; `store`: where, instead of in a new database of the server of all tests;
  // `each`: more options of the server with a number; `options` as for serveTurns.
  static async start(t, count = 3, { lease = leaseSeconds, store, each = () => ({}), ...options } = {}) {
    const cluster = new Cluster();
    cluster.t = t;
    cluster.each = each;
    cluster.count = 0;
    cluster.database = store ? undefined : newDatabase(t);
    cluster.options = {
      dir: tempDir(t),
      ...options,
      data: store ?? cluster.database.url,
      args: ['--lease', String(lease), '--stop-timeout', '1', ...(options.args ?? [])],
    };
    cluster.servers = await Promise.all(Array.from({ length: count }, () => cluster.add()));
    return cluster;
  }

  add() {
    const more = this.each(this.count++);
    return serveTurns(this.t, { ...this.options, ...more, env: { ...this.options.env, ...more.env } });
  }

  sql(text) {
    return this.database.sql(text);
  }

  // A transaction with this statement, which gives a row, until end(). With -q the row is all that is printed: `ready` is
  // not the word BEGIN.
  hold(text) {
    const child = spawn('psql', ['-h', process.env.QUIPU_TEST_POSTGRES, '-U', 'quipu', '-qAt', '-d', this.database.name], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, PATH: programs() } });
    const ready = new Promise((resolve) => child.stdout.once('data', resolve));
    child.stdin.write(`BEGIN;\n${text};\n`);
    atEnd(this.t, () => child.kill('SIGKILL'));
    return { ready, end: () => child.stdin.end('COMMIT;\n') };
  }
}

// A request for a context whose server is gone waits for the end of the lease, and some time more. On a busy machine that
// may be too short: then the answer says that one should try again.
export async function patiently(ask) {
  let answer;
  await until(async () => (answer = await ask()).status !== 503, () => answer.text);
  return answer;
}

// The value of a metric of a server.
export async function metric(server, name) {
  const { text } = await server.ask('GET', '/metrics');
  const found = new RegExp(`^${name} (\\S+)$`, 'm').exec(text);
  assert.ok(found, `${name} in\n${text}`);
  return Number(found[1]);
}

