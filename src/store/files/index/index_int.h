/* index_int.h - what the two halves of the index reader share: index_line.c understands a line,
 * index_read.c goes through the files. */
#ifndef QP_STORE_FILES_INDEX_INDEX_INT_H
#define QP_STORE_FILES_INDEX_INDEX_INT_H

#include <jansson.h>

#include "base/uuid.h"
#include "store/files/index/index.h"

struct qp__index_reader {
  struct qp__image *image;
  struct qp__index_report *report;
  bool in_log;
  bool started;               /* the first line was read */
  bool finished;              /* index.json: its last line was read */
  bool other_shape;           /* index.json: not ours line by line */
  uint64_t expected;          /* entries that index.json announces */
  uint64_t entries;           /* of index.json so far */
  uint32_t last_slot;         /* of the entry before, or QP__NO_SLOT */
  char last_id[QP__UUID_LEN]; /* its id as it was written, or 0: mostly the next one's parent */
  const char *dir;            /* of the line before, or NULL … */
  size_t dir_len;             /* … its length … */
  uint16_t dir_number;        /* … and its number in the tree */
  uint32_t pack_number;       /* pack of the line before, in the tree, if any_pack … */
  bool any_pack;              /* … */
  uint64_t frame_offset;      /* … the frame's offset … */
  uint32_t frame_number;      /* … and its number in the tree */
  char date[11];              /* "2026-11-15T" of the line before … */
  int64_t date_ms;            /* … and its milliseconds */
  uint64_t scanned;           /* entries looked at one by one in search of an id */
  size_t head_at;             /* where the last moved head was */
  bool again;     /* the tree has the entries already: only what follows from them counts */
  bool tolerant;  /* index.json: a line that is damaged is passed over */
  bool past_fold; /* in a log that is older than index.json: an entry came that index.json lacks */
  uint8_t *marks; /* again: what the lines say of each slot, see index.h; or NULL */
  json_t *top;    /* index.json: its first line, without entries */
  qp__entry_fn *collect; /* who takes the entries instead of the tree, or NULL */
  void *collect_arg;
  struct qp_uuid last_uuid; /* of the entry before, when collecting */
};

/* An entry or a change, in the fixed form or any other, into the image. QP_INVALID: the line says
 * nothing sensible. */
enum qp_rc qp__index_take_line(struct qp__index_reader *r, const char *line, size_t len,
                               struct qp_err *err);
/* An entry as JSON. */
enum qp_rc qp__index_take_entry(struct qp__index_reader *r, json_t *o, struct qp_err *err);
/* The slot of an id, or QP__NO_SLOT. */
enum qp_rc qp__index_find_id(struct qp__index_reader *r, const struct qp_uuid *id, uint32_t *out,
                             struct qp_err *err);

#endif
