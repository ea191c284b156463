/* packing.c - how the messages of a context are stored: each in a file, or many in an archive.
 *
 * Every function here claims the context, so that no reader of this process uses the place of a
 * message while it changes. The driver does the work. */
#include <string.h>

#include "base/err.h"
#include "store/context/context_int.h"

/* ---- claiming a context ---- */

enum qp_rc
qp__claimed_load(struct qp_store *s, const struct qp_uuid *id, bool dry_run,
                 struct qp__claimed *out, struct qp_err *err)
{
  struct qp__problems problems = { .repair = !dry_run, .log = &s->log };
  struct qp__claimed c = { .store = s };
  char text[QP_UUID_TEXT];
  enum qp_rc rc = dry_run ? QP_OK : qp__check_writable(s, err);

  if (!rc)
    rc = qp__context_claim(s, id, &c.claim, err);
  if (rc)
    return rc;
  qp__image_init(&c.image);
  rc = qp__release_held(s, id, err);
  if (!rc)
    rc = s->driver->context_load(s->self, id, &c.image, &problems, &c.driver, err);
  if (rc) {
    qp__image_release(&c.image);
    qp__context_unclaim(c.claim);
    return rc;
  }
  if (c.image.old) {
    qp__claimed_release(&c);
    return qp__fail(err, QP_READONLY, "context %s is in an old format: migrate it first",
                    qp_uuid_text(id, text));
  }
  *out = c;
  return QP_OK;
}

void
qp__claimed_release(struct qp__claimed *c)
{
  c->store->driver->context_free(c->store->self, c->driver);
  qp__image_release(&c->image);
  qp__context_unclaim(c->claim);
}

/* ---- archives ---- */

static enum qp_rc
repack(struct qp_store *s, const struct qp_uuid *id, enum qp__packing packing, int64_t before,
       unsigned flags, struct qp_space_report *out, struct qp_err *err)
{
  bool dry_run = (flags & QP_SPACE_DRY_RUN) != 0;
  struct qp_space_report report = { 0 };
  struct qp__claimed c;
  enum qp_rc rc;

  if (!s->driver->pack)
    return qp__store_lacks(s, "pack messages", err);
  rc = qp__claimed_load(s, id, dry_run, &c, err);
  if (rc)
    return rc;
  rc = s->driver->pack->repack(s->self, c.driver, &c.image, packing, before, dry_run, &report, err);
  qp__claimed_release(&c);
  if (!rc && out)
    *out = report;
  return rc;
}

enum qp_rc
qp_context_archive(struct qp_store *store, const struct qp_uuid *id, int64_t before, unsigned flags,
                   struct qp_space_report *out, struct qp_err *err)
{
  return repack(store, id, QP__PACKING_OLD, before, flags, out, err);
}

enum qp_rc
qp_context_compress(struct qp_store *store, const struct qp_uuid *id, unsigned flags,
                    struct qp_space_report *out, struct qp_err *err)
{
  return repack(store, id, QP__PACKING_ALL, 0, flags, out, err);
}

enum qp_rc
qp_context_decompress(struct qp_store *store, const struct qp_uuid *id, unsigned flags,
                      struct qp_space_report *out, struct qp_err *err)
{
  return repack(store, id, QP__PACKING_NONE, 0, flags, out, err);
}
