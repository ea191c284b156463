/* pg_statements.h - every SQL statement of the driver, except those of the migrations.
 *
 * Values pass as parameters only. A guard is a statement that must change exactly the rows that it
 * names: it divides by zero otherwise, so that the whole transaction fails with SQLSTATE 22012,
 * without an answer that would have to be awaited in the middle of a pipeline.
 *
 * `context` is first in every key. `scope` is the context of a plain file, or for other files a
 * hash of their directory (pg_file.c). */
#ifndef QP_STORE_POSTGRES_PG_STATEMENTS_H
#define QP_STORE_POSTGRES_PG_STATEMENTS_H

/* Whether a lease can be taken: nobody has it, or its server is gone. A server that has joined
 * others is there as long as its row in quipu.servers; any other writer until its lease expires. */
#define QP__PG_FREE                                         \
  "(l.holder IS NULL OR (l.expires < now() AND NOT EXISTS " \
  "(SELECT 1 FROM quipu.servers s WHERE s.server = l.holder)))"

/* X(name, text) */
#define QP__PG_STATEMENTS(X)                                                                       \
  /* ---- transactions ---- */                                                                     \
  X(BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED")                                                 \
  X(BEGIN_SNAPSHOT, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")                             \
  X(COMMIT, "COMMIT")                                                                              \
  X(ROLLBACK, "ROLLBACK")                                                                          \
  /* Guard. This batch is new, and nobody has declared it lost. */                                 \
  X(BATCH, "WITH w AS (UPDATE quipu.writers SET batch = $2, seen = now() WHERE writer = $1 "       \
           "AND barrier <= $2 AND batch < $2 RETURNING 1) SELECT 1 / count(*) FROM w")             \
  /* What became of a batch: it is stored if its number comes back, otherwise never. */            \
  X(DECIDE,                                                                                        \
    "UPDATE quipu.writers SET barrier = greatest(barrier, $2::int8 + 1) WHERE writer = $1 "        \
    "RETURNING batch")                                                                             \
  X(WRITER_ADD,                                                                                    \
    "INSERT INTO quipu.writers (writer, batch, barrier, seen) VALUES ($1, 0, $2, now()) "          \
    "ON CONFLICT (writer) DO NOTHING")                                                             \
  X(WRITER_DROP, "DELETE FROM quipu.writers WHERE writer = $1")                                    \
  X(WRITERS_OLD, "DELETE FROM quipu.writers WHERE seen < now() - interval '7 days'")               \
  /* ---- leases (pg_lease.c) ---- */                                                              \
  /* Guard. This server has the leases of the contexts, or takes those that nobody has, */         \
  /* and the contexts are as this server knows them. */                                            \
  X(LEASE,                                                                                         \
    "WITH w AS (SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::int8[], $6::bool[], " \
    "$9::int8[]) AS w (context, fence, version, next, take, run)), "                               \
    "held AS (UPDATE quipu.leases l SET holder = $1, fence = l.fence + w.take::int, "              \
    "version = w.next, expires = now() + $7::int8 * interval '1 millisecond', "                    \
    "running = CASE w.run WHEN 0 THEN l.running ELSE w.run = 2 END "                               \
    "FROM w WHERE l.context = w.context AND l.fence = w.fence AND l.version = w.version "          \
    "AND (l.holder = $1 OR (w.take AND " QP__PG_FREE ")) RETURNING 1) "                            \
    "SELECT 1 / (count(*) = $8::int8)::int FROM held")                                             \
  X(LEASE_READ,                                                                                    \
    "SELECT l.fence, l.version, coalesce(l.holder = $2, false), "                                  \
    "coalesce(l.holder <> $2, false) AND NOT " QP__PG_FREE ", "                                    \
    "coalesce((SELECT s.address FROM quipu.servers s WHERE s.server = l.holder), ''), "            \
    "l.holder IS NOT NULL, l.running FROM quipu.leases l WHERE l.context = $1")                    \
  X(LEASES_RELEASE, "UPDATE quipu.leases SET holder = NULL, expires = now() WHERE holder = $1")    \
  /* Takes a lease that nobody has, before the context is loaded. */                               \
  X(LEASE_TAKE, "UPDATE quipu.leases l SET holder = $2, fence = l.fence + 1, expires = now() "     \
                "WHERE l.context = $1 AND " QP__PG_FREE " RETURNING 1")                            \
  /* The same for what is no context, and has no row at first. */                                  \
  X(LEASE_NAME, "INSERT INTO quipu.leases (context, holder, fence, version, expires) "             \
                "VALUES ($1, NULL, 1, 1, now()) ON CONFLICT (context) DO NOTHING")                 \
  X(LEASE_GIVE,                                                                                    \
    "UPDATE quipu.leases SET holder = NULL, expires = now() WHERE context = $1 AND holder = $2")   \
  /* ---- servers (pg_member.c) ---- */                                                            \
  X(SERVER_ADD, "INSERT INTO quipu.servers (server, address, expires) "                            \
                "VALUES ($1, $2, now() + $3::int8 * interval '1 millisecond')")                    \
  X(SERVER_EXTEND, "UPDATE quipu.servers SET address = $2, expires = now() + $3::int8 * interval " \
                   "'1 millisecond' "                                                              \
                   "WHERE server = $1 RETURNING 1")                                                \
  X(SERVER_DROP, "DELETE FROM quipu.servers WHERE server = $1")                                    \
  X(SERVERS_BURY, "DELETE FROM quipu.servers WHERE expires < now() RETURNING server")              \
  /* Guard. No other server has declared this one gone. */                                         \
  X(SERVER_STAYS, "SELECT 1 / count(*) FROM quipu.servers WHERE server = $1")                      \
  X(SERVER_ALIVE, "SELECT 1 FROM quipu.servers WHERE address = $1 AND expires >= now()")           \
  X(ORPHANS, "SELECT l.context FROM quipu.leases l WHERE l.running AND " QP__PG_FREE " LIMIT 200") \
  /* A role that is neither superuser nor in pg_monitor sees rows without a state. A replica that */ \
  /* has received everything reports no lag. */                                                    \
  X(REPLICAS,                                                                                      \
    "SELECT count(*), coalesce(max(extract(epoch FROM replay_lag) * 1000), 0)::int8 "              \
    "FROM pg_catalog.pg_stat_replication WHERE state IS NOT NULL")                                 \
  /* ---- contexts ---- */                                                                         \
  X(CONTEXTS,                                                                                      \
    "SELECT context FROM quipu.contexts WHERE context > $1 ORDER BY context LIMIT 10000")          \
  X(CONTEXT,                                                                                       \
    "SELECT c.meta, l.fence, l.version, coalesce(l.holder = $2, false) FROM quipu.contexts c "     \
    "JOIN quipu.leases l ON l.context = c.context WHERE c.context = $1")                           \
  X(BRANCHES, "SELECT branch, head FROM quipu.branches WHERE context = $1")                        \
  X(MESSAGES, "SELECT id, parent, hash, at, size, tokens, kind, dir, number "                      \
              "FROM quipu.messages "                                                               \
              "WHERE context = $1 ORDER BY number")                                                \
  X(MARKS, "SELECT id, status, trashed FROM quipu.marks WHERE context = $1")                       \
  X(CONTEXT_ADD, "INSERT INTO quipu.contexts (context, meta) VALUES ($1, $2)")                     \
  X(LEASE_ADD, "INSERT INTO quipu.leases (context, holder, fence, version, expires) "              \
               "VALUES ($1, $2, 1, 1, now() + $3::int8 * interval '1 millisecond')")               \
  X(CONTEXT_DROP, "WITH d AS (DELETE FROM quipu.contexts WHERE context = $1 RETURNING 1) "         \
                  "SELECT 1 / count(*) FROM d")                                                    \
  /* Guard. This server has the lease; one that writes alone ($3) may also find it free. */        \
  X(LEASE_DROP, "WITH d AS (DELETE FROM quipu.leases l WHERE l.context = $1 AND (l.holder = $2 "   \
                "OR ($3::int2 = 1 AND " QP__PG_FREE ")) RETURNING 1) SELECT 1 / count(*) FROM d")      \
  X(BRANCHES_DROP, "DELETE FROM quipu.branches WHERE context = $1")                                \
  X(MESSAGES_DROP, "DELETE FROM quipu.messages WHERE context = $1")                                \
  X(CONTENTS_DROP, "DELETE FROM quipu.contents WHERE context = $1")                                \
  X(MARKS_DROP, "DELETE FROM quipu.marks WHERE context = $1")                                      \
  X(FILES_DROP, "DELETE FROM quipu.files WHERE scope = $1")                                        \
  X(CHUNKS_DROP, "DELETE FROM quipu.chunks WHERE scope = $1")                                      \
  /* ---- what a commit changes ---- */                                                            \
  X(META_PUT, "UPDATE quipu.contexts c SET meta = w.meta FROM unnest($1::uuid[], $2::bytea[]) "    \
              "AS w (context, meta) WHERE c.context = w.context")                                  \
  X(MESSAGES_ADD,                                                                                  \
    "INSERT INTO quipu.messages "                                                                  \
    "(context, number, id, parent, hash, at, size, tokens, kind, dir) "                            \
    "SELECT * FROM unnest($1::uuid[], $2::int8[], $3::uuid[], $4::uuid[], $5::bytea[], "           \
    "$6::int8[], $7::int4[], $8::int4[], $9::int2[], $10::text[])")                                \
  X(CONTENTS_ADD, "INSERT INTO quipu.contents (context, id, bytes) "                               \
                  "SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[])")                     \
  /* The same for pg_build.c, which may send rows again. */                                        \
  X(MESSAGES_BUILD,                                                                                \
    "INSERT INTO quipu.messages "                                                                  \
    "(context, number, id, parent, hash, at, size, tokens, kind, dir) "                            \
    "SELECT * FROM unnest($1::uuid[], $2::int8[], $3::uuid[], $4::uuid[], $5::bytea[], "           \
    "$6::int8[], $7::int4[], $8::int4[], $9::int2[], $10::text[]) ON CONFLICT DO NOTHING")         \
  X(CONTENTS_BUILD,                                                                                \
    "INSERT INTO quipu.contents (context, id, bytes) "                                             \
    "SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) ON CONFLICT DO NOTHING")            \
  X(CONTENT_PUT, "INSERT INTO quipu.contents (context, id, bytes) VALUES ($1, $2, $3) "            \
                 "ON CONFLICT (context, id) DO UPDATE SET bytes = excluded.bytes")                 \
  X(HEADS_PUT, "INSERT INTO quipu.branches (context, branch, head) "                               \
               "SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[]) "                         \
               "ON CONFLICT (context, branch) DO UPDATE SET head = excluded.head")                 \
  X(BRANCH_RENAME, "UPDATE quipu.branches SET branch = $3 WHERE context = $1 AND branch = $2")     \
  X(BRANCH_DROP, "DELETE FROM quipu.branches WHERE context = $1 AND branch = $2")                  \
  X(STATUS_PUT, "INSERT INTO quipu.marks (context, id, status) VALUES ($1, $2, $3) "               \
                "ON CONFLICT (context, id) DO UPDATE SET status = excluded.status")                \
  X(TRASH_PUT,                                                                                     \
    "INSERT INTO quipu.marks (context, id, trashed) VALUES ($1, $2, $3) "                          \
    "ON CONFLICT (context, id) DO UPDATE SET trashed = excluded.trashed, status = NULL")           \
  X(TRASH_DROP, "DELETE FROM quipu.marks WHERE context = $1 AND id = $2")                          \
  X(PURGE_MESSAGES, "DELETE FROM quipu.messages WHERE context = $1 AND id = ANY ($2::uuid[])")     \
  X(PURGE_CONTENTS, "DELETE FROM quipu.contents WHERE context = $1 AND id = ANY ($2::uuid[])")     \
  X(PURGE_MARKS, "DELETE FROM quipu.marks WHERE context = $1 AND id = ANY ($2::uuid[])")           \
  /* ---- plain files ---- */                                                                      \
  /* Guard. The appends begin where the files end. */                                              \
  X(FILES_GROW, "WITH u AS (UPDATE quipu.files f SET size = w.size "                               \
                "FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::int8[]) "                     \
                "AS w (scope, name, start, size) "                                                 \
                "WHERE f.scope = w.scope AND f.name = w.name AND f.size = w.start RETURNING 1) "   \
                "SELECT 1 / (count(*) = $5::int8)::int FROM u")                                    \
  /* Guard. The files are new or empty. */                                                         \
  X(FILES_START, "WITH u AS (INSERT INTO quipu.files AS f (scope, name, size) "                    \
                 "SELECT * FROM unnest($1::uuid[], $2::text[], $3::int8[]) "                       \
                 "ON CONFLICT (scope, name) DO UPDATE SET size = excluded.size WHERE f.size = 0 "  \
                 "RETURNING 1) "                                                                   \
                 "SELECT 1 / (count(*) = $4::int8)::int FROM u")                                   \
  X(FILE_PUT, "INSERT INTO quipu.files (scope, name, size) VALUES ($1, $2, $3) "                   \
              "ON CONFLICT (scope, name) DO UPDATE SET size = excluded.size")                      \
  X(CHUNKS_ADD, "INSERT INTO quipu.chunks (scope, name, start, bytes) "                            \
                "SELECT * FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::bytea[])")           \
  X(CHUNKS_CUT, "DELETE FROM quipu.chunks WHERE scope = $1 AND name = $2 AND start >= $3")         \
  X(CHUNK_CUT, "UPDATE quipu.chunks SET bytes = substring(bytes FROM 1 FOR ($3 - start)::int) "    \
               "WHERE scope = $1 AND name = $2 AND start < $3 AND start + length(bytes) > $3")     \
  X(FILE_DROP, "DELETE FROM quipu.files WHERE scope = $1 AND name = $2")                           \
  X(RENAME_FREE_FILE, "DELETE FROM quipu.files WHERE scope = $3 AND name = $4 "                    \
                      "AND EXISTS (SELECT 1 FROM quipu.files WHERE scope = $1 AND name = $2)")     \
  X(RENAME_FREE_CHUNKS, "DELETE FROM quipu.chunks WHERE scope = $3 AND name = $4 "                 \
                        "AND EXISTS (SELECT 1 FROM quipu.files WHERE scope = $1 AND name = $2)")   \
  X(RENAME_FILE, "UPDATE quipu.files SET scope = $3, name = $4 WHERE scope = $1 AND name = $2")    \
  X(RENAME_CHUNKS, "UPDATE quipu.chunks SET scope = $3, name = $4 "                                \
                   "WHERE scope = $1 AND name = $2")                                               \
  /* ---- reading ---- */                                                                          \
  X(CONTENT, "SELECT bytes FROM quipu.contents WHERE context = $1 AND id = $2")                    \
  X(CONTENTS, "SELECT id, bytes FROM quipu.contents "                                              \
              "WHERE context = $1 AND id = ANY ($2::uuid[])")                                      \
  X(FILE_SIZE, "SELECT size FROM quipu.files WHERE scope = $1 AND name = $2")                      \
  X(FILE_READ, "SELECT c.start, c.bytes FROM quipu.files f LEFT JOIN quipu.chunks c "              \
               "ON c.scope = f.scope AND c.name = f.name AND c.start < $4 "                        \
               "AND c.start >= coalesce((SELECT max(b.start) FROM quipu.chunks b "                 \
               "WHERE b.scope = $1 AND b.name = $2 AND b.start <= $3), 0) "                        \
               "WHERE f.scope = $1 AND f.name = $2 ORDER BY c.start")                              \
  X(FILE_LIST,                                                                                     \
    "SELECT name FROM quipu.files WHERE scope = $1 AND name >= $2 AND name < $3 ORDER BY name")

enum qp__pg_statement {
#define QP__PG_ENUM(name, text) QP__PG_##name,
  QP__PG_STATEMENTS(QP__PG_ENUM)
#undef QP__PG_ENUM
      QP__PG_STATEMENT_COUNT,
};

#endif
