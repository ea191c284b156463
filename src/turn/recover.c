/* recover.c - finding the contexts that an earlier engine left in the middle: by the state that the
 * catalogue knows of each, without opening them. With QP_ENGINE_QUICK_START only after an engine
 * that did not end well. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "turn/turn.h"

#define PAGE 1000

struct search {
  uv_work_t work; /* first */
  struct qp_engine *engine;
  struct qp_uuid *ids;
  size_t count, cap;
  struct qp_err err;
};

static enum qp_rc
see_row(void *arg, const struct qp_catalogue_row *row)
{
  struct search *s = arg;
  enum qp__state state;

  if (row->rc || !row->state || !qp__state_find(row->state, &state) || qp__state_rests(state))
    return QP_OK;
  if (s->count == s->cap) {
    size_t cap = s->cap ? s->cap * 2 : 16;
    struct qp_uuid *ids = qp__realloc(s->ids, cap * sizeof(*ids));

    if (!ids)
      return qp__fail_nomem(&s->err, "looking for turns to bring to an end");
    s->ids = ids;
    s->cap = cap;
  }
  s->ids[s->count++] = row->id;
  return QP_OK;
}

static void
search_catalogue(uv_work_t *work)
{
  struct search *s = (struct search *)work;
  struct qp_catalogue_query query = { .limit = PAGE };
  char *cursor = NULL;
  enum qp_rc rc;

  do {
    char *next = NULL;

    query.cursor = cursor;
    rc = qp_catalogue_list(s->engine->store, &query, see_row, s, &next, &s->err);
    qp_free(cursor);
    cursor = next;
  } while (!rc && cursor);
  qp_free(cursor);
  s->err.rc = rc;
}

static void
on_found(uv_work_t *work, int status)
{
  struct search *s = (struct search *)work;
  struct qp_engine *e = s->engine;

  e->unclean |= status || s->err.rc;
  if (status || s->err.rc)
    qp__log(&e->log, QP_LOG_WARN, "turn", "looking for turns that were left in the middle: %s",
            status ? "stopped" : s->err.msg);
  else if (s->count)
    qp__log(&e->log, QP_LOG_INFO, "turn", "%zu contexts were left in the middle of a turn",
            s->count);
  for (size_t i = 0; i < s->count && !e->draining; i++) {
    struct qp__turn *t = qp__engine_turn(e, &s->ids[i]);

    if (t && t->stage == QP__TURN_COLD) {
      qp__turn_load(t);
      t->recovering = t->stage == QP__TURN_LOADING;
      e->recovering += t->recovering;
      qp__turn_pump(t);
    }
  }
  qp__engine_recovered(e);
  qp__free(s->ids);
  qp__free(s);
}

enum qp_rc
qp__engine_recover(struct qp_engine *e, struct qp_err *err)
{
  struct search *s = qp__alloc0(1, sizeof(*s));

  if (!s)
    return qp__fail_nomem(err, "starting the engine");
  s->engine = e;
  if (uv_queue_work(&e->loop, &s->work, search_catalogue, on_found)) {
    qp__free(s);
    return qp__fail(err, QP_NOMEM, "no worker can be had");
  }
  e->recovering++;
  return QP_OK;
}
