// A database of the scratch PostgreSQL that tools/run-tests.mjs starts, for one test.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { atEnd } from './helper.mjs';

export const missing = process.env.QUIPU_TEST_POSTGRES ? false : 'there is no PostgreSQL (tools/run-tests.mjs starts it)';

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

// Its URL, a function that runs SQL in it, and close() and open(): nobody can connect in between.
export function newDatabase(t) {
  const name = `one${process.pid}_${made++}`;
  command('createdb', [name]);
  atEnd(t, () => command('dropdb', ['--force', '--if-exists', name]));
  return {
    url: `postgres://quipu@/${name}?host=${process.env.QUIPU_TEST_POSTGRES}`,
    sql: (text) => command('psql', ['-At', '-d', name, '-c', text]).trim(),
    close() {
      command('psql', ['-d', 'postgres', '-c', `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`]);
      command('psql', ['-d', 'postgres', '-c', `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`]);
    },
    open: () => command('psql', ['-d', 'postgres', '-c', `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`]),
  };
}
