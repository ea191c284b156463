/* memory_files.c - see memory_files.h. */
#include "store/memory/memory_files.h"

#include <string.h>

#include "base/alloc.h"

/* FNV-1a. */
static size_t
bucket_of(const char *path)
{
  uint32_t h = 2166136261u;

  for (; *path; path++)
    h = (h ^ (unsigned char)*path) * 16777619u;
  return h % QP__MEM_BUCKETS;
}

/* Where the entry of `path` is, or would be. */
static struct qp__mem_file **
place_of(struct qp__mem_files *files, const char *path)
{
  struct qp__mem_file **at = &files->buckets[bucket_of(path)];

  while (*at && strcmp((*at)->path, path) != 0)
    at = &(*at)->next;
  return at;
}

static void
free_entry(struct qp__mem_file *e)
{
  qp__free(e->data);
  qp__free(e);
}

void
qp__mem_files_release(struct qp__mem_files *files)
{
  for (size_t i = 0; i < QP__MEM_BUCKETS; i++)
    while (files->buckets[i]) {
      struct qp__mem_file *next = files->buckets[i]->next;

      free_entry(files->buckets[i]);
      files->buckets[i] = next;
    }
}

/* ---- writing ---- */

/* The entry of `path`, with room for `room` bytes. */
static bool
enter(struct qp__mem_files *files, const char *path, uint64_t room)
{
  struct qp__mem_file **at = place_of(files, path);
  struct qp__mem_file *e = *at;
  size_t cap;
  char *data;

  if (!e) {
    size_t n = strlen(path) + 1;

    e = qp__alloc0(1, sizeof(*e) + n);
    if (!e)
      return false;
    memcpy(e->path, path, n);
    *at = e;
  }
  if (room <= e->cap)
    return true;
  if (room > SIZE_MAX / 4)
    return false;
  for (cap = e->cap ? e->cap : 128; cap < room;)
    cap *= 2;
  data = qp__realloc(e->data, cap);
  if (!data)
    return false;
  e->data = data;
  e->cap = cap;
  return true;
}

/* The path whose memory a change i of `path` will find there, because renames before it in the same
 * commit exchange the memory of two entries. */
static const char *
origin_of(const struct qp__driver_change *changes, size_t i, const char *path)
{
  while (i--) {
    if (changes[i].kind != QP__CHANGE_FILE_RENAME)
      continue;
    if (strcmp(changes[i].to, path) == 0)
      path = changes[i].path;
    else if (strcmp(changes[i].path, path) == 0)
      path = changes[i].to;
  }
  return path;
}

bool
qp__mem_files_reserve(struct qp__mem_files *files, const struct qp__driver_change *changes,
                      size_t n)
{
  for (size_t i = 0; i < n; i++) {
    const struct qp__driver_change *ch = &changes[i];
    bool ok = true;

    if (ch->kind == QP__CHANGE_FILE_RENAME)
      ok = enter(files, ch->path, 0) && enter(files, ch->to, 0);
    else if (qp__is_file_change(ch))
      ok = enter(files, ch->path, 0) &&
           enter(files, origin_of(changes, i, ch->path), ch->offset + ch->bytes.len);
    if (!ok)
      return false;
  }
  return true;
}

static void
append(struct qp__mem_file *e, const struct qp__driver_change *ch)
{
  size_t at = (size_t)ch->offset;

  if (!e->there)
    e->len = 0;
  if (e->len < at)
    memset(e->data + e->len, 0, at - e->len);
  if (ch->bytes.len)
    memcpy(e->data + at, ch->bytes.data, ch->bytes.len);
  if (ch->cut || e->len < at + ch->bytes.len)
    e->len = at + ch->bytes.len;
  e->there = true;
}

static void
rename_file(struct qp__mem_file *from, struct qp__mem_file *to)
{
  char *data = to->data;
  size_t cap = to->cap;

  if (!from->there)
    return;
  to->data = from->data;
  to->len = from->len;
  to->cap = from->cap;
  to->there = true;
  from->data = data;
  from->cap = cap;
  from->there = false;
}

void
qp__mem_files_apply(struct qp__mem_files *files, const struct qp__driver_change *ch)
{
  struct qp__mem_file *e = *place_of(files, ch->path);

  switch (ch->kind) {
  case QP__CHANGE_FILE_PUT:
    if (ch->bytes.len)
      memcpy(e->data, ch->bytes.data, ch->bytes.len);
    e->len = ch->bytes.len;
    e->there = true;
    break;
  case QP__CHANGE_FILE_APPEND:
    append(e, ch);
    break;
  case QP__CHANGE_FILE_RENAME:
    rename_file(e, *place_of(files, ch->to));
    break;
  case QP__CHANGE_FILE_DROP:
    e->there = false;
    break;
  default:
    break;
  }
}

static void
tidy_one(struct qp__mem_files *files, const char *path)
{
  struct qp__mem_file **at = place_of(files, path);
  struct qp__mem_file *e = *at;

  if (!e || e->there)
    return;
  *at = e->next;
  free_entry(e);
}

void
qp__mem_files_tidy(struct qp__mem_files *files, const struct qp__driver_change *changes, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (!qp__is_file_change(&changes[i]))
      continue;
    tidy_one(files, changes[i].path);
    if (changes[i].kind == QP__CHANGE_FILE_RENAME)
      tidy_one(files, changes[i].to);
  }
}

void
qp__mem_files_drop_below(struct qp__mem_files *files, const char *dir)
{
  size_t n = strlen(dir);

  for (size_t i = 0; i < QP__MEM_BUCKETS; i++) {
    struct qp__mem_file **at = &files->buckets[i];

    while (*at) {
      struct qp__mem_file *e = *at;

      if (strncmp(e->path, dir, n) != 0 || e->path[n] != '/') {
        at = &e->next;
        continue;
      }
      *at = e->next;
      free_entry(e);
    }
  }
}

/* ---- reading ---- */

const struct qp__mem_file *
qp__mem_files_find(const struct qp__mem_files *files, const char *path)
{
  const struct qp__mem_file *e = files->buckets[bucket_of(path)];

  while (e && strcmp(e->path, path) != 0)
    e = e->next;
  return e && e->there ? e : NULL;
}

enum qp_rc
qp__mem_files_names(const struct qp__mem_files *files, const char *dir, struct qp__buf *out)
{
  size_t n = strlen(dir);

  for (size_t i = 0; i < QP__MEM_BUCKETS; i++)
    for (const struct qp__mem_file *e = files->buckets[i]; e; e = e->next)
      if (e->there && strncmp(e->path, dir, n) == 0 && e->path[n] == '/')
        (void)qp__buf_add(out, e->path + n + 1, strlen(e->path + n + 1) + 1);
  return out->rc;
}
