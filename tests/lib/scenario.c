/* scenario.c - see scenario.h. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/context/context_int.h"

#define FIRST_TIME 1750000000000 /* of messages: some day in 2025 … */
#define TIME_SPAN 10000000000    /* … and the four months from then on */

/* ---- chance ---- */

uint64_t
rng_next(struct rng *r)
{
  uint64_t z = r->state += 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t
rng_below(struct rng *r, uint64_t n)
{
  return rng_next(r) % n;
}

struct qp_uuid
rng_uuid(struct rng *r)
{
  struct qp_uuid id;
  uint64_t a = rng_next(r);
  uint64_t b = rng_next(r) | 1; /* never none */

  memcpy(id.b, &a, 8);
  memcpy(id.b + 8, &b, 8);
  return id;
}

bool
test_is_long(void)
{
  const char *value = getenv("QUIPU_TEST_LONG");

  return value && *value && strcmp(value, "0") != 0;
}

uint64_t
test_seed(uint64_t seed)
{
  const char *value = getenv("QUIPU_TEST_SEED");

  return value && *value ? strtoull(value, NULL, 0) : seed;
}

/* ---- choosing ---- */

static const char *const op_names[] = {
  "create",        "delete",        "save",       "batch",
  "fork",          "switch",        "rename",     "rewind",
  "drop",          "set prompt",    "update",     "prompt create",
  "prompt update", "prompt delete", "checkpoint", "archive",
  "compress",      "decompress",    "gc",
};
_Static_assert(sizeof(op_names) / sizeof(op_names[0]) == OP__MAX, "every operation has a name");

const char *
op_name(enum op_kind kind)
{
  return op_names[kind];
}

void
op_release(struct op *op)
{
  for (size_t i = 0; i < op->count; i++)
    qp_message_free(op->messages[i].message);
  free(op->messages);
  op->messages = NULL;
  op->count = 0;
}

static void
set_text(char *out, size_t size, const char *text)
{
  (void)snprintf(out, size, "%s", text ? text : "");
}

struct op
op_on(enum op_kind kind, const struct qp_uuid *context, const char *branch, const char *name)
{
  struct op op = { .kind = kind };

  if (context)
    op.context = *context;
  set_text(op.branch, sizeof(op.branch), branch);
  set_text(op.name, sizeof(op.name), name);
  return op;
}

struct op
op_create(struct rng *r, struct qp_uuid *id)
{
  struct op op = { .kind = OP_CREATE };

  *id = op.context = rng_uuid(r);
  (void)snprintf(op.text, sizeof(op.text), "title %llu", (unsigned long long)rng_below(r, 1000));
  return op;
}

struct op
op_prompt(enum op_kind kind, const char *id, const char *content)
{
  struct op op = { .kind = kind };

  set_text(op.prompt, sizeof(op.prompt), id);
  set_text(op.text, sizeof(op.text), content);
  return op;
}

/* A message with an id, a time and a unique text of `size` bytes. */
static void
make_message(struct rng *r, size_t size, struct op_message *out)
{
  uint64_t number = rng_next(r);
  char *text = malloc(size + 32);
  struct qp_bytes bytes = { text, 0 };
  struct qp_err err;

  if (!text)
    abort();
  bytes.len = (size_t)snprintf(text, 32, "%016llx ", (unsigned long long)number);
  while (bytes.len < size)
    text[bytes.len++] = (char)('a' + rng_below(r, 26));
  out->id = rng_uuid(r);
  out->rc = QP_OK;
  if (qp_message_new_text((enum qp_role)(1 + rng_below(r, 2)), bytes, &out->message, &err))
    abort();
  qp_message_set_id(out->message, &out->id);
  qp_message_set_created_at(out->message, FIRST_TIME + (int64_t)(number % TIME_SPAN));
  free(text);
}

struct op
op_save(struct rng *r, const struct qp_uuid *context, const char *branch, size_t n, size_t size)
{
  struct op op = op_on(n == 1 ? OP_SAVE : OP_BATCH, context, branch, NULL);

  op.messages = calloc(n + 1, sizeof(*op.messages));
  if (!op.messages)
    abort();
  op.count = n;
  for (size_t i = 0; i < n; i++)
    make_message(r, size, &op.messages[i]);
  return op;
}

/* ---- choosing at random ---- */

/* Simple names, names that need escaping, and a name that makes every line of the index long. */
static const char *const branch_names[] = {
  "main",
  "alt",
  "two words",
  "f\xc3\xbc"
  "nf/../%2e",
  "..",
  ".hidden",
  "\"quoted\\\"",
  "a-name-as-long-as-it-may-be-a-name-as-long-as-it-may-be-a-name-as-long-as-it-may-be-"
  "a-name-as-long-as-it-may-be-a-name-as-long-as-it-may-be-a-name-as-long-as-it-may-be-"
  "a-name-as-long-as-it-may-be-1234",
};
static const char *const prompt_ids[] = { "p0", "p-1", "P.2" };

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static bool
one_in(struct rng *r, uint64_t n)
{
  return rng_below(r, n) == 0;
}

static size_t
random_size(struct rng *r)
{
  return one_in(r, 30) ? 2000 + (size_t)rng_below(r, 8000) : 20 + (size_t)rng_below(r, 200);
}

/* Usually a branch that exists. */
static const char *
random_branch(struct rng *r, const struct model_context *c, const struct mix *mix)
{
  if (mix->failing && one_in(r, 20))
    return "no such branch";
  if (one_in(r, 4))
    return "";
  return c->branches[rng_below(r, c->branch_count)].name;
}

static void
random_new_name(struct rng *r, const struct model_context *c, const struct mix *mix, char *out)
{
  for (int tries = 0; tries < 20; tries++) {
    const char *name = branch_names[rng_below(r, COUNT(branch_names))];

    if (model_branch(c, name) && !(mix->failing && one_in(r, 5)))
      continue;
    set_text(out, MODEL_NAME, name);
    return;
  }
  (void)snprintf(out, MODEL_NAME, "branch %llu", (unsigned long long)rng_below(r, 1000000));
}

static void
random_prompt(struct rng *r, const struct model *m, bool existing, char *out)
{
  if (existing && m->prompt_count)
    set_text(out, MODEL_TEXT, m->prompts[rng_below(r, m->prompt_count)].id);
  else
    set_text(out, MODEL_TEXT, prompt_ids[rng_below(r, COUNT(prompt_ids))]);
}

/* A message of the context, usually of another branch than the current one. */
static void
random_at(struct rng *r, const struct model_context *c, const struct mix *mix, struct op *op)
{
  if (mix->failing && one_in(r, 15)) {
    op->has_at = true;
    op->at = rng_uuid(r);
  } else if (c->message_count && !one_in(r, 4)) {
    op->has_at = true;
    op->at = c->messages[rng_below(r, c->message_count)].id;
  }
}

static struct op
random_save(struct rng *r, const struct model_context *c, const struct mix *mix, size_t n)
{
  struct op op = op_save(r, &c->id, random_branch(r, c, mix), n, random_size(r));
  const struct model_branch *b = model_branch(c, op.branch);

  if (mix->failing && n && c->message_count && one_in(r, 12)) { /* an id that is used already */
    struct op_message *message = &op.messages[rng_below(r, n)];

    message->id = c->messages[rng_below(r, c->message_count)].id;
    qp_message_set_id(message->message, &message->id);
  } else if (mix->failing && n > 1 && one_in(r, 12)) { /* an id that occurs twice */
    op.messages[n - 1].id = op.messages[0].id;
    qp_message_set_id(op.messages[n - 1].message, &op.messages[0].id);
  } else if (n == 1 && b && one_in(r, 5)) { /* names its parent */
    op.has_at = true;
    op.at = mix->failing && one_in(r, 4) ? rng_uuid(r) : model_head(c, b);
    qp_message_set_parent(op.messages[0].message, &op.at);
  }
  return op;
}

static struct op
random_on_space(struct rng *r, const struct model_context *c, const struct mix *mix)
{
  struct qp_uuid other = rng_uuid(r);
  struct op op = op_on((enum op_kind)(OP_ARCHIVE + rng_below(r, 4)),
                       mix->failing && one_in(r, 20) ? &other : &c->id, NULL, NULL);

  if (op.kind == OP_ARCHIVE)
    op.note = FIRST_TIME + (int64_t)rng_below(r, TIME_SPAN);
  else if (op.kind == OP_GC)
    op.note = one_in(r, 2) ? 0 : OP_GRACE;
  return op;
}

static struct op
random_on_context(struct rng *r, const struct model *m, const struct mix *mix)
{
  const struct model_context *c = &m->contexts[rng_below(r, m->context_count)];
  struct op op = op_on(OP_SAVE, &c->id, random_branch(r, c, mix), NULL);
  uint64_t dice = rng_below(r, 100);

  if (mix->space && one_in(r, 8))
    return random_on_space(r, c, mix);
  if (c->message_count > mix->messages || dice < 2) {
    op.kind = OP_DELETE;
  } else if (dice < 40) {
    return random_save(r, c, mix, 1);
  } else if (dice < 58) {
    return random_save(r, c, mix, one_in(r, 50) ? 0 : 1 + (size_t)rng_below(r, mix->batch));
  } else if (dice < 68 && c->branch_count < COUNT(branch_names)) {
    op.kind = OP_FORK;
    random_new_name(r, c, mix, op.name);
    random_at(r, c, mix, &op);
  } else if (dice < 74) {
    op.kind = OP_SWITCH;
  } else if (dice < 79) {
    op.kind = OP_RENAME;
    random_new_name(r, c, mix, op.name);
  } else if (dice < 85) {
    op.kind = OP_REWIND;
    random_at(r, c, mix, &op);
  } else if (dice < 90) {
    const struct model_branch *b = model_branch(c, op.branch);

    op.kind = mix->failing || (b && strcmp(b->name, c->active) != 0) ? OP_DROP : OP_SWITCH;
  } else if (dice < 93) {
    op.kind = OP_SET_PROMPT;
    if (!one_in(r, 3) && (m->prompt_count || mix->failing))
      random_prompt(r, m, !mix->failing, op.prompt);
  } else {
    op.kind = OP_UPDATE;
    op.note = 1 + (int64_t)rng_below(r, 5);
    (void)snprintf(op.text, sizeof(op.text), "title %llu", (unsigned long long)rng_below(r, 5));
    if (m->prompt_count && one_in(r, 3))
      random_prompt(r, m, true, op.prompt);
  }
  return op;
}

static struct op
random_on_prompts(struct rng *r, const struct model *m, const struct mix *mix)
{
  struct op op = { .kind = OP_PROMPT_CREATE };

  random_prompt(r, m, false, op.prompt);
  if (model_prompt(m, op.prompt))
    op.kind = one_in(r, 2) ? OP_PROMPT_UPDATE : OP_PROMPT_DELETE;
  if (mix->failing && one_in(r, 6))
    op.kind = (enum op_kind)(OP_PROMPT_CREATE + rng_below(r, 3));
  (void)snprintf(op.text, sizeof(op.text), "You are number %llu.",
                 (unsigned long long)rng_below(r, 1000));
  return op;
}

struct op
op_random(struct rng *r, const struct model *m, const struct mix *mix)
{
  uint64_t dice = rng_below(r, 100);
  struct qp_uuid id;
  struct op op;

  if (dice < 2)
    return op_on(OP_CHECKPOINT, NULL, NULL, NULL);
  if (dice < 10)
    return random_on_prompts(r, m, mix);
  if (m->context_count && (dice < 92 || m->context_count >= mix->contexts))
    return random_on_context(r, m, mix);
  op = op_create(r, &id);
  if (mix->failing && m->context_count && one_in(r, 6))
    op.context = m->contexts[0].id; /* one that exists */
  else if (one_in(r, 3) && (m->prompt_count || mix->failing))
    random_prompt(r, m, !mix->failing, op.prompt);
  return op;
}

/* ---- in the store ---- */

static const char *
or_null(const char *text)
{
  return *text ? text : NULL;
}

static enum qp_rc
run_create(const struct op *op, struct qp_store *store, struct qp_err *err)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = op->context };
  struct qp_context *c = NULL;
  enum qp_rc rc;

  spec.title = or_null(op->text);
  spec.system_prompt_id = or_null(op->prompt);
  rc = qp_context_create(store, &spec, &c, err);
  if (!rc)
    qp_context_close(c);
  return rc;
}

static enum qp_rc
run_batch(struct op *op, struct qp_context *c, struct qp_err *err)
{
  struct qp_message *messages[512];
  static _Thread_local struct qp_save_result results[512];
  enum qp_rc rc;

  if (op->count > COUNT(messages))
    abort();
  for (size_t i = 0; i < op->count; i++)
    messages[i] = op->messages[i].message;
  rc = qp_message_save_batch(c, or_null(op->branch), messages, op->count, results, err);
  for (size_t i = 0; i < op->count; i++)
    op->messages[i].rc = results[i].err.rc;
  return rc;
}

static enum qp_rc
run_update(const struct op *op, struct qp_context *c, struct qp_err *err)
{
  char text[256];
  struct qp_bytes patch = { text, 0 };

  patch.len = (size_t)snprintf(text, sizeof(text), "{\"title\":\"%s\",\"note\":%lld%s%s%s}",
                               op->text, (long long)op->note,
                               *op->prompt ? ",\"config\":{\"system_prompt_id\":\"" : "",
                               op->prompt, *op->prompt ? "\"}" : "");
  return qp_context_update(c, patch, err);
}

static enum qp_rc
run_on_context(struct op *op, struct qp_context *c, struct qp_err *err)
{
  const char *branch = or_null(op->branch);

  switch (op->kind) {
  case OP_SAVE:
    return op->messages[0].rc = qp_message_save(c, branch, op->messages[0].message, NULL, err);
  case OP_BATCH:
    return run_batch(op, c, err);
  case OP_FORK:
    return qp_branch_fork(c, op->name, branch, op->has_at ? &op->at : NULL, err);
  case OP_SWITCH:
    return qp_branch_switch(c, branch, err);
  case OP_RENAME:
    return qp_branch_rename(c, branch, op->name, err);
  case OP_REWIND:
    return qp_branch_rewind(c, branch, op->has_at ? &op->at : NULL, err);
  case OP_DROP:
    return qp_branch_delete(c, branch, err);
  case OP_SET_PROMPT:
    return qp_branch_set_prompt(c, branch, or_null(op->prompt), err);
  case OP_UPDATE:
    return run_update(op, c, err);
  default:
    return QP_MISUSE;
  }
}

static enum qp_rc
run(struct op *op, struct qp_store *store, struct qp_err *err)
{
  struct qp_prompt prompt = { .id = op->prompt, .content = op->text };
  struct qp_context *c = NULL;
  bool packs = op->kind == OP_ARCHIVE || op->kind == OP_COMPRESS || op->kind == OP_DECOMPRESS;
  enum qp_rc rc;

  if (packs && !store->driver->pack) /* the same result, and nothing changes */
    return qp_context_gc(store, &op->context, INT64_MAX, QP_SPACE_DRY_RUN, NULL, err);
  switch (op->kind) {
  case OP_CREATE:
    return run_create(op, store, err);
  case OP_DELETE:
    return qp_context_delete(store, &op->context, err);
  case OP_PROMPT_CREATE:
    return qp_prompt_create(store, &prompt, NULL, err);
  case OP_PROMPT_UPDATE:
    return qp_prompt_update(store, &prompt, err);
  case OP_PROMPT_DELETE:
    return qp_prompt_delete(store, op->prompt, err);
  case OP_CHECKPOINT:
    return qp_store_checkpoint(store, err);
  case OP_ARCHIVE:
    return qp_context_archive(store, &op->context, op->note, 0, NULL, err);
  case OP_COMPRESS:
    return qp_context_compress(store, &op->context, 0, NULL, err);
  case OP_DECOMPRESS:
    return qp_context_decompress(store, &op->context, 0, NULL, err);
  case OP_GC:
    return qp_context_gc(store, &op->context, op->note, 0, NULL, err);
  default:
    break;
  }
  rc = qp_context_open(store, &op->context, QP_LOAD_NONE, &c, err);
  if (rc) {
    for (size_t i = 0; i < op->count; i++)
      op->messages[i].rc = rc;
    return rc;
  }
  rc = run_on_context(op, c, err);
  qp_context_close(c);
  return rc;
}

enum qp_rc
op_run(struct op *op, struct qp_store *store, struct qp_err *err)
{
  return op->rc = run(op, store, err);
}

/* ---- in the model ---- */

/* The bytes that the store must keep. */
static void
append(struct op_message *m, struct model_context *c, struct model_branch *b)
{
  struct qp_uuid head = model_head(c, b);
  struct qp_err err;
  char *json = NULL;
  size_t len = 0;

  qp_message_set_id(m->message, &m->id);
  qp_message_set_parent(m->message, &head);
  if (qp_message_json(m->message, &json, &len, &err))
    abort();
  model_append(c, b, &m->id, json, len);
  qp_free(json);
}

/* After a call that failed with QP_IO, every message that may be stored has that result. */
static bool
is_left_out(const struct op *op, const struct op_message *m)
{
  return m->rc != QP_OK && (m->rc != QP_IO || op->rc != QP_IO);
}

static enum qp_rc
apply_save(struct op *op, struct model_context *c)
{
  struct model_branch *b = model_branch(c, op->branch);
  struct op_message *message = op->messages;
  struct qp_uuid head;

  if (!b)
    return QP_NOTFOUND;
  head = model_head(c, b);
  if (op->has_at && !qp_uuid_equal(&op->at, &head))
    return QP_CONFLICT;
  if (model_message(c, &message->id))
    return QP_EXISTS;
  append(message, c, b);
  return QP_OK;
}

/* A message whose id is used already must have failed with QP_EXISTS; the others continue. */
static enum qp_rc
apply_batch(struct op *op, struct model_context *c)
{
  struct model_branch *b = model_branch(c, op->branch);
  enum qp_rc first = QP_OK;
  size_t saved = 0;

  if (!op->count)
    return QP_OK;
  if (!b)
    return QP_NOTFOUND;
  for (size_t i = 0; i < op->count; i++) {
    struct op_message *message = &op->messages[i];

    if (model_message(c, &message->id)) {
      first = first ? first : QP_EXISTS;
      if (message->rc != QP_EXISTS)
        return QP_MISUSE; /* a wrong result, whatever the whole call returned */
    } else if (is_left_out(op, message)) {
      first = first ? first : message->rc;
    } else {
      append(message, c, b);
      saved++;
    }
  }
  return saved ? QP_OK : first;
}

static enum qp_rc
apply_fork(const struct op *op, struct model_context *c)
{
  struct model_branch *from = model_branch(c, op->branch);
  struct qp_uuid at;

  if (!from || (op->has_at && !model_message(c, &op->at)))
    return QP_NOTFOUND;
  if (model_branch(c, op->name))
    return QP_EXISTS;
  at = op->has_at ? op->at : model_head(c, from);
  model_set_head(c, model_add_branch(c, op->name), &at);
  return QP_OK;
}

static enum qp_rc
apply_rename(const struct op *op, struct model_context *c)
{
  struct model_branch *b = model_branch(c, op->branch);

  if (!b)
    return QP_NOTFOUND;
  if (model_branch(c, op->name) && model_branch(c, op->name) != b)
    return QP_EXISTS;
  if (strcmp(c->active, b->name) == 0)
    set_text(c->active, sizeof(c->active), op->name);
  set_text(b->name, sizeof(b->name), op->name);
  return QP_OK;
}

static enum qp_rc
apply_branch_change(const struct op *op, struct model *m, struct model_context *c)
{
  static const struct qp_uuid none;
  struct model_branch *b = model_branch(c, op->branch);

  if (!b || (op->kind == OP_REWIND && op->has_at && !model_message(c, &op->at)) ||
      (op->kind == OP_SET_PROMPT && *op->prompt && !model_prompt(m, op->prompt)))
    return QP_NOTFOUND;
  if (op->kind == OP_DROP && strcmp(c->active, b->name) == 0)
    return QP_CONFLICT;
  if (op->kind == OP_SWITCH)
    set_text(c->active, sizeof(c->active), b->name);
  else if (op->kind == OP_REWIND)
    model_set_head(c, b, op->has_at ? &op->at : &none);
  else if (op->kind == OP_SET_PROMPT)
    set_text(b->prompt, sizeof(b->prompt), op->prompt);
  else
    model_remove_branch(c, b->name);
  return QP_OK;
}

static enum qp_rc
apply_update(const struct op *op, const struct model *m, struct model_context *c)
{
  if (*op->prompt && !model_prompt(m, op->prompt))
    return QP_NOTFOUND;
  set_text(c->title, sizeof(c->title), op->text);
  c->note = op->note;
  if (*op->prompt)
    set_text(c->prompt, sizeof(c->prompt), op->prompt);
  return QP_OK;
}

static enum qp_rc
apply_to_context(struct op *op, struct model *m, struct model_context *c)
{
  switch (op->kind) {
  case OP_DELETE:
    model_remove_context(m, &op->context);
    return QP_OK;
  case OP_SAVE:
    return apply_save(op, c);
  case OP_BATCH:
    return apply_batch(op, c);
  case OP_FORK:
    return apply_fork(op, c);
  case OP_RENAME:
    return apply_rename(op, c);
  case OP_UPDATE:
    return apply_update(op, m, c);
  case OP_GC:
    if (op->note == 0)
      model_collect(c);
    return QP_OK;
  case OP_ARCHIVE:
  case OP_COMPRESS:
  case OP_DECOMPRESS:
    return QP_OK;
  default:
    return apply_branch_change(op, m, c);
  }
}

static enum qp_rc
apply_create(const struct op *op, struct model *m)
{
  struct model_context *c;

  if (model_context(m, &op->context))
    return QP_EXISTS;
  if (*op->prompt && !model_prompt(m, op->prompt))
    return QP_NOTFOUND;
  c = model_add_context(m, &op->context);
  set_text(c->title, sizeof(c->title), op->text);
  set_text(c->prompt, sizeof(c->prompt), op->prompt);
  return QP_OK;
}

enum qp_rc
op_apply(struct op *op, struct model *m)
{
  struct model_context *c = model_context(m, &op->context);

  switch (op->kind) {
  case OP_CHECKPOINT:
    return QP_OK;
  case OP_CREATE:
    return apply_create(op, m);
  case OP_PROMPT_CREATE:
    if (model_prompt(m, op->prompt))
      return QP_EXISTS;
    model_set_prompt(m, op->prompt, op->text);
    return QP_OK;
  case OP_PROMPT_UPDATE:
    if (!model_prompt(m, op->prompt))
      return QP_NOTFOUND;
    model_set_prompt(m, op->prompt, op->text);
    return QP_OK;
  case OP_PROMPT_DELETE:
    if (!model_prompt(m, op->prompt))
      return QP_NOTFOUND;
    model_remove_prompt(m, op->prompt);
    return QP_OK;
  default:
    return c ? apply_to_context(op, m, c) : QP_NOTFOUND;
  }
}

/* ---- what must hold ---- */

struct finding {
  uint64_t count;
  uint64_t leftovers;
  char *why;
};

static void
note_problem(void *arg, const struct qp_problem *problem)
{
  struct finding *f = arg;
  char id[QP_UUID_TEXT];

  if (problem->kind == QP_PROBLEM_LEFTOVER && problem->harmless)
    f->leftovers++;
  if (f->count++)
    return;
  (void)snprintf(f->why, MODEL_WHY, "the check finds %s%s in context %s, %s: %s",
                 problem->harmless ? "harmless " : "", qp_problem_name(problem->kind),
                 qp_uuid_text(&problem->context, id), problem->path, problem->detail);
}

/* A check that finds nothing, or with `leftovers` nothing but harmless leftovers, which it
 * reports. *out counts the messages. */
static bool
check_finds_nothing(struct qp_store *store, bool *leftovers, struct qp_check_summary *out,
                    char why[MODEL_WHY])
{
  struct finding found = { .why = why };
  struct qp_err err = { QP_OK, "" };

  memset(out, 0, sizeof(*out));
  if (qp_store_check(store, NULL, 0, note_problem, &found, out, &err)) {
    (void)snprintf(why, MODEL_WHY, "the check fails: %s", err.msg);
    return false;
  }
  if (leftovers)
    *leftovers = found.leftovers > 0;
  return found.count == (leftovers ? found.leftovers : 0) && !out->problems;
}

static bool
check_saw_all(const struct qp_check_summary *summary, const struct model *m, char why[MODEL_WHY])
{
  uint64_t messages = 0;

  for (size_t i = 0; i < m->context_count; i++)
    messages += m->contexts[i].message_count;
  if (summary->messages == messages && summary->contexts == m->context_count)
    return true;
  (void)snprintf(why, MODEL_WHY, "the check sees %llu messages in %llu contexts, not %llu in %zu",
                 (unsigned long long)summary->messages, (unsigned long long)summary->contexts,
                 (unsigned long long)messages, m->context_count);
  return false;
}

bool
store_is_clean(struct qp_store *store, const struct model *m, char why[MODEL_WHY])
{
  struct qp_check_summary summary;

  return check_finds_nothing(store, NULL, &summary, why) && check_saw_all(&summary, m, why);
}

/* A gc that purges no message removes all leftovers. */
static bool
clear_leftovers(struct qp_store *store, const struct model *m, char why[MODEL_WHY])
{
  struct qp_check_summary summary;
  struct qp_err err = { QP_OK, "" };

  for (size_t i = 0; i < m->context_count; i++) {
    if (qp_context_gc(store, &m->contexts[i].id, OP_GRACE, 0, NULL, &err)) {
      (void)snprintf(why, MODEL_WHY, "a gc fails: %s", err.msg);
      return false;
    }
  }
  return check_finds_nothing(store, NULL, &summary, why);
}

/* The check runs first, because opening a context repairs it. */
bool
store_is_right(struct qp_store *store, struct model *m, struct op *pending, char why[MODEL_WHY])
{
  struct qp_check_summary summary;
  char before[MODEL_WHY] = "";
  char after[MODEL_WHY] = "";
  bool leftovers = false;
  enum qp_rc rc;

  if (!check_finds_nothing(store, &leftovers, &summary, why))
    return false;
  if (!model_matches(m, store, before)) {
    if (!pending) {
      memcpy(why, before, MODEL_WHY);
      return false;
    }
    rc = op_apply(pending, m);
    if (rc || !model_matches(m, store, after)) {
      (void)snprintf(why, MODEL_WHY, "neither before '%s' (%.200s) nor after it (%.200s)",
                     op_name(pending->kind), before, rc ? qp_rc_text(rc) : after);
      return false;
    }
  }
  return check_saw_all(&summary, m, why) && (!leftovers || clear_leftovers(store, m, why));
}
