/* jsondiff.c - see jsondiff.h. */
#include "old/jsondiff.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

/* ---- walking ---- */

static bool walk(const struct qp__diff_step *at, json_t *as, json_t *was, qp__diff_fn *fn,
                 void *arg);

/* The keys that only `was` has, sorted. They are usually few, so their cost does not matter. */
static bool
walk_added(const struct qp__diff_step *at, json_t *as, json_t *was, qp__diff_fn *fn, void *arg)
{
  const char **keys = NULL;
  size_t count = 0;
  const char *key;
  json_t *value;
  bool ok = true;

  json_object_foreach (was, key, value)
    if (!json_object_get(as, key))
      count++;
  if (!count)
    return true;
  keys = qp__alloc0(count, sizeof(*keys));
  if (!keys)
    return fn(arg, NULL, NULL, NULL);
  count = 0;
  json_object_foreach (was, key, value)
    if (!json_object_get(as, key))
      keys[count++] = key;
  qsort(keys, count, sizeof(*keys), qp__str_compare);
  for (size_t i = 0; i < count && ok; i++) {
    struct qp__diff_step step = { .key = keys[i], .up = at };

    ok = fn(arg, &step, NULL, json_object_get(was, keys[i]));
  }
  qp__free(keys);
  return ok;
}

static bool
walk_objects(const struct qp__diff_step *at, json_t *as, json_t *was, qp__diff_fn *fn, void *arg)
{
  const char *key;
  json_t *value;

  json_object_foreach (as, key, value) {
    struct qp__diff_step step = { .key = key, .up = at };

    if (!walk(&step, value, json_object_get(was, key), fn, arg))
      return false;
  }
  return walk_added(at, as, was, fn, arg);
}

static bool
walk_arrays(const struct qp__diff_step *at, json_t *as, json_t *was, qp__diff_fn *fn, void *arg)
{
  for (size_t i = 0; i < json_array_size(as); i++) {
    struct qp__diff_step step = { .index = i, .up = at };

    if (!walk(&step, json_array_get(as, i), json_array_get(was, i), fn, arg))
      return false;
  }
  return true;
}

/* Values are at most QP__JSON_DEPTH deep, and so are the calls. */
static bool
walk(const struct qp__diff_step *at, json_t *as, json_t *was, qp__diff_fn *fn, void *arg)
{
  if (as == was)
    return true;
  if (json_is_object(as) && json_is_object(was))
    return walk_objects(at, as, was, fn, arg);
  if (json_is_array(as) && json_is_array(was) && json_array_size(as) == json_array_size(was))
    return walk_arrays(at, as, was, fn, arg);
  if (as && was && json_equal(as, was))
    return true;
  return fn(arg, at, as, was);
}

bool
qp__diff_walk(json_t *as, json_t *was, qp__diff_fn *fn, void *arg)
{
  return walk(NULL, as, was, fn, arg);
}

/* ---- a list of changes ---- */

struct making {
  json_t *changes;
  bool guarded;
};

/* Fails if memory runs out; so does a walk without a path. */
static bool
add_change(void *arg, const struct qp__diff_step *at, json_t *as, json_t *was)
{
  struct making *m = arg;
  json_t *path = json_array();
  json_t *change = NULL;
  int bad = !at;

  for (; at && !bad; at = at->up)
    bad = json_array_insert_new(
        path, 0, at->key ? json_string_nocheck(at->key) : json_integer((json_int_t)at->index));
  if (!bad)
    change = json_pack("{s:O,s:O*,s:O*}", "at", path, "as", m->guarded ? as : NULL, "was", was);
  if (!m->changes)
    m->changes = json_array();
  json_decref(path);
  return json_array_append_new(m->changes, change) == 0;
}

int
qp__diff_make(json_t *as, json_t *was, bool guarded, json_t **out)
{
  struct making m = { NULL, guarded };

  if (!qp__diff_walk(as, was, add_change, &m)) {
    json_decref(m.changes);
    return -1;
  }
  *out = m.changes;
  return 0;
}

/* ---- carrying them out ---- */

static json_t *
child_of(const json_t *value, const json_t *step)
{
  json_int_t i = json_integer_value(step);

  if (json_is_string(step))
    return json_object_get(value, json_string_value(step));
  return json_is_integer(step) && i >= 0 ? json_array_get(value, (size_t)i) : NULL;
}

/* Sets `child`; NULL: removes it. A step that does not match does nothing. */
static int
set_child(json_t *value, const json_t *step, json_t *child)
{
  json_int_t i = json_integer_value(step);

  if (json_is_string(step) && json_is_object(value)) {
    if (child)
      return json_object_set_nocheck(value, json_string_value(step), child);
    (void)json_object_del(value, json_string_value(step)); /* it may be absent */
  } else if (json_is_integer(step) && json_is_array(value) && child && i >= 0 &&
             (size_t)i < json_array_size(value)) {
    return json_array_set(value, (size_t)i, child);
  }
  return 0;
}

/* Whether all containers on the path exist, and the value at its end is `as`. */
static bool
fits(const json_t *root, const json_t *path, const json_t *as, bool guarded)
{
  size_t n = json_array_size(path);
  const json_t *at = root;

  for (size_t i = 0; i < n; i++) {
    if (!json_is_object(at) && !json_is_array(at))
      return false;
    at = child_of(at, json_array_get(path, i));
  }
  if (!guarded)
    return n > 0;
  return n > 0 && (as ? at && json_equal(at, as) : !at);
}

/* A container with other owners is replaced by a copy, so that they do not see the change. */
static int
apply_one(json_t **root, const json_t *path, json_t *was)
{
  size_t n = json_array_size(path);
  json_t *at = *root;

  if (at->refcount > 1) {
    at = qp__json_copy(*root);
    if (!at)
      return -1;
    json_decref(*root);
    *root = at;
  }
  for (size_t i = 0; i + 1 < n; i++) {
    const json_t *step = json_array_get(path, i);
    json_t *child = child_of(at, step);

    if (child->refcount > 1) {
      json_t *copy = qp__json_copy(child);
      int bad = !copy || set_child(at, step, copy);

      json_decref(copy);
      if (bad)
        return -1;
      child = copy;
    }
    at = child;
  }
  return set_child(at, json_array_get(path, n - 1), was);
}

int
qp__diff_apply(json_t **root, const json_t *changes, bool guarded)
{
  for (size_t i = 0; i < json_array_size(changes); i++) {
    const json_t *change = json_array_get(changes, i);
    const json_t *path = json_object_get(change, "at");

    if (!fits(*root, path, json_object_get(change, "as"), guarded))
      continue;
    if (apply_one(root, path, json_object_get(change, "was")))
      return -1;
  }
  return 0;
}

/* ---- for people ---- */

void
qp__diff_step_write(struct qp__buf *out, const struct qp__diff_step *at)
{
  if (!at)
    return;
  qp__diff_step_write(out, at->up);
  if (at->key)
    (void)qp__buf_addf(out, "%s%s", at->up ? "." : "", at->key);
  else
    (void)qp__buf_addf(out, "[%zu]", at->index);
}
