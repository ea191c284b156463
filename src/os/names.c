/* names.c - see names.h. */
#include "os/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

static int
by_name(const void *a, const void *b)
{
  return strcmp(((const struct qp__name *)a)->name, ((const struct qp__name *)b)->name);
}

static int
add_name(void *arg, const char *name, unsigned char type)
{
  struct qp__names *n = arg;

  if (n->count == n->max) {
    n->more++;
    return 0;
  }
  if (!qp__vec_reserve(n->list, n->count, n->cap, 1))
    return -ENOMEM;
  n->list[n->count].name = qp__strdup(name);
  if (!n->list[n->count].name)
    return -ENOMEM;
  n->list[n->count++].type = type;
  return 0;
}

int
qp__names_read_some(const struct qp__os *os, int dirfd, const char *path, size_t max,
                    struct qp__names *out)
{
  struct qp__names n = { .max = max };
  int rc = os->listdir(os->self, dirfd, path, add_name, &n);

  if (rc) {
    qp__names_release(&n);
    return rc;
  }
  if (n.count)
    qsort(n.list, n.count, sizeof(n.list[0]), by_name);
  *out = n;
  return 0;
}

int
qp__names_read(const struct qp__os *os, int dirfd, const char *path, struct qp__names *out)
{
  return qp__names_read_some(os, dirfd, path, SIZE_MAX, out);
}

void
qp__names_release(struct qp__names *n)
{
  for (size_t i = 0; i < n->count; i++)
    qp__free(n->list[i].name);
  qp__free(n->list);
  memset(n, 0, sizeof(*n));
}

bool
qp__names_has(const struct qp__names *n, const char *name)
{
  struct qp__name key = { .name = (char *)name };

  return n->count && bsearch(&key, n->list, n->count, sizeof(n->list[0]), by_name);
}
