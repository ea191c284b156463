/* message_save.h - the steps that save a message. message_save.c (batches) and change.c (all other
 * changes) call them with the context's write lock held. */
#ifndef QP_STORE_CONTEXT_MESSAGE_SAVE_H
#define QP_STORE_CONTEXT_MESSAGE_SAVE_H

#include "store/context/context_int.h"

struct qp__saving {
  struct qp_context *context;
  struct qp_message *message;
  bool encoded;                      /* text and entry are those of the message and its parent */
  struct qp_uuid old_id, old_parent; /* restored if it fails */
  int64_t old_time;
  struct qp__buf text; /* stored form and a newline */
  struct qp__entry entry;
};

void qp__saving_begin(struct qp__saving *v, struct qp_context *c, struct qp_message *m);
/* Chooses id and time. QP_EXISTS: the id is used already. */
enum qp_rc qp__saving_name(struct qp__saving *v, struct qp_err *err);
/* QP_CONFLICT: the message names a parent, and that is not the head. */
enum qp_rc qp__saving_check_parent(const struct qp_message *m, const struct qp_uuid *head,
                                   struct qp_err *err);
/* The number of the branch's directory in the tree. */
enum qp_rc qp__saving_dir(struct qp_context *c, const struct qp__branch *b, uint16_t *dir,
                          struct qp_err *err);
/* Encodes the message, whose parent is set, and fills in its entry except the slot of the
 * parent. */
enum qp_rc qp__saving_encode(struct qp__saving *v, uint16_t dir, struct qp_err *err);
void qp__saving_change(const struct qp__saving *v, const struct qp__branch *b,
                       struct qp__driver_change *out);
/* Puts a message that was just saved into the pool. */
void qp__saving_remember(const struct qp__saving *v, uint32_t slot);
/* Restores the message after a failure. */
void qp__saving_put_back(struct qp__saving *v);

#endif
