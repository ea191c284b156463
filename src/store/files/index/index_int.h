/* index_int.h - shared by the two parts of the index reader: index_line.c parses a line,
 * index_read.c reads the files. */
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
  bool other_shape;           /* index.json: not in our line format */
  uint64_t expected;          /* number of entries that index.json announces */
  uint64_t entries;           /* of index.json so far */
  uint32_t last_slot;         /* of the previous entry, or QP__NO_SLOT */
  char last_id[QP__UUID_LEN]; /* its id as text, or 0: usually the parent of the next entry */
  const char *dir;            /* of the previous line, or NULL … */
  size_t dir_len;             /* … its length … */
  uint16_t dir_number;        /* … and its number in the tree */
  uint32_t pack_number;       /* pack of the previous line, in the tree, if any_pack … */
  bool any_pack;              /* … */
  uint64_t frame_offset;      /* … the frame's offset … */
  uint32_t frame_number;      /* … and its number in the tree */
  char date[11];              /* "2026-11-15T" of the previous line … */
  int64_t date_ms;            /* … and its milliseconds */
  uint64_t scanned;           /* entries scanned one by one while searching an id */
  size_t head_at;             /* index of the last moved head */
  bool again;     /* the tree has the entries already: only heads and statuses are applied */
  bool tolerant;  /* index.json: damaged lines are skipped */
  bool past_fold; /* in a log older than index.json: an entry was found that index.json lacks */
  uint8_t *marks; /* with `again`: the marks of each slot (index.h); or NULL */
  json_t *top;    /* index.json: its first line, without entries */
  qp__entry_fn *collect; /* receives the entries instead of the tree, or NULL */
  void *collect_arg;
  struct qp_uuid last_uuid; /* of the previous entry, when collecting */
};

/* Reads an entry or a change, in the fixed form or any other, into the image. QP_INVALID: the line
 * is invalid. */
enum qp_rc qp__index_take_line(struct qp__index_reader *r, const char *line, size_t len,
                               struct qp_err *err);
/* An entry as JSON. */
enum qp_rc qp__index_take_entry(struct qp__index_reader *r, json_t *o, struct qp_err *err);
/* The slot of an id, or QP__NO_SLOT. */
enum qp_rc qp__index_find_id(struct qp__index_reader *r, const struct qp_uuid *id, uint32_t *out,
                             struct qp_err *err);

#endif
