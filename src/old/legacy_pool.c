/* legacy_pool.c - an old context that is a directory: context.json, and one file per message.
 *
 *   context.json                 the context, usually with an empty "message_pool"
 *   messages_pool/{uuid}.json    one node each: {"id", "message", "parent_id"}
 *   system_prompt.json           a copy of the last prompt that was sent; not imported
 *
 * The key of a message is the name of its file. Files with other names are ignored, and an invalid
 * message file is omitted and noted, as the old program did: its id then counts as missing. The
 * hash covers the names, each with its NUL, and the bytes of all these files, in the order of their
 * names. */
#include "old/legacy_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "os/file.h"

#define FOLDER "messages_pool"

/* Names of message files, without ".json". */
struct names {
  char (*list)[QP_UUID_TEXT];
  size_t count;
  size_t cap;
};

static int
collect_name(void *arg, const char *name, unsigned char type)
{
  struct names *names = arg;
  struct qp_uuid id;

  if (type != DT_REG || strlen(name) != QP__UUID_LEN + 5 ||
      strcmp(name + QP__UUID_LEN, ".json") != 0 || !qp__uuid_decode(name, &id))
    return 0;
  if (!qp__vec_reserve(names->list, names->count, names->cap, 1))
    return -ENOMEM;
  memcpy(names->list[names->count], name, QP__UUID_LEN);
  names->list[names->count++][QP__UUID_LEN] = 0;
  return 0;
}

static int
compare_names(const void *a, const void *b)
{
  return strcmp(a, b);
}

static enum qp_rc
list_names(struct qp__legacy_source *l, struct names *names, struct qp_err *err)
{
  int rc = l->os->listdir(l->os->self, l->fd, FOLDER, collect_name, names);

  if (rc == -ENOENT)
    return QP_OK; /* a context without messages */
  if (rc < 0)
    return qp__fail_sys(err, rc, "%s/" FOLDER ": cannot be read", l->what);
  if (names->count >= QP__LEGACY_NONE - 1)
    return qp__fail(err, QP_TOOBIG, "%s: too many messages", l->what);
  if (names->count)
    qsort(names->list, names->count, sizeof(*names->list), compare_names);
  return QP_OK;
}

void
qp__legacy_file_path(const struct qp__legacy_source *l, uint32_t entry,
                     char out[QP__LEGACY_FILE_PATH])
{
  char key[QP_UUID_TEXT];

  qp__legacy_key_text(l, entry, key);
  (void)snprintf(out, QP__LEGACY_FILE_PATH, FOLDER "/%s.json", key);
}

/* Reads a message file; false and s->rc if it is invalid. */
static bool
scan_file(struct qp__scan *s, struct qp__legacy_entry *e, bool *odd_time)
{
  if (qp__scan_peek(s) < 0 && !s->rc)
    return qp__scan_fail(s, QP_INVALID, 0, "is empty");
  return qp__legacy_scan_node(s, e, odd_time) && qp__scan_end(s);
}

/* Whether a failure is caused by the file and not by the system. */
static bool
is_bad_file(enum qp_rc rc)
{
  return rc == QP_INVALID || rc == QP_TOOBIG;
}

static enum qp_rc
read_open_file(struct qp__legacy_source *l, struct qp__scan *s, int fd, const char *path,
               const char *key, struct qp_err *err)
{
  struct qp__legacy_entry e = { .flags = QP__LEGACY_FILE };
  struct qp_err why = { QP_OK, "" };
  bool odd_time = false;

  (void)crypto_generichash_update(s->hash, (const unsigned char *)path, strlen(path) + 1);
  qp__scan_restart(s, fd, path, &why);
  if (!scan_file(s, &e, &odd_time)) {
    if (!is_bad_file(s->rc))
      return qp__fail(err, s->rc, "%.150s/%.150s", l->what, why.msg);
    return qp__scan_drain(s, err) ? qp__legacy_notef(l, err, "omitted: %s", why.msg) : s->rc;
  }
  (void)qp__uuid_decode(key, &e.id);
  if (!qp__legacy_add_entry(l, &e, key))
    return qp__fail_nomem(err, l->what);
  return odd_time && !qp__legacy_note_time(l, &e.id, err) ? QP_NOMEM : QP_OK;
}

static enum qp_rc
read_file(struct qp__legacy_source *l, struct qp__scan *s, const char *key, struct qp_err *err)
{
  char path[QP__LEGACY_FILE_PATH];
  enum qp_rc rc;
  int fd;

  (void)snprintf(path, sizeof(path), FOLDER "/%s.json", key);
  fd = qp__open(l->os, l->fd, path, O_RDONLY, 0);
  if (fd < 0)
    return qp__fail_sys(err, fd, "%s/%s: cannot be opened", l->what, path);
  rc = read_open_file(l, s, fd, path, key, err);
  qp__close(l->os, fd);
  return rc;
}

static enum qp_rc
read_context(struct qp__legacy_source *l, struct qp__scan *s, struct qp_err *err)
{
  static const char name[] = QP__LEGACY_CONTEXT_FILE;
  char what[QP__LEGACY_WHAT];
  struct stat st;
  enum qp_rc rc;
  int fd = qp__open(l->os, l->fd, name, O_RDONLY, 0);

  (void)snprintf(what, sizeof(what), "%.230s/%s", l->what, name);
  if (fd < 0)
    return qp__fail_sys(err, fd, "%s: cannot be opened", what);
  (void)crypto_generichash_update(s->hash, (const unsigned char *)name, sizeof(name));
  if (l->os->fstat(l->os->self, fd, &st) == 0)
    l->file_time = qp__legacy_time_of(&st);
  qp__scan_restart(s, fd, what, err);
  rc = qp__legacy_scan_context(l, s, err);
  s->what = l->what;
  if (!rc && l->entry_count)
    rc = qp__fail(err, QP_INVALID,
                  "%s: contains messages itself; in this form they must be in " FOLDER, what);
  qp__close(l->os, fd);
  return rc;
}

static enum qp_rc
note_others(struct qp__legacy_source *l, struct qp_err *err)
{
  struct stat st;

  if (l->os->fstatat(l->os->self, l->fd, "system_prompt.json", &st) < 0)
    return QP_OK;
  return qp__legacy_notef(l, err,
                          "system_prompt.json, a copy of the last prompt that was sent, is "
                          "not taken over");
}

enum qp_rc
qp__legacy_pool_read(struct qp__legacy_source *l, struct qp_err *err)
{
  crypto_generichash_state hash;
  struct names names = { NULL, 0, 0 };
  struct qp__scan s;
  enum qp_rc rc;

  (void)crypto_generichash_init(&hash, NULL, 0, sizeof(l->hash));
  rc = qp__scan_init(&s, l->os, -1, l->what, &hash, err) ? QP_OK : QP_NOMEM;
  if (!rc)
    rc = read_context(l, &s, err);
  if (!rc)
    rc = note_others(l, err);
  if (!rc)
    rc = list_names(l, &names, err);
  for (size_t i = 0; i < names.count && !rc; i++)
    rc = read_file(l, &s, names.list[i], err);
  (void)crypto_generichash_final(&hash, l->hash, sizeof(l->hash));
  qp__scan_release(&s);
  qp__free(names.list);
  return rc;
}
