/* catalogue_vfs.c - SQLite's own file layer with two changes.
 *
 * (1) SQLite opens any file with the right name, and waits forever if that is a named pipe. Here
 *     only regular files are opened. Anything else counts as an invalid database, so that it is
 *     removed and recreated like a damaged one.
 *
 * (2) The connections to a database share memory in a file, catalogue.db-shm, which SQLite extends
 *     by writing one byte into each 4096 bytes of it. On a file system with smaller blocks that
 *     leaves holes. If the disk is full, a process that writes into a hole is killed by SIGBUS. So
 *     each part of that memory is filled here, once, before SQLite uses it; if that fails the
 *     caller gets SQLITE_FULL. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/catalogue/catalogue_int.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

static sqlite3_vfs layer;
static const sqlite3_vfs *inner;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct qp__mutex lock = QP__MUTEX_INIT(QP__RANK_CATALOGUE_VFS);
static const sqlite3_io_methods *inner_methods; /* of the first database that was opened */
static sqlite3_io_methods methods;              /* the same, with map_shared */

/* Allocates the disk blocks of each page. On a kernel that cannot do that, nothing changes. */
static int
fill_pages(volatile void *start, size_t n)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = (uintptr_t)start & ~(page - 1);
  uintptr_t to = ((uintptr_t)start + n + page - 1) & ~(page - 1);
  int rc;

  do
    rc = madvise((char *)start - ((uintptr_t)start - from), to - from, MADV_POPULATE_WRITE);
  while (rc && errno == EINTR);
  return rc && errno != EINVAL ? SQLITE_FULL : SQLITE_OK;
}

static int
map_shared(sqlite3_file *file, int region, int size, int extend, void volatile **out)
{
  int rc = inner_methods->xShmMap(file, region, size, extend, out);

  if (rc == SQLITE_OK && *out)
    rc = fill_pages(*out, (size_t)size);
  if (rc == SQLITE_FULL)
    *out = NULL;
  return rc;
}

/* Whether the name does not exist, or is a regular file. SQLite itself rejects links. */
static bool
may_open(const char *name, const char *suffix)
{
  const struct qp__os *os = &qp__os_posix;
  char path[PATH_MAX];
  struct stat st;

  if (snprintf(path, sizeof(path), "%s%s", name, suffix) >= (int)sizeof(path))
    return false;
  return os->stat_root(os->self, AT_FDCWD, path, &st) || S_ISREG(st.st_mode);
}

/* The file is SQLite's own with another function table. SQLite opens the shared memory without
 * calling this layer, so it is checked together with the database. */
static int
open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
  int rc;

  if (name && (!may_open(name, "") || (flags & SQLITE_OPEN_MAIN_DB && !may_open(name, "-shm")))) {
    file->pMethods = NULL;
    return SQLITE_NOTADB;
  }
  rc = inner->xOpen(vfs, name, file, flags, out);

  if (rc || !(flags & SQLITE_OPEN_MAIN_DB) || !file->pMethods || file->pMethods->iVersion < 2)
    return rc;
  qp__mutex_lock(&lock);
  if (!inner_methods) {
    inner_methods = file->pMethods;
    methods = *inner_methods;
    methods.xShmMap = map_shared;
  }
  if (file->pMethods == inner_methods)
    file->pMethods = &methods;
  qp__mutex_unlock(&lock);
  return SQLITE_OK;
}

static void
prepare(void)
{
  inner = sqlite3_vfs_find("unix");
  if (!inner)
    return;
  layer = *inner;
  layer.zName = "quipu";
  layer.xOpen = open_file;
  layer.pNext = NULL;
  if (sqlite3_vfs_register(&layer, 0))
    layer.zName = NULL;
}

const char *
qp__cat_vfs(void)
{
  (void)pthread_once(&once, prepare);
  return layer.zName;
}
