/* quipu/import.h - conversations of older programs: finding, migrating and importing them, and the
 * way back. docs/formats.md describes the formats. The rules of quipu.h hold here. */
#ifndef QUIPU_IMPORT_H
#define QUIPU_IMPORT_H

#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum qp_legacy {
  QP_LEGACY_NONE,     /* not an old context */
  QP_LEGACY_MONOLITH, /* one {id}.json per context */
  QP_LEGACY_POOL,     /* a directory with context.json and messages_pool/ */
};

/* `bytes` is the size of the file, 0 for a directory. The format is recognised by a short look at
 * the content; the context may still turn out to be damaged. */
typedef enum qp_rc qp_legacy_visit(void *arg, const char *path, enum qp_legacy format,
                                   uint64_t bytes);
/* Finds every old context at or below `path`, a file or a directory, in bytewise order of the
 * paths. Links are not followed and *.old files are skipped. QP_NOTFOUND: `path` does not exist. */
QP_API QP_MUST_CHECK enum qp_rc qp_legacy_find(const char *path, qp_legacy_visit *visit, void *arg,
                                               struct qp_err *err);

enum qp_import_flags {
  QP_IMPORT_DRY_RUN = 1u << 0, /* read and compare everything, write nothing */
};

enum qp_import_outcome {
  QP_IMPORT_DONE,    /* imported; after a dry run: it can be imported */
  QP_IMPORT_ALREADY, /* was imported before; nothing was written */
  QP_IMPORT_FAILED,  /* `err` has the reason; nothing was written, the source is unchanged */
};
QP_API const char *qp_import_outcome_name(enum qp_import_outcome outcome);

/* Start with all members zero. Release its content with qp_import_report_release(). */
struct qp_import_report {
  enum qp_import_outcome outcome;
  struct qp_err err;
  struct qp_uuid context; /* none: not known */
  uint64_t messages;
  uint64_t bytes; /* of the messages as quipu stores them */
  char **notes;   /* one sentence each about what was repaired or left out */
  size_t note_count;
};
QP_API void qp_import_report_release(struct qp_import_report *report);

/* Migrates the old context at `path` into the store. It is read, written, compared with the source
 * field by field, and then appears as a whole. A source inside the store is renamed to
 * {id}.json.old or {id}.old. A source outside is not changed, and a copy of it is kept under that
 * name. Returns report->err.rc. QP_EXISTS: another context has that id. */
QP_API QP_MUST_CHECK enum qp_rc qp_legacy_import(struct qp_store *store, const char *path,
                                                 unsigned flags, struct qp_import_report *report,
                                                 struct qp_err *err);

/* Writes a context in the old format of one file, complete, as {id}.json into the directory `to`,
 * which is created if it is missing. `to` NULL: the context itself becomes contexts/{id}.json of
 * the store again, or the directory that it was. A context that did not change since its migration
 * gets exactly the bytes of its .old file. The outcome is QP_IMPORT_ALREADY when the file exists
 * with the same content. QP_EXISTS: the file exists with another content. QP_BUSY: a handle on the
 * context is open. QP_UNAVAILABLE: a message is lost, so the old file would not be complete. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_rollback(struct qp_store *store,
                                                    const struct qp_uuid *id, const char *to,
                                                    struct qp_import_report *report,
                                                    struct qp_err *err);

/* Called for each prompt and each chat of a dump ("prompt terse", "chat c-1"), and for each item
 * with a problem or a note ("chat c-1, message 3", "key copilot_chats_v2"). Only the report of a
 * chat has a context. */
typedef enum qp_rc qp_import_visit(void *arg, const char *item,
                                   const struct qp_import_report *report);
/* Imports a dump of a browser's LocalStorage: a JSON object whose values are strings or JSON. Each
 * chat becomes a context, each prompt a system prompt, and images become blobs. Importing the same
 * dump again changes nothing. A later dump adds new messages to contexts that were not changed
 * since; changed contexts remain as they are, and their report has QP_EXISTS. A malformed item is
 * reported to `visit` and skipped. Returns QP_OK when the dump could be read. QP_INVALID: it holds
 * nothing that quipu knows. QP_TOOBIG: more than 512 MiB. */
QP_API QP_MUST_CHECK enum qp_rc qp_localstorage_import(struct qp_store *store, const char *path,
                                                       unsigned flags, qp_import_visit *visit,
                                                       void *arg, struct qp_err *err);

/* Imports a file that is either an old context in one file (qp_legacy_import()) or a dump
 * (qp_localstorage_import()), for an owner; NULL: for none. The contexts get this owner, and the
 * ids of system prompts begin with "OWNER:". Chats of a dump get other ids than those of other
 * owners. An old context keeps its id. QP_EXISTS: a context of somebody else has it. */
QP_API QP_MUST_CHECK enum qp_rc qp_file_import(struct qp_store *store, const char *path,
                                               const char *owner, unsigned flags,
                                               qp_import_visit *visit, void *arg,
                                               struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif
