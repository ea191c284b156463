/* record_file.h - the compaction records of a context: contexts/{id}/compactions/{record id}.json.
 *
 * A record is one small file, which the commit that makes it adds and which never changes
 * afterwards (struct qp__own_json). Ids are UUIDv7, so their order is that of the records. The
 * store knows the names and the checksum (base/seal.h); src/compact knows the content. */
#ifndef QP_STORE_CONTEXT_RECORD_FILE_H
#define QP_STORE_CONTEXT_RECORD_FILE_H

#include "store/context/context_int.h"

#define QP__RECORD_PATH 128
#define QP__RECORD_MAX ((size_t)16 << 20) /* bytes of a record */

void qp__record_path(const struct qp_uuid *context, const struct qp_uuid *id,
                     char out[QP__RECORD_PATH]);
/* The ids of all records, oldest first; released with qp__free(). Files with other names are
 * ignored. */
enum qp_rc qp__record_ids(struct qp_context *c, struct qp_uuid **out, size_t *count,
                          struct qp_err *err);
/* Appends the text of a record, with its checksum. QP_NOTFOUND. */
enum qp_rc qp__record_read(struct qp_context *c, const struct qp_uuid *id, struct qp__buf *out,
                           struct qp_err *err);

/* Checks that every record is an object with its own id and a correct checksum. A repair writes the
 * checksum again, and removes files that are not records: the messages that they summarised are
 * stored. */
enum qp_rc qp__records_check(struct qp_store *s, const struct qp_uuid *id, void *driver,
                             struct qp__problems *problems, struct qp_err *err);

#endif
