/* meta_int.h - what meta.c, meta_patch.c and branch.c share. */
#ifndef QP_MODEL_META_INT_H
#define QP_MODEL_META_INT_H

#include "model/field.h"
#include "model/meta.h"

#define QP__BRANCH_MAIN "main"

/* QP_INVALID "`what`: …". */
enum qp_rc qp__meta_check_title(const char *what, const char *title, struct qp_err *err);

/* A configuration in its stored form from one with any of its fields: checks them, puts the known
 * ones in their order with their defaults, and the others behind them. `from` may be NULL. *out is
 * new. */
enum qp_rc qp__config_build(const char *what, const json_t *from, json_t **out, struct qp_err *err);

/* The field "current_state"; it stays untouched when the field is missing or null. */
enum qp_rc qp__meta_read_state(const struct qp__place *at, const json_t *root, enum qp__state *out,
                               struct qp_err *err);

/* What is wrong with it ("must not be empty"), or NULL. The name's answer is QP_NOMEM or QP_OK;
 * *problem must be NULL before. */
enum qp_rc qp__branch_name_problem(const char *name, const char **problem, struct qp_err *err);
const char *qp__prompt_id_problem(const char *id);
/* A field that holds the id of a system prompt; as the readers of field.h. */
enum qp_rc qp__field_prompt_id(const struct qp__place *at, const json_t *object, const char *key,
                               const char **out, struct qp_err *err);

/* Replaces *slot by a copy of `value` (may be NULL). False: no memory, and *slot is as before. */
bool qp__str_replace(char **slot, const char *value);
/* Both NULL, or both there and equal. */
bool qp__str_same(const char *a, const char *b);
bool qp__value_same(const json_t *a, const json_t *b);

/* Appends ",", a new line and a field whose value stands `level` levels down. `first`: without the
 * comma. */
void qp__field_write(struct qp__buf *out, bool first, const char *key, const json_t *value,
                     size_t level);

/* Branches of a meta: `branches` is the field of that name. */
enum qp_rc qp__branches_decode(const char *what, json_t *branches, struct qp__meta *m,
                               struct qp_err *err);
/* Appends the field's value as it stands in metadata.json. There can be thousands of branches, so
 * no tree of values is made of them. */
void qp__branches_write(const struct qp__meta *m, struct qp__buf *out);
bool qp__branches_clone(const struct qp__meta *from, struct qp__meta *to);
bool qp__branches_same(const struct qp__meta *a, const struct qp__meta *b);
void qp__branches_release(struct qp__meta *m);

#endif
