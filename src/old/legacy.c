/* legacy.c - an opened old context and its messages. See legacy.h.
 *
 * Opening has four steps: legacy_scan.c reads the file (or legacy_pool.c the files), legacy_order.c
 * turns the lists into a tree, legacy_meta.c builds the metadata, and this file combines them.
 * After that nothing changes, and any thread may read. */
#include "old/legacy_int.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "os/file.h"

/* ---- notes ---- */

enum qp_rc
qp__legacy_notef(struct qp__legacy_source *l, struct qp_err *err, const char *fmt, ...)
{
  char text[400];
  va_list args;

  if (l->note_count == QP__LEGACY_NOTES) {
    l->notes_left++;
    return QP_OK;
  }
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  l->notes[l->note_count] = qp__strdup(text);
  if (!l->notes[l->note_count])
    return qp__fail_nomem(err, l->what);
  l->note_count++;
  return QP_OK;
}

/* The last note says how many notes were dropped. */
static enum qp_rc
close_notes(struct qp__legacy_source *l, struct qp_err *err)
{
  char text[80];

  if (!l->notes_left)
    return QP_OK;
  (void)snprintf(text, sizeof(text), "%zu more notes were left out", l->notes_left);
  l->notes[l->note_count] = qp__strdup(text);
  if (!l->notes[l->note_count])
    return qp__fail_nomem(err, l->what);
  l->note_count++;
  return QP_OK;
}

/* ---- opening ---- */

void
qp__legacy_close(struct qp__legacy_source *l)
{
  size_t blocks;

  if (!l)
    return;
  qp__close(l->os, l->fd);
  qp__meta_free(l->meta);
  json_decref(l->context);
  blocks = (l->entry_count + QP__LEGACY_BLOCK - 1) / QP__LEGACY_BLOCK;
  for (size_t i = 0; i < blocks; i++)
    qp__free(l->blocks[i]);
  qp__free(l->blocks);
  qp__idset_release(&l->pool_ids);
  qp__free(l->odd_keys.list);
  for (size_t i = 0; i < l->list_count; i++)
    qp__legacy_list_release(&l->lists[i]);
  qp__free(l->lists);
  qp__free(l->by_name);
  qp__free(l->items);
  qp__idset_release(&l->copies.ids);
  qp__free(l->copies.items);
  qp__free(l->heads);
  qp__free(l->prompts);
  for (size_t i = 0; i < l->note_count; i++)
    qp__free(l->notes[i]);
  qp__free(l->notes);
  qp__free(l->what);
  qp__free(l);
}

static enum qp_rc
read_id(struct qp__legacy_source *l, struct qp_err *err)
{
  json_t *id = json_object_get(l->context, "id");

  if (json_string_length(id) != QP__UUID_LEN || !qp__uuid_decode(json_string_value(id), &l->id))
    return qp__fail(err, QP_INVALID, "%s: not a context: its \"id\" is %s", l->what,
                    id ? "not a UUID" : "missing");
  if (qp_uuid_is_none(&l->id))
    return qp__fail(err, QP_INVALID, "%s: a context cannot have the id of all zeros", l->what);
  return QP_OK;
}

/* Checks that it is a context, before anything is built. */
static enum qp_rc
check_context(const struct qp__legacy_source *l, struct qp_err *err)
{
  const char *format = json_string_value(json_object_get(l->context, "format"));
  json_t *pool = json_object_get(l->context, "message_pool");

  if (format && strncmp(format, "quipu-", 6) == 0)
    return qp__fail(err, QP_INVALID, "%s: is a file of quipu itself (%s)", l->what, format);
  if (!pool && l->format == QP_LEGACY_MONOLITH)
    return qp__fail(err, QP_INVALID, "%s: not a context: \"message_pool\" is missing", l->what);
  if (pool && !json_is_object(pool))
    return qp__fail(err, QP_INVALID, "%s: \"message_pool\" must be an object", l->what);
  return QP_OK;
}

/* The name without its directory. */
static const char *
base_name(const char *path)
{
  const char *slash = strrchr(path, '/');

  return slash ? slash + 1 : path;
}

/* {id}.json, or {id} for a directory; other names are noted but do no harm. */
static enum qp_rc
check_name(struct qp__legacy_source *l, const char *path, struct qp_err *err)
{
  const char *name = base_name(path);
  size_t n = strcspn(name, ".");
  char text[QP_UUID_TEXT];
  struct qp_uuid id;

  if (n == QP__UUID_LEN && qp__uuid_decode(name, &id) && qp_uuid_equal(&id, &l->id))
    return QP_OK;
  return qp__legacy_notef(l, err, "it is called '%.100s', and its id is %s", name,
                          qp_uuid_text(&l->id, text));
}

static enum qp_rc
read_monolith(struct qp__legacy_source *l, struct qp_err *err)
{
  crypto_generichash_state hash;
  struct qp__scan s;
  enum qp_rc rc;

  (void)crypto_generichash_init(&hash, NULL, 0, sizeof(l->hash));
  rc = qp__scan_init(&s, l->os, l->fd, l->what, &hash, err) ? QP_OK : QP_NOMEM;
  if (!rc)
    rc = qp__legacy_scan_context(l, &s, err);
  (void)crypto_generichash_final(&hash, l->hash, sizeof(l->hash));
  qp__scan_release(&s);
  return rc;
}

static enum qp_rc
open_file(struct qp__legacy_source *l, int dirfd, const char *path, struct qp_err *err)
{
  struct stat st;
  int rc = l->os->fstatat(l->os->self, dirfd, path, &st);

  if (rc < 0)
    return qp__fail_sys(err, rc, "%s: cannot stat", l->what);
  if (S_ISREG(st.st_mode))
    l->format = QP_LEGACY_MONOLITH;
  else if (S_ISDIR(st.st_mode))
    l->format = QP_LEGACY_POOL;
  else
    return qp__fail(err, QP_INVALID, "%s: is neither a file nor a directory", l->what);
  l->file_time = qp__legacy_time_of(&st);
  l->fd = qp__open(l->os, dirfd, path,
                   l->format == QP_LEGACY_POOL ? O_RDONLY | O_DIRECTORY : O_RDONLY, 0);
  return l->fd < 0 ? qp__fail_sys(err, l->fd, "%s: cannot be opened", l->what) : QP_OK;
}

static enum qp_rc
read_all(struct qp__legacy_source *l, const char *path, struct qp_err *err)
{
  enum qp_rc rc =
      l->format == QP_LEGACY_POOL ? qp__legacy_pool_read(l, err) : read_monolith(l, err);

  if (!rc)
    rc = check_context(l, err);
  if (!rc)
    rc = read_id(l, err);
  if (!rc)
    rc = check_name(l, path, err);
  if (!rc)
    rc = qp__legacy_index(l, err);
  if (!rc)
    rc = qp__legacy_order(l, err);
  if (!rc)
    rc = qp__legacy_meta_make(l, err);
  return rc ? rc : close_notes(l, err);
}

enum qp_rc
qp__legacy_open(const struct qp__os *os, int dirfd, const char *path, const char *what,
                struct qp__legacy_source **out, struct qp_err *err)
{
  struct qp__legacy_source *l = qp__alloc0(1, sizeof(*l));
  enum qp_rc rc;

  if (!l)
    return qp__fail_nomem(err, what);
  l->os = os;
  l->fd = -1;
  l->what = qp__strdup(what);
  l->notes = qp__alloc0(QP__LEGACY_NOTES + 1, sizeof(*l->notes));
  if (!l->what || !l->notes) {
    rc = qp__fail_nomem(err, what);
    goto out;
  }
  rc = open_file(l, dirfd, path, err);
  if (rc)
    goto out;
  rc = read_all(l, path, err);
  if (rc)
    goto out;
  *out = l;
  l = NULL;
out:
  qp__legacy_close(l);
  return rc;
}

/* ---- asking ---- */

enum qp_legacy
qp__legacy_format(const struct qp__legacy_source *l)
{
  return l->format;
}

struct qp_uuid
qp__legacy_id(const struct qp__legacy_source *l)
{
  return l->id;
}

void
qp__legacy_hash(const struct qp__legacy_source *l, uint8_t out[16])
{
  memcpy(out, l->hash, sizeof(l->hash));
}

const struct qp__meta *
qp__legacy_meta(const struct qp__legacy_source *l)
{
  return l->meta;
}

size_t
qp__legacy_note_count(const struct qp__legacy_source *l)
{
  return l->note_count;
}

const char *
qp__legacy_note(const struct qp__legacy_source *l, size_t i)
{
  return l->notes[i];
}

size_t
qp__legacy_head_count(const struct qp__legacy_source *l)
{
  return l->meta->branch_count;
}

void
qp__legacy_head(const struct qp__legacy_source *l, size_t i, struct qp__legacy_head *out)
{
  *out = l->heads[i];
}

size_t
qp__legacy_prompt_count(const struct qp__legacy_source *l)
{
  return l->prompt_count;
}

void
qp__legacy_prompt(const struct qp__legacy_source *l, size_t i, struct qp__legacy_prompt *out)
{
  *out = l->prompts[i];
}

/* ---- messages ---- */

struct qp_uuid
qp__legacy_source_id(const struct qp__legacy_source *l, uint32_t item)
{
  return qp__legacy_entry(l, l->items[item].entry)->id;
}

struct qp_uuid
qp__legacy_new_id(const struct qp__legacy_source *l, uint32_t item)
{
  uint32_t copy = l->items[item].copy;

  return copy == QP__LEGACY_NONE ? qp__legacy_source_id(l, item) : l->copies.ids.ids[copy];
}

size_t
qp__legacy_count(const struct qp__legacy_source *l)
{
  return l->item_count;
}

void
qp__legacy_item(const struct qp__legacy_source *l, size_t i, struct qp__legacy_item *out)
{
  const struct qp__legacy_place *p = &l->items[i];

  memset(out, 0, sizeof(*out));
  out->id = qp__legacy_new_id(l, (uint32_t)i);
  if (p->parent != QP__LEGACY_NONE)
    out->parent = qp__legacy_new_id(l, p->parent);
  out->time = p->time;
  out->branch = l->list_count ? l->lists[p->branch].name : l->meta->branches[0].name;
}

void
qp__legacy_key_text(const struct qp__legacy_source *l, uint32_t entry, char out[QP_UUID_TEXT])
{
  const struct qp__legacy_entry *e = qp__legacy_entry(l, entry);
  size_t low = 0;
  size_t high = l->odd_keys.count;

  (void)qp_uuid_text(&e->id, out);
  for (size_t i = 0; e->flags & QP__LEGACY_UPPER && i < QP__UUID_LEN; i++)
    if (out[i] >= 'a')
      out[i] = (char)(out[i] - 'a' + 'A');
  while (e->flags & QP__LEGACY_MIXED && low < high) {
    size_t mid = low + (high - low) / 2;
    const struct qp__legacy_odd *odd = &l->odd_keys.list[mid];

    if (odd->at == entry) {
      memcpy(out, odd->text, QP_UUID_TEXT);
      return;
    }
    if (odd->at < entry)
      low = mid + 1;
    else
      high = mid;
  }
}

/* The bytes of a node, from the single file or from its own file. */
static enum qp_rc
read_bytes(const struct qp__legacy_source *l, uint32_t entry, const char *what, struct qp__buf *out,
           struct qp_err *err)
{
  const struct qp__legacy_entry *e = qp__legacy_entry(l, entry);
  char path[QP__LEGACY_FILE_PATH];
  ssize_t got;

  if (e->flags & QP__LEGACY_FILE) {
    qp__legacy_file_path(l, entry, path);
    got = qp__file_read(l->os, l->fd, path, out);
    return got < 0 ? qp__fail_sys(err, (int)got, "%s: cannot be read", what) : QP_OK;
  }
  if (qp__buf_reserve(out, e->len))
    return qp__fail_nomem(err, what);
  got = qp__read_at(l->os, l->fd, out->data, e->len, (off_t)e->at);
  if (got < 0)
    return qp__fail_sys(err, (int)got, "%s: cannot be read", what);
  if ((size_t)got != e->len)
    return qp__fail(err, QP_CORRUPT, "%s: the file became shorter while it was read", what);
  out->len = (size_t)got;
  out->data[out->len] = 0;
  return QP_OK;
}

enum qp_rc
qp__legacy_read_node(const struct qp__legacy_source *l, uint32_t entry, const char *what,
                     json_t **out, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__LEGACY_NODE_MAX);
  rc = read_bytes(l, entry, what, &text, err);
  if (!rc)
    rc = qp__json_parse_own_object(what, qp__buf_bytes(&text), out, err);
  qp__buf_release(&text);
  return rc;
}

void
qp__legacy_what(const struct qp__legacy_source *l, uint32_t item, char out[QP__LEGACY_WHAT])
{
  struct qp_uuid id = qp__legacy_source_id(l, item);
  char text[QP_UUID_TEXT];

  (void)snprintf(out, QP__LEGACY_WHAT, "%.190s: message %s", l->what, qp_uuid_text(&id, text));
}

enum qp_rc
qp__legacy_message(const struct qp__legacy_source *l, size_t i, struct qp_message **out,
                   struct qp_err *err)
{
  const struct qp__legacy_place *p = &l->items[i];
  struct qp__legacy_origin origin = {
    .id = qp__legacy_new_id(l, (uint32_t)i),
    .old_id = qp__legacy_source_id(l, (uint32_t)i),
    .time = p->time,
  };
  char what[QP__LEGACY_WHAT];
  char key[QP_UUID_TEXT];
  json_t *node = NULL;
  json_t *m = NULL;
  enum qp_rc rc;

  if (p->parent != QP__LEGACY_NONE) {
    origin.parent = qp__legacy_new_id(l, p->parent);
    origin.old_parent = qp__legacy_source_id(l, p->parent);
  }
  qp__legacy_key_text(l, p->entry, key);
  origin.key = key;
  qp__legacy_what(l, (uint32_t)i, what);
  rc = qp__legacy_read_node(l, p->entry, what, &node, err);
  if (!rc)
    rc = qp__legacy_forth(what, node, &origin, &m, err);
  if (!rc)
    rc = qp__message_from_value(what, m, out, err);
  json_decref(m);
  json_decref(node);
  return rc;
}
