/* check.c - checks that everything exists, is intact and consistent.
 *
 * A check without repair loads each context separately and writes nothing; it may run beside a
 * writer. Because the writer may delete or change the context meanwhile, a problem of a context is
 * reported only if the context still exists and a second check finds a problem too.
 *
 * With repair it claims the context: no other user may have it open. A repair runs in rounds until
 * a round leaves no work: after a message with a wrong entry in the index, the next round trusts
 * messages more than their entries, and a message that was found in the place of another is added
 * by the next round.
 *
 * If the disk reports an error, the error is reported and ends the check: nothing is known about
 * the data, and a repair must not write to such a disk. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "base/vec.h"
#include "model/message.h"
#include "model/prompt.h"
#include "store/blobs.h"
#include "store/context/record_file.h"
#include "store/events/events.h"
#include "store/session/session_int.h"

#define ROUNDS 6 /* of a repair */
#define LOOKS 3  /* at a context that seems to be damaged */

struct checking {
  struct qp_store *store;
  struct qp__problems problems;
  struct qp_check_summary *summary;
  /* of the context at hand */
  struct qp_uuid id;
  struct qp__image image;
  void *driver;
  bool meta_changed;
  bool again;    /* a repair needs another round … */
  bool distrust; /* … in which messages are preferred to the index */
  /* of a check without repair: problems that are not reported yet */
  struct held *held;
  size_t held_count;
  size_t held_cap;
  bool nomem;
};

struct held {
  struct qp_problem problem;
  char *path;
  char *detail;
};

bool
qp__problem_io(struct qp__problems *p, enum qp_rc rc, const struct qp_err *cause)
{
  /* Other failures of system calls are QP_IO too: a link in the place of a file, say. */
  if (rc != QP_IO || !strstr(cause->msg, strerrordesc_np(EIO)))
    return true;
  if (!p->disk.rc)
    (void)qp__fail(&p->disk, QP_IO, "%s", cause->msg);
  return !p->repair;
}

/* ---- repairs ---- */

static enum qp_rc
commit_change(struct checking *k, struct qp__driver_change *change, struct qp_err *err)
{
  change->context = k->driver;
  return qp__commit_one(k->store, change, err);
}

/* A message in the trash is restored there, any other one in its own file. */
static enum qp_rc
restore_content(struct checking *k, const struct qp__entry *e, struct qp_bytes bytes,
                struct qp_err *err)
{
  struct qp__driver_change change = {
    .kind = QP__CHANGE_CONTENT, .id = e->id, .entry = e, .bytes = bytes
  };

  change.dir = qp__tree_dir_name(&k->image.tree, e->dir);
  if (qp__entry_kind(e) == QP__PLACE_TRASH) {
    change.kind = QP__CHANGE_TRASH;
    change.at = qp__place_time(atomic_load(&e->place));
  }
  return commit_change(k, &change, err);
}

static enum qp_rc
set_status(struct checking *k, struct qp__entry *e, enum qp_message_status status,
           struct qp_err *err)
{
  struct qp__driver_change change = { .kind = QP__CHANGE_STATUS, .id = e->id, .status = status };
  enum qp_rc rc;

  change.at = qp__place_time(atomic_load(&e->place));
  rc = commit_change(k, &change, err);
  if (rc)
    return rc;
  if (status == QP_STATUS_LIVE)
    qp__tree_set_place(&k->image.tree, e, 0);
  else
    atomic_store(&e->status, (uint8_t)status);
  return QP_OK;
}

/* ---- messages ---- */

static bool
is_marked(const struct qp__entry *e)
{
  return atomic_load(&e->status) == QP_STATUS_UNAVAILABLE;
}

/* The file that a message is in, or should be. */
static void
path_of_message(const struct checking *k, const struct qp__entry *e, char out[400])
{
  const struct qp__tree *tree = &k->image.tree;
  uint64_t place = atomic_load(&e->place);
  char id[QP_UUID_TEXT];

  (void)qp_uuid_text(&e->id, id);
  if (qp__place_kind(place) == QP__PLACE_PACK)
    (void)snprintf(out, 400, "%s", qp__tree_pack_of(tree, place));
  else if (qp__place_kind(place) == QP__PLACE_TRASH)
    (void)snprintf(out, 400, "trash/%s.json", id);
  else
    (void)snprintf(out, 400, "messages/%s/%s.json", qp__tree_dir_name(tree, e->dir), id);
}

/* A message of which there is another copy. */
static enum qp_rc
restore_message(struct checking *k, struct qp__entry *e, enum qp_problem_kind kind,
                const char *path, const char *cause, struct qp_bytes copy, struct qp_err *err)
{
  struct qp_store *s = k->store;
  struct qp_err own = { QP_OK, "" };
  enum qp_rc rc = QP_OK;

  if (k->problems.repair && s->driver->salvage)
    rc = s->driver->salvage->rescue(s->self, k->driver, &k->image.tree, e, copy, &k->again, &own);
  if (!rc && k->problems.repair)
    rc = restore_content(k, e, copy, &own);
  if (!rc && k->problems.repair && (is_marked(e) || qp__entry_kind(e) == QP__PLACE_PACK))
    rc = set_status(k, e, qp__entry_kind(e) == QP__PLACE_TRASH ? QP_STATUS_TRASHED : QP_STATUS_LIVE,
                    &own);
  if (rc == QP_EXISTS) { /* something is in its place that cannot be replaced */
    qp__report_problem(&k->problems, kind, &k->id, path, false, false,
                       "%.120s; another copy was found, but %.120s", cause, own.msg);
    return QP_OK;
  }
  if (!rc)
    qp__report_problem(&k->problems, kind, &k->id, path, k->problems.repair, false,
                       "%s; another copy was found", cause);
  return qp__fail_as(err, rc, &own);
}

/* Handles a message whose content does not match the index. */
static enum qp_rc
damaged_message(struct checking *k, struct qp__entry *e, enum qp_rc why, const struct qp_err *cause,
                struct qp_err *err)
{
  struct qp_store *s = k->store;
  enum qp_problem_kind kind =
      why == QP_NOTFOUND ? QP_PROBLEM_MESSAGE_MISSING
                         : (why == QP_CORRUPT ? QP_PROBLEM_MESSAGE_CORRUPT : QP_PROBLEM_UNREADABLE);
  bool mark = k->problems.repair && kind != QP_PROBLEM_UNREADABLE;
  struct qp__buf copy;
  char path[400];
  enum qp_rc rc = QP_OK;

  path_of_message(k, e, path);
  if (!qp__problem_io(&k->problems, why, cause))
    return qp__fail_as(err, why, cause);
  qp__buf_init(&copy, (size_t)1 << 30);
  if (s->driver->salvage &&
      !s->driver->salvage->find(s->self, k->driver, &k->image.tree, e, &copy, NULL)) {
    if (copy.data[copy.len - 1] != '\n') /* out of a pack */
      (void)qp__buf_add_char(&copy, '\n');
    rc = qp__buf_check(&copy, "a message", err);
    if (!rc)
      rc = restore_message(k, e, kind, path, cause->msg, qp__buf_bytes(&copy), err);
  } else if (!e->size && why == QP_CORRUPT) { /* a placeholder, and there is something */
    k->again = k->distrust = !k->problems.distrust;
    qp__report_problem(&k->problems, kind, &k->id, path, k->problems.repair && k->distrust, true,
                       "a file of a message that is not in the index");
  } else if (is_marked(e)) {
    qp__report_problem(&k->problems, kind, &k->id, path, false, true, "marked as lost");
  } else {
    if (mark)
      rc = set_status(k, e, QP_STATUS_UNAVAILABLE, err);
    if (!rc)
      qp__report_problem(&k->problems, kind, &k->id, path, mark, false,
                         "%s; no other copy was found%s", cause->msg,
                         mark ? ", the message is marked unavailable" : "");
  }
  qp__buf_release(&copy);
  return rc;
}

/* A message that was marked unavailable and exists again. */
static enum qp_rc
returned_message(struct checking *k, struct qp__entry *e, struct qp_err *err)
{
  char path[400];
  enum qp_rc rc = QP_OK;

  path_of_message(k, e, path);
  if (k->problems.repair)
    rc = set_status(k, e, qp__place_status(atomic_load(&e->place)), err);
  if (!rc)
    qp__report_problem(&k->problems, QP_PROBLEM_MESSAGE_MISSING, &k->id, path, k->problems.repair,
                       true, "the message was marked unavailable, but can be read");
  return rc;
}

/* The field of the index that differs from the message, or NULL. */
static const char *
find_difference(const struct qp__tree *tree, const struct qp__entry *e, const struct qp_message *m)
{
  static const struct qp_uuid none;
  const struct qp_uuid *parent =
      e->parent == QP__NO_SLOT ? &none : &qp__tree_at(tree, e->parent)->id;

  return !qp_uuid_equal(&e->id, &m->id)                       ? "id"
         : !qp_uuid_equal(parent, &m->parent)                 ? "parent"
         : e->role != (unsigned)m->role                       ? "role"
         : e->type != (unsigned)qp__message_effective_type(m) ? "type"
         : e->time != m->created_at                           ? "time"
         : e->tokens != qp__message_tokens(m)                 ? "tokens"
                                                              : NULL;
}

/* The content has the hash of the entry, so it is correct: the other fields of the entry must match
 * it. */
static enum qp_rc
compare_entry(struct checking *k, const struct qp__entry *e, struct qp_bytes text,
              struct qp_err *err)
{
  struct qp_message *m = NULL;
  struct qp_err cause = { QP_OK, "" };
  const char *field;
  char path[400];
  enum qp_rc rc = qp__message_decode("message", text, &m, &cause);

  if (rc == QP_NOMEM)
    return qp__fail_as(err, rc, &cause);
  field = rc ? NULL : find_difference(&k->image.tree, e, m);
  qp_message_free(m);
  path_of_message(k, e, path);
  if (rc) {
    qp__report_problem(&k->problems, QP_PROBLEM_MESSAGE_CORRUPT, &k->id, path, false, false,
                       "its hash is right, but it is not a valid message: %.200s", cause.msg);
  } else if (field) {
    bool repaired = k->problems.repair && !k->problems.distrust;

    k->again = k->distrust = repaired;
    qp__report_problem(&k->problems, QP_PROBLEM_INDEX_DAMAGED, &k->id, path, repaired, false,
                       "the index has another %s than the message itself", field);
  }
  return QP_OK;
}

static enum qp_rc
check_message(struct checking *k, uint32_t slot, struct qp__buf *text, struct qp_err *err)
{
  struct qp_store *s = k->store;
  struct qp__entry *e = qp__tree_at(&k->image.tree, slot);
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc;

  qp__buf_reset(text);
  rc = s->driver->read(s->self, k->driver, &k->image.tree, e, text, &cause);
  k->summary->messages++;
  k->summary->bytes += text->len;
  if (rc == QP_NOMEM)
    return qp__fail_as(err, rc, &cause);
  if (!rc && !qp__content_matches(e, qp__buf_bytes(text)))
    rc = qp__fail(&cause, QP_CORRUPT, "its content does not match its hash");
  if (rc)
    return damaged_message(k, e, rc, &cause, err);
  rc = compare_entry(k, e, qp__buf_bytes(text), err);
  return !rc && is_marked(e) ? returned_message(k, e, err) : rc;
}

/* ---- references ---- */

/* A reference to a system prompt; `branch` NULL: of the configuration. A reference to an unknown
 * prompt is reported and, with repair, removed from the metadata. */
static enum qp_rc
check_reference(struct checking *k, const char *branch, const char *prompt, struct qp_err *err)
{
  struct qp_err cause;
  enum qp_rc rc = qp__check_prompt(k->store, prompt, &cause);

  if (rc == QP_NOMEM)
    return qp__fail_as(err, rc, &cause);
  if (rc != QP_NOTFOUND && rc != QP_INVALID)
    return QP_OK;
  qp__report_problem(&k->problems, QP_PROBLEM_PROMPT_MISSING, &k->id, "metadata.json",
                     k->problems.repair, false,
                     "%s%.100s refers to system prompt '%.60s', which does not exist",
                     branch ? "branch " : "the configuration", branch ? branch : "", prompt);
  k->meta_changed = true;
  return k->problems.repair ? qp__meta_set_prompt(k->image.meta, branch, NULL, err) : QP_OK;
}

static enum qp_rc
check_references(struct checking *k, struct qp_err *err)
{
  struct qp__meta *meta = k->image.meta;
  enum qp_rc rc = check_reference(k, NULL, qp__meta_prompt(meta), err);

  for (size_t i = 0; i < meta->branch_count && !rc; i++)
    rc = check_reference(k, meta->branches[i].name, meta->branches[i].system_prompt_id, err);
  return rc;
}

static enum qp_rc
save_meta(struct checking *k, struct qp_err *err)
{
  struct qp__driver_change change = {
    .kind = QP__CHANGE_META,
    .running = !qp_state_awaits_client(k->image.meta->state),
  };
  struct qp__buf text;
  enum qp_rc rc;

  if (!k->meta_changed || !k->problems.repair)
    return QP_OK;
  qp__buf_init(&text, QP__META_MAX);
  rc = qp__meta_seal(k->image.meta, &text, err);
  change.bytes = qp__buf_bytes(&text);
  if (!rc)
    rc = commit_change(k, &change, err);
  qp__buf_release(&text);
  return rc;
}

/* ---- a context in an old format ---- */

/* Its path, for reports; NULL: it does not exist in an old format. */
static const char *
old_path(struct checking *k, struct qp__old_place *place)
{
  struct qp_store *s = k->store;

  if (!s->driver->old || s->driver->old->find(s->self, &k->id, place, NULL) || place->newer ||
      place->format == QP_LEGACY_NONE)
    return NULL;
  return place->path;
}

static void
tell_of_old(struct checking *k, const char *path, const char *cause)
{
  qp__report_problem(&k->problems, QP_PROBLEM_OLD_FORMAT, &k->id, path, false, cause == NULL, "%s",
                     cause ? cause : "in an old format; convert it with 'quipu migrate'");
}

/* Every message was converted when the context was loaded, so those that cannot be read are
 * known. */
static void
check_old(struct checking *k)
{
  const struct qp__tree *tree = &k->image.tree;
  struct qp__old_place place;
  const char *path = old_path(k, &place);
  uint32_t bad = 0;
  char cause[80];

  for (uint32_t i = 0; i < tree->count; i++)
    bad += is_marked(qp__tree_at(tree, i));
  k->summary->messages += tree->count;
  k->summary->bytes += tree->pending_bytes;
  (void)snprintf(cause, sizeof(cause), "%u of its messages cannot be read", bad);
  if (path)
    tell_of_old(k, path, bad ? cause : NULL);
}

/* ---- a context ---- */

static enum qp_rc
check_loaded(struct checking *k, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&text, (size_t)1 << 30);
  for (uint32_t i = 0; i < k->image.tree.count && !rc; i++)
    rc = check_message(k, i, &text, err);
  qp__buf_release(&text);
  if (!rc)
    rc = check_references(k, err);
  if (!rc)
    rc = save_meta(k, err);
  if (!rc)
    rc = qp__events_check(k->store, &k->id, k->driver, &k->problems, err);
  if (!rc)
    rc = qp__records_check(k->store, &k->id, k->driver, &k->problems, err);
  return rc ? rc : k->store->driver->check(k->store->self, k->driver, &k->image, &k->problems, err);
}

/* Whether a failure to load is a finding about the context rather than the end of the check. */
static bool
is_finding(enum qp_rc rc)
{
  return rc == QP_CORRUPT || rc == QP_DENIED || rc == QP_INVALID || rc == QP_IO;
}

/* Checks a context once; with repair this is one round. */
static enum qp_rc
check_once(struct checking *k, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_store *s = k->store;
  struct qp__old_place old;
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc;

  qp__image_init(&k->image);
  k->id = *id;
  k->driver = NULL;
  k->meta_changed = k->again = k->distrust = false;
  k->problems.told = false;
  rc = s->driver->context_load(s->self, id, &k->image, &k->problems, &k->driver, &cause);
  if (!rc) {
    k->summary->contexts++;
    if (k->image.old)
      check_old(k);
    else
      rc = check_loaded(k, err);
    s->driver->context_free(s->self, k->driver);
  } else if ((is_finding(rc) && qp__problem_io(&k->problems, rc, &cause)) || rc == QP_TOOBIG) {
    const char *path = old_path(k, &old);

    k->summary->contexts++;
    if (path)
      tell_of_old(k, path, cause.msg);
    else if (!k->problems.told)
      qp__report_problem(&k->problems,
                         rc == QP_DENIED || rc == QP_IO || qp__is_held(s, id)
                             ? QP_PROBLEM_UNREADABLE
                             : QP_PROBLEM_METADATA_DAMAGED,
                         id, "metadata.json", false, false, "%s", cause.msg);
    rc = QP_OK;
  } else {
    (void)qp__fail_as(err, rc, &cause);
  }
  qp__image_release(&k->image);
  return rc;
}

static enum qp_rc
repair_context(struct checking *k, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_check_summary before = *k->summary;
  struct qp_context *claim = NULL;
  enum qp_rc rc = qp__context_claim(k->store, id, &claim, err);

  k->problems.distrust = false;
  for (int round = 0; round < ROUNDS && !rc; round++) {
    *k->summary = before;
    rc = check_once(k, id, err);
    if (!k->again)
      break;
    k->problems.distrust = k->problems.distrust || k->distrust;
  }
  qp__context_unclaim(claim);
  return rc;
}

/* ---- problems that are not reported yet ---- */

static void
hold_problem(void *arg, const struct qp_problem *problem)
{
  struct checking *k = arg;
  struct held *held;

  if (!qp__vec_reserve(k->held, k->held_count, k->held_cap, 1)) {
    k->nomem = true;
    return;
  }
  held = &k->held[k->held_count++];
  held->problem = *problem;
  held->problem.path = held->path = qp__strdup(problem->path);
  held->problem.detail = held->detail = qp__strdup(problem->detail);
  k->nomem = k->nomem || !held->path || !held->detail;
}

static void
empty_held(struct checking *k)
{
  for (size_t i = 0; i < k->held_count; i++) {
    qp__free(k->held[i].path);
    qp__free(k->held[i].detail);
  }
  k->held_count = 0;
}

/* Without repair. QP_NOTFOUND: it is not there, or was deleted meanwhile. */
static enum qp_rc
look_at_context(struct checking *k, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__problems told = k->problems;
  struct qp_check_summary summary = *k->summary;
  enum qp_rc rc = QP_OK;
  bool sound = false;

  for (int i = 0; i < LOOKS && !rc && !sound; i++) {
    empty_held(k);
    *k->summary = summary;
    k->problems = told;
    k->problems.visit = hold_problem;
    k->problems.arg = k;
    rc = check_once(k, id, err);
    sound = k->problems.count == told.count;
  }
  if (!rc && k->nomem)
    rc = qp__fail_nomem(err, "checking a context");
  k->problems.visit = told.visit;
  k->problems.arg = told.arg;
  if (rc) {
    k->problems.count = told.count;
    *k->summary = summary;
  }
  for (size_t i = 0; i < k->held_count && !rc && told.visit; i++)
    told.visit(told.arg, &k->held[i].problem);
  empty_held(k);
  return rc;
}

static enum qp_rc
check_context(struct checking *k, const struct qp_uuid *id, struct qp_err *err)
{
  return k->problems.repair ? repair_context(k, id, err) : look_at_context(k, id, err);
}

/* ---- the store ---- */

static enum qp_rc
visit_context(void *arg, const struct qp_uuid *id)
{
  struct qp_err err = { QP_OK, "" };
  struct checking *k = arg;
  enum qp_rc rc = check_context(k, id, &err);

  if (rc == QP_NOTFOUND) /* deleted since it was listed */
    return QP_OK;
  if (rc)
    qp__log(&k->store->log, QP_LOG_ERROR, "check", "%s", err.msg);
  return rc;
}

/* A prompt with a wrong checksum. Valid content counts. If it is not valid, for the reason `cause`,
 * one changed byte can be found. *told: it was restored or reported. */
static enum qp_rc
report_checksum(struct checking *k, const char *id, const char *path, const char *cause, bool *told)
{
  struct qp_err err = { QP_OK, "" };
  bool mended = false;
  enum qp_rc rc = k->problems.repair ? qp__prompt_repair(k->store, id, &mended, &err) : QP_OK;

  *told = !rc && (!cause || mended);
  if (rc == QP_NOTFOUND) /* deleted meanwhile, or it cannot be mended */
    return QP_OK;
  if (rc)
    qp__log(&k->store->log, QP_LOG_ERROR, "check", "%s", err.msg);
  else if (mended)
    qp__report_problem(&k->problems, QP_PROBLEM_PROMPT_DAMAGED, NULL, path, true, false,
                       "%.200s; one changed character was restored by its checksum",
                       cause ? cause : "");
  else if (!cause)
    qp__report_problem(
        &k->problems, QP_PROBLEM_CHECKSUM_WRONG, NULL, path, k->problems.repair, false,
        "its checksum is wrong: it was edited by hand or is damaged; the content is %s "
        "as it is",
        k->problems.repair ? "kept" : "used");
  return rc;
}

static enum qp_rc
visit_prompt(void *arg, const char *id)
{
  struct checking *k = arg;
  struct qp__stored_prompt *p = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp__seal seal = { .state = QP__SUM_NONE };
  struct qp__buf text;
  char path[QP__PROMPT_PATH];
  bool told = false;
  enum qp_rc rc;

  qp__prompt_path(path, id);
  qp__buf_init(&text, 8 * QP__PROMPT_MAX);
  rc = qp__prompt_read(k->store, id, &text, &err);
  if (!rc)
    rc = qp__seal_look(qp__buf_bytes(&text), 0, &seal, &err);
  if (!rc)
    rc = qp__prompt_decode(id, qp__buf_bytes(&text), &p, &err);
  if (!rc && strcmp(p->id, id) != 0)
    rc = qp__fail(&err, QP_CORRUPT, "it holds the prompt '%.60s'", p->id);
  qp__buf_release(&text);
  qp__prompt_free(p);
  if ((!rc || rc == QP_INVALID || rc == QP_CORRUPT) && seal.state == QP__SUM_WRONG) {
    enum qp_rc failed = report_checksum(k, id, path, rc ? err.msg : NULL, &told);

    if (failed || told)
      return failed;
  }
  if (rc == QP_NOMEM || rc == QP_OK)
    return rc;
  if (rc == QP_NOTFOUND) /* deleted since it was listed */
    return QP_OK;
  if (!qp__problem_io(&k->problems, rc, &err))
    return rc;
  qp__report_problem(&k->problems, QP_PROBLEM_PROMPT_DAMAGED, NULL, path, false, false, "%s",
                     err.msg);
  return QP_OK;
}

enum qp_rc
qp_store_check(struct qp_store *store, const struct qp_uuid *context, unsigned flags,
               qp_problem_visit *visit, void *arg, struct qp_check_summary *out, struct qp_err *err)
{
  struct qp_check_summary summary = { 0 };
  struct checking k = { .store = store, .summary = &summary };
  enum qp_rc rc = QP_OK;

  k.problems.visit = visit;
  k.problems.arg = arg;
  k.problems.repair = k.problems.scan = (flags & QP_CHECK_REPAIR) != 0;
  k.problems.thorough = true;
  if (k.problems.repair)
    rc = qp__check_writable(store, err);
  if (!rc && context) {
    rc = check_context(&k, context, err);
  } else if (!rc) {
    if (err)
      err->msg[0] = 0;
    if (!(flags & QP_CHECK_NO_CONTEXTS))
      rc = store->driver->context_list(store->self, visit_context, &k, err);
    if (!rc)
      rc = qp__prompt_ids(store, visit_prompt, &k, err);
    if (!rc)
      rc = qp__sessions_check(store, &k.problems, err);
    if (!rc)
      rc = qp__blobs_check(store, &k.problems, err);
    if (!rc)
      rc = store->driver->check(store->self, NULL, NULL, &k.problems, err);
    if (rc && err && !err->msg[0])
      (void)qp__fail(err, rc, "the check was stopped: %s", qp_rc_text(rc));
  }
  qp__free(k.held);
  if (!rc && k.problems.disk.rc)
    rc = qp__fail(err, QP_IO, "%.300s: the disk or its connection is not reliable",
                  k.problems.disk.msg);
  if (rc)
    return rc;
  summary.problems = k.problems.count;
  summary.repaired = k.problems.repaired;
  if (out)
    *out = summary;
  return QP_OK;
}
