/* transaction.c - builds a commit: the frame for the journal, and additional data of each
 * operation. See journal.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/str.h"
#include "store/files/journal/journal.h"
#include "store/files/journal/segment.h"

#define FRAME_MAX ((size_t)1 << 30)

enum qp_rc
qp__txn_init(struct qp__txn *txn, struct qp_err *err)
{
  static const char zeros[QP__FRAME_HEADER_LEN + 4];

  memset(txn, 0, sizeof(*txn));
  qp__buf_init(&txn->frame, FRAME_MAX);
  if (qp__buf_add(&txn->frame, zeros, sizeof(zeros)))
    return qp__fail_nomem(err, "starting a commit");
  return QP_OK;
}

void
qp__txn_release(struct qp__txn *txn)
{
  QP_ASSERT(txn->state != QP__TXN_STAGED);
  for (size_t i = 0; i < txn->op_count; i++)
    qp__free(txn->staged[i]);
  qp__free(txn->staged);
  qp__free(txn->done_already);
  qp__buf_release(&txn->frame);
}

static bool
grow_hints(struct qp__txn *txn)
{
  size_t cap = txn->staged_cap ? txn->staged_cap * 2 : 4;
  char **staged;
  bool *done;

  QP_ASSERT(txn->op_count <= txn->staged_cap);
  if (txn->op_count < txn->staged_cap)
    return true;
  staged = qp__realloc(txn->staged, cap * sizeof(*staged));
  if (!staged)
    return false;
  txn->staged = staged;
  done = qp__realloc(txn->done_already, cap * sizeof(*done));
  if (!done)
    return false;
  txn->done_already = done;
  txn->staged_cap = cap;
  return true;
}

enum qp_rc
qp__txn_add(struct qp__txn *txn, const struct qp__op *op, const char *staged, bool done,
            struct qp_err *err)
{
  char *copy = NULL;
  size_t before = txn->frame.len;

  QP_ASSERT(txn->state == QP__TXN_NEW && txn->frame.len >= QP__FRAME_HEADER_LEN + 4);
  QP_ASSERT(op->path && op->path[0] && op->path[0] != '/');
  if (strlen(op->path) >= QP__PATH_MAX)
    return qp__fail(err, QP_TOOBIG, "the path '%.40s…' is too long", op->path);
  if (!grow_hints(txn))
    return qp__fail_nomem(err, "building a commit");
  if (staged) {
    copy = qp__strdup(staged);
    if (!copy)
      return qp__fail_nomem(err, "building a commit");
  }
  (void)qp__buf_reserve(&txn->frame,
                        strlen(op->path) + op->data.len + 64); /* grow once, not often */
  if (qp__op_encode(&txn->frame, op)) {
    enum qp_rc rc = qp__buf_check(&txn->frame, "a commit", err);

    txn->frame.len = before;
    txn->frame.rc = QP_OK;
    qp__free(copy);
    return rc;
  }
  txn->staged[txn->op_count] = copy;
  txn->done_already[txn->op_count] = done;
  txn->op_count++;
  qp__put_le(txn->frame.data + QP__FRAME_HEADER_LEN, txn->op_count, 4);
  return QP_OK;
}

enum qp_rc
qp__txn_rename(struct qp__txn *txn, const char *from, const char *to, unsigned flags,
               struct qp_err *err)
{
  struct qp__op op = {
    .kind = QP__OP_RENAME, .flags = flags, .path = from, .data = { to, strlen(to) }
  };

  return qp__txn_add(txn, &op, NULL, false, err);
}

enum qp_rc
qp__txn_unlink(struct qp__txn *txn, const char *path, struct qp_err *err)
{
  struct qp__op op = { .kind = QP__OP_UNLINK, .path = path, .data = { "", 0 } };

  return qp__txn_add(txn, &op, NULL, false, err);
}
