/* backup_int.h - the directory of a backup; shared by backup.c and restore.c.
 *
 *   DIR/{time}/backup.json    see struct qp__backup_info
 *   DIR/{time}/manifest.b2    the hash of every file, as `b2sum -l 128` writes it
 *   DIR/{time}/data/          a data directory
 *   DIR/.partial-{time}/      a backup that is being made or deleted; never used
 * {time} is "2026-11-16T12-30-05.123Z". */
#ifndef QP_STORE_BACKUP_BACKUP_INT_H
#define QP_STORE_BACKUP_BACKUP_INT_H

#include <stdbool.h>

#include "os/os.h"
#include "quipu.h"

#define QP__BACKUP_INFO "backup.json"
#define QP__BACKUP_MANIFEST "manifest.b2"
#define QP__BACKUP_DATA "data"

struct qp__backup_info {
  int64_t began_at;
  int64_t finished_at;
  uint64_t files;
  uint64_t bytes;
  uint64_t problems;
  uint8_t manifest[16]; /* hash of the manifest itself */
};

/* The progress reports of a backup or restore. */
struct qp__backup_watch {
  const struct qp_backup_options *options;
  const struct qp__os *os;
  int64_t told; /* time of the last report */
};
void qp__backup_tell(struct qp__backup_watch *w, const char *phase, uint64_t files, uint64_t bytes);

/* The backup.json of the directory dirfd/name. QP_NOTFOUND, QP_CORRUPT. */
enum qp_rc qp__backup_info_read(const struct qp__os *os, int dirfd, const char *name,
                                struct qp__backup_info *out, struct qp_err *err);
enum qp_rc qp__backup_info_write(const struct qp__os *os, int dirfd,
                                 const struct qp__backup_info *info, struct qp_err *err);
/* "2026-11-16T12-30-05.123Z" */
void qp__backup_name(char out[QP_BACKUP_NAME], int64_t ms);
bool qp__backup_is_name(const char *name);

/* Hashes every file below dirfd/data into dirfd/manifest.b2; fills files, bytes and manifest. */
enum qp_rc qp__manifest_write(const struct qp__os *os, int dirfd, struct qp__backup_watch *watch,
                              struct qp__backup_info *info, struct qp_err *err);
/* Visits its lines; `path` is relative to dirfd/data. QP_CORRUPT: its hash is not the one in
 * `info`. */
typedef enum qp_rc qp__manifest_fn(void *arg, const char *path, const uint8_t hash[16],
                                   struct qp_err *err);
enum qp_rc qp__manifest_read(const struct qp__os *os, int dirfd, const struct qp__backup_info *info,
                             qp__manifest_fn *fn, void *arg, struct qp_err *err);

/* Checks the data directory `path`, which must not be in use. *problems: the number of problems. */
enum qp_rc qp__backup_check(const char *path, const struct qp__os *os,
                            struct qp__backup_watch *watch, uint64_t *problems, struct qp_err *err);

/* qp_store_restore with another struct qp__os, for tests. */
enum qp_rc qp__store_restore_os(const char *backup, const char *dir,
                                const struct qp_backup_options *options, const struct qp__os *os,
                                struct qp_backup_report *out, struct qp_err *err);

#endif
