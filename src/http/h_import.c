/* h_import.c - imports a file of an older program as a job (job.h): a dump of a browser's
 * LocalStorage, or an old context in one file. The library recognises which of them it is.
 *
 * The body becomes a file in a directory of its own, because the library reads files; no name in it
 * comes from the client. A job that ends, for whatever reason, removes the directory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "os/file.h"
#include "os/os.h"

#define LIST_MAX 1000 /* items that a report lists; the others are counted */
#define LIST_BYTES ((size_t)8 << 20)
#define FILE_NAME "import.json"

struct work {
  struct qp__http *http;
  struct qp__job *job;
  struct qp__buf body;
  uint64_t imported, already, failed, prompts, messages, items;
  struct qp__buf list; /* elements of a JSON array */
};

static void
free_work(void *arg)
{
  struct work *w = arg;

  qp__buf_release(&w->body);
  qp__buf_release(&w->list);
  qp__free(w);
}

/* ---- the report ---- */

static void
list_item(struct work *w, const char *item, const struct qp_import_report *report)
{
  struct qp__buf *b = &w->list;

  if (w->items++ >= LIST_MAX || b->rc)
    return;
  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "item", item);
  qp__emit_str(b, "outcome", qp_import_outcome_name(report->outcome));
  qp__emit_uuid(b, "context_id", &report->context);
  qp__emit_uint(b, "messages", report->messages);
  qp__emit_open(b, "notes", '[');
  for (size_t i = 0; i < report->note_count; i++)
    qp__emit_str(b, NULL, report->notes[i]);
  qp__emit_close(b, ']');
  qp__emit_str(b, "error", report->outcome == QP_IMPORT_FAILED ? report->err.msg : NULL);
  qp__emit_close(b, '}');
}

static enum qp_rc
visit_item(void *arg, const char *item, const struct qp_import_report *report)
{
  struct work *w = arg;
  bool chat = !qp_uuid_is_none(&report->context);

  w->failed += report->outcome == QP_IMPORT_FAILED;
  w->already += report->outcome == QP_IMPORT_ALREADY && chat;
  if (report->outcome == QP_IMPORT_DONE && chat) {
    w->imported++;
    w->messages += report->messages;
  }
  w->prompts += report->outcome == QP_IMPORT_DONE && !chat && strncmp(item, "prompt ", 7) == 0;
  list_item(w, item, report);
  qp__job_progress(w->job, w->items, 0, item);
  return qp__job_cancelled(w->job) ? QP_STOPPED : QP_OK;
}

static void
write_report(const struct work *w, struct qp__buf *b)
{
  qp__emit_open(b, NULL, '{');
  qp__emit_uint(b, "imported", w->imported);
  qp__emit_uint(b, "already", w->already);
  qp__emit_uint(b, "failed", w->failed);
  qp__emit_uint(b, "prompts", w->prompts);
  qp__emit_uint(b, "messages", w->messages);
  qp__emit_open(b, "items", '[');
  if (w->list.len && !w->list.rc)
    (void)qp__buf_add(b, w->list.data, w->list.len);
  qp__emit_close(b, ']');
  qp__emit_uint(b, "left_off", w->items > LIST_MAX ? w->items - LIST_MAX : 0);
  qp__emit_close(b, '}');
}

/* ---- the work ---- */

static enum qp_rc
note_old(void *arg, const char *path, enum qp_legacy format, uint64_t bytes)
{
  bool *old = arg;

  (void)path;
  (void)bytes;
  *old = format == QP_LEGACY_MONOLITH;
  return QP_OK;
}

static enum qp_rc
import_file(struct work *w, const char *path, struct qp_err *err)
{
  struct qp_import_report report = { 0 };
  struct qp_store *store = w->http->store;
  bool old = false;
  enum qp_rc rc = qp_legacy_find(path, note_old, &old, err);

  if (rc)
    return rc;
  if (!old)
    return qp_localstorage_import(store, path, 0, visit_item, w, err);
  rc = qp_legacy_import(store, path, 0, &report, err);
  if (rc)
    report.outcome = QP_IMPORT_FAILED;
  (void)visit_item(w, "context", &report);
  qp_import_report_release(&report);
  return rc;
}

static enum qp_rc
run(struct qp__job *job, void *arg, struct qp_err *err)
{
  const struct qp__os *os = &qp__os_posix;
  struct work *w = arg;
  char name[64];
  char *path = NULL;
  char *dir = NULL;
  int root;
  int sys;
  enum qp_rc rc = QP_OK;

  w->job = job;
  root = os->open_root(os->self, w->http->data ? w->http->data : "/tmp", 0);
  if (root < 0)
    return qp__fail_sys(err, root, "cannot open the data directory");
  (void)snprintf(name, sizeof(name), "%simport-%llx", w->http->data ? "tmp/" : "quipu-",
                 (unsigned long long)(uintptr_t)w);
  (void)qp__tree_remove(os, root, name); /* of a server that was killed */
  sys = qp__dir_make(os, root, name);
  dir = qp__strf("%s/" FILE_NAME, name);
  path = qp__strf("%s/%s/" FILE_NAME, w->http->data ? w->http->data : "/tmp", name);
  if (!dir || !path)
    rc = qp__fail_nomem(err, "an import");
  if (!rc && !sys)
    sys = qp__file_create(os, root, dir, qp__buf_bytes(&w->body));
  if (!rc && sys)
    rc = qp__fail_sys(err, sys, "cannot write a temporary file");
  qp__buf_release(&w->body);
  if (!rc)
    rc = import_file(w, path, err);
  (void)qp__tree_remove(os, root, name);
  qp__close(os, root);
  qp__free(dir);
  qp__free(path);
  write_report(w, qp__job_report(job));
  return rc;
}

enum qp_rc
qp__h_import(struct qp__request *r, struct qp_err *err)
{
  struct qp__job_spec spec = { .kind = "import", .parallel = true, .run = run, .free = free_work };
  struct work *w = qp__alloc0(1, sizeof(*w));

  if (!w)
    return qp__fail_nomem(err, "a job");
  w->http = r->http;
  w->body = r->body; /* moved */
  qp__buf_init(&r->body, r->settings->max_body);
  qp__buf_init(&w->list, LIST_BYTES);
  spec.work = w;
  return qp__job_start(r, &spec, err);
}
