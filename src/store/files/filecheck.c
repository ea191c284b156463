/* filecheck.c - what is in a context's directory and not in its index.
 *
 * A message file without an entry is told, and with repair it is taken into the index: as a message
 * that no branch reaches, which gc can find, rather than lost. What is none of ours is told and
 * left alone. A writer in another process may add messages while we look: before a file is called
 * unindexed the index is read again. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/files/files.h"
#include "store/files/guard.h"

struct check {
  struct qp__files *files;
  struct qp__fctx *context;
  struct qp__tree *tree;
  struct qp__problems *problems;
  struct qp_uuid *unindexed;
  size_t count;
  size_t cap;
};

static const char *const known_names[] = {
  "metadata.json", "metadata.json.bak", "index.json", "index.log",          "messages",
  "archive",       "compactions",       "trash",      "messages.jsonl.zst",
};

static bool
is_known_name(const char *name)
{
  for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++)
    if (strcmp(name, known_names[i]) == 0)
      return true;
  return strncmp(name, "events.", 7) == 0;
}

static int
check_name(void *arg, const char *name, unsigned char type)
{
  struct check *k = arg;
  char path[QP__PATH_MAX];

  (void)snprintf(path, sizeof(path), "%s/%s", k->context->path, name);
  if (type != DT_REG && type != DT_DIR)
    qp__problem(k->problems, QP_PROBLEM_WRONG_TYPE, &k->context->id, path, false, false,
                "a link or special file, which is never followed");
  else if (!is_known_name(name))
    qp__problem(k->problems, QP_PROBLEM_FOREIGN_FILE, &k->context->id, path, false, true,
                "not quipu's; left alone");
  return 0;
}

static enum qp_rc
remember(struct check *k, const struct qp_uuid *id, struct qp_err *err)
{
  if (k->count == k->cap) {
    size_t cap = k->cap ? k->cap * 2 : 16;
    struct qp_uuid *list = qp__realloc(k->unindexed, cap * sizeof(*list));

    if (!list)
      return qp__fail_nomem(err, "checking a context");
    k->unindexed = list;
    k->cap = cap;
  }
  k->unindexed[k->count++] = *id;
  return QP_OK;
}

static enum qp_rc
check_file(void *arg, const char *dir, const char *name, unsigned char type, struct qp_err *err)
{
  struct check *k = arg;
  char path[QP__PATH_MAX];
  struct qp_uuid id;
  uint32_t slot;

  (void)snprintf(path, sizeof(path), "%s/messages/%s%s%s", k->context->path, dir ? dir : "",
                 dir ? "/" : "", name);
  if (type != DT_REG && !(dir == NULL && type == DT_DIR)) {
    qp__problem(k->problems, QP_PROBLEM_WRONG_TYPE, &k->context->id, path, false, false,
                "a link, directory or special file where a message should be");
    return QP_OK;
  }
  if (!dir || !qp__message_file_id(name, &id)) {
    qp__problem(k->problems, QP_PROBLEM_FOREIGN_FILE, &k->context->id, path, false, true,
                "not quipu's; left alone");
    return QP_OK;
  }
  if (!qp__tree_find(k->tree, &id, true, &slot))
    return qp__fail_nomem(err, "checking a context");
  if (slot == QP__NO_SLOT)
    return remember(k, &id, err);
  if (strcmp(qp__tree_dir_name(k->tree, qp__tree_at(k->tree, slot)->dir), dir) != 0)
    qp__problem(k->problems, QP_PROBLEM_FOREIGN_FILE, &k->context->id, path, false, true,
                "a second copy of a message that the index has elsewhere");
  return QP_OK;
}

/* Reads the index once more and tells of the files that it still does not know. */
static enum qp_rc
confirm(struct check *k, struct qp_err *err)
{
  struct qp__index_report report;
  struct qp__image now;
  enum qp_rc rc;
  int sys;

  if (!k->count)
    return QP_OK;
  sys = qp__image_init(&now);
  if (sys)
    return qp__fail_sys(err, sys, "checking a context");
  rc = qp__index_read(k->files->os, k->files->root, k->context->path, &now, &report, err);
  for (size_t i = 0; i < k->count && !rc; i++) {
    char path[QP__PATH_MAX];
    char id[QP_UUID_TEXT];
    uint32_t slot;

    if (!qp__tree_find(&now.tree, &k->unindexed[i], true, &slot)) {
      rc = qp__fail_nomem(err, "checking a context");
      break;
    }
    if (slot != QP__NO_SLOT)
      continue;
    (void)snprintf(path, sizeof(path), "%s.json", qp_uuid_text(&k->unindexed[i], id));
    if (qp__guarded(k->files->os, k->files->root, path))
      continue; /* a batch is being written */
    (void)snprintf(path, sizeof(path), "%s/messages", k->context->path);
    qp__problem(k->problems, QP_PROBLEM_MESSAGE_UNINDEXED, &k->context->id, path,
                k->problems->repair, false, "message %s has a file and no entry in the index",
                qp_uuid_text(&k->unindexed[i], id));
  }
  qp__image_release(&now);
  return rc;
}

enum qp_rc
qp__files_check(void *self, void *context, struct qp__tree *tree, struct qp__problems *problems,
                struct qp_err *err)
{
  struct check k = { .files = self, .context = context, .tree = tree, .problems = problems };
  enum qp_rc rc;
  int sys = k.files->os->listdir(k.files->os->self, k.files->root, k.context->path, check_name, &k);

  if (sys)
    return qp__fail_sys(err, sys, "cannot list '%s'", k.context->path);
  rc = qp__message_files(k.files, context, check_file, &k, err);
  if (rc == QP_DENIED || rc == QP_CORRUPT || (rc == QP_IO && err)) {
    qp__problem(problems, QP_PROBLEM_UNREADABLE, &k.context->id, k.context->path, false, false,
                "%s", err ? err->msg : "cannot be listed");
    rc = QP_OK;
  }
  if (!rc)
    rc = confirm(&k, err);
  qp__free(k.unindexed);
  return rc;
}
