/* journal_rig.c - see journal_rig.h. */
#include "journal_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os_gate.h"
#include "os_tools.h"
#include "store/files/journal/journal_recover.h"

/* ---- the rig ---- */

void
rig_open(struct rig *x)
{
  struct qp__journal_options options = { .segment_bytes = SEGMENT };
  struct qp_err err = { QP_OK, "" };

  if (qp__journal_open(x->os, x->root, x->tmp, &options, &x->j, &err))
    fail_msg("opening the journal: %s", err.msg);
}

/* A data directory with only the files that the journal needs; the journal is not open yet. */
void
rig_make(struct rig *x)
{
  memset(x, 0, sizeof(*x));
  x->sim = qp__os_sim_new(7);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(os_gate_over(qp__os_sim_os(x->sim)));
  assert_non_null(x->fault);
  x->os = qp__os_fault_os(x->fault);
  x->root = root_of(x->os);
  assert_int_equal(make_dir(x->os, x->root, "journal"), 0);
  assert_int_equal(make_dir(x->os, x->root, "tmp"), 0);
  assert_int_equal(make_dir(x->os, x->root, "d"), 0);
  x->tmp = open_at(x->os, x->root, "tmp", O_RDONLY | O_DIRECTORY);
  assert_true(x->tmp >= 0);
}

void
rig_remove(struct rig *x)
{
  qp__journal_close(x->j);
  close_fd(x->os, x->tmp);
  close_fd(x->os, x->root);
  assert_int_equal(qp__os_fault_open_count(x->fault), 0);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

/* Simulates the death of the process: frees the journal, and its last calls have no effect. */
void
rig_crash(struct rig *x)
{
  qp__os_fault_arm(x->fault, 1, QP__FAULT_EIO, true);
  qp__journal_close(x->j);
  qp__os_fault_disarm(x->fault);
  x->j = NULL;
}

/* ---- commits ---- */

void
rig_add(struct qp__txn *txn, enum qp__op_kind kind, unsigned flags, const char *path,
        const char *data, uint64_t offset)
{
  struct qp__op op = { .kind = kind, .flags = flags, .path = path, .offset = offset };
  struct qp_err err;

  op.data.data = data;
  op.data.len = strlen(data);
  assert_int_equal(qp__txn_add(txn, &op, NULL, false, &err), QP_OK);
}

/* A commit that writes `text` to `path`. */
void
rig_begin_put(struct qp__txn *txn, const char *path, const char *text)
{
  struct qp_err err;

  assert_int_equal(qp__txn_init(txn, &err), QP_OK);
  rig_add(txn, QP__OP_PUT, 0, path, text, 0);
}

enum qp_rc
rig_finish(struct rig *x, struct qp__txn *txn)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = qp__journal_stage(x->j, txn, &err);

  if (!rc)
    rc = qp__journal_finish(x->j, txn, &err);
  qp__txn_release(txn);
  return rc;
}

enum qp_rc
rig_put(struct rig *x, const char *path, const char *text)
{
  struct qp__txn txn;

  rig_begin_put(&txn, path, text);
  return rig_finish(x, &txn);
}

char *
rig_long_text(size_t n, char c)
{
  char *text = malloc(n + 1);

  assert_non_null(text);
  memset(text, c, n);
  text[n] = 0;
  return text;
}

struct qp__journal_stats
rig_stats(struct rig *x)
{
  struct qp__journal_stats s;

  qp__journal_stats(x->j, &s);
  return s;
}

/* ---- looking at files ---- */

static int
collect(void *arg, const char *name, unsigned char type)
{
  struct names *names = arg;

  (void)type;
  assert_true(names->count < 64);
  (void)snprintf(names->list[names->count++], 64, "%s", name);
  return 0;
}

static int
by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

/* The names in a directory, sorted. */
void
rig_list(struct rig *x, const char *dir, struct names *out)
{
  out->count = 0;
  assert_int_equal(x->os->listdir(x->os->self, x->root, dir, collect, out), 0);
  qsort(out->list, out->count, sizeof(out->list[0]), by_name);
}

size_t
rig_segments(struct rig *x)
{
  struct names names;

  rig_list(x, "journal", &names);
  return names.count;
}

/* The only segment. */
void
rig_segment_path(struct rig *x, char out[128])
{
  struct names names;

  rig_list(x, "journal", &names);
  assert_int_equal(names.count, 1);
  (void)snprintf(out, 128, "journal/%s", names.list[0]);
}

/* The bytes at an offset of a file. */
void
rig_peek(struct rig *x, const char *path, off_t at, void *buf, size_t n)
{
  int fd = open_at(x->os, x->root, path, O_RDONLY);

  assert_true(fd >= 0);
  assert_int_equal(x->os->pread(x->os->self, fd, buf, n, at), n);
  close_fd(x->os, fd);
}

void
rig_flip(struct rig *x, const char *path, off_t at)
{
  unsigned char byte;
  int fd = open_at(x->os, x->root, path, O_RDWR);

  assert_true(fd >= 0);
  assert_int_equal(x->os->pread(x->os->self, fd, &byte, 1, at), 1);
  byte ^= 1;
  assert_int_equal(x->os->pwrite(x->os->self, fd, &byte, 1, at), 1);
  close_fd(x->os, fd);
}

/* Everything below a directory, as text: names and contents. */
void
rig_describe(struct rig *x, const char *dir, struct qp__buf *out)
{
  struct names names;

  rig_list(x, dir, &names);
  for (size_t i = 0; i < names.count; i++) {
    char path[256];
    char data[FILE_LEN];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, names.list[i]);
    assert_int_equal(stat_of(x->os, x->root, path, &st), 0);
    if (S_ISDIR(st.st_mode)) {
      (void)qp__buf_addf(out, "%s/\n", path);
      rig_describe(x, path, out);
    } else {
      assert_true(get(x->os, x->root, path, data) >= 0);
      (void)qp__buf_addf(out, "%s: %s\n", path, data);
    }
  }
  assert_int_equal(out->rc, QP_OK);
}

void
rig_fail_no_more(struct rig *x)
{
  assert_true(qp__os_fault_fired(x->fault));
  qp__os_fault_disarm(x->fault);
  qp__os_fault_only(x->fault, QP__SLOT__MAX);
  assert_int_equal(qp__os_fault_filter(x->fault, NULL), 0);
}
