/* names.h - reads the names in a directory into a sorted list. */
#ifndef QP_OS_NAMES_H
#define QP_OS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "os/os.h"

struct qp__names {
  struct qp__name {
    char *name;
    unsigned char type; /* DT_REG, DT_DIR, … */
  } * list;             /* in bytewise order */
  size_t count;
  size_t cap;
  size_t max;  /* of `count` */
  size_t more; /* names beyond that, which are only counted */
};

/* Reads at most `max` names. Returns 0 or -errno; after a failure there is nothing to release. */
int qp__names_read_some(const struct qp__os *os, int dirfd, const char *path, size_t max,
                        struct qp__names *out);
/* Reads all names. */
int qp__names_read(const struct qp__os *os, int dirfd, const char *path, struct qp__names *out);
void qp__names_release(struct qp__names *n);
bool qp__names_has(const struct qp__names *n, const char *name);

#endif
