/* index_line.c - parses one line of an index; see index.h for its forms.
 *
 * Opening a context of 100,000 messages spends most of its time here. take_fixed() knows only the
 * form that we write and costs about a tenth of a microsecond per line; a line in any other form is
 * parsed by the JSON library (take_json). */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sum.h"
#include "model/message.h"
#include "store/files/index/index_int.h"

#define OFFSET_MAX ((uint64_t)INT64_MAX / 16) /* of a frame: larger than any file */
#define SCAN_MAX \
  500000 /* entries: scanning them takes about a third of the time of building the table of ids */

/* The content of a line before its parent is looked up. */
struct parsed {
  struct qp__entry entry;
  struct qp_uuid parent; /* unless `follows` */
  bool follows;          /* its parent is the previous entry */
  bool weak;             /* its checksum is wrong */
  const char *id_text;   /* 36 characters, or NULL */
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

/* Nothing here checks for the end of the line (QP__LINE_PAD): the expected text never matches the
 * brace, the checksum or the newline there. Only functions that accept any text up to a quote must
 * check.
 *
 * SAME: whether n bytes, 4 to 16 and constant, are equal: two overlapping comparisons of words. For
 * most of these lengths the compiler would call memcmp(). */
#define SAME(a, b, n)                                           \
  ((n) < 8 ? same4((a), (b)) && same4((a) + (n)-4, (b) + (n)-4) \
           : same8((a), (b)) && same8((a) + (n)-8, (b) + (n)-8))

#define BEGINS(p, literal) SAME((p), "" literal, (ptrdiff_t)sizeof(literal) - 1)

#define SKIP(p, literal) (BEGINS(p, literal) && ((p) += sizeof(literal) - 1, true))

static inline bool
skip_char(const char **p, char c)
{
  if (**p != c)
    return false;
  (*p)++;
  return true;
}

/* A number of at most `digits` digits, which must be too few for 2^64. */
static inline bool
take_digits(const char **p, int digits, uint64_t *out)
{
  const char *s = *p;
  const char *limit = s + digits;
  uint64_t v = 0;

  for (; s < limit && (unsigned char)(*s - '0') < 10; s++)
    v = v * 10 + (unsigned char)(*s - '0');
  if (s == *p || (**p == '0' && s - *p > 1))
    return false;
  *out = v;
  *p = s;
  return true;
}

static inline bool
take_number(const char **p, uint32_t *out)
{
  uint64_t v;

  if (!take_digits(p, 10, &v) || v > UINT32_MAX)
    return false;
  *out = (uint32_t)v;
  return true;
}

static bool
take_id(const char **p, struct qp_uuid *out)
{
  if (!qp__uuid_decode(*p, out))
    return false;
  *p += QP__UUID_LEN;
  return true;
}

/* Eight characters that must be digits where `mask` has 15, and equal to `form` where it has 0.
 * *out has the value of each digit in its byte, the first in the lowest; the other bytes are 0. */
static inline bool
eight_of_time(const char *s, const char *form, const char *mask, uint64_t *out)
{
  uint64_t m = qp__word_at(mask);
  uint64_t v = qp__word_at(s) ^ qp__word_at(form);

  /* If no value is above 15, adding 6 does not overflow a byte, and values above 9 become 16 or
   * more. */
  if ((v & ~m) || ((v + m / 15 * 6) & ~m))
    return false;
  *out = v;
  return true;
}

/* "2026-11-15T19:55:40.123Z"; the date is usually that of the previous line. */
static bool
take_time(struct qp__index_reader *r, const char **p, int64_t *out)
{
  const char *s = *p;
  uint64_t a;
  uint64_t b;
  uint64_t h;
  uint64_t m;
  uint64_t sec;

  if (!SAME(s, r->date, (ptrdiff_t)sizeof(r->date))) {
    if (qp__time_parse(s, QP__TIME_LEN, out))
      return false;
    memcpy(r->date, s, sizeof(r->date));
    r->date_ms = *out - *out % 86400000 - (*out % 86400000 < 0 ? 86400000 : 0);
    *p += QP__TIME_LEN;
    return s[23] == 'Z';
  }
  if (!eight_of_time(s + 11, "00:00:00", "\17\17\0\17\17\0\17\17", &a) ||
      !eight_of_time(s + 16, ":00.000Z", "\0\17\17\0\17\17\17\0", &b))
    return false;
  a = a * 10 + (a >> 8); /* combines two digits to a number, at the position of the first */
  b = b * 10 + (b >> 8);
  h = a & 0xff;
  m = a >> 24 & 0xff;
  sec = a >> 48 & 0xff;
  if (h > 23 || m > 59 || sec > 59)
    return false;
  *out = r->date_ms + (int64_t)(((h * 60 + m) * 60 + sec) * 1000 + (b >> 32 & 0xff) * 10) +
         (s[22] - '0');
  *p += QP__TIME_LEN;
  return true;
}

/* A name up to the next quote; *len is its length. */
static const char *
take_name(const char **p, const char *e, size_t *len)
{
  const char *s = *p;
  const char *quote = s < e ? memchr(s, '"', (size_t)(e - s)) : NULL;

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
  unsigned role;

  if (BEGINS(*p, "user\"")) {
    out->role = QP_ROLE_USER;
    *p += 4;
    return true;
  }
  if (BEGINS(*p, "assistant\"")) {
    out->role = QP_ROLE_ASSISTANT;
    *p += 9;
    return true;
  }
  s = take_name(p, e, &n);
  if (!s || !qp__name_set_find(&qp__role_names, s, n, &role))
    return false;
  out->role = role & 15;
  return true;
}

static bool
take_type(const char **p, const char *e, struct qp__entry *out)
{
  size_t n;
  const char *s;
  unsigned type;

  if (BEGINS(*p, "text\"")) {
    out->type = QP_TYPE_TEXT;
    *p += 4;
    return true;
  }
  s = take_name(p, e, &n);
  if (!s || !qp__name_set_find(&qp__type_names, s, n, &type))
    return false;
  out->type = type & 15;
  return true;
}

static bool
take_status(const char **p, const char *e, struct qp__entry *out)
{
  unsigned status = QP_STATUS_LIVE;
  size_t n;
  const char *s;

  if (BEGINS(*p, "live\"")) {
    *p += 4;
  } else {
    s = take_name(p, e, &n);
    if (!s || !qp__name_set_find(&qp__status_names, s, n, &status))
      return false;
  }
  atomic_init(&out->status, (uint8_t)status);
  return true;
}

static inline bool
take_hash(const char **p, uint8_t out[16])
{
  uint64_t words[4];

  memcpy(words, *p, sizeof(words));
  *p += sizeof(words);
  return qp__hex_decode16(words[0], words[1], out) && qp__hex_decode16(words[2], words[3], out + 8);
}

bool
qp__branch_dir_ok(const char *s, size_t n)
{
  if (n <= 7 || n > QP__BRANCH_ENCODED_MAX + 7 || memcmp(s, "branch-", 7) != 0 ||
      !qp__utf8_ok(s, n))
    return false;
  for (size_t i = 7; i < n; i++)
    if (s[i] == '"' || s[i] == '\\' || s[i] == '/' || (unsigned char)s[i] < 0x20 || s[i] == 0x7f)
      return false;
  return true;
}

/* The number of the directory; usually that of the previous line. */
static bool
take_dir(struct qp__index_reader *r, const char **p, const char *e, uint16_t *out, bool *nomem)
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
  if (!s || !qp__branch_dir_ok(s, n))
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

bool
qp__pack_name_ok(const char *s, size_t n)
{
  static const char form[] = "archive/0000-00.jsonl.zst"; /* a 0 means any digit */

  if (n == strlen(QP__PACK_ALL) && memcmp(s, QP__PACK_ALL, n) == 0)
    return true;
  if (n != sizeof(form) - 1)
    return false;
  for (size_t i = 0; i < n; i++)
    if (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
      return false;
  return true;
}

/* The number of a frame; usually that of the previous line. */
static int
find_frame(struct qp__index_reader *r, const char *pack, size_t len, uint64_t offset, uint32_t *out)
{
  struct qp__tree *tree = &r->image->tree;
  uint32_t number;
  int sys;

  if (!r->any_pack || strncmp(tree->packs[r->pack_number], pack, len) != 0 ||
      tree->packs[r->pack_number][len]) {
    sys = qp__tree_pack(tree, pack, len, &number);
    if (sys)
      return sys;
    r->pack_number = number;
    r->frame_offset = UINT64_MAX;
    r->any_pack = true;
  }
  if (offset != r->frame_offset) {
    sys = qp__tree_frame(tree, r->pack_number, offset, &number);
    if (sys)
      return sys;
    r->frame_number = number;
    r->frame_offset = offset;
  }
  *out = r->frame_number;
  return 0;
}

/* A status other than "unavailable" is determined by the place. */
static void
status_by_place(struct qp__entry *e)
{
  if (atomic_load_explicit(&e->status, memory_order_relaxed) != QP_STATUS_UNAVAILABLE)
    atomic_store_explicit(&e->status, (uint8_t)qp__place_status(atomic_load(&e->place)),
                          memory_order_relaxed);
}

/* The parent's id is usually spelled like the id of the previous entry. */
static bool
take_parent(const struct qp__index_reader *r, const char **p, struct parsed *out)
{
  out->follows = r->last_id[0] && SAME(*p, r->last_id, 16) && SAME(*p + 16, r->last_id + 16, 16) &&
                 same4(*p + 32, r->last_id + 32);
  if (!out->follows)
    return take_id(p, &out->parent);
  *p += QP__UUID_LEN;
  return true;
}

/* The fields after the status up to the end of the line. */
static bool
take_place(struct qp__index_reader *r, const char **p, const char *e, struct qp__entry *entry,
           bool *nomem)
{
  const char *name;
  uint64_t offset;
  uint32_t frame;
  uint32_t pos;
  int64_t at;
  size_t n;
  int sys;

  atomic_init(&entry->place, 0);
  if (*p == e)
    return true;
  if (SKIP(*p, ",\"at\":\"")) {
    if (!take_time(r, p, &at))
      return false;
    atomic_init(&entry->place, qp__place_trash(at));
    return skip_char(p, '"');
  }
  if (!SKIP(*p, ",\"pack\":\""))
    return false;
  name = take_name(p, e, &n);
  if (!name || !qp__pack_name_ok(name, n) || !SKIP(*p, "\",\"frame\":") ||
      !take_digits(p, 18, &offset) || offset > OFFSET_MAX || !SKIP(*p, ",\"pos\":") ||
      !take_number(p, &pos))
    return false;
  sys = find_frame(r, name, n, offset, &frame);
  *nomem = sys == -ENOMEM;
  if (sys)
    return false;
  atomic_init(&entry->place, qp__place_pack(frame, pos));
  return true;
}

/* Removes the end of a line: its checksum, if it has one, and the brace. False: the sum is wrong,
 * or there is no brace. */
static bool
take_sum(const char *p, const char **e)
{
  static const char key[] = ",\"" QP__SUM_KEY "\":\"";
  const ptrdiff_t n = (ptrdiff_t)sizeof(key) - 1 + QP__SUM_LEN + 2; /* with its quote and brace */
  const char *end = *e - n;
  uint32_t said;

  if (*e - p < n || (*e)[-1] != '}')
    return false;
  if (!SAME(end, key, (ptrdiff_t)sizeof(key) - 1)) {
    *e -= 1;
    return true;
  }
  *e = end;
  return qp__hex_decode8(end + sizeof(key) - 1, &said) && said == qp__sum(p, (size_t)(end - p));
}

/* False: not in the fixed form, its checksum is wrong, or out of memory (*nomem). Then only the
 * list of directories may have changed. */
static bool
take_fixed(struct qp__index_reader *r, const char *p, const char *e, struct parsed *out,
           bool *nomem)
{
  struct qp__entry *entry = &out->entry;

  if (!take_sum(p, &e) || !SKIP(p, "{\"id\":\""))
    return false;
  out->id_text = p;
  if (!take_id(&p, &entry->id) || !SKIP(p, "\",\"parent\":"))
    return false;
  if (skip_char(&p, '"')) {
    if (!take_parent(r, &p, out) || !skip_char(&p, '"'))
      return false;
  } else {
    memset(&out->parent, 0, sizeof(out->parent));
    out->follows = false;
    if (!SKIP(p, "null"))
      return false;
  }
  return SKIP(p, ",\"dir\":\"") && take_dir(r, &p, e, &entry->dir, nomem) &&
         SKIP(p, "\",\"time\":\"") && take_time(r, &p, &entry->time) && SKIP(p, "\",\"role\":\"") &&
         take_role(&p, e, entry) && SKIP(p, "\",\"type\":\"") && take_type(&p, e, entry) &&
         SKIP(p, "\",\"size\":") && take_number(&p, &entry->size) && SKIP(p, ",\"tokens\":") &&
         take_number(&p, &entry->tokens) && SKIP(p, ",\"hash\":\"") && take_hash(&p, entry->hash) &&
         SKIP(p, "\",\"status\":\"") && take_status(&p, e, entry) && skip_char(&p, '"') &&
         take_place(r, &p, e, entry, nomem) && p == e;
}

/* ---- one entry in any form ---- */

/* The fields after the status. */
static enum qp_rc
place_of_json(struct qp__index_reader *r, const json_t *o, struct qp__entry *e, struct qp_err *err)
{
  const char *pack = NULL;
  int64_t at = -1;
  int64_t offset = -1;
  int64_t pos = -1;
  uint32_t frame;
  enum qp_rc rc;
  int sys;

  if ((rc = qp__json_string("entry", o, "pack", &pack, err)) ||
      (rc = qp__json_int("entry", o, "frame", &offset, err)) ||
      (rc = qp__json_int("entry", o, "pos", &pos, err)) ||
      (rc = qp__json_time("entry", o, "at", &at, err)))
    return rc;
  if (pack) {
    if (!qp__pack_name_ok(pack, strlen(pack)) || offset < 0 || (uint64_t)offset > OFFSET_MAX ||
        pos < 0 || pos > UINT32_MAX)
      return qp__fail(err, QP_INVALID, "entry: invalid place in a pack");
    sys = find_frame(r, pack, strlen(pack), (uint64_t)offset, &frame);
    if (sys)
      return qp__fail_sys(err, sys, "reading the index");
    atomic_init(&e->place, qp__place_pack(frame, (uint32_t)pos));
  } else if (json_is_string(json_object_get(o, "at"))) {
    atomic_init(&e->place, qp__place_trash(at));
  }
  return QP_OK;
}

/* QP_INVALID: not an entry. */
static enum qp_rc
entry_of_json(struct qp__index_reader *r, const json_t *o, struct parsed *out, struct qp_err *err)
{
  struct qp__entry *e = &out->entry;
  unsigned role = QP_ROLE_USER;
  unsigned type = QP_TYPE_TEXT;
  unsigned status = QP_STATUS_LIVE;
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
  if (s && !qp__name_set_find(&qp__role_names, s, strlen(s), &role))
    return qp__fail(err, QP_INVALID, "entry: unknown role");
  s = json_string_value(json_object_get(o, "type"));
  if (s && !qp__name_set_find(&qp__type_names, s, strlen(s), &type))
    return qp__fail(err, QP_INVALID, "entry: unknown type");
  s = json_string_value(json_object_get(o, "status"));
  if (s && !qp__name_set_find(&qp__status_names, s, strlen(s), &status))
    return qp__fail(err, QP_INVALID, "entry: unknown status");
  e->role = role & 15;
  e->type = type & 15;
  atomic_init(&e->status, (uint8_t)status);
  s = json_string_value(json_object_get(o, "hash"));
  if (!s || strlen(s) != 32 || !qp__hex_decode(e->hash, s, 16))
    return qp__fail(err, QP_INVALID, "entry: \"hash\" must be 32 hexadecimal digits");
  s = json_string_value(json_object_get(o, "dir"));
  if (!s || !qp__branch_dir_ok(s, strlen(s)))
    return qp__fail(err, QP_INVALID, "entry: \"dir\" must be the name of a branch directory");
  sys = qp__tree_dir(&r->image->tree, s, strlen(s), &e->dir);
  return sys ? qp__fail_sys(err, sys, "reading the index") : place_of_json(r, o, e, err);
}

/* ---- adding entries ---- */

/* The slot of an id, or QP__NO_SLOT. Building the tree's table of ids is a large part of the
 * reading time, and often it is not needed. The ids searched here are usually near the end: so the
 * entries are scanned from there, up to a limit. */
enum qp_rc
qp__index_find_id(struct qp__index_reader *r, const struct qp_uuid *id, uint32_t *out,
                  struct qp_err *err)
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
find_parent(struct qp__index_reader *r, const struct parsed *p, uint32_t *out, struct qp_err *err)
{
  enum qp_rc rc;

  *out = p->follows ? r->last_slot : QP__NO_SLOT;
  if (p->follows || qp_uuid_is_none(&p->parent))
    return QP_OK;
  rc = qp__index_find_id(r, &p->parent, out, err);
  if (!rc && *out == QP__NO_SLOT)
    r->report->bad_parents++;
  return rc;
}

/* In the log an entry moves the head of its branch. */
static enum qp_rc
move_head(struct qp__index_reader *r, uint16_t dir, uint32_t slot, struct qp_err *err)
{
  const char *name = qp__tree_dir_name(&r->image->tree, dir) + 7; /* after "branch-" */
  struct qp__buf decoded;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&decoded, QP__BRANCH_NAME_MAX);
  if (strchr(name, '%')) {
    rc = qp__percent_decode(&decoded, name, strlen(name));
    name = decoded.data;
  }
  if (!rc && r->head_at < r->image->head_count &&
      strcmp(r->image->heads[r->head_at].name, name) == 0) {
    r->image->heads[r->head_at].slot = slot;
  } else {
    if (!rc)
      rc = qp__branch_name_check(name, err);
    if (!rc && !qp__image_set_head(r->image, name, slot))
      rc = QP_NOMEM;
    if (!rc)
      r->head_at = (size_t)(qp__image_head(r->image, name) - r->image->heads);
  }
  qp__buf_release(&decoded);
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "reading the index");
  r->report->bad_lines += rc != QP_OK; /* not the directory of a branch */
  return QP_OK;
}

/* Whether a line of the log is already in index.json, because that is newer. */
static bool
is_old_line(const struct qp__index_reader *r)
{
  return r->in_log && !r->past_fold && !r->report->log_headless &&
         r->report->log_generation < r->report->generation;
}

/* Whether the id exists already: only checked in the log, where an interrupted fold can leave lines
 * that are also in index.json. */
static enum qp_rc
is_known(struct qp__index_reader *r, const struct qp_uuid *id, uint32_t *slot, struct qp_err *err)
{
  *slot = QP__NO_SLOT;
  if (!r->again && (!r->in_log || r->report->log_generation == r->report->generation))
    return QP_OK;
  return qp__index_find_id(r, id, slot, err);
}

static void
remember_id(struct qp__index_reader *r, const struct parsed *p)
{
  if (p->id_text)
    memcpy(r->last_id, p->id_text, sizeof(r->last_id));
  else
    r->last_id[0] = 0;
  r->last_uuid = p->entry.id;
}

static enum qp_rc
collect_parsed(struct qp__index_reader *r, struct parsed *p, struct qp_err *err)
{
  struct qp_uuid parent = p->follows ? r->last_uuid : p->parent;

  remember_id(r, p);
  status_by_place(&p->entry);
  return r->collect(r->collect_arg, &p->entry, &parent, p->weak, err);
}

static enum qp_rc
add_parsed(struct qp__index_reader *r, struct parsed *p, struct qp_err *err)
{
  struct qp__tree *tree = &r->image->tree;
  uint32_t slot;
  enum qp_rc rc;

  if (r->collect)
    return collect_parsed(r, p, err);
  rc = is_known(r, &p->entry.id, &slot, err);
  if (rc || (slot != QP__NO_SLOT && is_old_line(r)))
    return rc;
  r->past_fold = r->past_fold || is_old_line(r);
  if (slot != QP__NO_SLOT && r->marks && !r->in_log)
    r->marks[slot] |= QP__MARK_UNREACHED; /* until a head is found that leads to it */
  if (slot == QP__NO_SLOT) {
    status_by_place(&p->entry);
    rc = find_parent(r, p, &p->entry.parent, err);
    if (rc)
      return rc;
    if (!qp__tree_room(tree))
      return qp__fail_nomem(err, "reading the index");
    slot = qp__tree_load(tree, &p->entry);
    r->last_slot = slot;
    remember_id(r, p);
  }
  return r->in_log ? move_head(r, p->entry.dir, slot, err) : QP_OK;
}

/* ---- other lines of the log ---- */

/* {"set":…}: changes the status of a message. */
static enum qp_rc
take_set(struct qp__index_reader *r, const json_t *o, struct qp_err *err)
{
  struct qp__tree *tree = &r->image->tree;
  const char *text = json_string_value(json_object_get(o, "status"));
  struct qp_uuid id = { { 0 } };
  unsigned status;
  struct qp__entry *e;
  int64_t at = -1;
  uint32_t slot = QP__NO_SLOT;
  enum qp_rc rc = qp__json_uuid("set", o, "set", &id, err);

  if (rc || !text || !qp__name_set_find(&qp__status_names, text, strlen(text), &status))
    return qp__fail(err, QP_INVALID, "set: no id or no status");
  rc = qp__json_time("set", o, "at", &at, err);
  if (!rc)
    rc = qp__index_find_id(r, &id, &slot, err);
  if (rc)
    return rc;
  if (slot == QP__NO_SLOT)
    return qp__fail(err, QP_INVALID, "set: unknown message");
  e = qp__tree_at(tree, slot);
  if (status == QP_STATUS_UNAVAILABLE)
    atomic_store(&e->status, QP_STATUS_UNAVAILABLE);
  else if (status == QP_STATUS_ARCHIVED) /* in the pack that its entry names */
    atomic_store(&e->status, (uint8_t)qp__place_status(atomic_load(&e->place)));
  else if (status == QP_STATUS_TRASHED && json_is_string(json_object_get(o, "at")))
    qp__tree_set_place(tree, e, qp__place_trash(at));
  else
    qp__tree_set_place(tree, e, 0);
  return QP_OK;
}

/* A line moves a branch away from its head. */
static void
mark_left(struct qp__index_reader *r, const char *branch)
{
  const struct qp__tree *tree = &r->image->tree;
  const struct qp__head *head = r->marks ? qp__image_head(r->image, branch) : NULL;

  for (uint32_t slot = head ? head->slot : QP__NO_SLOT;
       slot != QP__NO_SLOT && !(r->marks[slot] & QP__MARK_LEFT);
       slot = qp__tree_at(tree, slot)->parent) {
    if (!qp__tree_at(tree, slot)->size) /* the ancestors of a placeholder are only a guess */
      break;
    r->marks[slot] |= QP__MARK_LEFT;
  }
}

/* {"head":…}, {"rename":…}, {"drop":…}, {"set":…}. QP_INVALID: none of them. */
static enum qp_rc
take_change(struct qp__index_reader *r, const json_t *o, struct qp_err *err)
{
  struct qp__image *image = r->image;
  const char *name;
  const char *text = NULL;
  struct qp_uuid id = { { 0 } };
  uint32_t slot = QP__NO_SLOT;
  bool ok = true;
  enum qp_rc rc;

  if ((name = json_string_value(json_object_get(o, "head")))) {
    rc = qp__branch_name_check(name, err);
    if (!rc)
      rc = qp__json_uuid("head", o, "id", &id, err);
    if (rc)
      return rc;
    if (!qp_uuid_is_none(&id)) {
      rc = qp__index_find_id(r, &id, &slot, err);
      if (rc)
        return rc;
      if (slot == QP__NO_SLOT) { /* the head does not move */
        r->report->bad_heads++;
        return QP_OK;
      }
    }
    mark_left(r, name);
    ok = qp__image_set_head(image, name, slot);
  } else if ((name = json_string_value(json_object_get(o, "rename")))) {
    text = json_string_value(json_object_get(o, "to"));
    if (!text)
      return qp__fail(err, QP_INVALID, "rename: \"to\" must be a string");
    rc = qp__branch_name_check(text, err);
    if (rc)
      return rc;
    if (qp__image_head(image, name))
      ok = qp__image_rename_head(image, name, text);
  } else if ((name = json_string_value(json_object_get(o, "drop")))) {
    mark_left(r, name);
    qp__image_drop_head(image, name);
  } else if (json_object_get(o, "set")) {
    return take_set(r, o, err);
  } else {
    return qp__fail(err, QP_INVALID, "unknown kind of line");
  }
  return ok ? QP_OK : qp__fail_nomem(err, "reading the index");
}

enum qp_rc
qp__index_take_entry(struct qp__index_reader *r, json_t *o, struct qp_err *err)
{
  struct parsed parsed;
  enum qp__sum_state sum;
  enum qp_rc rc = qp__sum_take(o, &sum, err);

  if (!rc)
    rc = entry_of_json(r, o, &parsed, err);
  if (rc)
    return rc;
  parsed.weak = sum == QP__SUM_WRONG;
  if (parsed.weak && !r->collect)
    return qp__fail(err, QP_INVALID, "entry: its checksum is wrong");
  return add_parsed(r, &parsed, err);
}

static enum qp_rc
take_change_line(struct qp__index_reader *r, json_t *o, struct qp_err *err)
{
  enum qp__sum_state sum;
  enum qp_rc rc = qp__sum_take(o, &sum, err);

  if (!rc && sum == QP__SUM_WRONG)
    rc = qp__fail(err, QP_INVALID, "a line whose checksum is wrong");
  return rc || is_old_line(r) ? rc : take_change(r, o, err);
}

/* A line in any form. QP_INVALID: it is invalid. */
static enum qp_rc
take_json(struct qp__index_reader *r, const char *line, size_t len, struct qp_err *err)
{
  struct qp_bytes bytes = { line, len };
  json_t *o = NULL;
  enum qp_rc rc = qp__json_parse_object("line", bytes, &o, err);

  if (rc)
    return rc;
  if (json_object_get(o, "id") && !json_object_get(o, "head")) {
    rc = qp__index_take_entry(r, o, err);
  } else if (r->collect) {
    rc = QP_OK;
  } else if (r->in_log) {
    rc = take_change_line(r, o, err);
  } else {
    rc = qp__fail(err, QP_INVALID, "not an entry");
  }
  json_decref(o);
  return rc;
}

enum qp_rc
qp__index_take_line(struct qp__index_reader *r, const char *line, size_t len, struct qp_err *err)
{
  struct parsed parsed;
  bool nomem = false;

  parsed.weak = false;
  if (take_fixed(r, line, line + len, &parsed, &nomem))
    return add_parsed(r, &parsed, err);
  if (nomem)
    return qp__fail_nomem(err, "reading the index");
  return take_json(r, line, len, err);
}
