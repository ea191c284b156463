/* quipu_catalogue.h - the part of quipu.h for lists of contexts, search, and what is stored for an
 * owner. Include quipu.h, which includes this file and whose rules hold here too. */
#ifndef QUIPU_CATALOGUE_H
#define QUIPU_CATALOGUE_H

#include "quipu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of all contexts without opening them, and the words of all their messages. It is
 * derived from the contexts: lost or damaged, it is made anew by itself. Every list and search sees
 * all that was committed before it began. A store on files keeps it in catalogue.db, from the first
 * list, search or qp_store_reindex() on; a store that is only read compares it with the contexts at
 * each call, opens those that differ, and writes nothing. */

/* Texts may be NULL. */
struct qp_catalogue_row {
  struct qp_uuid id;
  const char *title;
  int64_t created_at;
  int64_t updated_at; /* of its metadata or of the head of a branch, whichever is later */
  uint64_t messages;
  uint64_t bytes; /* of the messages */
  uint64_t branches;
  const char *model_id;
  const char *mode;
  const char *state;
  const char *owner;
  const char *summary;
  bool needs_migration; /* it is in an old format */
  enum qp_rc rc;        /* QP_OK; else it cannot be opened, and nothing but its id is known … */
  const char *error;    /* … and why */
};

struct qp_catalogue_query {
  const char *owner;  /* only what belongs to this one; NULL: everything */
  const char *cursor; /* where the page before ended; NULL: the first page */
  uint32_t limit;     /* rows of a page; 0: 50; at most 1000 */
};

typedef enum qp_rc qp_catalogue_visit(void *arg, const struct qp_catalogue_row *row);
/* Visits one page of the contexts, the one that was changed last first. *next_cursor (may be NULL)
 * is set to the place where the next page begins, released with qp_free(), or to NULL at the end. A
 * context that changes meanwhile moves to the front; no other is left out or told twice.
 * QP_INVALID: the cursor is malformed. `query` may be NULL. */
QP_API QP_MUST_CHECK enum qp_rc qp_catalogue_list(struct qp_store *store,
                                                  const struct qp_catalogue_query *query,
                                                  qp_catalogue_visit *visit, void *arg,
                                                  char **next_cursor, struct qp_err *err);

/* How many bytes the store keeps for `owner`: the messages and the metadata of its contexts, and
 * the sessions and prompts whose ids begin with "OWNER:". Events, blobs and indexes are not
 * counted. The first question counts them; later ones cost the same however much is stored. A total
 * up to `enough` may be too high, because deletions are not subtracted at once; 0: it must not
 * be. */
QP_API QP_MUST_CHECK enum qp_rc qp_owner_bytes(struct qp_store *store, const char *owner,
                                               uint64_t enough, uint64_t *out, struct qp_err *err);

#define QP_MARK_BEGIN "\x02" /* around the words of a snippet that were searched for */
#define QP_MARK_END "\x03"

struct qp_search_hit {
  struct qp_uuid context;
  const char *title; /* of the context, or NULL */
  struct qp_uuid message;
  enum qp_role role;
  int64_t created_at;
  const char *snippet; /* some words of the text with marks; no other control character but line
                        * breaks and tabs is in it */
  double rank;         /* the lower, the better */
};

struct qp_search_query {
  const char *text;   /* words, "phrases", -unwanted words, beginnings* of words */
  const char *owner;  /* as in a list */
  const char *cursor; /* likewise */
  uint32_t limit;     /* likewise */
};

typedef enum qp_rc qp_search_visit(void *arg, const struct qp_search_hit *hit);
/* Visits the messages that have all these words in their text, in the tools that they call or in a
 * tool's result, the best first; those of branches that were deleted too, until the garbage is
 * collected. Case and accents do not count. In scripts without spaces any part of a sentence is
 * found. QP_INVALID: the text has no words, or the cursor is malformed. */
QP_API QP_MUST_CHECK enum qp_rc qp_search(struct qp_store *store,
                                          const struct qp_search_query *query,
                                          qp_search_visit *visit, void *arg, char **next_cursor,
                                          struct qp_err *err);

/* `done` of `total` contexts. An answer other than QP_OK ends it; what is missing then is added
 * when it is needed. */
typedef enum qp_rc qp_reindex_visit(void *arg, uint64_t done, uint64_t total);
/* Makes the catalogue anew. `visit` may be NULL. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_reindex(struct qp_store *store, qp_reindex_visit *visit,
                                                 void *arg, struct qp_err *err);

#ifdef __cplusplus
}
#endif

#endif
