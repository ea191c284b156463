/* legacy_int.h - shared by the files of the old formats. See legacy.h.
 *
 * An open source has: `context`, the old context as a value without its messages and without the
 * lists of the branches; one entry per message of the pool; one item per message to store, in the
 * order of storing; and for each branch its list as items. */
#ifndef QP_OLD_LEGACY_INT_H
#define QP_OLD_LEGACY_INT_H

#include <jansson.h>

#include "base/idset.h"
#include "base/uuid.h"
#include "old/jsonscan.h"
#include "old/legacy.h"

#define QP__LEGACY_NONE QP__NO_MEMBER /* no entry, no item */
#define QP__LEGACY_FIELD "legacy"     /* the field for what the new form cannot express */
#define QP__LEGACY_NOTES 100          /* maximum number of notes */
#define QP__LEGACY_BLOCK 4096         /* entries per block */
#define QP__LEGACY_WHAT 256           /* size of the beginning of an error message */
#define QP__LEGACY_CONTEXT_MAX QP__META_MAX
#define QP__LEGACY_NODE_MAX ((size_t)64 << 20) /* bytes of a message as written in the source */

enum {
  QP__LEGACY_CALLS = 1,   /* has tool calls */
  QP__LEGACY_PENDING = 2, /* and one of them waits for approval */
  QP__LEGACY_UPPER = 4,   /* its key is written in upper case */
  QP__LEGACY_MIXED = 8,   /* its key is in `odd_keys` */
  QP__LEGACY_FILE = 16,   /* is in its own file */
};

/* A message of the pool. */
struct qp__legacy_entry {
  struct qp_uuid id;     /* its key in the pool, which the branches use */
  struct qp_uuid parent; /* parent_id if it is a UUID, otherwise zeros */
  uint64_t at;           /* its offset in the file */
  int64_t time;          /* created_at, or 0 */
  uint32_t len;
  uint32_t item; /* the first item made from it, or NONE */
  uint32_t flags;
};

/* A message to store. */
struct qp__legacy_place {
  uint32_t entry;
  uint32_t parent; /* item, or NONE */
  uint32_t branch;
  uint32_t copy; /* number of its derived id, or NONE: the id of the entry */
  int64_t time;
};

/* An id that is not in lower case: a key of the pool or an element of message_ids. */
struct qp__legacy_odd {
  uint32_t at; /* entry, or position in the list */
  char text[QP_UUID_TEXT];
};

struct qp__legacy_odds {
  struct qp__legacy_odd *list; /* sorted by `at` */
  size_t count;
  size_t cap;
};

/* message_ids of a branch, first as ids and then as items. */
struct qp__legacy_list {
  const char *key; /* of the branch; borrowed from context */
  struct qp_uuid *ids;
  uint32_t *items; /* NONE: not in the pool */
  size_t count;
  size_t cap;
  bool lower; /* all can be written in lower case */
  bool upper;
  struct qp__legacy_odds odds; /* those that cannot be written in lower case */
  char *name;                  /* the name of the branch in quipu */
  uint32_t head;               /* item, or NONE */
  uint32_t base;               /* item that it shares with an earlier branch, or NONE */
  uint32_t own;                /* its first item that is not shared, or NONE */
  json_t *missing;             /* position in the list → id; or NULL */
};

/* Used while opening: ids to numbers, hashed with a random key, so that no choice of ids can make
 * it slow. */
struct qp__legacy_copies {
  struct qp__idset ids;
  uint32_t *items; /* which one has that id, by its number in `ids` */
  size_t count;
  size_t cap;
};

struct qp__legacy_source {
  const struct qp__os *os;
  int fd; /* the file, or the directory */
  enum qp_legacy format;
  char *what;
  struct qp_uuid id;
  uint8_t hash[16];
  int64_t file_time;
  bool uses_file_time;
  json_t *context;
  struct qp__meta *meta;

  struct qp__legacy_entry **blocks;
  size_t block_cap;
  uint32_t entry_count;
  struct qp__idset pool_ids; /* the number of an id is that of its entry */
  struct qp__legacy_odds odd_keys;

  struct qp__legacy_list *lists; /* in the order in which they become items */
  size_t list_count;
  size_t list_cap;
  struct qp__legacy_list **by_name; /* the lists in the order of the branches of meta */
  struct qp__legacy_place *items;
  uint32_t item_count;
  uint32_t item_cap;
  struct qp__legacy_copies copies;

  struct qp__legacy_head *heads;     /* in the order of the branches of meta */
  struct qp__legacy_prompt *prompts; /* sorted by the name of the branch */
  size_t prompt_count;

  char **notes;
  size_t note_count;
  size_t notes_left; /* number of dropped notes */
};

static inline struct qp__legacy_entry *
qp__legacy_entry(const struct qp__legacy_source *l, uint32_t i)
{
  return &l->blocks[i / QP__LEGACY_BLOCK][i % QP__LEGACY_BLOCK];
}

static inline int64_t
qp__legacy_time_of(const struct stat *st)
{
  return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* ---- legacy.c ---- */

/* Adds a note; above QP__LEGACY_NOTES they are only counted. QP_NOMEM. */
enum qp_rc qp__legacy_notef(struct qp__legacy_source *l, struct qp_err *err, const char *fmt, ...)
    QP_PRINTF(3, 4);
/* The id of a stored message in the old format and in the new one. */
struct qp_uuid qp__legacy_source_id(const struct qp__legacy_source *l, uint32_t item);
struct qp_uuid qp__legacy_new_id(const struct qp__legacy_source *l, uint32_t item);
/* The key of an entry in its original spelling. */
void qp__legacy_key_text(const struct qp__legacy_source *l, uint32_t entry, char out[QP_UUID_TEXT]);
/* Reads the node of an entry again; `what` begins the error message. *out is new. */
enum qp_rc qp__legacy_read_node(const struct qp__legacy_source *l, uint32_t entry, const char *what,
                                json_t **out, struct qp_err *err);
/* "source: message 3f0c…", with the id in the source. */
void qp__legacy_what(const struct qp__legacy_source *l, uint32_t item, char out[QP__LEGACY_WHAT]);

/* ---- legacy_detect.c ---- */

/* Detects the directory at `path` ("": dirfd itself). `named`: it has the name of a context. */
enum qp_rc qp__legacy_detect_directory(const struct qp__os *os, int dirfd, const char *path,
                                       bool named, enum qp_legacy *out, struct qp_err *err);
/* Whether the last part of a path is {uuid} or {uuid}.json. */
bool qp__legacy_is_named(const char *path);

/* ---- legacy_scan.c ---- */

/* Reads a context from `fd` to the end of the file: context, entries and lists. */
enum qp_rc qp__legacy_scan_context(struct qp__legacy_source *l, struct qp__scan *s,
                                   struct qp_err *err);
/* Reads one node; the scanner is before it. *odd_time: its created_at is not a valid time. */
bool qp__legacy_scan_node(struct qp__scan *s, struct qp__legacy_entry *e, bool *odd_time);
bool qp__legacy_note_time(struct qp__legacy_source *l, const struct qp_uuid *id,
                          struct qp_err *err);
/* Adds an entry with the key `key`, 36 characters. False: out of memory. */
bool qp__legacy_add_entry(struct qp__legacy_source *l, const struct qp__legacy_entry *e,
                          const char *key);
void qp__legacy_list_release(struct qp__legacy_list *list);

/* ---- legacy_pool.c ---- */

#define QP__LEGACY_FILE_PATH 64
#define QP__LEGACY_CONTEXT_FILE "context.json"

/* Reads context.json of a directory, and messages_pool/. */
enum qp_rc qp__legacy_pool_read(struct qp__legacy_source *l, struct qp_err *err);
/* The path of the message of an entry. */
void qp__legacy_file_path(const struct qp__legacy_source *l, uint32_t entry,
                          char out[QP__LEGACY_FILE_PATH]);

/* ---- legacy_order.c ---- */

/* Makes it possible to find entries by id. QP_INVALID: a duplicate id. */
enum qp_rc qp__legacy_index(struct qp__legacy_source *l, struct qp_err *err);
/* Builds items from entries and lists. */
enum qp_rc qp__legacy_order(struct qp__legacy_source *l, struct qp_err *err);

/* ---- legacy_state.c ---- */

/* The state of an old context: its name in the original spelling and its data. */
struct qp__legacy_state {
  enum qp_state state;
  json_t *detail; /* borrowed object, or NULL */
  bool known;
  bool in_turn; /* the turn was unfinished, and is Idle now */
};
/* `value` may be NULL. `pending`: a call of the active branch waits for its approval. */
void qp__legacy_state_read(const json_t *value, bool pending, struct qp__legacy_state *out);
/* The state in the old format; a new value, or NULL: out of memory. `time` is used if the late form
 * needs a time. */
json_t *qp__legacy_state_write(enum qp_state state, json_t *detail, bool late, int64_t time);

/* ---- legacy_message.c ---- */

/* What a node does not contain itself. */
struct qp__legacy_origin {
  struct qp_uuid id;         /* in the new form */
  struct qp_uuid parent;     /* in the new form */
  struct qp_uuid old_id;     /* in the old one */
  struct qp_uuid old_parent; /* in the old one */
  const char *key;           /* of the pool, in the original spelling */
  int64_t time;
};
/* Converts an old node to the value of a stored message, which shares parts with it. */
enum qp_rc qp__legacy_forth(const char *what, json_t *node, const struct qp__legacy_origin *origin,
                            json_t **out, struct qp_err *err);
/* The reverse: `m` is the value of a stored message. *out is new. */
enum qp_rc qp__legacy_back(const json_t *m, const struct qp_uuid *old_id,
                           const struct qp_uuid *old_parent, json_t **out, struct qp_err *err);

/* ---- legacy_meta.c ---- */

/* Builds meta, heads and prompts. */
enum qp_rc qp__legacy_meta_make(struct qp__legacy_source *l, struct qp_err *err);
/* The context of the source with empty "message_pool" and "branches"; a new value. */
enum qp_rc qp__legacy_original(const struct qp__legacy_source *l, json_t **out, struct qp_err *err);

/* ---- legacy_context.c ---- */

/* The old context of a meta with empty "message_pool" and "branches"; a new value. With `raw` the
 * changes in "legacy" are not applied. */
enum qp_rc qp__legacy_context_back(const struct qp__meta *m, bool raw, json_t **out,
                                   struct qp_err *err);
/* One branch with empty message_ids. The prompt may be NULL. */
enum qp_rc qp__legacy_branch_back(const struct qp__branch_def *b, const char *prompt_id,
                                  const char *prompt_content, bool raw, json_t **out,
                                  struct qp_err *err);
/* The known fields of a configuration, in the order of the old programs; ends with NULL. */
extern const char *const qp__legacy_config_fields[];
/* The key of the branch in the old format. */
const char *qp__legacy_branch_key(const struct qp__branch_def *b);
/* The "legacy" of a meta, a branch or a message; NULL: none. */
json_t *qp__legacy_of(const json_t *extra);
bool qp__legacy_is_late(const json_t *legacy);
void qp__legacy_prompt_hash(const char *content, char out[33]);

/* Copies the fields that are in neither list (each ends with NULL and may be NULL). 0 or -1. */
int qp__legacy_add_others(json_t *to, const json_t *from, const char *const *known,
                          const char *const *taken);
bool qp__legacy_is_listed(const char *const *list, const char *key);

#endif
