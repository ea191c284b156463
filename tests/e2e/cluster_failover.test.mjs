// The primary PostgreSQL is lost under load, and its synchronous standby is promoted: nothing that was acknowledged is lost.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Cluster, missing, Postgres } from './cluster.mjs';
import { ok } from './helper.mjs';
import { findProblems } from './history.mjs';
import { Load } from './load.mjs';
import { until } from './turns.mjs';

test('a synchronous standby is promoted: nothing acknowledged is lost', { skip: missing }, async (t) => {
  const primary = await Postgres.start(t);
  const standby = await Postgres.start(t, '--standby-of', primary.dir);
  primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
  primary.sql('SELECT pg_reload_conf()');
  await until(() => primary.sql('SELECT sync_state FROM pg_stat_replication') === 'sync');
  const store = `postgres://quipu@/postgres?host=${primary.dir},${standby.dir}&target_session_attrs=read-write`;
  const cluster = await Cluster.start(t, 2, { store });
  const load = new Load(cluster.servers, 1);
  await load.start({ contexts: 6, clients: 60 });
  await load.progress(500);
  const before = load.acks;
  process.kill(primary.pid, 'SIGKILL');
  // Until the standby takes over nothing can be acknowledged, and the servers say why they are not ready.
  await until(async () => (await cluster.servers[0].ask('GET', '/readyz')).status === 503);
  standby.sql('SELECT pg_promote()');
  await load.progress(500);
  const history = await load.finish();
  t.diagnostic(`${before} acknowledged before; ${load.summary()}`);
  assert.deepEqual(findProblems(history).slice(0, 20), []);
  // The operations that went on may all have reached one server; the other one may still be connecting.
  for (const server of cluster.servers) await until(async () => (await server.ask('GET', '/readyz')).status === 200);
  assert.match(ok(undefined, ['check', '--store', store]), /no problems/);
});
