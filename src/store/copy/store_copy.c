/* store_copy.c - copies a store to another one, in three phases: see quipu/copy.h.
 *
 *   examining  what both stores have is compared, without contents; a conflict ends the copy
 *   copying    prompts, sessions, blobs, then the contexts that are missing
 *   comparing  everything is read again from both stores, with contents
 *
 * The digest of a context as it was copied tells in the last phase who is to blame for a
 * difference: somebody who changed the source meanwhile, or the copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/sized.h"
#include "store/copy/copy_int.h"

enum state {
  MISSING,
  OUTDATED, /* an older copy, which will be replaced */
  OLD,      /* in an old format */
  SAME,     /* or copied: to be compared */
  GONE,     /* deleted meanwhile, or a problem was reported */
};

struct item {
  struct qp_uuid id;
  enum state state;
  uint8_t digest[16];
};

struct job {
  struct qp__copy copy;
  struct item *items;
  size_t count;
};

/* ---- reporting ---- */

void
qp__copy_note(struct qp__copy *c, const char *item, const struct qp_err *why)
{
  c->report->problems++;
  if (!c->first.rc)
    (void)qp__fail(&c->first, why->rc, "%s: %.300s", item, why->msg);
  if (c->options.problem)
    c->options.problem(c->options.arg, item, why);
}

static void
report_context(struct job *j, struct item *item, const struct qp_err *why)
{
  char text[QP_UUID_TEXT + 16];
  char id[QP_UUID_TEXT];

  (void)snprintf(text, sizeof(text), "context %s", qp_uuid_text(&item->id, id));
  qp__copy_note(&j->copy, text, why);
  item->state = GONE;
}

static void
progress(const struct job *j, const char *phase, size_t done, uint64_t messages)
{
  const struct qp_copy_options *o = &j->copy.options;

  if (o->progress)
    o->progress(o->arg, phase, done, j->count, messages);
}

/* What ends a copy, rather than being a problem of one context: it would fail for the next one
 * too. */
static bool
is_fatal(enum qp_rc rc)
{
  return rc == QP_NOMEM || rc == QP_IO || rc == QP_FULL || rc == QP_READONLY || rc == QP_DENIED;
}

/* A failure about one context is reported, others are returned. */
static enum qp_rc
judge(struct job *j, struct item *item, enum qp_rc rc, const struct qp_err *why, struct qp_err *err)
{
  if (rc && is_fatal(rc)) {
    if (err)
      *err = *why;
    return rc;
  }
  if (rc)
    report_context(j, item, why);
  return QP_OK;
}

/* ---- examining ---- */

static enum qp_rc
list_contexts(struct job *j, struct qp_err *err)
{
  struct qp_store *from = j->copy.from;
  struct qp__ids ids = { 0 };
  enum qp_rc rc = from->driver->context_list(from->self, qp__ids_add, &ids, err);

  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "copying a store");
  if (!rc) {
    j->items = qp__alloc0(ids.count + 1, sizeof(*j->items));
    if (!j->items)
      rc = qp__fail_nomem(err, "copying a store");
  }
  if (!rc && ids.count)
    qsort(ids.at, ids.count, sizeof(*ids.at), qp__uuid_compare);
  for (size_t i = 0; i < ids.count && !rc; i++)
    if (!j->count || !qp_uuid_equal(&j->items[j->count - 1].id, &ids.at[i]))
      j->items[j->count++].id = ids.at[i];
  qp__free(ids.at);
  j->copy.report->contexts = j->count;
  return rc;
}

static bool
is_old(struct qp_store *s, const struct qp_uuid *id)
{
  struct qp__old_place place;

  return s->driver->old && !s->driver->old->find(s->self, id, &place, NULL) &&
         place.format != QP_LEGACY_NONE && !place.newer;
}

/* Both stores have the context. */
static enum qp_rc
compare_states(struct job *j, struct item *item, struct qp__copy_side *a, struct qp__copy_side *b,
               struct qp_err *err)
{
  uint8_t digest[16];
  bool older = false;
  enum qp_rc rc = qp__copy_side_digest(a, item->digest, err);

  if (!rc)
    rc = qp__copy_side_digest(b, digest, err);
  if (rc)
    return rc;
  if (memcmp(digest, item->digest, sizeof(digest)) == 0) {
    item->state = SAME;
    j->copy.report->equal++;
    return QP_OK;
  }
  rc = qp__copy_is_older(a, b, &older, err);
  item->state = OUTDATED;
  if (rc || (older && j->copy.options.flags & QP_COPY_UPDATE))
    return rc;
  return qp__fail(err, QP_CONFLICT, "the store to copy to has this context with another content%s",
                  older ? ", which looks like an older copy: --update replaces it" : "");
}

static enum qp_rc
examine(struct job *j, struct item *item, struct qp_err *err)
{
  struct qp_store *to = j->copy.to;
  struct qp__copy_side a;
  struct qp__copy_side b;
  struct qp__buf meta;
  enum qp_rc rc;

  if (is_old(j->copy.from, &item->id)) {
    item->state = OLD;
    return QP_OK;
  }
  qp__buf_init(&meta, QP__META_MAX);
  rc = to->driver->context_peek(to->self, &item->id, &meta, NULL, err);
  qp__buf_release(&meta);
  if (rc == QP_NOTFOUND)
    return QP_OK;
  rc = rc ? rc : qp__copy_side_load(j->copy.from, &item->id, &a, err);
  if (rc == QP_NOTFOUND) {
    item->state = GONE;
    return QP_OK;
  }
  if (rc)
    return rc;
  rc = qp__copy_side_load(to, &item->id, &b, err);
  if (!rc) {
    rc = compare_states(j, item, &a, &b, err);
    qp__copy_side_release(&b);
  }
  qp__copy_side_release(&a);
  return rc;
}

static enum qp_rc
examine_all(struct job *j, struct qp_err *err)
{
  enum qp_rc rc = list_contexts(j, err);

  for (size_t i = 0; i < j->count && !rc; i++) {
    struct qp_err why = { QP_OK, "" };

    rc = examine(j, &j->items[i], &why);
    rc = judge(j, &j->items[i], rc, &why, err);
    progress(j, "examining", i + 1, 0);
  }
  if (!rc)
    rc = qp__copy_files_examine(&j->copy, err);
  if (!rc && j->copy.first.rc == QP_CONFLICT)
    rc = qp__fail(err, QP_CONFLICT, "nothing was copied: %.300s%s", j->copy.first.msg,
                  j->copy.report->problems > 1 ? " (and more)" : "");
  return rc;
}

/* ---- copying ---- */

static enum qp_rc
copy_old(struct job *j, struct item *item, struct qp_err *err)
{
  struct qp_copy_report *r = j->copy.report;
  uint64_t messages = 0;
  uint64_t bytes = 0;
  bool already = false;
  enum qp_rc rc = j->copy.from->driver->old->copy(j->copy.from, &item->id, j->copy.to, &messages,
                                                  &bytes, &already, err);

  item->state = GONE; /* a migration has compared it */
  if (rc)
    return rc;
  r->equal += already;
  r->copied += !already;
  r->migrated += !already;
  r->messages += messages;
  r->bytes += bytes;
  return QP_OK;
}

static enum qp_rc
copy_one(struct job *j, struct item *item, struct qp_err *err)
{
  struct qp_copy_report *r = j->copy.report;
  struct qp__copy_counts counts = { 0 };
  bool outdated = item->state == OUTDATED;
  struct qp__copy_side side;
  enum qp_rc rc;

  if (item->state == OLD)
    return copy_old(j, item, err);
  rc = qp__copy_side_load(j->copy.from, &item->id, &side, err);
  if (rc == QP_NOTFOUND) {
    item->state = GONE;
    r->changed++;
    return QP_OK;
  }
  if (rc)
    return rc;
  rc = qp__copy_side_digest(&side, item->digest, err);
  if (!rc && outdated)
    rc = qp_context_delete(j->copy.to, &item->id, err);
  if (!rc)
    rc = qp__copy_write(&side, j->copy.to, &counts, err);
  qp__copy_side_release(&side);
  if (rc)
    return rc;
  item->state = SAME;
  r->copied++;
  r->updated += outdated;
  r->messages += counts.messages;
  r->bytes += counts.bytes;
  r->unavailable += counts.lost;
  return QP_OK;
}

static enum qp_rc
copy_all(struct job *j, struct qp_err *err)
{
  enum qp_rc rc = qp__copy_files_write(&j->copy, err);

  for (size_t i = 0; i < j->count && !rc; i++) {
    struct item *item = &j->items[i];
    struct qp_err why = { QP_OK, "" };

    if (item->state <= OLD)
      rc = judge(j, item, copy_one(j, item, &why), &why, err);
    progress(j, "copying", i + 1, j->copy.report->messages);
  }
  return rc;
}

/* ---- comparing ---- */

static enum qp_rc
compare_one(struct job *j, struct item *item, struct qp_err *err)
{
  struct qp__copy_side a;
  struct qp__copy_side b;
  uint8_t digest[16];
  enum qp_rc rc = qp__copy_side_load(j->copy.from, &item->id, &a, err);

  if (rc == QP_NOTFOUND) {
    j->copy.report->changed++;
    return QP_OK;
  }
  if (rc)
    return rc;
  rc = qp__copy_side_digest(&a, digest, err);
  if (!rc && memcmp(digest, item->digest, sizeof(digest)) != 0) {
    j->copy.report->changed++;
    qp__copy_side_release(&a);
    return QP_OK;
  }
  if (!rc)
    rc = qp__copy_side_load(j->copy.to, &item->id, &b, err);
  if (!rc) {
    rc = qp__copy_side_digest(&b, digest, err);
    if (!rc && memcmp(digest, item->digest, sizeof(digest)) != 0)
      rc = qp__fail(err, QP_CORRUPT, "the copy differs from its source");
    if (!rc)
      rc = qp__copy_compare(&a, &b, &j->copy.report->compared, err);
    qp__copy_side_release(&b);
  }
  qp__copy_side_release(&a);
  return rc;
}

static enum qp_rc
compare_all(struct job *j, struct qp_err *err)
{
  enum qp_rc rc = qp__copy_files_compare(&j->copy, err);

  for (size_t i = 0; i < j->count && !rc; i++) {
    struct item *item = &j->items[i];
    struct qp_err why = { QP_OK, "" };

    if (item->state == SAME)
      rc = judge(j, item, compare_one(j, item, &why), &why, err);
    progress(j, "comparing", i + 1, j->copy.report->compared);
  }
  return rc;
}

enum qp_rc
qp_store_copy(struct qp_store *from, struct qp_store *to, const struct qp_copy_options *options,
              struct qp_copy_report *out, struct qp_err *err)
{
  struct qp_copy_report report = { 0 };
  struct job j = { .copy = { .from = from, .to = to, .report = &report } };
  enum qp_rc rc = qp__sized_copy("struct qp_copy_options", options, &j.copy.options,
                                 sizeof(j.copy.options), err);

  if (!rc)
    rc = qp__check_writable(to, err);
  if (!rc && !to->driver->build)
    rc = qp__store_lacks(to, "take whole contexts", err);
  if (rc)
    return rc;
  rc = examine_all(&j, err);
  if (!rc)
    rc = copy_all(&j, err);
  if (!rc)
    rc = compare_all(&j, err);
  if (!rc && j.copy.first.rc)
    rc = qp__fail(err, j.copy.first.rc, "%llu thing%s could not be copied: %.300s",
                  (unsigned long long)report.problems, report.problems == 1 ? "" : "s",
                  j.copy.first.msg);
  qp__copy_files_release(&j.copy);
  qp__free(j.items);
  if (out)
    *out = report;
  return rc;
}
