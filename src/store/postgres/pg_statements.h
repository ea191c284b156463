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

/* The clock of the database, in milliseconds since 1970. */
#define QP__PG_CLOCK "(extract(epoch FROM clock_timestamp()) * 1000)::int8"

#define QP__PG_ROW                                                                           \
  "context, owner, created, updated, messages, bytes, branches, state, title, model, mode, " \
  "summary"

/* What the index of quipu.texts has of a message; `words` is "<a><b>…". */
#define QP__PG_VECTOR "array_to_tsvector(string_to_array(btrim(words, '<>'), '><'))"

/* Adds what a statement returned, rows with `texts` and `words`, to the totals of slot `slot`. */
#define QP__PG_COUNT(slot)                                                  \
  "INSERT INTO quipu.totals AS o (slot, texts, words) "                     \
  "SELECT " slot ", sum(d.texts), sum(d.words) FROM d HAVING count(*) > 0 " \
  "ON CONFLICT (slot) DO UPDATE SET texts = o.texts + excluded.texts, "     \
  "words = o.words + excluded.words"

/* A search, as FTS5 does it. $1: what the index is asked for; $2, $3: the wanted phrases, and the
 * same for the index; $4: which of them are one word, so that the index says enough; $5: unwanted
 * ones. `seen` is how often each phrase is there, `weight` what it counts. */
#define QP__PG_FIND                                                                               \
  "WITH total AS (SELECT sum(texts)::float8 AS texts, sum(words)::float8 AS words "               \
  "FROM quipu.totals), "                                                                          \
  "seen AS MATERIALIZED (SELECT p.i, p.phrase, p.single, (SELECT count(*) FROM quipu.texts "      \
  "WHERE NOT trashed AND " QP__PG_VECTOR " @@ p.vector::tsquery "                                 \
  "AND (p.single OR position(p.phrase IN words) > 0))::float8 AS n "                              \
  "FROM unnest($2::text[], $3::text[], $4::bool[]) WITH ORDINALITY "                              \
  "AS p (phrase, vector, single, i)), "                                                           \
  "weight AS MATERIALIZED (SELECT s.phrase, s.single, octet_length(s.phrase) AS size, "           \
  "CASE WHEN t.texts > 2 * s.n THEN ln((t.texts - s.n + 0.5::float8) / (s.n + 0.5::float8)) "     \
  "ELSE 1e-6::float8 END AS idf FROM seen s, total t ORDER BY s.i), "                             \
  "hit AS MATERIALIZED (SELECT x.context, x.id, x.number, c.title, "                              \
  "(SELECT -1.0::float8 * sum(w.idf * ((f.n * 2.2::float8) / (f.n + 1.2::float8 * "               \
  "(0.25::float8 + 0.75::float8 * x.length / (t.words / t.texts))))) FROM weight w, total t, "    \
  "LATERAL (SELECT ((octet_length(x.words) - octet_length(replace(x.words, w.phrase, ''))) "      \
  "/ w.size)::float8 AS n) f) AS rank "                                                           \
  "FROM quipu.texts x JOIN quipu.catalogue c ON c.context = x.context "                           \
  "WHERE NOT trashed AND " QP__PG_VECTOR " @@ $1::text::tsquery "                                 \
  "AND NOT EXISTS (SELECT FROM weight w WHERE NOT w.single AND position(w.phrase IN words) = 0) " \
  "AND NOT EXISTS (SELECT FROM unnest($5::text[]) u WHERE position(u IN words) > 0) "
/* Of those, a page: $6 of a page, behind the place $7, $8, $9. */
#define QP__PG_PAGE(order)                                                                \
  "SELECT p.context, p.title, p.id, m.kind, m.at, p.rank, p.number, b.bytes FROM page p " \
  "JOIN quipu.messages m ON m.context = p.context AND m.number = p.number "               \
  "JOIN quipu.contents b ON b.context = p.context AND b.id = p.id ORDER BY " order

/* What answers have used: $1 and $2 the first quarter of an hour and the one after the last, $3 how
 * many groups, $4 the owner. */
#define QP__PG_USED                                                                         \
  "sum(u.answers)::int8, sum(u.input), sum(u.output), sum(u.cached), sum(u.cost) AS cost, " \
  "sum(u.unpriced)::int8, sum(u.input + u.output) AS tokens FROM quipu.usage u "
#define QP__PG_OF_OWNER "JOIN quipu.catalogue c ON c.context = u.context AND c.owner = $4 "
#define QP__PG_PERIOD "WHERE u.quarter >= $1 AND u.quarter < $2 "
#define QP__PG_DAYS(of)                                                                   \
  "SELECT * FROM (SELECT (u.quarter + $5::int8) / 96 AS day, NULL::text, " QP__PG_USED of \
      QP__PG_PERIOD "GROUP BY 1 ORDER BY 1 DESC LIMIT $3) d ORDER BY day"
#define QP__PG_MODELS(of)                                     \
  "SELECT u.model, NULL::text, " QP__PG_USED of QP__PG_PERIOD \
  "GROUP BY 1 ORDER BY cost DESC, tokens DESC, 1 LIMIT $3"
/* A parameter that a statement does not need. */
#define QP__PG_UNUSED(param) "JOIN (SELECT " param " AS unused) unused ON true "

/* X(name, text) */
#define QP__PG_STATEMENTS(X)                                                                       \
  /* ---- transactions ---- */                                                                     \
  X(BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED")                                                 \
  X(BEGIN_SNAPSHOT, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")                             \
  X(COMMIT, "COMMIT")                                                                              \
  /* For what can be made again: its locks do not wait for the disk. */                            \
  X(COMMIT_SOON, "SET LOCAL synchronous_commit TO off")                                            \
  X(ROLLBACK, "ROLLBACK")                                                                          \
  /* For a transaction that finds rows by their keys. Tables that are written often have many */   \
  /* dead rows: the index is right even if there were few rows when the plan was made. */          \
  X(BY_KEY, "SELECT set_config('enable_seqscan', 'off', true), "                                   \
            "set_config('enable_hashjoin', 'off', true), "                                         \
            "set_config('enable_mergejoin', 'off', true), "                                        \
            "set_config('plan_cache_mode', 'force_generic_plan', true)")                           \
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
  /* ---- servers (pg_member.c) ---- */                                                            \
  X(SERVER_ADD,                                                                                    \
    "INSERT INTO quipu.servers (server, address, expires) "                                        \
    "VALUES ($1, $2, now() + $3::int8 * interval '1 millisecond') RETURNING " QP__PG_CLOCK)        \
  X(SERVER_EXTEND, "UPDATE quipu.servers SET address = $2, expires = now() + $3::int8 * interval " \
                   "'1 millisecond' "                                                              \
                   "WHERE server = $1 RETURNING " QP__PG_CLOCK)                                    \
  X(SERVER_DROP, "DELETE FROM quipu.servers WHERE server = $1")                                    \
  X(SERVERS_BURY, "DELETE FROM quipu.servers WHERE expires < now() RETURNING server")              \
  /* Guard. No other server has declared this one gone, and none can until the end. */             \
  X(SERVER_STAYS, "SELECT 1 / count(*) FROM "                                                      \
                  "(SELECT 1 FROM quipu.servers WHERE server = $1 FOR KEY SHARE) s")               \
  X(SERVER_ALIVE, "SELECT 1 FROM quipu.servers WHERE address = $1 AND expires >= now()")           \
  X(ORPHANS, "SELECT l.context FROM quipu.leases l WHERE l.running AND " QP__PG_FREE " LIMIT 200") \
  /* A role that is neither superuser nor in pg_monitor sees rows without a state. A replica */    \
  /* that has received everything reports no lag. */                                               \
  X(REPLICAS, "SELECT count(*), coalesce(max(extract(epoch FROM replay_lag) * 1000), 0)::int8 "    \
              "FROM pg_catalog.pg_stat_replication WHERE state IS NOT NULL")                       \
  /* ---- documents (pg_shared.c) ---- */                                                          \
  X(DOCUMENT, "SELECT version, CASE WHEN $2::int2 = 1 THEN bytes END FROM quipu.documents "        \
              "WHERE name = $1")                                                                   \
  X(DOCUMENT_ADD, "INSERT INTO quipu.documents (name, version, bytes) VALUES ($1, 1, $2) "         \
                  "ON CONFLICT (name) DO NOTHING RETURNING 1")                                     \
  X(DOCUMENT_PUT, "UPDATE quipu.documents SET version = version + 1, bytes = $2 "                  \
                  "WHERE name = $1 AND version = $3 RETURNING 1")                                  \
  /* ---- requests with a key (pg_shared.c) ---- */                                                \
  X(REQUEST_BEGIN,                                                                                 \
    "INSERT INTO quipu.requests AS r (name, digest, claim, server) VALUES ($1, $2, $3, $4) "       \
    "ON CONFLICT (name) DO UPDATE SET digest = excluded.digest, claim = excluded.claim, "          \
    "server = excluded.server, begun = now(), state = 1, reply = NULL "                            \
    "WHERE r.begun < now() - interval '24 hours'")                                                 \
  X(REQUEST,                                                                                       \
    "SELECT digest, claim, CASE WHEN state = 1 AND (server = $2 OR EXISTS (SELECT 1 "              \
    "FROM quipu.servers s WHERE s.server = r.server AND s.expires >= now())) THEN 0::int2 "        \
    "ELSE state END, reply FROM quipu.requests r WHERE name = $1")                                 \
  X(REQUEST_END, "UPDATE quipu.requests SET state = $3, reply = $4 WHERE name = $1 "               \
                 "AND claim = $2")                                                                 \
  X(REQUEST_DROP, "DELETE FROM quipu.requests WHERE name = $1 AND claim = $2")                     \
  X(REQUESTS_OLD, "DELETE FROM quipu.requests WHERE name IN (SELECT name FROM quipu.requests "     \
                  "WHERE begun < now() - interval '24 hours' LIMIT 500 FOR UPDATE SKIP LOCKED)")   \
  X(STANDBY, "SELECT pg_is_in_recovery()")                                                         \
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
                "OR ($3::int2 = 1 AND " QP__PG_FREE ")) RETURNING 1) SELECT 1 / count(*) FROM d")  \
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
  X(HEADS_PUT, "INSERT INTO quipu.branches (context, branch, head, messages, bytes) "              \
               "SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::int8[], $5::int8[]) " \
               "ON CONFLICT (context, branch) DO UPDATE SET head = excluded.head, "                \
               "messages = excluded.messages, bytes = excluded.bytes")                             \
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
    "SELECT name FROM quipu.files WHERE scope = $1 AND name >= $2 AND name < $3 ORDER BY name")    \
  /* ---- the catalogue (pg_catalogue.c) ---- */                                                   \
  X(LIST, "SELECT " QP__PG_ROW " FROM quipu.catalogue WHERE (updated, context) < ($1, $2) "        \
          "ORDER BY updated DESC, context DESC LIMIT $3")                                          \
  X(LIST_OWNER, "SELECT " QP__PG_ROW " FROM quipu.catalogue WHERE owner = $4 "                     \
                "AND (updated, context) < ($1, $2) "                                               \
                "ORDER BY updated DESC, context DESC LIMIT $3")                                    \
  X(IN_STATE, "SELECT context FROM quipu.catalogue WHERE state = $1 AND state <> 'Idle'")          \
  X(OWNER_BYTES, "SELECT coalesce(sum(bytes + meta), 0)::int8 FROM quipu.catalogue "               \
                 "WHERE owner = $1")                                                               \
  X(SEARCH, QP__PG_FIND                                                                            \
    "AND ($10::text IS NULL OR c.owner = $10)), "                                                  \
    "page AS (SELECT * FROM hit WHERE (rank, context, number) > ($7::float8, $8::uuid, $9::int8) " \
    "ORDER BY rank, context, number LIMIT $6::int8) " QP__PG_PAGE("p.rank, p.context, p.number"))  \
  X(SEARCH_CONTEXT, QP__PG_FIND                                                                    \
    "AND x.context = $10::uuid AND x.number > $9::int8 AND ($7::float8, $8::uuid) IS NOT NULL), "  \
    "page AS (SELECT * FROM hit ORDER BY number LIMIT $6::int8) " QP__PG_PAGE("p.number"))         \
  /* ---- its rows (pg_rows.c) ---- */                                                             \
  X(ROWS_PUT,                                                                                      \
    "INSERT INTO quipu.catalogue (context, owner, created, updated, messages, bytes, branches, "   \
    "meta, state, title, model, mode, summary, last) SELECT * FROM unnest($1::uuid[], "            \
    "$2::text[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], "         \
    "$9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::int8[]) "                \
    "ON CONFLICT (context) DO UPDATE SET owner = excluded.owner, created = excluded.created, "     \
    "updated = excluded.updated, messages = excluded.messages, bytes = excluded.bytes, "           \
    "branches = excluded.branches, meta = excluded.meta, state = excluded.state, "                 \
    "title = excluded.title, model = excluded.model, mode = excluded.mode, "                       \
    "summary = excluded.summary, last = excluded.last")                                            \
  X(ROWS_GROW, "UPDATE quipu.catalogue c SET updated = w.updated, messages = w.messages, "         \
               "bytes = w.bytes, last = w.last "                                                   \
               "FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int8[]) "          \
               "AS w (context, updated, messages, bytes, last) WHERE c.context = w.context")       \
  X(ROW_DROP, "DELETE FROM quipu.catalogue WHERE context = $1")                                    \
  /* After messages were purged, or when the row is made anew. The numbers of the newest ones */   \
  /* may be given again. */                                                                        \
  X(ROW_COUNT,                                                                                     \
    "UPDATE quipu.catalogue c SET messages = n.messages, bytes = n.bytes, trash = n.trash, "       \
    "trash_bytes = n.trash_bytes, last = n.last, indexed = least(c.indexed, n.last), "             \
    "counted = least(c.counted, 0) - 1 FROM (SELECT count(*) AS messages, "                        \
    "coalesce(sum(m.size), 0) AS bytes, nullif(count(k.id), 0) AS trash, "                         \
    "sum(m.size) FILTER (WHERE k.id IS NOT NULL) AS trash_bytes, "                                 \
    "coalesce(max(m.number), 0) AS last FROM quipu.messages m "                                    \
    "LEFT JOIN quipu.marks k ON k.context = m.context AND k.id = m.id "                            \
    "AND k.trashed IS NOT NULL WHERE m.context = $1) n WHERE c.context = $1")                      \
  X(USAGE_DROP, "DELETE FROM quipu.usage WHERE context = $1")                                      \
  /* Before message $2 of $4 bytes moves to the trash ($3: 1) or back ($3: -1). */                 \
  X(ROW_TRASH,                                                                                     \
    "UPDATE quipu.catalogue SET trash = nullif(coalesce(trash, 0) + $3::int8, 0), "                \
    "trash_bytes = coalesce(trash_bytes, 0) + $3::int8 * $4::int8 WHERE context = $1 AND "         \
    "($3::int8 < 0) = EXISTS (SELECT FROM quipu.marks WHERE context = $1 AND id = $2 "             \
    "AND trashed IS NOT NULL)")                                                                    \
  /* Until the transaction ends, nobody adds words of the context. */                              \
  X(CONTEXT_LOCK, "SELECT 1 FROM quipu.contexts WHERE context = $1 FOR UPDATE")                    \
  X(TEXT_TRASH,                                                                                    \
    "WITH n AS (UPDATE quipu.texts SET trashed = $3 WHERE context = $1 AND id = $2 "               \
    "AND trashed <> $3 RETURNING length), "                                                        \
    "d AS (SELECT s.sign AS texts, s.sign * length AS words "                                      \
    "FROM n, (SELECT CASE WHEN $3 THEN -1 ELSE 1 END AS sign) s) " QP__PG_COUNT("$4::int2"))       \
  X(TEXTS_DROP,                                                                                    \
    "WITH n AS (DELETE FROM quipu.texts WHERE context = $1 "                                       \
    "RETURNING length, trashed), "                                                                 \
    "d AS (SELECT -1 AS texts, -length AS words FROM n WHERE NOT trashed) " QP__PG_COUNT(          \
        "$2::int2"))                                                                               \
  X(PURGE_TEXTS,                                                                                   \
    "WITH n AS (DELETE FROM quipu.texts "                                                          \
    "WHERE context = $1 AND id = ANY ($2::uuid[]) RETURNING length, trashed), "                    \
    "d AS (SELECT -1 AS texts, -length AS words FROM n WHERE NOT trashed) " QP__PG_COUNT(          \
        "$3::int2"))                                                                               \
  /* ---- words, and rows from what is stored (pg_index.c) ---- */                                 \
  X(DUE, "SELECT context, last FROM quipu.catalogue WHERE counted < last LIMIT 1000")              \
  X(DUE_OF, "SELECT indexed, last, counted FROM quipu.catalogue WHERE context = $1")               \
  X(DUE_MESSAGES, "SELECT m.number, m.id, b.bytes, m.at FROM (SELECT number, id, at, "             \
                  "sum(size) OVER (ORDER BY number) - size AS before FROM (SELECT number, id, "    \
                  "at, size FROM quipu.messages WHERE context = $1 AND number > (SELECT counted "  \
                  "FROM quipu.catalogue WHERE context = $1) ORDER BY number LIMIT 200) due) m "    \
                  "LEFT JOIN quipu.contents b ON b.context = $1 AND b.id = m.id "                  \
                  "WHERE m.before < 4194304 ORDER BY m.number")                                    \
  /* The context is not deleted until the transaction ends; commits go on. */                      \
  X(CONTEXT_SHARE, "SELECT 1 FROM quipu.contexts WHERE context = $1 FOR KEY SHARE")                \
  X(TEXTS_ADD, "WITH n AS (INSERT INTO quipu.texts (context, id, number, length, words, trashed) " \
               "SELECT $1, w.id, w.number, w.length, w.words, EXISTS (SELECT FROM quipu.marks k "  \
               "WHERE k.context = $1 AND k.id = w.id AND k.trashed IS NOT NULL) "                  \
               "FROM unnest($2::uuid[], $3::int8[], $4::int4[], $5::text[]) "                      \
               "AS w (id, number, length, words) JOIN quipu.messages m "                           \
               "ON m.context = $1 AND m.number = w.number AND m.id = w.id "                        \
               "ON CONFLICT DO NOTHING RETURNING length, trashed), "                               \
               "d AS (SELECT 1 AS texts, length AS words FROM n WHERE NOT trashed) " QP__PG_COUNT( \
                   "$6::int2"))                                                                    \
  /* Adds what answers have used, unless another server has counted them ($3: from where). */      \
  X(COUNTED,                                                                                       \
    "WITH c AS (UPDATE quipu.catalogue SET indexed = greatest(indexed, $2), counted = $2 "         \
    "WHERE context = $1 AND counted = $3 RETURNING 1), "                                           \
    "u AS (INSERT INTO quipu.usage AS o "                                                          \
    "(context, quarter, model, answers, input, output, cached, cost, unpriced) "                   \
    "SELECT $1, w.quarter, w.model, count(*), sum(w.input), sum(w.output), sum(w.cached), "        \
    "sum(w.cost), count(*) FILTER (WHERE w.unpriced) FROM c, "                                     \
    "unnest($4::int8[], $5::text[], $6::float8[], $7::float8[], $8::float8[], $9::float8[], "      \
    "$10::bool[]) AS w (quarter, model, input, output, cached, cost, unpriced) "                   \
    "GROUP BY w.quarter, w.model ON CONFLICT (context, quarter, model) DO UPDATE SET "             \
    "answers = o.answers + excluded.answers, input = o.input + excluded.input, "                   \
    "output = o.output + excluded.output, cached = o.cached + excluded.cached, "                   \
    "cost = o.cost + excluded.cost, unpriced = o.unpriced + excluded.unpriced) "                   \
    "SELECT count(*) FROM c")                                                                      \
  X(UNLISTED, "SELECT context FROM quipu.unlisted LIMIT 256")                                      \
  X(UNLISTED_COUNT, "SELECT count(*) FROM quipu.unlisted")                                         \
  X(UNLISTED_ADD, "INSERT INTO quipu.unlisted (context) VALUES ($1) ON CONFLICT DO NOTHING")       \
  X(UNLISTED_ALL, "INSERT INTO quipu.unlisted SELECT context FROM quipu.contexts "                 \
                  "ON CONFLICT DO NOTHING")                                                        \
  X(UNLISTED_DROP, "DELETE FROM quipu.unlisted WHERE context = $1")                                \
  /* Nobody commits to the context until the transaction ends. */                                  \
  X(LEASE_LOCK, "SELECT 1 FROM quipu.leases WHERE context = $1 FOR NO KEY UPDATE")                 \
  X(ROW_SOURCE, "SELECT c.meta, n.messages, n.bytes, n.last, coalesce((SELECT max(m.at) FROM "     \
                "quipu.branches b JOIN quipu.messages m ON m.context = b.context "                 \
                "AND m.id = b.head WHERE b.context = $1), 0) FROM quipu.contexts c, "              \
                "(SELECT count(*) AS messages, coalesce(sum(size), 0)::int8 AS bytes, "            \
                "coalesce(max(number), 0) AS last FROM quipu.messages WHERE context = $1) n "      \
                "WHERE c.context = $1")                                                            \
  /* ---- reports (pg_report.c) ---- */                                                            \
  X(SIZES, "SELECT p.context, p.title, p.owner, p.updated, p.messages, p.bytes, p.meta, p.trash, " \
           "p.trash_bytes, p.branches, b.branch, b.messages, b.bytes FROM "                        \
           "(SELECT * FROM quipu.catalogue WHERE (bytes, context) < ($1, $2) "                     \
           "AND ($4::text IS NULL OR owner = $4) AND (NOT $5::bool OR trash > 0) "                 \
           "ORDER BY bytes DESC, context DESC LIMIT $3) p LEFT JOIN LATERAL "                      \
           "(SELECT branch, messages, bytes FROM quipu.branches WHERE context = p.context "        \
           "ORDER BY bytes DESC, branch LIMIT $6::int8) b ON true "                                \
           "ORDER BY p.bytes DESC, p.context DESC, b.bytes DESC, b.branch")                        \
  X(SIZE_SUM, "SELECT count(*), coalesce(sum(messages), 0)::int8, coalesce(sum(bytes), 0)::int8, " \
              "coalesce(sum(meta), 0)::int8, coalesce(sum(trash), 0)::int8, "                      \
              "coalesce(sum(trash_bytes), 0)::int8 FROM quipu.catalogue "                          \
              "WHERE $1::text IS NULL OR owner = $1")                                              \
  /* Unless a head has moved since it was read. */                                                 \
  X(MEASURED, "UPDATE quipu.branches b SET messages = w.messages, bytes = w.bytes "                \
              "FROM unnest($2::text[], $3::uuid[], $4::int8[], $5::int8[]) "                       \
              "AS w (branch, head, messages, bytes) WHERE b.context = $1 AND b.branch = w.branch " \
              "AND b.head IS NOT DISTINCT FROM w.head AND b.messages IS NULL")                     \
  X(UNMEASURE, "UPDATE quipu.branches SET messages = NULL, bytes = NULL WHERE context = $1")       \
  X(USAGE_DAYS, QP__PG_DAYS(QP__PG_OF_OWNER))                                                      \
  X(USAGE_DAYS_ALL, QP__PG_DAYS(QP__PG_UNUSED("$4::text")))                                        \
  X(USAGE_MODELS, QP__PG_MODELS(QP__PG_OF_OWNER))                                                  \
  X(USAGE_MODELS_ALL, QP__PG_MODELS(QP__PG_UNUSED("$4::text")))                                    \
  X(USAGE_CONTEXTS,                                                                                \
    "SELECT u.context, c.title, " QP__PG_USED "JOIN quipu.catalogue c ON c.context = u.context "   \
    "AND ($4::text IS NULL OR c.owner = $4) " QP__PG_PERIOD                                        \
    "GROUP BY u.context, c.title ORDER BY cost DESC, tokens DESC, 1 LIMIT $3")

enum qp__pg_statement {
#define QP__PG_ENUM(name, text) QP__PG_##name,
  QP__PG_STATEMENTS(QP__PG_ENUM)
#undef QP__PG_ENUM
      QP__PG_STATEMENT_COUNT,
};

#endif
