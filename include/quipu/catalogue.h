/* quipu/catalogue.h - lists of contexts, search, and how much is stored for an owner. Not in
 * libquipu-store. The rules of quipu.h hold here.
 *
 * The catalogue holds what is known about all contexts without opening them, and the words of their
 * messages. It is derived: when it is lost or damaged it is rebuilt automatically. Every list and
 * search sees everything that was committed before it began. A store on files keeps it in
 * catalogue.db, starting with the first list, search or qp_store_reindex(). A read-only store on
 * files compares catalogue.db with the contexts at each call, and writes nothing. A store in
 * PostgreSQL keeps it in tables, which all programs share. */
#ifndef QUIPU_CATALOGUE_H
#define QUIPU_CATALOGUE_H

#include "quipu/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strings may be NULL. */
struct qp_catalogue_row {
  struct qp_uuid id;
  const char *title;
  int64_t created_at;
  int64_t updated_at; /* as in struct qp_context_info */
  uint64_t messages;
  uint64_t bytes; /* of the messages */
  uint64_t branches;
  const char *model_id;
  const char *mode;
  enum qp_state state;
  const char *owner;
  const char *summary;
  bool needs_migration; /* it is in an old format */
  enum qp_rc rc;        /* not QP_OK: the context cannot be opened, and only its id is known */
  const char *error;    /* the reason */
};

struct qp_catalogue_query {
  size_t size;
  const char *owner;  /* only contexts of this owner; NULL: all */
  const char *cursor; /* where the previous page ended; NULL: the first page */
  uint32_t limit;     /* rows per page; 0: 50; at most 1000 */
};

typedef enum qp_rc qp_catalogue_visit(void *arg, const struct qp_catalogue_row *row);
/* Visits one page of the contexts, the one that changed last first. `query` may be NULL.
 * *next_cursor (may be NULL) receives the cursor of the next page, or NULL after the last page;
 * release it with qp_free(). A context that changes between two pages moves to the front; no other
 * context is skipped or visited twice. QP_INVALID: the cursor is malformed. */
QP_API QP_MUST_CHECK enum qp_rc qp_catalogue_list(struct qp_store *store,
                                                  const struct qp_catalogue_query *query,
                                                  qp_catalogue_visit *visit, void *arg,
                                                  char **next_cursor, struct qp_err *err);

/* The number of bytes that the store keeps for `owner`: the messages and metadata of its contexts,
 * and the sessions and prompts whose ids begin with "OWNER:". Events, blobs and indexes are not
 * counted. The first call counts them; later calls cost the same however much is stored. Deletions
 * are not subtracted at once: a total up to `enough` may be too high. With 0 it is exact. */
QP_API QP_MUST_CHECK enum qp_rc qp_owner_bytes(struct qp_store *store, const char *owner,
                                               uint64_t enough, uint64_t *out, struct qp_err *err);

/* ---- sizes ---- */

#define QP_BRANCH_SIZES_MAX 32

struct qp_branch_size {
  const char *name;
  uint64_t messages; /* from the first message to the head */
  uint64_t bytes;    /* of these messages; branches share the messages before a fork */
};

struct qp_size_row {
  struct qp_uuid id;
  const char *title; /* or NULL */
  const char *owner; /* or NULL */
  int64_t updated_at;
  uint64_t messages, bytes; /* all messages of the context */
  uint64_t metadata_bytes;
  uint64_t archived_messages, archived_bytes; /* of these: in archives or compressed */
  uint64_t trashed_messages, trashed_bytes;   /* of these: in the trash */
  uint64_t branches;
  const struct qp_branch_size *sizes; /* the largest branches, the largest first … */
  size_t size_count;                  /* … at most QP_BRANCH_SIZES_MAX */
};

struct qp_size_query {
  size_t size;
  const char *owner;  /* as in struct qp_catalogue_query */
  const char *cursor; /* as there */
  uint32_t limit;     /* as there */
  bool trashed;       /* only contexts with messages in the trash */
};

typedef enum qp_rc qp_size_visit(void *arg, const struct qp_size_row *row);
/* Visits one page of the contexts, the largest first, without opening them. A context that grows
 * between two pages may be visited twice, or not. *next_cursor as for qp_catalogue_list(). */
QP_API QP_MUST_CHECK enum qp_rc qp_size_list(struct qp_store *store,
                                             const struct qp_size_query *query,
                                             qp_size_visit *visit, void *arg, char **next_cursor,
                                             struct qp_err *err);

struct qp_size_total {
  uint64_t contexts, messages, bytes, metadata_bytes;
  uint64_t archived_messages, archived_bytes, trashed_messages, trashed_bytes;
};
/* The sums over all contexts of `owner` (NULL: of all owners). The time grows with the number of
 * contexts, not with that of messages. */
QP_API QP_MUST_CHECK enum qp_rc qp_size_sum(struct qp_store *store, const char *owner,
                                            struct qp_size_total *out, struct qp_err *err);

/* ---- what models have used ---- */

enum qp_usage_group { QP_USAGE_DAY, QP_USAGE_CONTEXT, QP_USAGE_MODEL };

/* The sums of one group. */
struct qp_usage_row {
  int64_t day;            /* QP_USAGE_DAY: its first moment in milliseconds since 1970 */
  struct qp_uuid context; /* QP_USAGE_CONTEXT, and its title, or NULL */
  const char *title;
  const char *model; /* QP_USAGE_MODEL: as the provider calls it; "" if it was not stored */
  uint64_t answers;
  uint64_t input_tokens; /* including those from a cache */
  uint64_t output_tokens;
  uint64_t cached_tokens; /* read from a cache */
  double cost_usd;
  uint64_t unpriced; /* answers whose cost is unknown */
};

struct qp_usage_query {
  size_t size;
  enum qp_usage_group group;
  const char *owner;  /* only contexts of this owner; NULL: all */
  int64_t from;       /* only answers from this time on, in milliseconds since 1970 … */
  int64_t until;      /* … and before this time; 0: no end. Both are rounded to quarter hours */
  int32_t utc_offset; /* of the days, in minutes, from -1440 to 1440; rounded to quarter hours */
  uint32_t limit;     /* groups; 0: 100; at most 1000 */
};

typedef enum qp_rc qp_usage_visit(void *arg, const struct qp_usage_row *row);
/* Visits the sums over the answers that are stored, with the figures that the providers reported:
 * days in their order, the newest `limit` of them; contexts and models with the highest cost first,
 * then with the most tokens. Answers in the trash count; deleted ones and the summaries that
 * compaction asks for do not. The figures are kept with the words of a message (qp_search()), so no
 * message is read twice; the time grows with the number of conversations in that period. */
QP_API QP_MUST_CHECK enum qp_rc qp_usage_list(struct qp_store *store,
                                              const struct qp_usage_query *query,
                                              qp_usage_visit *visit, void *arg, struct qp_err *err);

/* ---- search ---- */

#define QP_MARK_BEGIN "\x02" /* around each word in a snippet that was searched for */
#define QP_MARK_END "\x03"

struct qp_search_hit {
  struct qp_uuid context;
  const char *title; /* of the context, or NULL */
  struct qp_uuid message;
  enum qp_role role;
  int64_t created_at;
  const char *snippet; /* some words of the text, with marks; other control characters are removed,
                        * except line breaks and tabs */
  double rank;         /* lower is better */
};

struct qp_search_query {
  size_t size;
  const char *text;   /* words, "phrases", -excluded words, beginnings* of words */
  const char *owner;  /* as in struct qp_catalogue_query */
  const char *cursor; /* as there */
  uint32_t limit;     /* as there */
  /* Only messages of this context, in the order in which they were saved; none: of all. */
  struct qp_uuid context;
};

typedef enum qp_rc qp_search_visit(void *arg, const struct qp_search_hit *hit);
/* Visits the messages that contain all these words in their text, in a tool call or in a tool
 * result, the best first. Messages of deleted branches are found until garbage collection removes
 * them. Case and accents are ignored. In scripts without spaces any part of a sentence is found.
 * *next_cursor as for qp_catalogue_list(). QP_INVALID: the text has no words, or the cursor is
 * malformed. */
QP_API QP_MUST_CHECK enum qp_rc qp_search(struct qp_store *store,
                                          const struct qp_search_query *query,
                                          qp_search_visit *visit, void *arg, char **next_cursor,
                                          struct qp_err *err);

/* `done` of `total` contexts are indexed. When it returns anything but QP_OK, the rebuild ends; the
 * missing contexts are indexed when they are needed. */
typedef enum qp_rc qp_reindex_visit(void *arg, uint64_t done, uint64_t total);
/* Rebuilds the catalogue. `visit` may be NULL. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_reindex(struct qp_store *store, qp_reindex_visit *visit,
                                                 void *arg, struct qp_err *err);

#ifdef __cplusplus
}
#endif

#endif
