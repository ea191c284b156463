/* meta_int.h - shared by meta.c, meta_patch.c and branch.c. */
#ifndef QP_MODEL_META_INT_H
#define QP_MODEL_META_INT_H

#include "model/field.h"
#include "model/meta.h"

#define QP__BRANCH_MAIN "main"

/* QP_INVALID "`what`: …". */
enum qp_rc qp__meta_check_title(const char *what, const char *title, struct qp_err *err);

/* Builds a configuration in its stored form: checks the fields of `from` (may be NULL), writes the
 * known fields first, in order and with defaults, then the others. *out is new. */
enum qp_rc qp__config_build(const char *what, const json_t *from, json_t **out, struct qp_err *err);

/* Reads "current_state"; the state is unchanged if the field is missing or null. */
enum qp_rc qp__meta_read_state(const struct qp__place *at, const json_t *root, enum qp_state *out,
                               struct qp_err *err);

/* The problem with a name or id ("must not be empty"), or NULL. qp__branch_name_problem returns
 * QP_OK or QP_NOMEM; *problem must be NULL before. */
enum qp_rc qp__branch_name_problem(const char *name, const char **problem, struct qp_err *err);
const char *qp__prompt_id_problem(const char *id);
/* Reads a field with the id of a system prompt, like the functions of field.h. */
enum qp_rc qp__field_prompt_id(const struct qp__place *at, const json_t *object, const char *key,
                               const char **out, struct qp_err *err);
bool qp__value_same(const json_t *a, const json_t *b);

/* Appends ",", a line break and a field whose value is `level` levels deep. `first`: no comma. */
void qp__field_write(struct qp__buf *out, bool first, const char *key, const json_t *value,
                     size_t level);

/* `branches` is the value of the field of that name. */
enum qp_rc qp__branches_decode(const char *what, json_t *branches, struct qp__meta *m,
                               struct qp_err *err);
/* Appends the value as in metadata.json. There can be thousands of branches, so this writes text
 * directly instead of building a tree of values. */
void qp__branches_write(const struct qp__meta *m, struct qp__buf *out);
bool qp__branches_clone(const struct qp__meta *from, struct qp__meta *to);
bool qp__branches_same(const struct qp__meta *a, const struct qp__meta *b);
void qp__branches_release(struct qp__meta *m);

#endif
