/* legacy_rig.h - old contexts for tests: opening them, storing them like the store does, and
 * writing them back. In a file system in memory, unless a test chooses another. */
#ifndef LEGACY_RIG_H
#define LEGACY_RIG_H

#include <jansson.h>
#include <stdbool.h>

#include "old/legacy.h"

/* The content of a store: the bytes of metadata.json and of every message, in order. */
struct legacy_stored {
  char *meta;
  size_t meta_len;
  char **messages;
  size_t *lens;
  size_t count;
};

/* Converts everything and encodes it. `differences` receives what qp__legacy_compare and its
 * siblings find, on what was decoded from those bytes again. QP_OK, or the first failure; *out is
 * untouched then. */
enum qp_rc legacy_store(const struct qp__legacy_source *l, struct legacy_stored *out,
                        struct qp__buf *differences, struct qp_err *err);
void legacy_stored_release(struct legacy_stored *s);
bool legacy_stored_equal(const struct legacy_stored *a, const struct legacy_stored *b);

/* Writes the old format of what is stored. Prompts come from the source `l` (may be NULL). */
enum qp_rc legacy_write_back(const struct legacy_stored *s, const struct qp__legacy_source *l,
                             struct qp__buf *out, struct qp_err *err);

/* ---- in a file system in memory ---- */

struct qp__os_sim;

/* One file, "{CTX}.json" of legacy_text.h. */
struct legacy_file {
  struct qp__os_sim *sim;
  const struct qp__os *os;
  int dir;
};
void legacy_file_make(struct legacy_file *f, const char *text);
void legacy_file_make_bytes(struct legacy_file *f, const char *data, size_t len);
void legacy_file_release(struct legacy_file *f);
enum qp_rc legacy_file_open(const struct legacy_file *f, struct qp__legacy_source **out,
                            struct qp_err *err);
/* Opens, stores, compares, writes back. A difference is a failure. */
enum qp_rc legacy_there_and_back(const struct legacy_file *f, struct qp__buf *back,
                                 struct qp_err *err);

/* The same with a source that must open; `what` is "source". */
struct legacy_open_file {
  struct legacy_file file;
  struct qp__legacy_source *legacy;
};
void legacy_open_text(struct legacy_open_file *f, const char *text);
void legacy_close_text(struct legacy_open_file *f);
/* Whether a note has `part` in it. */
bool legacy_has_note(const struct qp__legacy_source *l, const char *part);

/* Asserts that the value is equal after writing it back, that nothing differs in between, and
 * that a second conversion gives the same bytes, in the store and in the old format. */
void legacy_round_trip(const char *text);
void legacy_round_trip_bytes(const char *data, size_t len);
/* Asserts that its old format has these bytes. */
void legacy_assert_written(const char *text, const char *expected);

/* ---- files on disk ---- */

/* Calls `fn` with the bytes of each *.json in a directory; returns the number of files. */
size_t legacy_each_file(const char *dir, void (*fn)(const char *data, size_t len));
/* The same for the real files of ../shared/data. */
size_t legacy_each_real_file(void (*fn)(const char *data, size_t len));

#endif
