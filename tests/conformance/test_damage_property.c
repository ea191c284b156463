/* test_damage_property.c - whatever happens to up to three files of a context, a repair loses
 * nothing that is still there.
 *
 * A random context is written, and an older copy of it kept. Then files are deleted, cut, changed,
 * moved, swapped, given another line end, or replaced by their older copy. Every message that a
 * branch reached and whose bytes are still in some file (or in a pack that can be read) is on a
 * branch after `check --repair`, with the same bytes, and a second check finds nothing wrong.
 *
 * The other property: every changed character, every line that was removed or moved and every two
 * values that were exchanged in metadata.json, a prompt or the files of a session are found by a
 * check. A repair accepts what is valid and restores a character without which it is not; the next
 * check finds nothing, and no message is lost.
 *
 * A failure prints the seed; QUIPU_TEST_SEED=n runs that one alone. File driver. */
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "scenario.h"
#include "sessions.h"
#include "store/files/pack/pack.h"
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

/* ---- small files: every change is found ---- */

#define BOT "b1 b2 b3 b4 b5"
#define TWO "t1 t2"
#define MAIN "m0 m1 m2 m3"
#define SIDE "m0 m1 s"

struct mutation {
  struct fixture *f;
  struct qp_uuid context;
  const char *path; /* below the data directory */
  char *text;       /* of the file as it was */
  size_t len;
  size_t count;
};

static const char *const kept_dirs[] = { "contexts", "prompts", "sessions" };

static void
make_small_world(struct mutation *m)
{
  struct fixture *f = m->f;
  struct qp_prompt prompt = { .id = "terse", .name = "Terse", .content = "Be terse." };
  struct qp_context *c;
  struct qp_uuid ids[4];

  OK(qp_prompt_create(f->store, &prompt, NULL, &failure));
  c = new_context(f);
  m->context = qp_context_id(c);
  say_many(c, NULL, "m", COUNT(ids), ids);
  OK(qp_branch_fork(c, "side", NULL, &ids[1], &failure));
  (void)say(c, "side", "s");
  OK(qp_branch_set_prompt(c, "side", "terse", &failure));
  OK(qp_context_update(c, bytes_of("{\"title\":\"Knots\",\"mood\":\"good\"}"), &failure));
  qp_context_close(c);
  new_session(f, "bot", 3);
  tell_many(f, "bot", "b", 5);
  new_session(f, "two", 0);
  tell_many(f, "two", "t", 2);
  expect_no_findings(f);
  close_store(f);
  for (size_t i = 0; i < COUNT(kept_dirs); i++)
    copy_tree(pathf("%s/%s", f->data, kept_dirs[i]), pathf("%s/%s", f->dir, kept_dirs[i]));
}

static void
restore_small_world(struct mutation *m)
{
  for (size_t i = 0; i < COUNT(kept_dirs); i++) {
    remove_tree(pathf("%s/%s", m->f->data, kept_dirs[i]));
    copy_tree(pathf("%s/%s", m->f->dir, kept_dirs[i]), pathf("%s/%s", m->f->data, kept_dirs[i]));
  }
}

/* Every word of `all` that `lost` (a line, or NULL) does not hold is still said in the session. */
static void
expect_words(struct mutation *m, const char *id, const char *all, const char *lost)
{
  char *lines = lines_of(m->f, id, UINT64_MAX);

  for (const char *word = all; *word; word += strcspn(word, " "), word += *word == ' ') {
    const char *quoted = pathf("\"%.*s\"", (int)strcspn(word, " "), word);

    if (!strstr(lines, quoted) && !(lost && strstr(lost, quoted)))
      fail_msg("%s: %s is lost:\n%s", m->path, quoted, lines);
  }
  assert_null(strstr(lines, "quipu_su"));
  free(lines);
}

/* The file holds `text` now. `lost` is a line that need not come back, or NULL. */
static void
try_mutation(struct mutation *m, const char *text, size_t len, const char *lost, const char *what)
{
  struct fixture *f = m->f;
  struct findings found;
  struct findings repaired;
  struct qp_context *c;

  write_file(pathf("%s/%s", f->data, m->path), text, len);
  open_store(f);
  check_store(f, 0, &found);
  if (!found.summary.problems)
    fail_msg("%s: %s is not found:\n%.*s", m->path, what, (int)len, text);
  check_store(f, QP_CHECK_REPAIR, &repaired);
  for (size_t i = 0; i < repaired.count; i++)
    if (!repaired.list[i].repaired)
      fail_msg("%s: %s is not repaired: %s\n%.*s", m->path, what, repaired.list[i].detail, (int)len,
               text);
  check_store(f, 0, &found);
  if (found.summary.problems)
    fail_msg("%s: %s leaves: %s\n%.*s", m->path, what, found.count ? found.list[0].detail : "",
             (int)len, text);
  c = open_context(f, &m->context);
  expect_texts(c, "main", MAIN);
  expect_texts(c, "side", SIDE);
  qp_context_close(c);
  expect_words(m, "bot", BOT, lost);
  expect_words(m, "two", TWO, lost);
  close_store(f);
  restore_small_world(m);
  m->count++;
}

/* The line at `at`; the caller frees it. */
static char *
line_at(const struct mutation *m, size_t at)
{
  size_t from = at;
  size_t to = at;

  while (from && m->text[from - 1] != '\n')
    from--;
  while (to < m->len && m->text[to] != '\n')
    to++;
  return strndup(m->text + from, to - from);
}

/* Each character that is a digit or a letter becomes another one. */
static void
change_characters(struct mutation *m, size_t first, size_t step)
{
  for (size_t at = first; at < m->len; at += step) {
    char *line = line_at(m, at);
    char was = m->text[at];

    if (was >= '0' && was <= '9')
      m->text[at] = was == '9' ? '0' : (char)(was + 1);
    else if ((was >= 'a' && was <= 'z') || (was >= 'A' && was <= 'Z'))
      m->text[at] = was == 'z' || was == 'Z' ? (char)(was - 1) : (char)(was + 1);
    if (m->text[at] != was)
      try_mutation(m, m->text, m->len, line, pathf("a change of '%c' at %zu", was, at));
    m->text[at] = was;
    free(line);
  }
}

/* Each line is removed, and changes places with the next one. */
static void
move_lines(struct mutation *m)
{
  char *text = malloc(m->len + 1);
  size_t next;

  assert_non_null(text);
  for (size_t at = 0; at < m->len; at = next) {
    char *line = line_at(m, at);
    size_t n = strlen(line) + 1;
    size_t behind;
    char *second;

    next = at + n;
    memcpy(text, m->text, at);
    memcpy(text + at, m->text + next, m->len - next);
    try_mutation(m, text, m->len - n, line, pathf("the removal of the line at %zu", at));
    if (next < m->len) {
      second = line_at(m, next);
      behind = next + strlen(second) + 1;
      memcpy(text + at, m->text + next, behind - next);
      memcpy(text + at + (behind - next), m->text + at, n);
      memcpy(text + behind, m->text + behind, m->len - behind);
      try_mutation(m, text, m->len, NULL, pathf("the move of the line at %zu", at));
      free(second);
    }
    free(line);
  }
  free(text);
}

/* Exchanges the values of two members. */
static void
exchange_values(struct mutation *m, const char *inside, const char *a, const char *b)
{
  json_t *root = json_loads(m->text, 0, NULL);
  json_t *object = inside ? json_object_get(root, inside) : root;
  json_t *first = json_incref(json_object_get(object, a));
  char *text;

  assert_non_null(first);
  assert_int_equal(json_object_set(object, a, json_object_get(object, b)), 0);
  assert_int_equal(json_object_set_new(object, b, first), 0);
  text = json_dumps(root, JSON_INDENT(2));
  try_mutation(m, text, strlen(text), NULL, pathf("the exchange of %s and %s", a, b));
  free(text);
  json_decref(root);
}

static void
test_every_change_of_a_small_file_is_found(void **state)
{
  struct mutation m = { .f = *state };
  char metadata[PATH_LEN];
  const char *const files[] = {
    metadata,
    "prompts/terse.json",
    "sessions/session-bot.1.jsonl",
    "sessions/session-bot.2.jsonl",
    "sessions/index.jsonl",
  };
  char id[QP_UUID_TEXT];

  make_small_world(&m);
  (void)snprintf(metadata, sizeof(metadata), "contexts/%s/metadata.json",
                 qp_uuid_text(&m.context, id));
  for (size_t i = 0; i < COUNT(files); i++) {
    size_t step = test_is_long() ? 1 : 19; /* fewer than a checksum has characters */

    m.path = files[i];
    m.text = read_file(pathf("%s/%s", m.f->data, m.path), &m.len);
    change_characters(&m, test_seed(1) % step, step);
    if (strstr(m.path, ".jsonl"))
      move_lines(&m);
    else if (i)
      exchange_values(&m, NULL, "name", "content");
    else
      exchange_values(&m, "config", "model_id", "mode");
    free(m.text);
  }
  assert_true(m.count > 100);
  for (size_t i = 0; i < COUNT(kept_dirs); i++)
    remove_tree(pathf("%s/%s", m.f->dir, kept_dirs[i]));
  open_store(m.f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_repair_loses_nothing_that_is_still_there),
    cmocka_unit_test(test_every_change_of_a_small_file_is_found),
  };

  return run_on_files("damage property", tests, COUNT(tests));
}
