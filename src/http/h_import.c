/* h_import.c - imports a file of an older program as a job (job.h): a dump of a browser's
 * LocalStorage, or an old context in one file. The library recognises which of them it is.
 *
 * The body was received as a file (upload.h). A job that ends, for whatever reason, removes it.
 * What a caller with an owner imports belongs to that owner. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/upload.h"

#define LIST_MAX 1000 /* items that a report lists; the others are counted */
#define LIST_BYTES ((size_t)8 << 20)

struct work {
  struct qp__http *http;
  struct qp__job *job;
  struct qp__upload *upload;
  char owner[QP__OWNER_TEXT]; /* "": none */
  uint64_t imported, already, failed, prompts, messages, items;
  struct qp__buf list; /* elements of a JSON array */
};

static void
free_work(void *arg)
{
  struct work *w = arg;

  qp__upload_free(w->upload);
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
run(struct qp__job *job, void *arg, struct qp_err *err)
{
  struct work *w = arg;
  enum qp_rc rc;

  w->job = job;
  rc = qp_file_import(w->http->store, qp__upload_path(w->upload), w->owner[0] ? w->owner : NULL, 0,
                      visit_item, w, err);
  qp__upload_free(w->upload);
  w->upload = NULL;
  write_report(w, qp__job_report(job));
  return rc;
}

enum qp_rc
qp__h_import(struct qp__request *r, struct qp_err *err)
{
  struct qp__job_spec spec = { .kind = "import", .parallel = true, .run = run, .free = free_work };
  struct work *w;

  if (!r->upload)
    return qp__fail(err, QP_INVALID, "the body is missing: the file to import");
  w = qp__alloc0(1, sizeof(*w));
  if (!w)
    return qp__fail_nomem(err, "a job");
  w->http = r->http;
  w->upload = r->upload; /* moved */
  r->upload = NULL;
  (void)snprintf(w->owner, sizeof(w->owner), "%s", r->caller.owner);
  qp__buf_init(&w->list, LIST_BYTES);
  spec.work = w;
  return qp__job_start(r, &spec, err);
}
