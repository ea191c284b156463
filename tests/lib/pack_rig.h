/* pack_rig.h - shared by the tests of packs: messages, a file system in memory, and reading that
 * compares. Helpers that must succeed assert it. */
#ifndef PACK_RIG_H
#define PACK_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "os_fault.h"
#include "os_sim.h"
#include "store/files/pack/pack_int.h"

#define PACK_MAX 2000
#define PACK_PATH "c/messages.jsonl.zst"
#define PACK_DICT "c/messages.dict"

extern const struct qp_bytes pack_no_dict;

struct pack_place {
  uint64_t frame;
  uint32_t pos;
};

/* The messages that a test puts into packs. */
struct pack_box {
  char *json[PACK_MAX];
  size_t len[PACK_MAX];
  const char *dir[PACK_MAX];
  struct pack_place place[PACK_MAX];
  size_t count;
};

struct pack_rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  const struct qp__os *os;
  int root;
};

struct pack_walk {
  const struct pack_box *box;
  size_t next;    /* the expected message */
  size_t skipped; /* that did not */
  size_t nameless;
  bool moved; /* places may differ */
};

uint64_t pack_random(uint64_t *seed);

/* Adds a message of about `len` bytes: words that repeat, or noise. */
void pack_add(struct pack_box *b, const char *dir, size_t len, bool noise);
/* Messages that have much text in common, like those of one agent; the box must be empty. */
void pack_fill_alike(struct pack_box *b, size_t count);
void pack_empty(struct pack_box *b);

void pack_rig_up(struct pack_rig *r);
void pack_rig_down(struct pack_rig *r); /* every descriptor must be closed */

/* Writes messages from..to of the box after `kept` bytes of the pack `old`. */
enum qp_rc pack_try_write(const struct qp__os *os, int root, const char *name, const char *old,
                          uint64_t kept, struct qp_bytes dict, struct pack_box *b, size_t from,
                          size_t to, uint64_t *bytes, struct qp_err *err);
/* Writes all messages to PACK_PATH; returns its length. */
uint64_t pack_write(const struct qp__os *os, int root, struct qp_bytes dict, struct pack_box *b);

struct qp__pack_cache *pack_cache(const struct qp__os *os, int root);
/* Reads message i. If it can be read, it must be the message that was written. */
enum qp_rc pack_read_one(struct qp__pack_cache *c, const struct pack_box *b, size_t i,
                         struct qp_err *err);
void pack_read_all(struct qp__pack_cache *c, const struct pack_box *b);

/* Scans PACK_PATH: it must yield only messages of the box, in order. */
enum qp_rc pack_try_scan(const struct qp__os *os, int root, struct pack_walk *w, bool *damaged,
                         struct qp_err *err);
/* The scan must yield all messages, and nothing is damaged. */
void pack_scan_all(const struct qp__os *os, int root, const struct pack_box *b);

/* A dictionary from all messages of the box; release it. */
void pack_train(const struct pack_box *b, uint64_t scale, struct qp__buf *dict);
void pack_put_dict(struct pack_rig *r, struct qp_bytes dict);

#endif
