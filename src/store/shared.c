/* shared.c - see shared.h. */
#include "store/shared.h"

#include "store/context/context_int.h"

bool
qp__shared_offered(const struct qp_store *s)
{
  return s && s->driver->shared;
}

enum qp_rc
qp__shared_read(struct qp_store *s, const char *name, struct qp__buf *out, int64_t *version,
                struct qp_err *err)
{
  return s->driver->shared->read(s->self, name, out, version, err);
}

enum qp_rc
qp__shared_write(struct qp_store *s, const char *name, int64_t version, struct qp_bytes bytes,
                 struct qp_err *err)
{
  return s->driver->shared->write(s->self, name, version, bytes, err);
}

enum qp_rc
qp__shared_key_begin(struct qp_store *s, const struct qp__shared_key *key, enum qp__key_state *out,
                     struct qp__buf *reply, struct qp_err *err)
{
  return s->driver->shared->key_begin(s->self, key, out, reply, err);
}

enum qp_rc
qp__shared_key_end(struct qp_store *s, const struct qp__shared_key *key, enum qp__key_state how,
                   struct qp_bytes reply, struct qp_err *err)
{
  return s->driver->shared->key_end(s->self, key, how, reply, err);
}
