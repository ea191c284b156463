/* index_read.c - reads index.json and index.log; see index.h for their form, index_line.c for their
 * lines. An index.json in another layout, for example reformatted by hand, is parsed as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/sum.h"
#include "os/file.h"
#include "os/lines.h"
#include "store/files/index/index_int.h"

#define GENERATION_MAX ((int64_t)1 << 53) /* larger than any real number of folds */
#define INDEX_JSON_MAX ((size_t)1 << 30)

/* ---- index.json ---- */

/* The fields of the first line, which opens the array of entries. */
static enum qp_rc
take_json_head(struct qp__index_reader *r, const json_t *o, struct qp_err *err)
{
  const char *format = json_string_value(json_object_get(o, "format"));
  int64_t version = 0;
  int64_t generation = 0;
  int64_t count = 0;
  enum qp_rc rc;

  if (!format || strcmp(format, "quipu-index") != 0)
    return qp__fail(err, QP_INVALID, "index.json: not a quipu index");
  if ((rc = qp__json_int("index.json", o, "version", &version, err)) ||
      (rc = qp__json_int("index.json", o, "generation", &generation, err)) ||
      (rc = qp__json_int("index.json", o, "count", &count, err)))
    return rc;
  if (version > 1)
    return qp__fail(err, QP_CORRUPT, "index.json was written by a newer quipu (version %lld)",
                    (long long)version);
  if (version < 1 || generation < 0 || generation > GENERATION_MAX || count < 0)
    return qp__fail(err, QP_INVALID, "index.json: a number is out of range");
  r->report->generation = (uint64_t)generation;
  r->expected = (uint64_t)count;
  return QP_OK;
}

static enum qp_rc
take_heads(struct qp__index_reader *r, json_t *heads, struct qp_err *err)
{
  const char *name;
  json_t *value;

  if (!json_is_object(heads))
    return qp__fail(err, QP_INVALID, "index.json: \"heads\" must be an object");
  if (r->collect)
    return QP_OK;
  json_object_foreach (heads, name, value) {
    struct qp_uuid id = { { 0 } };
    uint32_t slot = QP__NO_SLOT;
    enum qp_rc rc;

    rc = qp__branch_name_check(name, err);
    if (rc == QP_NOMEM)
      return rc;
    if (rc) {
      r->report->bad_heads++;
      continue;
    }
    if (!json_is_null(value)) {
      if (json_string_length(value) != QP__UUID_LEN ||
          !qp__uuid_decode(json_string_value(value), &id))
        return qp__fail(err, QP_INVALID, "index.json: the head of a branch must be a UUID");
      rc = qp__index_find_id(r, &id, &slot, err);
      if (rc)
        return rc;
      if (slot == QP__NO_SLOT) { /* better no head than a wrong one: the load searches another */
        r->report->bad_heads++;
        continue;
      }
    }
    if (!qp__image_set_head(r->image, name, slot))
      return qp__fail_nomem(err, "reading the index");
  }
  return QP_OK;
}

/* The sum after the heads covers the object without its entries. */
static enum qp_rc
check_json_sum(json_t *top, json_t *heads, json_t *sum, struct qp_err *err)
{
  json_t *o = json_object();
  enum qp__sum_state state = QP__SUM_NONE;
  enum qp_rc rc = QP_OK;
  const char *key;
  json_t *value;
  bool ok = o != NULL;

  json_object_foreach (top, key, value)
    if (ok && strcmp(key, "entries") != 0 && strcmp(key, "heads") != 0 &&
        strcmp(key, QP__SUM_KEY) != 0)
      ok = !json_object_set(o, key, value);
  if (!ok || json_object_set(o, "heads", heads) || (sum && json_object_set(o, QP__SUM_KEY, sum)))
    rc = qp__fail_nomem(err, "reading the index");
  if (!rc)
    rc = qp__sum_take(o, &state, err);
  json_decref(o);
  if (!rc && state == QP__SUM_WRONG)
    rc = qp__fail(err, QP_INVALID, "index.json: its checksum is wrong");
  return rc;
}

/* Parses a line that is an incomplete object; `fix_head` and `fix_tail` complete it. */
static enum qp_rc
parse_completed(const char *fix_head, const char *line, size_t len, const char *fix_tail,
                json_t **out, struct qp_err *err)
{
  struct qp__buf whole;
  enum qp_rc rc;

  qp__buf_init(&whole, QP__LINE_MAX * 2);
  (void)qp__buf_add_str(&whole, fix_head);
  (void)qp__buf_add(&whole, line, len);
  (void)qp__buf_add_str(&whole, fix_tail);
  rc = qp__buf_check(&whole, "index.json", err);
  if (!rc)
    rc = qp__json_parse_own_object("index.json", qp__buf_bytes(&whole), out, err);
  qp__buf_release(&whole);
  return rc;
}

static enum qp_rc
take_first_line(struct qp__index_reader *r, const char *line, size_t len, struct qp_err *err)
{
  enum qp_rc rc;

  json_decref(r->top);
  r->top = NULL;
  rc = parse_completed("", line, len, "]}", &r->top, err);
  return rc ? rc : take_json_head(r, r->top, err);
}

static enum qp_rc
take_last_line(struct qp__index_reader *r, const char *line, size_t len, struct qp_err *err)
{
  json_t *o = NULL;
  enum qp_rc rc;

  if (len < 2 || line[1] != ',' || !r->top)
    return qp__fail(err, QP_INVALID, "index.json: invalid last line");
  rc = parse_completed("{", line + 2, len - 2, "", &o, err);
  if (!rc && json_is_object(json_object_get(o, "heads")))
    rc = check_json_sum(r->top, json_object_get(o, "heads"), json_object_get(o, QP__SUM_KEY), err);
  if (!rc)
    rc = take_heads(r, json_object_get(o, "heads"), err);
  json_decref(o);
  return rc;
}

/* Whether a failure means that the file is damaged, not that we failed. */
static bool
is_damage(enum qp_rc rc)
{
  return rc == QP_INVALID || rc == QP_TOOBIG;
}

static enum qp_rc
json_line(void *arg, const char *line, size_t len, uint64_t end, struct qp_err *err)
{
  struct qp__index_reader *r = arg;
  enum qp_rc rc;

  r->report->json_bytes = end;
  if (r->finished) {
    rc = qp__fail(err, QP_INVALID, "index.json: unexpected text after its end");
  } else if (!r->started) {
    r->started = true;
    rc = take_first_line(r, line, len, err);
  } else if (len && line[0] == ']') {
    r->finished = true;
    rc = take_last_line(r, line, len, err);
    r->report->heads_damaged = r->report->heads_damaged || is_damage(rc);
  } else {
    if (len && line[len - 1] == ',')
      len--;
    r->entries++;
    rc = qp__index_take_line(r, line, len, err);
  }
  return r->tolerant && is_damage(rc) ? QP_OK : rc;
}

/* Whether something else is in the place of a regular file. */
static bool
is_other_type(int sys)
{
  return sys == -ELOOP || sys == -ENOTDIR || sys == -EISDIR || sys == -ENOTSUP || sys == -ENXIO;
}

/* Reads an index.json in another layout as a whole. */
static enum qp_rc
read_json_whole(struct qp__index_reader *r, const struct qp__os *os, int root, const char *path,
                struct qp_err *err)
{
  struct qp__buf text;
  json_t *o = NULL;
  json_t *entries = NULL;
  json_t *value;
  size_t i;
  enum qp_rc rc;
  int sys;

  qp__buf_init(&text, INDEX_JSON_MAX);
  sys = qp__file_read(os, root, path, &text);
  if (is_other_type(sys))
    rc = qp__fail(err, QP_INVALID, "'%s' is not a regular file", path);
  else if (sys)
    rc = qp__fail_sys(err, sys, "cannot read '%s'", path);
  else
    rc = qp__json_parse_own_object("index.json", qp__buf_bytes(&text), &o, err);
  r->report->json_bytes = text.len;
  qp__buf_release(&text);
  if (!rc)
    rc = take_json_head(r, o, err);
  if (!rc)
    rc = qp__json_array("index.json", o, "entries", &entries, err);
  json_array_foreach (entries, i, value) {
    if (rc)
      break;
    rc = json_is_object(value) ? qp__index_take_entry(r, value, err)
                               : qp__fail(err, QP_INVALID, "index.json: an entry is not an object");
  }
  if (!rc && json_is_object(json_object_get(o, "heads")))
    rc = check_json_sum(o, json_object_get(o, "heads"), json_object_get(o, QP__SUM_KEY), err);
  if (!rc)
    rc = take_heads(r, json_object_get(o, "heads"), err);
  json_decref(o);
  return rc;
}

/* Removes what a failed attempt left in the image. */
static void
start_over(struct qp__index_reader *r)
{
  struct qp__image *image = r->image;

  while (!r->collect && image->head_count)
    qp__image_drop_head(image, image->heads[0].name);
  if (!r->collect && !r->again) {
    qp__tree_release(&image->tree);
    qp__tree_init(&image->tree);
  }
  r->last_slot = QP__NO_SLOT;
  r->last_id[0] = 0;
  r->dir = NULL;
  r->any_pack = false;
  r->started = r->finished = false;
  r->entries = 0;
  r->report->bad_lines = 0;
  r->report->bad_parents = 0;
  r->report->bad_heads = 0;
}

/* A directory or a pipe can be opened like a file, but not read. */
static bool
is_regular(const struct qp__os *os, int fd)
{
  struct stat st;

  return !os->fstat(os->self, fd, &st) && S_ISREG(st.st_mode);
}

/* Reads index.json line by line. QP_INVALID: another layout, or incomplete. */
static enum qp_rc
read_json_lines(struct qp__index_reader *r, const struct qp__os *os, int root, const char *path,
                struct qp_err *err)
{
  bool torn = false;
  enum qp_rc rc;
  int fd = qp__open(os, root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

  if (fd == -ENOENT)
    return qp__fail(err, QP_NOTFOUND, "'%s' is missing", path);
  if (is_other_type(fd))
    return qp__fail(err, QP_INVALID, "'%s' is not a regular file", path);
  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot open '%s'", path);
  rc = qp__lines_read(os, fd, json_line, r, &torn, err);
  if (rc && !is_damage(rc) && !is_regular(os, fd))
    rc = QP_INVALID;
  qp__close(os, fd);
  if (!rc && !r->finished)
    r->report->heads_damaged = true;
  if (!rc && (!r->finished || torn || r->entries != r->expected))
    rc = qp__fail(err, QP_INVALID, "index.json: incomplete");
  return rc;
}

/* Reads a valid index.json completely, in any layout. Of a damaged one reads nothing or, for a
 * repair, all readable lines. */
static enum qp_rc
read_json(struct qp__index_reader *r, const struct qp__os *os, int root, const char *path,
          struct qp_err *err)
{
  enum qp_rc rc = read_json_lines(r, os, root, path, err);

  if (rc == QP_NOTFOUND) {
    r->report->json_missing = true;
    return QP_OK;
  }
  if (!is_damage(rc))
    return rc;
  start_over(r);
  rc = read_json_whole(r, os, root, path, err);
  if (rc != QP_NOTFOUND && !is_damage(rc))
    return rc;
  r->report->json_damaged = true;
  start_over(r);
  if (!r->collect && !r->again)
    return QP_OK;
  r->tolerant = true;
  r->report->heads_damaged = false;
  rc = read_json_lines(r, os, root, path, err);
  r->tolerant = false;
  return is_damage(rc) || rc == QP_NOTFOUND ? QP_OK : rc;
}

/* ---- index.log ---- */

static enum qp_rc
log_line(void *arg, const char *line, size_t len, uint64_t end, struct qp_err *err)
{
  struct qp__index_reader *r = arg;
  struct qp_bytes bytes = { line, len };
  int64_t generation = 0;
  enum qp__sum_state sum = QP__SUM_NONE;
  json_t *o = NULL;
  enum qp_rc rc;

  if (!r->started) {
    r->started = true;
    rc = qp__json_parse_object("index.log", bytes, &o, err);
    if (!rc)
      rc = qp__sum_take(o, &sum, err);
    if (!rc && sum != QP__SUM_WRONG && json_object_get(o, "log")) {
      rc = qp__json_int("index.log", o, "generation", &generation, err);
      if (generation < 0 || generation > GENERATION_MAX)
        r->report->log_headless = true;
      else
        r->report->log_generation = (uint64_t)generation;
      r->report->log_bytes = end;
      json_decref(o);
      return is_damage(rc) ? QP_OK : rc;
    }
    json_decref(o); /* not a header: an ordinary line, or damage */
    r->report->log_headless = true;
    if (rc && !is_damage(rc))
      return rc;
  }
  rc = qp__index_take_line(r, line, len, err);
  if (is_damage(rc)) {
    r->report->bad_lines++;
    rc = QP_OK;
  }
  r->report->log_bytes = end;
  return rc;
}

static enum qp_rc
read_log(struct qp__index_reader *r, const struct qp__os *os, int root, const char *path,
         struct qp_err *err)
{
  enum qp_rc rc;
  int fd = qp__open(os, root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

  r->in_log = true;
  r->started = r->past_fold = false;
  r->last_slot = r->image->tree.count ? r->image->tree.count - 1 : QP__NO_SLOT;
  if (fd == -ENOENT || is_other_type(fd)) {
    r->report->log_missing = true;
    return QP_OK;
  }
  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot open '%s'", path);
  rc = qp__lines_read(os, fd, log_line, r, &r->report->log_torn, err);
  if (rc == QP_IO && !is_regular(os, fd)) {
    r->report->log_missing = true;
    rc = QP_OK;
  }
  qp__close(os, fd);
  if (!r->started)
    r->report->log_headless = true;
  return rc;
}

/* ---- both ---- */

typedef enum qp_rc read_fn(struct qp__index_reader *r, const struct qp__os *os, int root,
                           const char *path, struct qp_err *err);

static enum qp_rc
read_file(struct qp__index_reader *r, read_fn *fn, const struct qp__os *os, int root,
          const char *dir, const char *name, struct qp_err *err)
{
  struct qp__buf path;
  enum qp_rc rc;

  qp__buf_init(&path, 1024);
  (void)qp__buf_addf(&path, "%s/%s", dir, name);
  rc = qp__buf_check(&path, "a path", err);
  if (!rc)
    rc = fn(r, os, root, path.data, err);
  qp__buf_release(&path);
  return rc;
}

/* Messages that no head in index.json reaches were known to be garbage when it was written. */
static void
unmark_reached(const struct qp__index_reader *r)
{
  const struct qp__image *image = r->image;

  for (size_t i = 0; i < image->head_count; i++)
    for (uint32_t slot = image->heads[i].slot;
         slot != QP__NO_SLOT && r->marks[slot] & QP__MARK_UNREACHED;
         slot = qp__tree_at(&image->tree, slot)->parent)
      r->marks[slot] &= (uint8_t)~QP__MARK_UNREACHED;
}

static enum qp_rc
read_both(struct qp__index_reader *r, const struct qp__os *os, int root, const char *dir,
          struct qp_err *err)
{
  enum qp_rc rc;

  memset(r->report, 0, sizeof(*r->report));
  start_over(r);
  rc = read_file(r, read_json, os, root, dir, "index.json", err);
  if (!rc && r->marks)
    unmark_reached(r);
  if (!rc)
    rc = read_file(r, read_log, os, root, dir, "index.log", err);
  json_decref(r->top);
  r->top = NULL;
  return rc;
}

enum qp_rc
qp__index_collect(const struct qp__os *os, int root, const char *dir, struct qp__image *image,
                  qp__entry_fn *fn, void *arg, struct qp_err *err)
{
  struct qp__index_report report;
  struct qp__index_reader r = {
    .image = image, .report = &report, .collect = fn, .collect_arg = arg
  };

  return read_both(&r, os, root, dir, err);
}

enum qp_rc
qp__index_apply(const struct qp__os *os, int root, const char *dir, struct qp__image *image,
                uint8_t *marks, struct qp__index_report *report, struct qp_err *err)
{
  struct qp__index_reader r = { .image = image, .report = report, .again = true };

  r.marks = marks;
  return read_both(&r, os, root, dir, err);
}

enum qp_rc
qp__index_read(const struct qp__os *os, int root, const char *dir, struct qp__image *image,
               struct qp__index_report *report, struct qp_err *err)
{
  /* A writer in another process may be active: if it folds between our two reads, the log is newer
   * or older; if it appends while we read, the last line may be incomplete. Then we read again. */
  for (int attempt = 0; attempt < 8; attempt++) {
    struct qp__index_reader r = { .image = image, .report = report };
    enum qp_rc rc = read_both(&r, os, root, dir, err);

    if (rc || report->json_missing || report->json_damaged || report->log_missing)
      return rc;
    if (report->log_generation == report->generation && !report->log_torn)
      return QP_OK;
    if (report->log_generation <= report->generation && attempt > 1)
      return QP_OK;
  }
  report->json_damaged = true; /* older than the log: the lines between the two are lost */
  return QP_OK;
}
