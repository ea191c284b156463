/* covered_ledger.c - see covered_ledger.h. */
#include "turn/covered_ledger.h"

#include "base/alloc.h"
#include "base/err.h"
#include "store/context/context_int.h"
#include "turn/originals.h"

#define PAGE 500 /* messages that are read at once */

static const char what[] = "the ledger of a conversation";

void
qp__covered_ledger_free(void *thing)
{
  struct qp__ledger *ledger = thing;

  if (!ledger)
    return;
  qp__ledger_release(ledger);
  qp__free(ledger);
}

/* Adds the messages of the branch from number `from` + 1 to `end`. */
static enum qp_rc
extend(struct qp__conversation *c, struct qp__ledger *ledger, uint64_t from, uint64_t end,
       struct qp_err *err)
{
  static const struct qp__source nothing = { NULL, 0, 1 };
  enum qp_rc rc = qp__ledger_extend(ledger, &nothing, err); /* it forgets what was quoted */

  while (!rc && from < end) {
    uint64_t count = end - from < PAGE ? end - from : PAGE;
    struct qp__originals page = { .cap = 0 };

    rc = qp__originals_read(&page, c, from, count, err);
    if (!rc)
      rc = qp__ledger_extend(ledger, &page.source, err);
    qp__originals_release(&page);
    from += count;
  }
  return rc;
}

enum qp_rc
qp__covered_ledger_take(struct qp__conversation *c, uint64_t covered, const struct qp_uuid *last,
                        struct qp__covered_entry *out, struct qp_err *err)
{
  struct qp__covered_entry e = qp__covered_cache_take(&c->engine->ledgers, &c->context->id);
  enum qp_rc rc;

  if (e.thing && (e.covered > covered || !qp__conversation_holds(c, e.covered, &e.last, NULL))) {
    qp__covered_ledger_free(
        e.thing); /* of another branch, or what it has is not covered any more */
    e.thing = NULL;
  }
  if (!e.thing) {
    e.covered = 0;
    e.thing = qp__alloc0(1, sizeof(struct qp__ledger));
    if (!e.thing)
      return qp__fail_nomem(err, what);
    qp__ledger_init(e.thing);
  }
  rc = extend(c, e.thing, e.covered, covered, err);
  if (rc) {
    qp__covered_ledger_free(e.thing);
    return rc;
  }
  e.covered = covered;
  e.last = *last;
  e.bytes = qp__ledger_bytes(e.thing);
  *out = e;
  return QP_OK;
}
