/* migrate_int.h - a migration on its way; shared by migrate.c and migrate_prompt.c. */
#ifndef QP_OLD_MIGRATE_INT_H
#define QP_OLD_MIGRATE_INT_H

#include <jansson.h>

#include "base/mutex.h"
#include "old/import_report.h"
#include "old/legacy.h"
#include "store/context/context_build.h"
#include "store/context/context_int.h"

struct qp__migration {
  struct qp_store *store;
  const char *owner; /* that the context gets, or NULL */
  bool dry;
  struct qp_import_report *report;
  const char *path; /* as the user wrote it, for sentences */
  char *parent;     /* the user's path of the directory that holds the source */
  int dirfd;        /* of that */
  const char *name; /* of the source in it */
  bool own_dirfd;
  struct qp__legacy_source *source;
  struct qp_uuid id;
  struct stat st;             /* of the source when it was opened */
  struct qp__old_place place; /* of the context in the store, where it is in an old format */
  bool in_place;              /* that is the source, or the same */
  struct qp__build *build;
  struct qp__meta *meta; /* as it shall be stored */
  struct qp__mutex lock; /* of differences and notes, while workers compare */
  uint64_t differences;
};

/* Adds a sentence to the report. QP_NOMEM. */
#define QP__MIGRATION_NOTE(m, err, ...) \
  (qp__report_note((m)->report, __VA_ARGS__) ? QP_OK : qp__fail_nomem((err), "migrating a context"))

/* Migrates a context of the store that is in an old format; any other one is left as it is. */
enum qp_rc qp__migrate_in_place(struct qp_store *s, const struct qp_uuid *id, struct qp_err *err);

/* qp_legacy_import for an owner; NULL: for none. */
enum qp_rc qp__legacy_import_owned(struct qp_store *store, const char *path, const char *owner,
                                   unsigned flags, struct qp_import_report *report,
                                   struct qp_err *err);
/* Migrates a context of `from` into another store: see struct qp__driver_old. */
enum qp_rc qp__migrate_across(struct qp_store *from, const struct qp_uuid *id, struct qp_store *to,
                              uint64_t *messages, uint64_t *bytes, bool *already,
                              struct qp_err *err);

/* Prompts: those of a file system_prompts.json beside the source or up to two directories above it,
 * and those that branches hold as copies, are given to the builder. For an owner their ids begin
 * with "OWNER:", and no file is searched: it belongs to the server. References in m->meta to
 * unknown prompts are cleared, with a note. */
enum qp_rc qp__migrate_prompts(struct qp__migration *m, struct qp_err *err);

#endif
