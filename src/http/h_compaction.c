/* h_compaction.c - reading what was compacted, and what a model would be sent. The actions are in
 * h_action.c. */
#include "base/err.h"
#include "compact/compact_settings.h"
#include "http/compaction_json.h"
#include "http/emit.h"
#include "http/engine_use.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "quipu/compaction.h"
#include "store/context/brief.h"

enum qp_rc
qp__h_compaction_list(struct qp__request *r, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp_compactions(r->held->context, qp__request_query(r, "branch"), &text, &len, err);
  return qp__emit_taken(&r->reply.body, NULL, text, len, rc);
}

enum qp_rc
qp__h_view(struct qp__request *r, struct qp_err *err)
{
  const char *branch = qp__request_query(r, "branch");
  struct qp_engine *engine = NULL;
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp__turns_enter(r, &engine, err);
  if (rc)
    return rc;
  rc = qp_engine_view(engine, r->held->context, branch, &text, &len, err);
  qp__turns_leave(r->http);
  return qp__emit_taken(&r->reply.body, NULL, text, len, rc);
}

enum qp_rc
qp__compact_plan_answer(struct qp__request *r, const char *branch, const struct qp_uuid *up_to,
                        struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  struct qp_engine *engine = NULL;
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  rc = qp_engine_compact_plan(engine, r->held->context, branch, up_to, &text, &len, err);
  qp__turns_leave(r->http);
  qp__emit_open(b, NULL, '{');
  qp__emit_bool(b, "dry_run", true);
  rc = qp__emit_taken(b, "plan", text, len, rc);
  qp__emit_close(b, '}');
  return rc;
}

enum qp_rc
qp__compact_marks_emit(struct qp_context *context, const char *branch, struct qp__buf *out,
                       struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp_compaction_marks(context, branch, &text, &len, err);

  return qp__emit_taken(out, "compactions", text, len, rc);
}

enum qp_rc
qp__pins_read(const json_t *pins, struct qp__idset *out, struct qp_err *err)
{
  const json_t *pin;
  size_t i;

  json_array_foreach (pins, i, pin) {
    struct qp_uuid id;

    if (json_is_string(pin) && !qp_uuid_parse(json_string_value(pin), &id, NULL) &&
        !qp__idset_add(out, &id))
      return qp__fail_nomem(err, "the pinned messages");
  }
  return QP_OK;
}

enum qp_rc
qp__pins_load(struct qp_context *context, struct qp__idset *out, struct qp_err *err)
{
  struct qp__brief brief;
  enum qp_rc rc = qp__brief_read(context, &brief, err);

  if (!rc)
    rc = qp__pins_read(brief.pins, out, err);
  qp__brief_release(&brief);
  return rc;
}

enum qp_rc
qp__compact_settings_check(const json_t *settings, struct qp_err *err)
{
  struct qp__compact_settings checked;

  qp__compact_settings_init(&checked);
  return qp__compact_settings_read(settings, &checked, err);
}
