/* test_damage_property.c - whatever happens to up to three files of a context, a repair loses
 * nothing that is still there.
 *
 * A random context is written, and an older copy of it kept. Then files are deleted, cut, changed,
 * moved, swapped, given another line end, or replaced by their older copy. Every message that a
 * branch reached and whose bytes are still in some file (or in a pack that can be read) is on a
 * branch after `check --repair`, with the same bytes, and a second check finds nothing wrong.
 *
 * A failure prints the seed; QUIPU_TEST_SEED=n runs that one alone. File driver. */
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "scenario.h"
#include "store/files/pack.h"
#include "store_test.h"

#define FILES_MAX 1024
#define MESSAGES_MAX 512
#define HISTORY 240 /* characters of what was done to the files */

struct kept {
  struct qp_uuid id;
  char *json;
  bool there;   /* its bytes are still in a file */
  bool reached; /* by a branch after the repair */
};

struct run {
  struct fixture *f;
  struct rng rng;
  uint64_t seed;
  struct qp_uuid context;
  struct kept kept[MESSAGES_MAX];
  size_t count;
  char done[HISTORY * 4];
};

static void
note(struct run *r, const char *what, const char *path)
{
  size_t n = strlen(r->done);
  const char *name = strstr(path, "/contexts/");

  (void)snprintf(r->done + n, sizeof(r->done) - n, " [%s %s]", what,
                 name ? name + strlen("/contexts/") + 37 : path);
}

/* ---- a random context ---- */

static const char *const names[] = { "main", "side", "back", "other" };

static bool
has_branch(struct qp_context *c, const char *name)
{
  json_t *meta = metadata_of(c);
  bool has = json_object_get(json_object_get(meta, "branches"), name) != NULL;

  json_decref(meta);
  return has;
}

struct pick {
  uint64_t left;
  struct qp_uuid id;
};

static enum qp_rc
pick_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct pick *p = arg;

  (void)json;
  p->id = info->id;
  return p->left-- == 0 ? QP_STOPPED : QP_OK;
}

/* A message of a branch. What no branch leads to is never taken up again: that one was moved there
 * is told by a line of the index alone, and when that is lost nobody can know. False: the branch is
 * empty. */
static bool
random_message(struct run *r, struct qp_context *c, const char *branch, struct qp_uuid *out)
{
  uint64_t count = branch_of(c, branch).messages;
  struct pick p = { .left = count ? rng_below(&r->rng, count) : 0 };

  if (!count)
    return false;
  assert_int_equal(qp_messages_index(c, branch, 0, count, pick_message, &p, NULL), QP_STOPPED);
  *out = p.id;
  return true;
}

static void
live(struct run *r, size_t *count, size_t steps)
{
  struct fixture *f = r->f;
  struct qp_context *c = open_context(f, &r->context);
  char text[64];

  for (size_t i = 0; i < steps; i++) {
    const char *name = names[rng_below(&r->rng, COUNT(names))];
    struct qp_uuid at;

    switch (rng_below(&r->rng, 12)) {
    case 0:
      if (!has_branch(c, name) && random_message(r, c, "main", &at))
        OK(qp_branch_fork(c, name, NULL, &at, &failure));
      break;
    case 1:
      if (strcmp(name, "main") != 0 && has_branch(c, name))
        OK(qp_branch_delete(c, name, &failure));
      break;
    case 2:
      if (has_branch(c, name) && random_message(r, c, name, &at))
        OK(qp_branch_rewind(c, name, &at, &failure));
      break;
    case 3:
      OK(qp_context_update(c, bytes_of("{\"title\":\"t\"}"), &failure));
      break;
    default:
      if (has_branch(c, name) && *count < MESSAGES_MAX) {
        (void)snprintf(text, sizeof(text), "%llu-%zu", (unsigned long long)r->seed, *count);
        (void)say(c, name, text);
        (*count)++;
      }
    }
  }
  qp_context_close(c);
}

/* Folds, packs and empties now and then. */
static void
tidy(struct run *r)
{
  struct fixture *f = r->f;

  switch (rng_below(&r->rng, 8)) {
  case 0:
    OK(qp_context_compress(f->store, &r->context, 0, NULL, &failure));
    break;
  case 1:
    OK(qp_context_archive(f->store, &r->context, INT64_MAX, 0, NULL, &failure));
    break;
  case 2:
    OK(qp_context_gc(f->store, &r->context, rng_below(&r->rng, 2) ? 0 : 1000000, 0, NULL,
                     &failure));
    break;
  default:
    break;
  }
}

static void
make_context(struct run *r)
{
  struct fixture *f = r->f;
  struct qp_context *c = new_context(f);
  size_t count = 0;

  r->context = qp_context_id(c);
  qp_context_close(c);
  live(r, &count, 4 + rng_below(&r->rng, 30));
  if (rng_below(&r->rng, 2))
    tidy(r);
  close_store(f);
  copy_tree(context_path(f, &r->context, ""), pathf("%s/older", f->dir));
  open_store(f);
  live(r, &count, 1 + rng_below(&r->rng, 30));
  tidy(r);
}

/* ---- what is reached ---- */

static enum qp_rc
keep_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct run *r = arg;

  for (size_t i = 0; i < r->count; i++)
    if (qp_uuid_equal(&r->kept[i].id, &info->id))
      return QP_OK;
  assert_true(r->count < MESSAGES_MAX);
  r->kept[r->count].id = info->id;
  r->kept[r->count].json = strndup(json.data, json.len);
  assert_non_null(r->kept[r->count++].json);
  return QP_OK;
}

static enum qp_rc
reach_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct run *r = arg;

  for (size_t i = 0; i < r->count; i++)
    if (qp_uuid_equal(&r->kept[i].id, &info->id) && json.len == strlen(r->kept[i].json) &&
        memcmp(json.data, r->kept[i].json, json.len) == 0)
      r->kept[i].reached = true;
  return QP_OK;
}

struct each {
  struct run *run;
  struct qp_context *context;
  qp_message_visit *visit;
};

static enum qp_rc
visit_branch(void *arg, const struct qp_branch_info *info)
{
  struct each *e = arg;

  return qp_messages_last(e->context, info->name, UINT64_MAX, e->visit, e->run, &failure);
}

static void
walk_branches(struct run *r, qp_message_visit *visit)
{
  struct each e = { .run = r, .context = open_context(r->f, &r->context), .visit = visit };

  OK(qp_branch_list(e.context, visit_branch, &e, &failure));
  qp_context_close(e.context);
}

/* ---- what is still there ---- */

static struct run *walking; /* nftw() takes no argument */

static enum qp_rc
look_at_packed(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
               struct qp_err *err)
{
  struct run *r = arg;

  (void)dir;
  (void)frame;
  (void)pos;
  (void)err;
  for (size_t i = 0; i < r->count; i++)
    if (json.len == strlen(r->kept[i].json) && memcmp(json.data, r->kept[i].json, json.len) == 0)
      r->kept[i].there = true;
  return QP_OK;
}

static int
look_at_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  size_t len;
  char *text;

  (void)st;
  (void)ftw;
  if (type != FTW_F)
    return 0;
  text = read_file(path, &len);
  for (size_t i = 0; i < walking->count; i++)
    if (memmem(text, len, walking->kept[i].json, strlen(walking->kept[i].json)))
      walking->kept[i].there = true;
  free(text);
  return 0;
}

static void
look_what_is_there(struct run *r)
{
  const char *top = context_path(r->f, &r->context, "");
  int root = qp__os_posix.open_root(qp__os_posix.self, top, 0);
  bool damaged;

  walking = r;
  assert_int_equal(nftw(top, look_at_file, 8, FTW_PHYS), 0);
  assert_true(root >= 0);
  (void)qp__pack_scan(&qp__os_posix, root, "messages.jsonl.zst", "messages.dict", look_at_packed, r,
                      &damaged, NULL);
  for (int year = 2026; year <= 2027; year++)
    for (int month = 1; month <= 12; month++)
      (void)qp__pack_scan(&qp__os_posix, root, pathf("archive/%04d-%02d.jsonl.zst", year, month),
                          NULL, look_at_packed, r, &damaged, NULL);
  (void)qp__os_posix.close(qp__os_posix.self, root);
}

/* ---- damage ---- */

static char *paths[FILES_MAX];
static size_t path_count;

static int
list_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)ftw;
  if (type == FTW_F && path_count < FILES_MAX) {
    paths[path_count] = strdup(path);
    assert_non_null(paths[path_count++]);
  }
  return 0;
}

static int
by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
forget_files(void)
{
  while (path_count)
    free(paths[--path_count]);
}

static void
list_files(struct run *r)
{
  forget_files();
  assert_int_equal(nftw(context_path(r->f, &r->context, ""), list_file, 8, FTW_PHYS), 0);
  qsort(paths, path_count, sizeof(paths[0]), by_name);
}

/* Packs are swapped with nothing: what is in one under another name is not looked for. */
static bool
is_pack(const char *path)
{
  return strstr(path, ".zst") || strstr(path, ".dict");
}

static void
move_somewhere(struct run *r, const char *path)
{
  static const char *const dirs[] = { "/messages/branch-main", "/messages/branch-side", "/messages",
                                      "/archive", "" }; /* a file in trash/ is told to be garbage */
  const char *dir = context_path(r->f, &r->context, dirs[rng_below(&r->rng, COUNT(dirs))]);
  const char *to = pathf("%s%s", dir, strrchr(path, '/'));

  if (file_exists(to) || is_pack(path))
    return;
  if (!file_exists(dir))
    make_directory(dir);
  note(r, "move", path);
  note(r, "to", to);
  move_file(path, to);
}

static void
swap_with_another(struct run *r, const char *path)
{
  const char *other = paths[rng_below(&r->rng, path_count)];
  const char *hold = pathf("%s/hold", r->f->dir);

  if (is_pack(path) || is_pack(other) || strcmp(path, other) == 0)
    return;
  note(r, "swap", path);
  note(r, "with", other);
  move_file(path, hold);
  move_file(other, path);
  move_file(hold, other);
}

static void
put_older(struct run *r, const char *path)
{
  size_t n = strlen(context_path(r->f, &r->context, ""));
  const char *older = pathf("%s/older%s", r->f->dir, path + n);

  if (!file_exists(older))
    return;
  note(r, "older", path);
  remove_file(path);
  copy_file(older, path);
}

static void
change_bytes(struct run *r, const char *path)
{
  size_t len;
  char *text = read_file(path, &len);

  note(r, "flip", path);
  for (size_t n = 1 + rng_below(&r->rng, 4); n && len; n--)
    text[rng_below(&r->rng, len)] ^= (char)(1 << rng_below(&r->rng, 8));
  write_file(path, text, len);
  free(text);
}

static void
add_line_end(struct run *r, const char *path)
{
  size_t len;
  char *text = read_file(path, &len);

  note(r, "crlf", path);
  text = realloc(text, len + 2);
  assert_non_null(text);
  memcpy(text + len, "\r\n", 2);
  write_file(path, text, len + 2);
  free(text);
}

static void
damage_one(struct run *r)
{
  const char *path;

  list_files(r);
  if (!path_count)
    return;
  path = paths[rng_below(&r->rng, path_count)];
  if (rng_below(&r->rng, 3) == 0) /* often one of the few that count most */
    path = context_path(r->f, &r->context,
                        rng_below(&r->rng, 2)
                            ? "/index.log"
                            : (rng_below(&r->rng, 2) ? "/index.json" : "/metadata.json"));
  if (!file_exists(path))
    return;
  switch (rng_below(&r->rng, 7)) {
  case 0:
    note(r, "delete", path);
    remove_file(path);
    break;
  case 1:
    note(r, "cut", path);
    cut_file(path, rng_below(&r->rng, file_size(path) + 1));
    break;
  case 2:
    change_bytes(r, path);
    break;
  case 3:
    move_somewhere(r, path);
    break;
  case 4:
    put_older(r, path);
    break;
  case 5:
    add_line_end(r, path);
    break;
  default:
    swap_with_another(r, path);
  }
}

/* ---- the property ---- */

static void
complain(struct run *r, const char *what, const char *detail)
{
  fail_msg("seed %llu:%s: %s %s", (unsigned long long)r->seed, r->done, what, detail);
}

static void
tell_problem(void *arg, const struct qp_problem *p)
{
  if (!p->harmless)
    complain(arg, p->path, p->detail);
}

static void
check_run(struct run *r)
{
  struct fixture *f = r->f;
  struct qp_err err = { QP_OK, "" };
  char id[QP_UUID_TEXT];

  if (qp_store_check(f->store, NULL, QP_CHECK_REPAIR, NULL, NULL, NULL, &err))
    complain(r, "the repair failed:", err.msg);
  if (qp_store_check(f->store, NULL, 0, tell_problem, r, NULL, &err))
    complain(r, "the check failed:", err.msg);
  walk_branches(r, reach_message);
  for (size_t i = 0; i < r->count; i++)
    if (r->kept[i].there && !r->kept[i].reached)
      complain(r, "not reached:", qp_uuid_text(&r->kept[i].id, id));
}

static void
run_once(struct fixture *f, uint64_t seed)
{
  struct run *r = calloc(1, sizeof(*r));

  assert_non_null(r);
  r->f = f;
  r->seed = seed;
  r->rng.state = seed * 7919 + 1;
  make_context(r);
  walk_branches(r, keep_message);
  close_store(f);
  for (uint64_t n = 1 + rng_below(&r->rng, 3); n; n--)
    damage_one(r);
  if (getenv("QUIPU_TEST_KEEP"))
    copy_tree(f->data, pathf("%s", getenv("QUIPU_TEST_KEEP")));
  look_what_is_there(r);
  open_store(f);
  if (r->count) /* a context without messages may be lost altogether */
    check_run(r);
  for (size_t i = 0; i < r->count; i++)
    free(r->kept[i].json);
  forget_files();
  close_store(f);
  remove_tree(pathf("%s/older", f->dir));
  remove_tree(f->data);
  open_store(f);
  free(r);
}

static void
test_a_repair_loses_nothing_that_is_still_there(void **state)
{
  uint64_t first = test_seed(1);
  uint64_t runs = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 3000 : 30;

  for (uint64_t seed = first; seed < first + runs; seed++)
    run_once(*state, seed);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_repair_loses_nothing_that_is_still_there),
  };

  return run_on_files("damage property", tests, COUNT(tests));
}
