/* legacy_write.c - writes a context in the old monolithic format, piece by piece.
 *
 * Indented by two spaces, like the old program, keys in its order: the fields of the context up to
 * "message_pool", the nodes, the branches, the remaining fields. The writer holds the context
 * without messages and branches, one branch at a time, the ids that were written, and the original
 * ids of copies. */
#include "old/legacy_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"

#define WHAT "the context in the old format"

enum part { IN_POOL, IN_BRANCHES };

struct qp__legacy_writer {
  struct qp__buf *out;
  const struct qp__meta *meta;
  json_t *context; /* the old form without messages and branches */
  enum part part;
  bool first_field; /* no field of the context was written yet */
  bool first_item;  /* no node, or no branch */

  struct qp__idset written; /* old ids of the nodes */
  struct qp__idset copies;  /* stored ids of copies … */
  struct qp_uuid *old_ids;  /* … and their old ids, by number */
  size_t old_id_count, old_id_cap;

  const struct qp__branch_def *branch;
  json_t *fields;  /* of the branch */
  json_t *missing; /* position → id, or NULL */
  json_t *spelled; /* position → id, or NULL */
  bool upper;      /* its ids are written in upper case */
  bool opened;     /* its beginning was written */
  bool empty;      /* and no field after it */
  size_t given;    /* fields of it that were written or skipped */
  size_t ids;      /* ids of it that were written */
};

/* ---- ids ---- */

/* False: out of memory. */
static bool
put_copy(struct qp__legacy_writer *w, const struct qp_uuid *id, const struct qp_uuid *old_id)
{
  if (!qp__idset_add(&w->copies, id))
    return false;
  return w->copies.count == w->old_id_count ||
         qp__vec_push(w->old_ids, w->old_id_count, w->old_id_cap, *old_id);
}

/* The id of a stored message in the old format. */
static struct qp_uuid
old_id_of(const struct qp__legacy_writer *w, const struct qp_uuid *id)
{
  uint32_t copy = qp__idset_find(&w->copies, id);

  return copy == QP__NO_MEMBER ? *id : w->old_ids[copy];
}

/* ---- text ---- */

static void
start_line(struct qp__buf *out, size_t level)
{
  (void)qp__buf_add_char(out, '\n');
  for (size_t i = 0; i < level; i++)
    (void)qp__buf_add(out, "  ", 2);
}

/* The beginning of a field, up to its value. False: out of memory. */
static bool
put_key(struct qp__buf *out, size_t level, bool first, const char *key)
{
  json_t *text = json_string_nocheck(key);

  if (!first)
    (void)qp__buf_add_char(out, ',');
  start_line(out, level);
  if (text)
    (void)qp__json_write(out, text);
  (void)qp__buf_add_str(out, ": ");
  json_decref(text);
  return text != NULL;
}

static bool
put_field(struct qp__buf *out, size_t level, bool first, const char *key, const json_t *value)
{
  bool ok = put_key(out, level, first, key);

  (void)qp__json_write_inside(out, value, level);
  return ok;
}

static enum qp_rc
done(const struct qp__legacy_writer *w, bool ok, struct qp_err *err)
{
  return ok ? qp__buf_check(w->out, WHAT, err) : qp__fail_nomem(err, WHAT);
}

/* A field of the context. */
static bool
put_top(struct qp__legacy_writer *w, const char *key, const json_t *value)
{
  bool first = w->first_field;

  w->first_field = false;
  return value ? put_field(w->out, 1, first, key, value) : put_key(w->out, 1, first, key);
}

/* ---- the beginning ---- */

void
qp__legacy_writer_free(struct qp__legacy_writer *w)
{
  if (!w)
    return;
  json_decref(w->context);
  json_decref(w->fields);
  qp__idset_release(&w->written);
  qp__idset_release(&w->copies);
  qp__free(w->old_ids);
  qp__free(w);
}

enum qp_rc
qp__legacy_begin(const struct qp__meta *meta, struct qp__buf *out, struct qp__legacy_writer **w_out,
                 struct qp_err *err)
{
  struct qp__legacy_writer *w = qp__alloc0(1, sizeof(*w));
  const char *key;
  json_t *value;
  bool ok = true;
  enum qp_rc rc;

  if (!w)
    return qp__fail_nomem(err, WHAT);
  w->out = out;
  w->meta = meta;
  w->first_field = true;
  w->first_item = true;
  rc = qp__legacy_context_back(meta, false, &w->context, err);
  if (rc)
    goto out;
  (void)qp__buf_add_char(out, '{');
  json_object_foreach (w->context, key, value) {
    if (!ok || strcmp(key, "message_pool") == 0)
      break;
    ok = put_top(w, key, value);
  }
  ok = ok && put_top(w, "message_pool", NULL);
  (void)qp__buf_add_char(out, '{');
  rc = done(w, ok, err);
  if (rc)
    goto out;
  *w_out = w;
  w = NULL;
out:
  qp__legacy_writer_free(w);
  return rc;
}

/* ---- nodes ---- */

/* The key in its original spelling. */
static void
node_key(const struct qp_message *m, const struct qp_uuid *id, char out[QP_UUID_TEXT])
{
  json_t *key = json_object_get(qp__legacy_of(m->extra), "key");
  struct qp_uuid spelled;

  (void)qp_uuid_text(id, out);
  if (json_string_length(key) == QP__UUID_LEN &&
      qp__uuid_decode(json_string_value(key), &spelled) && qp_uuid_equal(&spelled, id))
    memcpy(out, json_string_value(key), QP__UUID_LEN);
}

enum qp_rc
qp__legacy_node(struct qp__legacy_writer *w, const struct qp_message *m, struct qp_err *err)
{
  struct qp_uuid old_id = qp__legacy_old_id(m);
  struct qp_uuid old_parent = old_id_of(w, &m->parent);
  char key[QP_UUID_TEXT];
  json_t *value = NULL;
  json_t *node = NULL;
  size_t written = w->written.count;
  enum qp_rc rc = QP_OK;

  if ((!qp_uuid_equal(&old_id, &m->id) && !put_copy(w, &m->id, &old_id)) ||
      !qp__idset_add(&w->written, &old_id))
    return qp__fail_nomem(err, WHAT);
  if (w->written.count == written)
    return QP_OK; /* it was written before */
  value = qp__message_to_value(m);
  if (!value)
    rc = qp__fail_nomem(err, WHAT);
  if (!rc)
    rc = qp__legacy_back(value, &old_id, &old_parent, &node, err);
  if (!rc) {
    node_key(m, &old_id, key);
    rc = done(w, put_field(w->out, 2, w->first_item, key, node), err);
    w->first_item = false;
  }
  json_decref(node);
  json_decref(value);
  return rc;
}

static void
close_items(struct qp__legacy_writer *w)
{
  if (!w->first_item)
    start_line(w->out, 1);
  (void)qp__buf_add_char(w->out, '}');
  w->first_item = true;
}

/* ---- branches ---- */

enum qp_rc
qp__legacy_branch_begin(struct qp__legacy_writer *w, const char *branch, const char *prompt_id,
                        const char *prompt_content, struct qp_err *err)
{
  json_t *legacy;
  enum qp_rc rc;

  w->branch = qp__meta_branch(w->meta, branch);
  if (!w->branch)
    return qp__fail(err, QP_NOTFOUND, "branch '%s' not found", branch);
  json_decref(w->fields);
  w->fields = NULL;
  rc = qp__legacy_branch_back(w->branch, prompt_id, prompt_content, false, &w->fields, err);
  if (rc)
    return rc;
  legacy = qp__legacy_of(w->branch->extra);
  w->missing = json_object_get(legacy, "missing");
  w->spelled = json_object_get(legacy, "spelled");
  w->upper = json_is_true(json_object_get(legacy, "upper"));
  w->opened = false;
  w->empty = true;
  w->given = 0;
  w->ids = 0;
  return QP_OK;
}

/* Writes the fields from number `given` on, up to `stop` (NULL: all). */
static bool
put_fields(struct qp__legacy_writer *w, const char *stop)
{
  size_t i = 0;
  const char *key;
  json_t *value;

  json_object_foreach (w->fields, key, value) {
    if (i++ < w->given)
      continue;
    if (stop && strcmp(key, stop) == 0)
      break;
    if (!stop && w->ids && strcmp(key, "message_ids") == 0) {
      w->given++;
      continue; /* they are written already */
    }
    if (!put_field(w->out, 3, w->empty, key, value))
      return false;
    w->empty = false;
    w->given++;
  }
  return true;
}

/* Its key and the fields before message_ids. */
static bool
open_branch(struct qp__legacy_writer *w)
{
  bool has_ids = json_object_get(w->fields, "message_ids") != NULL;
  bool ok = true;

  if (w->opened)
    return true;
  w->opened = true;
  if (w->part == IN_POOL) {
    close_items(w);
    w->part = IN_BRANCHES;
    ok = put_top(w, "branches", NULL);
    (void)qp__buf_add_char(w->out, '{');
  }
  ok = ok && put_key(w->out, 2, w->first_item, qp__legacy_branch_key(w->branch));
  w->first_item = false;
  (void)qp__buf_add_char(w->out, '{');
  return ok && put_fields(w, has_ids ? "message_ids" : "system_prompt");
}

static bool
put_id_text(struct qp__legacy_writer *w, const char *id)
{
  bool ok = open_branch(w);

  if (!w->ids) {
    ok = ok && put_key(w->out, 3, w->empty, "message_ids");
    (void)qp__buf_add_char(w->out, '[');
    w->empty = false;
  }
  if (w->ids++)
    (void)qp__buf_add_char(w->out, ',');
  start_line(w->out, 4);
  (void)qp__buf_addf(w->out, "\"%s\"", id);
  return ok;
}

static const char *
at_place(const json_t *places, size_t place)
{
  char text[24];
  json_t *id;
  struct qp_uuid uuid;

  if (!places)
    return NULL;
  (void)snprintf(text, sizeof(text), "%zu", place);
  id = json_object_get(places, text);
  return json_string_length(id) == QP__UUID_LEN && qp__uuid_decode(json_string_value(id), &uuid)
             ? json_string_value(id)
             : NULL;
}

/* Writes the ids at this position that the pool lacked. */
static bool
put_missing(struct qp__legacy_writer *w)
{
  const char *id;

  while ((id = at_place(w->missing, w->ids)))
    if (!put_id_text(w, id))
      return false;
  return true;
}

enum qp_rc
qp__legacy_branch_id(struct qp__legacy_writer *w, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_uuid old = old_id_of(w, id);
  struct qp_uuid said;
  const char *spelled;
  char text[QP_UUID_TEXT];
  bool ok = put_missing(w);

  (void)qp_uuid_text(&old, text);
  for (size_t i = 0; w->upper && i < QP__UUID_LEN; i++)
    if (text[i] >= 'a')
      text[i] = (char)(text[i] - 'a' + 'A');
  spelled = at_place(w->spelled, w->ids);
  if (spelled && qp__uuid_decode(spelled, &said) && qp_uuid_equal(&said, &old))
    memcpy(text, spelled, QP__UUID_LEN);
  return done(w, ok && put_id_text(w, text), err);
}

/* Whether it is the branch that was created for a context without branches, unchanged. */
static bool
is_made(const struct qp__legacy_writer *w)
{
  const struct qp__branch_def *b = w->branch;

  return json_is_true(json_object_get(qp__legacy_of(b->extra), "made")) && !w->opened &&
         !b->user_prompt && !b->system_prompt_id;
}

enum qp_rc
qp__legacy_branch_end(struct qp__legacy_writer *w, struct qp_err *err)
{
  bool ok = put_missing(w);

  if (is_made(w))
    return done(w, ok, err);
  ok = ok && open_branch(w);
  if (w->ids) {
    start_line(w->out, 3);
    (void)qp__buf_add_char(w->out, ']');
  }
  ok = ok && put_fields(w, NULL);
  if (!w->empty)
    start_line(w->out, 2);
  (void)qp__buf_add_char(w->out, '}');
  return done(w, ok, err);
}

/* ---- the end ---- */

enum qp_rc
qp__legacy_end(struct qp__legacy_writer *w, struct qp_err *err)
{
  json_t *branches = json_object_get(w->context, "branches");
  const char *key;
  json_t *value;
  bool behind = false;
  bool ok = true;

  close_items(w);
  if (w->part == IN_POOL && branches)
    ok = put_top(w, "branches", branches);
  json_object_foreach (w->context, key, value) {
    if (ok && behind && strcmp(key, "branches") != 0)
      ok = put_top(w, key, value);
    behind = behind || strcmp(key, "message_pool") == 0;
  }
  (void)qp__buf_add_str(w->out, "\n}\n");
  return done(w, ok, err);
}
