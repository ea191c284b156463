// Several servers on one scratch PostgreSQL, with a model and a workspace that they share.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { atEnd, tempDir } from './helper.mjs';
import { serveTurns } from './turns.mjs';

export const missing = process.env.QUIPU_TEST_POSTGRES ? false : 'there is no PostgreSQL (tools/run-tests.mjs starts it)';
export const leaseSeconds = 2;

function programs() {
  const base = '/usr/lib/postgresql';
  const versions = fs.existsSync(base) ? fs.readdirSync(base).sort((a, b) => Number(b) - Number(a)) : [];
  return [...versions.map((version) => `${base}/${version}/bin`), process.env.PATH].join(':');
}

function command(name, args) {
  const end = spawnSync(name, ['-h', process.env.QUIPU_TEST_POSTGRES, '-U', 'quipu', ...args], { encoding: 'utf8', env: { ...process.env, PATH: programs() } });
  assert.equal(end.status, 0, `${name}: ${end.error ?? end.stderr}`);
  return end.stdout;
}

let made = 0;

export class Cluster {
  // `count` servers; `lease` in seconds; `options` as for serveTurns.
  static async start(t, count = 3, { lease = leaseSeconds, ...options } = {}) {
    const cluster = new Cluster();
    cluster.t = t;
    cluster.name = `cluster${process.pid}_${made++}`;
    command('createdb', [cluster.name]);
    cluster.options = {
      dir: tempDir(t),
      ...options,
      data: `postgres://quipu@/${cluster.name}?host=${process.env.QUIPU_TEST_POSTGRES}`,
      args: ['--lease', String(lease), '--stop-timeout', '1', ...(options.args ?? [])],
    };
    atEnd(t, () => command('dropdb', ['--force', '--if-exists', cluster.name]));
    cluster.servers = await Promise.all(Array.from({ length: count }, () => serveTurns(t, cluster.options)));
    return cluster;
  }

  add() {
    return serveTurns(this.t, this.options);
  }

  sql(text) {
    return command('psql', ['-At', '-d', this.name, '-c', text]).trim();
  }
}

// The value of a metric of a server.
export async function metric(server, name) {
  const { text } = await server.ask('GET', '/metrics');
  const found = new RegExp(`^${name} (\\S+)$`, 'm').exec(text);
  assert.ok(found, `${name} in\n${text}`);
  return Number(found[1]);
}

