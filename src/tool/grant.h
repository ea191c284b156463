/* grant.h - calls that a person has allowed permanently, by the answer "always".
 *
 * A grant is narrow: it names one tool and the arguments of the call that it was given for. It
 * allows only equal calls, in contexts of the same owner. It is checked after the policy and turns
 * "ask" into "allowed"; a call that the policy denies stays denied.
 *
 * Grants are stored in rules.json in the data directory, readable only by its owner:
 *
 *   {"format": "quipu-rules", "version": 1, "rules": [
 *     {"id": "5f0c3a91", "owner": "alice", "tool": "run_command",
 *      "arguments": {"command": "make test"}, "created_at": "2026-11-16T15:50:00.000Z"}]}
 *
 * Without "owner" the grant is for contexts without an owner. The file is read again when it has
 * changed, so a grant that was removed by hand or by `quipu tool rules` ends at once. Writers of
 * several processes lock rules.lock. A damaged file allows nothing and is not overwritten. All
 * functions may be called from any thread. Adding and removing wait for that lock and for a sync;
 * the engine calls them in a worker. qp__grants_allow() does not wait for them. */
#ifndef QP_TOOL_GRANT_H
#define QP_TOOL_GRANT_H

#include <jansson.h>
#include <pthread.h>

#include "base/log.h"
#include "os/os.h"
#include "quipu.h"

#define QP__GRANT_FILE "rules.json"

struct qp__grants {
  const struct qp__os *os;
  int dir;     /* the data directory; -1: grants are kept only in memory */
  bool opened; /* it is to be closed */
  struct qp__log log;
  pthread_mutex_t write_lock; /* held while the file is changed; locked before `lock` */
  pthread_mutex_t lock;       /* of what follows; never held during a write or a sync */
  struct stat seen;           /* of the file that was read; st_ino 0: no file was read */
  json_t *rules;              /* an array, never changed but replaced; NULL: nothing was read yet */
  bool damaged;               /* the file cannot be read, and it was logged */
};

void qp__grants_init(struct qp__grants *g, const struct qp__os *os, int dir,
                     const struct qp__log *log);
/* The same for a data directory by its name, without a log. */
enum qp_rc qp__grants_open(struct qp__grants *g, const char *data, struct qp_err *err);
void qp__grants_release(struct qp__grants *g); /* one with zeros is fine */

/* `call` is the result of qp__tools_narrow(); `owner` NULL: the context has no owner. */
bool qp__grants_allow(struct qp__grants *g, const char *owner, const json_t *call);
/* Stores a grant; an equal one is not stored twice. QP_CORRUPT: the file is damaged. */
enum qp_rc qp__grants_add(struct qp__grants *g, const char *owner, const json_t *call,
                          struct qp_err *err);
/* Those of an owner, or all for NULL, as a new array of the objects of the file. */
enum qp_rc qp__grants_list(struct qp__grants *g, const char *owner, json_t **out,
                           struct qp_err *err);
/* QP_NOTFOUND: the owner (NULL: any owner) has no grant with this id. */
enum qp_rc qp__grants_remove(struct qp__grants *g, const char *owner, const char *id,
                             struct qp_err *err);

#endif
