/* tempdir.h - a private directory for one command, and its removal with all that is in it. */
#ifndef QP_TOOL_TEMPDIR_H
#define QP_TOOL_TEMPDIR_H

#include "os/os.h"
#include "quipu.h"

#define QP__TEMPDIR_NAME 32

struct qp__tempdir {
  const struct qp__os *os;
  int parent; /* -1: not created */
  char name[QP__TEMPDIR_NAME];
};

/* Makes a directory with a random name below `parent`, an absolute path, for its owner alone. */
enum qp_rc qp__tempdir_make(struct qp__tempdir *t, const struct qp__os *os, const char *parent,
                            struct qp_err *err);
/* Removes the directory without following links. What cannot be removed stays and is reported. May
 * be called on a directory that was never created. */
enum qp_rc qp__tempdir_remove(struct qp__tempdir *t, struct qp_err *err);

#endif
