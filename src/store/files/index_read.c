/* index_read.c - index.json and index.log into memory; see index.h for their form.
 *
 * Opening a context of 100,000 messages is this file's inner loop. take_fixed() knows the one form
 * that we write and costs about a tenth of a microsecond a line; a line in any other form goes to
 * the JSON library (take_json), and an index.json in any other shape, reformatted by hand say, is
 * read by it as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/uuid.h"
#include "model/message.h"
#include "os/file.h"
#include "os/lines.h"
#include "store/files/index.h"

#define INDEX_JSON_MAX ((size_t)1 << 30)
#define SCAN_MAX 500000 /* entries: about a third of the time that their table of ids would take */

/* What a line says before its parent is looked up. */
struct parsed {
  struct qp__entry entry;
  struct qp_uuid parent; /* unless it follows */
  bool follows;          /* its parent is the entry before */
  const char *id_text;   /* 36 characters, or NULL */
};

struct reader {
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
  char date[11];              /* "2026-11-15T" of the line before … */
  int64_t date_ms;            /* … and its milliseconds */
  uint64_t scanned;           /* entries looked at one by one in search of an id */
  size_t head_at;             /* where the last moved head was */
  bool again;                 /* the tree has the entries already: only what follows from them counts */
  qp__entry_fn *collect;      /* who takes the entries instead of the tree, or NULL */
  void *collect_arg;
  struct qp_uuid last_uuid; /* of the entry before, when collecting */
};

/* ---- one entry in the fixed form ---- */

static inline bool
same4(const char *a, const char *b)
{
  uint32_t x;
  uint32_t y;

  memcpy(&x, a, sizeof(x));
  memcpy(&y, b, sizeof(y));
  return x == y;
}

static inline bool
same8(const char *a, const char *b)
{
  uint64_t x;
  uint64_t y;

  memcpy(&x, a, sizeof(x));
  memcpy(&y, b, sizeof(y));
  return x == y;
}

/* Whether n bytes, 4 to 16 and constant, are equal: two comparisons of words that overlap. For most
 * of these lengths the compiler would call memcmp(). */
#define SAME(a, b, n)                                           \
  ((n) < 8 ? same4((a), (b)) && same4((a) + (n)-4, (b) + (n)-4) \
           : same8((a), (b)) && same8((a) + (n)-8, (b) + (n)-8))

#define BEGINS(p, e, literal)                    \
  ((size_t)((e) - (p)) >= sizeof(literal) - 1 && \
   SAME((p), "" literal, (ptrdiff_t)sizeof(literal) - 1))

#define SKIP(p, e, literal) (BEGINS(p, e, literal) && ((p) += sizeof(literal) - 1, true))

static bool
skip_char(const char **p, const char *e, char c)
{
  if (*p == e || **p != c)
    return false;
  (*p)++;
  return true;
}

static bool
take_number(const char **p, const char *e, uint32_t *out)
{
  uint64_t v = 0;
  const char *s = *p;

  while (s < e && *s >= '0' && *s <= '9' && v <= UINT32_MAX)
    v = v * 10 + (uint64_t)(*s++ - '0');
  if (s == *p || v > UINT32_MAX)
    return false;
  *out = (uint32_t)v;
  *p = s;
  return true;
}

static bool
take_id(const char **p, const char *e, struct qp_uuid *out)
{
  if (e - *p < QP__UUID_LEN || !qp__uuid_decode(*p, out))
    return false;
  *p += QP__UUID_LEN;
  return true;
}

static bool
two_digits(const char *s, int64_t *out)
{
  if (s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9')
    return false;
  *out = (s[0] - '0') * 10 + (s[1] - '0');
  return true;
}

/* "2026-11-15T19:55:40.123Z"; the date is mostly that of the line before. */
static bool
take_time(struct reader *r, const char **p, const char *e, int64_t *out)
{
  const char *s = *p;
  int64_t h;
  int64_t m;
  int64_t sec;
  int64_t ms;

  if (e - s < QP__TIME_LEN)
    return false;
  if (!SAME(s, r->date, (ptrdiff_t)sizeof(r->date))) {
    if (qp__time_parse(s, QP__TIME_LEN, out))
      return false;
    memcpy(r->date, s, sizeof(r->date));
    r->date_ms = *out - *out % 86400000 - (*out % 86400000 < 0 ? 86400000 : 0);
    *p += QP__TIME_LEN;
    return s[23] == 'Z';
  }
  if (!two_digits(s + 11, &h) || !two_digits(s + 14, &m) || !two_digits(s + 17, &sec) ||
      !two_digits(s + 20, &ms) || s[22] < '0' || s[22] > '9' || s[13] != ':' || s[16] != ':' ||
      s[19] != '.' || s[23] != 'Z' || h > 23 || m > 59 || sec > 59)
    return false;
  *out = r->date_ms + ((h * 60 + m) * 60 + sec) * 1000 + ms * 10 + (s[22] - '0');
  *p += QP__TIME_LEN;
  return true;
}

/* A name up to the next quote; *len is its length. */
static const char *
take_name(const char **p, const char *e, size_t *len)
{
  const char *s = *p;
  const char *quote = memchr(s, '"', (size_t)(e - s));

  if (!quote)
    return NULL;
  *len = (size_t)(quote - s);
  *p = quote;
  return s;
}

static bool
take_role(const char **p, const char *e, struct qp__entry *out)
{
  size_t n;
  const char *s;
  enum qp_role role;

  if (BEGINS(*p, e, "user\"")) {
    out->role = QP_ROLE_USER;
    *p += 4;
    return true;
  }
  if (BEGINS(*p, e, "assistant\"")) {
    out->role = QP_ROLE_ASSISTANT;
    *p += 9;
    return true;
  }
  s = take_name(p, e, &n);
  if (!s || !qp__role_find(s, n, &role))
    return false;
  out->role = role & 15;
  return true;
}

static bool
take_type(const char **p, const char *e, struct qp__entry *out)
{
  size_t n;
  const char *s;
  enum qp_message_type type;

  if (BEGINS(*p, e, "text\"")) {
    out->type = QP_TYPE_TEXT;
    *p += 4;
    return true;
  }
  s = take_name(p, e, &n);
  if (!s || !qp__type_find(s, n, &type))
    return false;
  out->type = type & 15;
  return true;
}

static bool
take_status(const char **p, const char *e, struct qp__entry *out)
{
  enum qp_message_status status = QP_STATUS_LIVE;
  size_t n;
  const char *s;

  if (BEGINS(*p, e, "live\"")) {
    *p += 4;
  } else {
    s = take_name(p, e, &n);
    if (!s || !qp__status_find(s, n, &status))
      return false;
  }
  atomic_init(&out->status, (uint8_t)status);
  return true;
}

static bool
take_hash(const char **p, const char *e, uint8_t out[16])
{
  if (e - *p < 32)
    return false;
  for (int i = 0; i < 4; i++) {
    uint32_t w;

    if (!qp__hex_decode8(*p + (ptrdiff_t)8 * i, &w))
      return false;
    out[4 * i] = (uint8_t)(w >> 24);
    out[4 * i + 1] = (uint8_t)(w >> 16);
    out[4 * i + 2] = (uint8_t)(w >> 8);
    out[4 * i + 3] = (uint8_t)w;
  }
  *p += 32;
  return true;
}

/* The directory's number; it is mostly that of the line before. */
static bool
take_dir(struct reader *r, const char **p, const char *e, uint16_t *out, bool *nomem)
{
  struct qp__tree *tree = &r->image->tree;
  const char *s;
  size_t n;
  int sys;

  if (r->dir && (size_t)(e - *p) > r->dir_len && (*p)[r->dir_len] == '"' &&
      memcmp(*p, r->dir, r->dir_len) == 0) {
    *out = r->dir_number;
    *p += r->dir_len;
    return true;
  }
  s = take_name(p, e, &n);
  if (!s || n <= 7 || memcmp(s, "branch-", 7) != 0 || memchr(s, '/', n) || memchr(s, '\\', n))
    return false;
  sys = qp__tree_dir(tree, s, n, out);
  *nomem = sys == -ENOMEM;
  if (sys)
    return false;
  r->dir = qp__tree_dir_name(tree, *out);
  r->dir_len = n;
  r->dir_number = *out;
  return true;
}

/* The parent's id is mostly written as that of the entry before was. */
static bool
take_parent(const struct reader *r, const char **p, const char *e, struct parsed *out)
{
  out->follows = r->last_id[0] && e - *p >= QP__UUID_LEN && SAME(*p, r->last_id, 16) &&
                 SAME(*p + 16, r->last_id + 16, 16) && same4(*p + 32, r->last_id + 32);
  if (!out->follows)
    return take_id(p, e, &out->parent);
  *p += QP__UUID_LEN;
  return true;
}

/* False: not in the fixed form, or memory is out (*nomem). Nothing has changed then but the list of
 * directories. */
static bool
take_fixed(struct reader *r, const char *p, const char *e, struct parsed *out, bool *nomem)
{
  struct qp__entry *entry = &out->entry;

  if (!SKIP(p, e, "{\"id\":\""))
    return false;
  out->id_text = p;
  if (!take_id(&p, e, &entry->id) || !SKIP(p, e, "\",\"parent\":"))
    return false;
  if (skip_char(&p, e, '"')) {
    if (!take_parent(r, &p, e, out) || !skip_char(&p, e, '"'))
      return false;
  } else {
    memset(&out->parent, 0, sizeof(out->parent));
    out->follows = false;
    if (!SKIP(p, e, "null"))
      return false;
  }
  return SKIP(p, e, ",\"dir\":\"") && take_dir(r, &p, e, &entry->dir, nomem) &&
         SKIP(p, e, "\",\"time\":\"") && take_time(r, &p, e, &entry->time) &&
         SKIP(p, e, "\",\"role\":\"") && take_role(&p, e, entry) && SKIP(p, e, "\",\"type\":\"") &&
         take_type(&p, e, entry) && SKIP(p, e, "\",\"size\":") &&
         take_number(&p, e, &entry->size) && SKIP(p, e, ",\"tokens\":") &&
         take_number(&p, e, &entry->tokens) && SKIP(p, e, ",\"hash\":\"") &&
         take_hash(&p, e, entry->hash) && SKIP(p, e, "\",\"status\":\"") &&
         take_status(&p, e, entry) && skip_char(&p, e, '"') && skip_char(&p, e, '}') && p == e;
}

/* ---- one entry in any form ---- */

/* QP_INVALID: not an entry. */
static enum qp_rc
entry_of_json(struct reader *r, const json_t *o, struct parsed *out, struct qp_err *err)
{
  struct qp__entry *e = &out->entry;
  enum qp_role role = QP_ROLE_USER;
  enum qp_message_type type = QP_TYPE_TEXT;
  enum qp_message_status status = QP_STATUS_LIVE;
  const char *s = NULL;
  int64_t size = 0;
  int64_t tokens = 0;
  enum qp_rc rc;
  int sys;

  memset(out, 0, sizeof(*out));
  if ((rc = qp__json_uuid("entry", o, "id", &e->id, err)) ||
      (rc = qp__json_uuid("entry", o, "parent", &out->parent, err)) ||
      (rc = qp__json_time("entry", o, "time", &e->time, err)) ||
      (rc = qp__json_int("entry", o, "size", &size, err)) ||
      (rc = qp__json_int("entry", o, "tokens", &tokens, err)))
    return rc;
  if (qp_uuid_is_none(&e->id) || size < 0 || size > UINT32_MAX || tokens < 0 || tokens > UINT32_MAX)
    return qp__fail(err, QP_INVALID, "entry: a number or the id is out of range");
  e->size = (uint32_t)size;
  e->tokens = (uint32_t)tokens;
  s = json_string_value(json_object_get(o, "role"));
  if (s && !qp__role_find(s, strlen(s), &role))
    return qp__fail(err, QP_INVALID, "entry: unknown role");
  s = json_string_value(json_object_get(o, "type"));
  if (s && !qp__type_find(s, strlen(s), &type))
    return qp__fail(err, QP_INVALID, "entry: unknown type");
  s = json_string_value(json_object_get(o, "status"));
  if (s && !qp__status_find(s, strlen(s), &status))
    return qp__fail(err, QP_INVALID, "entry: unknown status");
  e->role = role & 15;
  e->type = type & 15;
  atomic_init(&e->status, (uint8_t)status);
  s = json_string_value(json_object_get(o, "hash"));
  if (!s || strlen(s) != 32 || !qp__hex_decode(e->hash, s, 16))
    return qp__fail(err, QP_INVALID, "entry: \"hash\" must be 32 hexadecimal digits");
  s = json_string_value(json_object_get(o, "dir"));
  if (!s || strncmp(s, "branch-", 7) != 0 || !s[7] || strchr(s, '/') || strlen(s) > 255)
    return qp__fail(err, QP_INVALID, "entry: \"dir\" must be the name of a branch directory");
  sys = qp__tree_dir(&r->image->tree, s, strlen(s), &e->dir);
  return sys ? qp__fail_sys(err, sys, "reading the index") : QP_OK;
}

/* ---- adding what was read ---- */

/* The slot of an id, or QP__NO_SLOT. The tree's table of ids costs a good part of all reading, and
 * many who open a context never need it. What is looked for here is mostly near the end: so the
 * entries are scanned from there, until that has become too much. */
static enum qp_rc
find_id(struct reader *r, const struct qp_uuid *id, uint32_t *out, struct qp_err *err)
{
  struct qp__tree *tree = &r->image->tree;
  bool has_table = atomic_load_explicit(&tree->ids, memory_order_relaxed);

  *out = QP__NO_SLOT;
  for (uint32_t slot = tree->count; !has_table && r->scanned < SCAN_MAX; r->scanned++) {
    if (slot == 0)
      return QP_OK;
    if (qp_uuid_equal(&qp__tree_at(tree, --slot)->id, id)) {
      *out = slot;
      return QP_OK;
    }
  }
  if (!qp__tree_find(tree, id, true, out))
    return qp__fail_nomem(err, "reading the index");
  return QP_OK;
}

static enum qp_rc
find_parent(struct reader *r, const struct parsed *p, uint32_t *out, struct qp_err *err)
{
  enum qp_rc rc;

  *out = p->follows ? r->last_slot : QP__NO_SLOT;
  if (p->follows || qp_uuid_is_none(&p->parent))
    return QP_OK;
  rc = find_id(r, &p->parent, out, err);
  if (!rc && *out == QP__NO_SLOT)
    r->report->bad_parents++;
  return rc;
}

/* In the log an entry moves the head of the branch that it is filed under. */
static enum qp_rc
move_head(struct reader *r, uint16_t dir, uint32_t slot, struct qp_err *err)
{
  const char *name = qp__tree_dir_name(&r->image->tree, dir) + 7; /* behind "branch-" */
  struct qp__buf decoded;
  bool ok;

  qp__buf_init(&decoded, QP__BRANCH_NAME_MAX);
  if (strchr(name, '%')) {
    if (qp__percent_decode(&decoded, name, strlen(name))) {
      qp__buf_release(&decoded);
      r->report->bad_lines++;
      return QP_OK;
    }
    name = decoded.data;
  }
  if (r->head_at < r->image->head_count && strcmp(r->image->heads[r->head_at].name, name) == 0) {
    r->image->heads[r->head_at].slot = slot;
    ok = true;
  } else {
    ok = qp__image_set_head(r->image, name, slot);
    if (ok)
      r->head_at = (size_t)(qp__image_head(r->image, name) - r->image->heads);
  }
  qp__buf_release(&decoded);
  return ok ? QP_OK : qp__fail_nomem(err, "reading the index");
}

/* Whether the id is there already: only asked in the log, where a fold that was cut short can leave
 * lines that index.json has too. */
static enum qp_rc
is_known(struct reader *r, const struct qp_uuid *id, uint32_t *slot, struct qp_err *err)
{
  *slot = QP__NO_SLOT;
  if (!r->again && (!r->in_log || r->report->log_generation == r->report->generation))
    return QP_OK;
  return find_id(r, id, slot, err);
}

static void
remember_id(struct reader *r, const struct parsed *p)
{
  if (p->id_text)
    memcpy(r->last_id, p->id_text, sizeof(r->last_id));
  else
    r->last_id[0] = 0;
  r->last_uuid = p->entry.id;
}

static enum qp_rc
collect_parsed(struct reader *r, const struct parsed *p, struct qp_err *err)
{
  struct qp_uuid parent = p->follows ? r->last_uuid : p->parent;

  remember_id(r, p);
  return r->collect(r->collect_arg, &p->entry, &parent, err);
}

static enum qp_rc
add_parsed(struct reader *r, struct parsed *p, struct qp_err *err)
{
  struct qp__tree *tree = &r->image->tree;
  uint32_t slot;
  enum qp_rc rc;

  if (r->collect)
    return collect_parsed(r, p, err);
  rc = is_known(r, &p->entry.id, &slot, err);
  if (rc)
    return rc;
  if (slot == QP__NO_SLOT) {
    rc = find_parent(r, p, &p->entry.parent, err);
    if (rc)
      return rc;
    if (!qp__tree_reserve(tree, 1))
      return qp__fail_nomem(err, "reading the index");
    slot = qp__tree_load(tree, &p->entry);
    r->last_slot = slot;
    remember_id(r, p);
  }
  return r->in_log ? move_head(r, p->entry.dir, slot, err) : QP_OK;
}

/* ---- other lines of the log ---- */

/* {"head":…}, {"rename":…}, {"drop":…}, {"set":…}. QP_INVALID: none of them. */
static enum qp_rc
take_change(struct reader *r, const json_t *o, struct qp_err *err)
{
  struct qp__image *image = r->image;
  const char *name;
  const char *text = NULL;
  struct qp_uuid id = { { 0 } };
  enum qp_message_status status;
  uint32_t slot = QP__NO_SLOT;
  bool ok = true;
  enum qp_rc rc;

  if ((name = json_string_value(json_object_get(o, "head")))) {
    rc = qp__json_uuid("head", o, "id", &id, err);
    if (rc)
      return rc;
    if (!qp_uuid_is_none(&id)) {
      rc = find_id(r, &id, &slot, err);
      if (rc)
        return rc;
      if (slot == QP__NO_SLOT) { /* the head stays where it was */
        r->report->bad_heads++;
        return QP_OK;
      }
    }
    ok = qp__image_set_head(image, name, slot);
  } else if ((name = json_string_value(json_object_get(o, "rename")))) {
    text = json_string_value(json_object_get(o, "to"));
    if (!text)
      return qp__fail(err, QP_INVALID, "rename: \"to\" must be a string");
    if (qp__image_head(image, name))
      ok = qp__image_rename_head(image, name, text);
  } else if ((name = json_string_value(json_object_get(o, "drop")))) {
    qp__image_drop_head(image, name);
  } else if (json_object_get(o, "set")) {
    rc = qp__json_uuid("set", o, "set", &id, err);
    text = json_string_value(json_object_get(o, "status"));
    if (rc || !text || !qp__status_find(text, strlen(text), &status))
      return qp__fail(err, QP_INVALID, "set: no id or no status");
    rc = find_id(r, &id, &slot, err);
    if (rc)
      return rc;
    if (slot == QP__NO_SLOT)
      return qp__fail(err, QP_INVALID, "set: a message that is not there");
    atomic_store(&qp__tree_at(&image->tree, slot)->status, (uint8_t)status);
  } else {
    return qp__fail(err, QP_INVALID, "a line that says nothing known");
  }
  return ok ? QP_OK : qp__fail_nomem(err, "reading the index");
}

/* A line in any form. QP_INVALID: it says nothing sensible. */
static enum qp_rc
take_json(struct reader *r, const char *line, size_t len, struct qp_err *err)
{
  struct qp_bytes bytes = { line, len };
  struct parsed parsed;
  json_t *o = NULL;
  enum qp_rc rc = qp__json_parse_object("line", bytes, &o, err);

  if (rc)
    return rc;
  if (json_object_get(o, "id") && !json_object_get(o, "head")) {
    rc = entry_of_json(r, o, &parsed, err);
    if (!rc)
      rc = add_parsed(r, &parsed, err);
  } else if (r->collect) {
    rc = QP_OK;
  } else if (r->in_log) {
    rc = take_change(r, o, err);
  } else {
    rc = qp__fail(err, QP_INVALID, "not an entry");
  }
  json_decref(o);
  return rc;
}

/* An entry or a change, in the fixed form or any other. */
static enum qp_rc
take_line(struct reader *r, const char *line, size_t len, struct qp_err *err)
{
  struct parsed parsed;
  bool nomem = false;

  if (take_fixed(r, line, line + len, &parsed, &nomem))
    return add_parsed(r, &parsed, err);
  if (nomem)
    return qp__fail_nomem(err, "reading the index");
  return take_json(r, line, len, err);
}

/* ---- index.json ---- */

/* The fields of the first line, which opens the array of entries. */
static enum qp_rc
take_json_head(struct reader *r, const json_t *o, struct qp_err *err)
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
  if (version < 1 || generation < 0 || count < 0)
    return qp__fail(err, QP_INVALID, "index.json: a number is out of range");
  r->report->generation = (uint64_t)generation;
  r->expected = (uint64_t)count;
  return QP_OK;
}

static enum qp_rc
take_heads(struct reader *r, json_t *heads, struct qp_err *err)
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

    if (!json_is_null(value)) {
      if (json_string_length(value) != QP__UUID_LEN ||
          !qp__uuid_decode(json_string_value(value), &id))
        return qp__fail(err, QP_INVALID, "index.json: the head of a branch must be a UUID");
      rc = find_id(r, &id, &slot, err);
      if (rc)
        return rc;
      if (slot == QP__NO_SLOT) { /* better no head than a wrong one: the load looks for another */
        r->report->bad_heads++;
        continue;
      }
    }
    if (!qp__image_set_head(r->image, name, slot))
      return qp__fail_nomem(err, "reading the index");
  }
  return QP_OK;
}

/* Parses a line that is a whole object but for a piece that `fix_head` and `fix_tail` supply. */
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
    rc = qp__json_parse_object("index.json", qp__buf_bytes(&whole), out, err);
  qp__buf_release(&whole);
  return rc;
}

static enum qp_rc
json_line(void *arg, const char *line, size_t len, uint64_t end, struct qp_err *err)
{
  struct reader *r = arg;
  json_t *o = NULL;
  enum qp_rc rc;

  r->report->json_bytes = end;
  if (r->finished)
    return qp__fail(err, QP_INVALID, "index.json: something follows its end");
  if (!r->started) {
    r->started = true;
    rc = parse_completed("", line, len, "]}", &o, err);
    if (!rc)
      rc = take_json_head(r, o, err);
    json_decref(o);
    return rc;
  }
  if (len && line[0] == ']') {
    r->finished = true;
    if (len < 2 || line[1] != ',')
      return qp__fail(err, QP_INVALID, "index.json: not our last line");
    rc = parse_completed("{", line + 2, len - 2, "", &o, err);
    if (!rc)
      rc = take_heads(r, json_object_get(o, "heads"), err);
    json_decref(o);
    return rc;
  }
  if (len && line[len - 1] == ',')
    len--;
  r->entries++;
  return take_line(r, line, len, err);
}

/* index.json in a shape of its own: all of it at once. */
static enum qp_rc
read_json_whole(struct reader *r, const struct qp__os *os, int root, const char *path,
                struct qp_err *err)
{
  struct qp__buf text;
  json_t *o = NULL;
  json_t *entries = NULL;
  json_t *value;
  size_t i;
  struct parsed parsed;
  enum qp_rc rc;
  int sys;

  qp__buf_init(&text, INDEX_JSON_MAX);
  sys = qp__file_read(os, root, path, &text);
  if (sys == -ENOTSUP)
    rc = qp__fail(err, QP_INVALID, "'%s' is not a regular file", path);
  else if (sys)
    rc = qp__fail_sys(err, sys, "cannot read '%s'", path);
  else
    rc = qp__json_parse_object("index.json", qp__buf_bytes(&text), &o, err);
  r->report->json_bytes = text.len;
  qp__buf_release(&text);
  if (!rc)
    rc = take_json_head(r, o, err);
  if (!rc)
    rc = qp__json_array("index.json", o, "entries", &entries, err);
  json_array_foreach (entries, i, value) {
    if (rc)
      break;
    rc = json_is_object(value) ? entry_of_json(r, value, &parsed, err)
                               : qp__fail(err, QP_INVALID, "index.json: an entry is no object");
    if (!rc)
      rc = add_parsed(r, &parsed, err);
  }
  if (!rc)
    rc = take_heads(r, json_object_get(o, "heads"), err);
  json_decref(o);
  return rc;
}

/* Empties what a failed attempt left in the image. */
static enum qp_rc
start_over(struct reader *r, struct qp_err *err)
{
  struct qp__image *image = r->image;
  int sys = 0;

  while (!r->collect && image->head_count)
    qp__image_drop_head(image, image->heads[0].name);
  if (!r->collect && !r->again) {
    qp__tree_release(&image->tree);
    sys = qp__tree_init(&image->tree);
  }
  r->last_slot = QP__NO_SLOT;
  r->last_id[0] = 0;
  r->dir = NULL;
  r->report->bad_lines = 0;
  r->report->bad_parents = 0;
  r->report->bad_heads = 0;
  return sys ? qp__fail_sys(err, sys, "reading the index") : QP_OK;
}

/* Whether a failure says something about the file and not about us. */
static bool
is_damage(enum qp_rc rc)
{
  return rc == QP_INVALID || rc == QP_TOOBIG;
}

/* A directory or a pipe can be opened like a file, and then not be read. */
static bool
is_regular(const struct qp__os *os, int fd)
{
  struct stat st;

  return !os->fstat(os->self, fd, &st) && S_ISREG(st.st_mode);
}

static enum qp_rc
read_json(struct reader *r, const struct qp__os *os, int root, const char *path, struct qp_err *err)
{
  bool torn = false;
  enum qp_rc rc;
  int fd = qp__open(os, root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

  if (fd == -ENOENT) {
    r->report->json_missing = true;
    return QP_OK;
  }
  if (fd == -ELOOP || fd == -ENOTDIR || fd == -EISDIR) {
    r->report->json_damaged = true;
    return QP_OK;
  }
  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot open '%s'", path);
  rc = qp__lines_read(os, fd, json_line, r, &torn, err);
  if (rc && !is_damage(rc) && !is_regular(os, fd))
    rc = QP_INVALID;
  qp__close(os, fd);
  if (!rc && r->finished && !torn && r->entries == r->expected)
    return QP_OK;
  if (rc && !is_damage(rc))
    return rc;
  rc = start_over(r, err);
  if (!rc)
    rc = read_json_whole(r, os, root, path, err);
  if (!is_damage(rc))
    return rc;
  r->report->json_damaged = true;
  return start_over(r, err);
}

/* ---- index.log ---- */

static enum qp_rc
log_line(void *arg, const char *line, size_t len, uint64_t end, struct qp_err *err)
{
  struct reader *r = arg;
  struct qp_bytes bytes = { line, len };
  int64_t generation = 0;
  json_t *o = NULL;
  enum qp_rc rc;

  if (!r->started) {
    r->started = true;
    rc = qp__json_parse_object("index.log", bytes, &o, err);
    if (!rc && json_object_get(o, "log")) {
      rc = qp__json_int("index.log", o, "generation", &generation, err);
      r->report->log_generation = (uint64_t)generation;
      r->report->log_bytes = end;
      json_decref(o);
      return is_damage(rc) ? QP_OK : rc;
    }
    json_decref(o); /* no header: an ordinary line, or damage */
    r->report->log_headless = true;
    if (rc && !is_damage(rc))
      return rc;
  }
  rc = take_line(r, line, len, err);
  if (is_damage(rc)) {
    r->report->bad_lines++;
    rc = QP_OK;
  }
  r->report->log_bytes = end;
  return rc;
}

static enum qp_rc
read_log(struct reader *r, const struct qp__os *os, int root, const char *path, struct qp_err *err)
{
  enum qp_rc rc;
  int fd = qp__open(os, root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

  r->in_log = true;
  r->started = false;
  r->last_slot = r->image->tree.count ? r->image->tree.count - 1 : QP__NO_SLOT;
  if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR || fd == -EISDIR) {
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

typedef enum qp_rc read_fn(struct reader *r, const struct qp__os *os, int root, const char *path,
                           struct qp_err *err);

static enum qp_rc
read_file(struct reader *r, read_fn *fn, const struct qp__os *os, int root, const char *dir,
          const char *name, struct qp_err *err)
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

static enum qp_rc
read_both(struct reader *r, const struct qp__os *os, int root, const char *dir, struct qp_err *err)
{
  enum qp_rc rc;

  memset(r->report, 0, sizeof(*r->report));
  rc = start_over(r, err);
  if (!rc)
    rc = read_file(r, read_json, os, root, dir, "index.json", err);
  if (!rc)
    rc = read_file(r, read_log, os, root, dir, "index.log", err);
  return rc;
}

enum qp_rc
qp__index_collect(const struct qp__os *os, int root, const char *dir, struct qp__image *image,
                  qp__entry_fn *fn, void *arg, struct qp_err *err)
{
  struct qp__index_report report;
  struct reader r = { .image = image, .report = &report, .collect = fn, .collect_arg = arg };

  return read_both(&r, os, root, dir, err);
}

enum qp_rc
qp__index_apply(const struct qp__os *os, int root, const char *dir, struct qp__image *image,
                struct qp__index_report *report, struct qp_err *err)
{
  struct reader r = { .image = image, .report = report, .again = true };

  return read_both(&r, os, root, dir, err);
}

enum qp_rc
qp__index_read(const struct qp__os *os, int root, const char *dir, struct qp__image *image,
               struct qp__index_report *report, struct qp_err *err)
{
  /* A writer in another process may be at work: when it folds between our two reads the log is newer,
   * when it appends while we read the last line may be cut off. Then we read again. */
  for (int attempt = 0; attempt < 8; attempt++) {
    struct reader r = { .image = image, .report = report };
    enum qp_rc rc = read_both(&r, os, root, dir, err);

    if (rc || report->json_missing || report->json_damaged || report->log_missing)
      return rc;
    if (report->log_generation <= report->generation && (!report->log_torn || attempt > 1))
      return QP_OK;
  }
  report->json_damaged = true; /* older than the log: lines between the two are lost */
  return QP_OK;
}
