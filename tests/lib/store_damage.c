/* store_damage.c - see store_damage.h. */
#include "store_damage.h"

#include <stdio.h>

const char *
file_of(struct base *b, const char *name)
{
  return context_path(b->f, &b->context, pathf("/%s", name));
}

/* The repair of a torn log looks like this. */
void
fold_index(struct base *b)
{
  size_t len;
  char *log = read_file(file_of(b, "index.log"), &len);

  log[len] = 'x'; /* where its NUL was */
  write_file(file_of(b, "index.log"), log, len + 1);
  free(log);
  open_store(b->f);
  qp_context_close(open_context(b->f, &b->context));
  close_store(b->f);
  log = read_file(file_of(b, "index.log"), &len);
  assert_ptr_equal(strchr(log, '\n'), log + len - 1); /* its header alone */
  free(log);
}

struct base
make_base(struct fixture *f)
{
  struct base b = { .f = f };
  struct qp_context *c = new_context(f);

  b.context = qp_context_id(c);
  OK(qp_context_update(c, bytes_of("{\"title\":\"before\"}"), &failure));
  say_many(c, NULL, "m", 4, b.m);
  OK(qp_branch_fork(c, "side", NULL, &b.m[1], &failure));
  b.s[0] = say(c, "side", "s0");
  OK(qp_branch_fork(c, "gone", NULL, NULL, &failure));
  (void)say(c, "gone", "g");
  qp_context_close(c);
  close_store(f);
  fold_index(&b);
  open_store(f);
  c = open_context(f, &b.context);
  b.m[4] = say(c, "main", "m4");
  OK(qp_branch_delete(c, "gone", &failure));
  b.s[1] = say(c, "side", "s1");
  b.m[5] = say(c, "main", "m5");
  OK(qp_branch_fork(c, "back", "main", NULL, &failure));
  OK(qp_branch_rewind(c, "back", &b.m[0], &failure));
  OK(qp_context_update(c, bytes_of("{\"title\":\"after\"}"), &failure));
  qp_context_close(c);
  close_store(f);
  return b;
}

void
expect_title(struct qp_context *c, const char *want)
{
  json_t *meta = metadata_of(c);
  const char *title = json_string_value(json_object_get(meta, "title"));

  assert_string_equal(title ? title : "-", want);
  json_decref(meta);
}

void
expect_all(struct base *b, struct qp_context *c)
{
  (void)b;
  expect_branches(c, "back main* side");
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  expect_texts(c, "side", "m0 m1 s0 s1");
  expect_texts(c, "back", "m0");
  expect_title(c, "after");
}

void
expect_all_and_gone(struct base *b, struct qp_context *c)
{
  expect_messages(b, c);
  expect_branches(c, "back gone main* side");
  expect_texts(c, "back", "m0");
  expect_texts(c, "gone", "m0 m1 m2 m3 g");
}

void
drop_sums(struct base *b)
{
  static const char *const names[] = { "index.json", "index.log" };

  for (size_t i = 0; i < COUNT(names); i++) {
    char *text = read_file(file_of(b, names[i]), NULL);
    char *at = text;

    while ((at = strstr(at, ",\"sum\":\"")))
      memmove(at, at + 17, strlen(at + 17) + 1);
    write_text(file_of(b, names[i]), text);
    free(text);
  }
}

void
expect_messages(struct base *b, struct qp_context *c)
{
  (void)b;
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  expect_texts(c, "side", "m0 m1 s0 s1");
  expect_title(c, "after");
}

void
expect_back_not_rewound(struct base *b, struct qp_context *c)
{
  expect_messages(b, c);
  expect_branches(c, "back main* side");
  expect_texts(c, "back", "m0 m1 m2 m3 m4 m5"); /* where it was forked */
}

void
edit_log(struct base *b, char *(*edit)(struct base *b, char *text, size_t *len))
{
  size_t len;
  char *text = read_file(file_of(b, "index.log"), &len);

  text = edit(b, text, &len);
  write_file(file_of(b, "index.log"), text, len);
  free(text);
}

/* ---- the four ways ---- */

void
check_and_repair(struct base *b, const struct damage *d)
{
  struct fixture *f = b->f;
  struct findings found;
  struct qp_context *c;
  char *before;
  char *after;

  open_store(f);
  before = take_picture(f->data);
  check_store(f, 0, &found);
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
  assert_true(found.summary.problems > 0);
  (void)expect_finding(&found, d->kind, d->path_end);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, found.summary.problems);
  (void)expect_finding(&found, d->kind, d->path_end);
  expect_sound(f);
  c = open_context(f, &b->context);
  d->look(b, c);
  qp_context_close(c);
  reload(f);
  expect_sound(f);
  close_store(f);
}

void
read_only(struct base *b, const struct damage *d)
{
  struct fixture *f = b->f;
  char *before = take_picture(f->data);
  char *after;
  struct qp_context *c;

  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  forget_warnings(f);
  c = open_context(f, &b->context);
  expect_warning(f, d->path_end);
  d->look(b, c);
  qp_context_close(c);
  close_store(f);
  f->options.flags &= ~(unsigned)QP_STORE_READONLY;
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
}

void
go_on(struct base *b, const struct damage *d)
{
  struct fixture *f = b->f;
  struct qp_context *c;
  struct qp_uuid id;

  open_store(f);
  forget_warnings(f);
  c = open_context(f, &b->context);
  expect_warning(f, d->path_end);
  d->look(b, c);
  OK(qp_branch_fork(c, "new", "main", NULL, &failure));
  id = say(c, "new", "n");
  OK(qp_branch_fork(c, "newer", NULL, &id, &failure));
  OK(qp_branch_delete(c, "new", &failure));
  qp_context_close(c);
  reload(f);
  forget_warnings(f);
  c = open_context(f, &b->context);
  assert_int_equal(f->warnings, 0);
  assert_int_equal(branch_of(c, "newer").messages, branch_of(c, "main").messages + 1);
  OK(qp_branch_delete(c, "newer", &failure));
  d->look(b, c);
  qp_context_close(c);
  expect_sound(f);
  close_store(f);
}

void
try_damage(struct fixture *f, const struct damage *d)
{
  struct base b = make_base(f);
  char data[PATH_LEN];

  d->spoil(&b);
  memcpy(data, f->data, sizeof(data));
  copy_tree(f->data, pathf("%s/copy", f->dir));
  check_and_repair(&b, d);
  (void)snprintf(f->data, sizeof(f->data), "%.900s/copy", f->dir);
  read_only(&b, d);
  go_on(&b, d);
  memcpy(f->data, data, sizeof(data));
  expect_outside_untouched(f);
}
