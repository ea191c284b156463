/* import.c - a dump of a browser's LocalStorage into a store: prompts first, then chat by chat.
 * How a dump is read is in old/localstorage.h. */
#include "old/import.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "old/import_report.h"
#include "old/ls_int.h"
#include "old/migrate_int.h"
#include "os/file.h"

struct importing {
  struct qp_store *store;
  const char *owner; /* or NULL */
  unsigned flags;
  qp_import_visit *visit;
  void *arg;
  struct qp__ls *dump;
};

/* ---- the file ---- */

static enum qp_rc
read_failure(int sys, const char *path, struct qp_err *err)
{
  if (sys == -EOVERFLOW)
    return qp__fail(err, QP_TOOBIG, "'%.150s' is larger than %zu MiB", path, QP__LS_MAX >> 20);
  if (sys == -ENOTSUP || sys == -EISDIR)
    return qp__fail(err, QP_INVALID, "'%.150s' is not a regular file", path);
  return qp__fail_sys(err, sys, "cannot read '%.150s'", path);
}

/* The last component of a path. */
static const char *
base_name(const char *path)
{
  const char *base = path;

  for (const char *p = path; *p; p++)
    if (*p == '/')
      base = p + 1;
  return base;
}

/* Reads a file by the user's path. */
static enum qp_rc
read_file(const struct qp__os *os, const char *path, struct qp__buf *out, struct qp_err *err)
{
  const char *base = base_name(path);
  char *dir = base > path ? qp__strndup(path, (size_t)(base - path)) : qp__strdup(".");
  int sys;
  int fd;

  if (!dir)
    return qp__fail_nomem(err, "reading a dump");
  fd = os->open_root(os->self, dir, 0);
  qp__free(dir);
  if (fd < 0)
    return read_failure(fd, path, err);
  sys = qp__file_read(os, fd, base, out);
  qp__close(os, fd);
  return sys ? read_failure(sys, path, err) : QP_OK;
}

static enum qp_rc
open_dump(const struct qp__os *os, const char *path, struct qp__ls **out, struct qp_err *err)
{
  struct qp__buf text;
  char what[80];
  enum qp_rc rc;

  (void)snprintf(what, sizeof(what), "%.70s", base_name(path));
  qp__buf_init(&text, QP__LS_MAX);
  rc = read_file(os, path, &text, err);
  if (!rc)
    rc = qp__ls_open(what, &text, out, err);
  qp__buf_release(&text);
  return rc;
}

/* ---- telling ---- */

/* Hands the report out and releases it. */
static enum qp_rc
tell(struct importing *im, const char *item, struct qp_import_report *report)
{
  enum qp_rc rc = QP_OK;

  if (report->err.rc)
    report->outcome = QP_IMPORT_FAILED;
  if (im->visit)
    rc = im->visit(im->arg, item, report);
  qp_import_report_release(report);
  return rc;
}

/* Reports a note that does not belong to an imported chat or prompt. */
static enum qp_rc
tell_note(struct importing *im, const char *before, const struct qp__ls_note *note)
{
  struct qp_import_report report = { .outcome = QP_IMPORT_DONE };
  char item[300];

  (void)snprintf(item, sizeof(item), "%.120s%s%.150s", before, before[0] ? ", " : "", note->item);
  if (note->err.rc)
    report.err = note->err;
  else if (!qp__report_note(&report, "%s", note->err.msg))
    (void)qp__fail_nomem(&report.err, item);
  return tell(im, item, &report);
}

/* ---- prompts ---- */

/* Compares a stored prompt with one of the dump. */
static enum qp_rc
compare_prompt(void *arg, const struct qp_prompt *stored)
{
  const struct qp__stored_prompt *p = arg;

  return strcmp(stored->content, p->content) == 0 ? QP_OK : QP_STOPPED;
}

static enum qp_rc
import_prompt(struct importing *im, struct qp__stored_prompt *p, struct qp_import_report *report)
{
  struct qp_err *err = &report->err;
  enum qp_rc rc = qp_prompt_get(im->store, p->id, compare_prompt, p, err);

  if (!rc) {
    report->outcome = QP_IMPORT_ALREADY;
    return QP_OK;
  }
  if (rc == QP_STOPPED)
    return qp__fail(err, QP_EXISTS, "system prompt '%s' exists with another text, which is kept",
                    p->id);
  if (rc != QP_NOTFOUND)
    return rc;
  report->outcome = QP_IMPORT_DONE;
  if (im->flags & QP_IMPORT_DRY_RUN)
    return QP_OK;
  return qp__prompt_add(im->store, p, err);
}

/* Replaces an id by "OWNER:ID". */
static enum qp_rc
own_id(const struct importing *im, char **id, struct qp_err *err)
{
  char *owned;

  if (!im->owner || !*id)
    return QP_OK;
  owned = qp__strf("%s:%s", im->owner, *id);
  if (!owned)
    return qp__fail_nomem(err, "an id");
  qp__free(*id);
  *id = owned;
  return qp__prompt_id_check(owned, err);
}

static enum qp_rc
import_prompts(struct importing *im)
{
  static const struct qp_err fine = { QP_OK, "" };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < im->dump->prompt_count && !rc; i++) {
    struct qp__ls_prompt *p = &im->dump->prompts[i];
    struct qp_import_report report = { .outcome = QP_IMPORT_DONE };
    char item[160];

    (void)snprintf(item, sizeof(item), "prompt %.140s", p->old_id);
    if (strcmp(p->old_id, p->prompt->id) != 0 &&
        !qp__report_note(&report, "its id is %s here", p->prompt->id))
      (void)qp__fail_nomem(&report.err, item);
    else if (!own_id(im, &p->prompt->id, &report.err) && !import_prompt(im, p->prompt, &report))
      report.err = fine;
    rc = tell(im, item, &report);
  }
  return rc;
}

/* ---- chats ---- */

/* Copies the notes of an imported chat to its report. False: out of memory. */
static bool
add_notes(struct qp_import_report *report, const struct qp__ls_notes *notes)
{
  for (size_t i = 0; i < notes->count; i++) {
    const struct qp__ls_note *n = &notes->list[i];

    if (!n->err.rc &&
        !qp__report_note(report, "%s%s%s", n->item ? n->item : "", n->item ? ": " : "", n->err.msg))
      return false;
  }
  return true;
}

/* Reports each message that was skipped. */
static enum qp_rc
tell_left_out(struct importing *im, const char *item, const struct qp__ls_notes *notes)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < notes->count && !rc; i++)
    if (notes->list[i].err.rc)
      rc = tell_note(im, item, &notes->list[i]);
  return rc;
}

/* Chats of different owners may have the same id. */
static struct qp_uuid
context_id(const struct importing *im, const char *chat)
{
  if (!im->owner)
    return qp__ls_chat_uuid(chat);
  return qp__ls_derive("chat", (struct qp_bytes){ im->owner, strlen(im->owner) + 1 },
                       (struct qp_bytes){ chat, strlen(chat) });
}

static enum qp_rc
own_chat(const struct importing *im, struct qp__ls_chat *chat, const struct qp_uuid *id,
         struct qp_err *err)
{
  if (!im->owner)
    return QP_OK;
  chat->meta->id = *id;
  chat->owner = im->owner;
  if (json_object_set_new(chat->meta->extra, "owner", json_string(im->owner)))
    return qp__fail_nomem(err, "a chat");
  return own_id(im, &chat->prompt_id, err);
}

static enum qp_rc
import_chat(struct importing *im, size_t i)
{
  const struct qp__ls_source *source = &im->dump->chats[i];
  static const struct qp_err fine = { QP_OK, "" };
  struct qp_import_report report = { .context = context_id(im, source->id) };
  struct qp__ls_chat *chat = NULL;
  char item[120];
  bool taken;
  enum qp_rc rc = qp__ls_chat_load(im->dump, i, im->store->max_message, &chat, &report.err);

  (void)snprintf(item, sizeof(item), "chat %.110s", source->id);
  if (!rc && !add_notes(&report, &chat->notes))
    rc = qp__fail_nomem(&report.err, item);
  if (!rc)
    rc = own_chat(im, chat, &report.context, &report.err);
  if (!rc)
    rc = qp__import_chat(im->store, chat, im->flags, &report);
  if (!rc)
    report.err = fine;
  taken = !rc;
  rc = tell(im, item, &report);
  if (!rc && taken)
    rc = tell_left_out(im, item, &chat->notes);
  qp__ls_chat_free(chat);
  return rc;
}

static enum qp_rc
import_dump(struct qp_store *store, const char *path, const char *owner, unsigned flags,
            qp_import_visit *visit, void *arg, struct qp_err *err)
{
  struct importing im = {
    .store = store, .owner = owner, .flags = flags, .visit = visit, .arg = arg
  };
  enum qp_rc rc = flags & QP_IMPORT_DRY_RUN ? QP_OK : qp__check_writable(store, err);

  if (!rc)
    rc = open_dump(store->os, path, &im.dump, err);
  if (rc)
    return rc;
  if (err)
    err->msg[0] = 0;
  rc = import_prompts(&im);
  for (size_t i = 0; i < im.dump->chat_count && !rc; i++)
    rc = import_chat(&im, i);
  for (size_t i = 0; i < im.dump->notes.count && !rc; i++)
    rc = tell_note(&im, "", &im.dump->notes.list[i]);
  if (rc && err && !err->msg[0])
    (void)qp__fail(err, rc, "the import was stopped: %s", qp_rc_text(rc));
  qp__ls_close(im.dump);
  return rc;
}

enum qp_rc
qp_localstorage_import(struct qp_store *store, const char *path, unsigned flags,
                       qp_import_visit *visit, void *arg, struct qp_err *err)
{
  return import_dump(store, path, NULL, flags, visit, arg, err);
}

/* ---- either of them ---- */

static enum qp_rc
note_old(void *arg, const char *path, enum qp_legacy format, uint64_t bytes)
{
  bool *old = arg;

  (void)path;
  (void)bytes;
  *old = format == QP_LEGACY_MONOLITH;
  return QP_OK;
}

enum qp_rc
qp_file_import(struct qp_store *store, const char *path, const char *owner, unsigned flags,
               qp_import_visit *visit, void *arg, struct qp_err *err)
{
  struct qp_import_report report = { .outcome = QP_IMPORT_DONE };
  bool old = false;
  enum qp_rc rc = qp_legacy_find(path, note_old, &old, err);
  enum qp_rc told = QP_OK;

  if (rc)
    return rc;
  if (!old)
    return import_dump(store, path, owner, flags, visit, arg, err);
  rc = qp__legacy_import_owned(store, path, owner, flags, &report, err);
  if (visit)
    told = visit(arg, "context", &report);
  qp_import_report_release(&report);
  return rc ? rc : told;
}
