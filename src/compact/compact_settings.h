/* compact_settings.h - when and how a context is compacted: what its configuration says
 * (config.compaction), over the defaults of the engine.
 *
 *   {"mode":"auto","threshold":80,"keep":6,"summarizer":"fast","recall_tokens":500}
 *
 * Every field may be missing. A field with another name, type or range is an error, so that a
 * spelling mistake does not silently mean the default. */
#ifndef QP_COMPACT_COMPACT_SETTINGS_H
#define QP_COMPACT_COMPACT_SETTINGS_H

#include <jansson.h>

#include "compact/plan.h"

#define QP__SUMMARIZER_FAST "fast"
#define QP__SUMMARIZER_OWN "own"
#define QP__SUMMARIZER_BUILT_IN "built-in"
#define QP__SUMMARIZER_TEXT 200

struct qp__compact_settings {
  struct qp__plan_policy policy;
  bool own_threshold;                   /* somebody has set it; false: the default */
  char summarizer[QP__SUMMARIZER_TEXT]; /* one of the three words, or the name of a model */
  int64_t recall_tokens;                /* 0: none */
};

void qp__compact_settings_init(struct qp__compact_settings *settings); /* the defaults */

/* Changes the fields of *settings that `value` has; NULL and null change none. The share at which a
 * summary is prepared and the share that a compaction must reach follow the threshold. QP_INVALID
 * names the field, and *settings is unchanged. */
enum qp_rc qp__compact_settings_read(const json_t *value, struct qp__compact_settings *settings,
                                     struct qp_err *err);

#endif
