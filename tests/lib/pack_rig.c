/* pack_rig.c - see pack_rig.h. */
#include "pack_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "os/file.h"
#include "os_tools.h"

const struct qp_bytes pack_no_dict = { NULL, 0 };

/* ---- messages ---- */

uint64_t
pack_random(uint64_t *seed)
{
  uint64_t z = *seed += 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Adds a message of about `len` bytes: words that repeat, or noise. */
void
pack_add(struct pack_box *b, const char *dir, size_t len, bool noise)
{
  static const char *const words[] = { "river", "garden", "morning", "letter", "window", "answer" };
  uint64_t seed = b->count + 1;
  size_t cap = len + 64;
  char *json = malloc(cap);
  size_t n;

  assert_non_null(json);
  n = (size_t)snprintf(json, cap, "{\"id\":\"%016llx\",\"role\":\"user\",\"text\":\"",
                       (unsigned long long)pack_random(&seed));
  while (n < len) {
    if (noise)
      json[n++] = (char)('#' + pack_random(&seed) % 57); /* no quote, no backslash */
    else
      n += (size_t)snprintf(json + n, cap - n, "%s ", words[pack_random(&seed) % 6]);
  }
  n += (size_t)snprintf(json + n, cap - n, "\"}");
  b->json[b->count] = json;
  b->len[b->count] = n;
  b->dir[b->count++] = dir;
  assert_true(b->count <= PACK_MAX);
}

void
pack_empty(struct pack_box *b)
{
  for (size_t i = 0; i < b->count; i++)
    free(b->json[i]);
  b->count = 0;
}

/* ---- packs ---- */

void
pack_rig_up(struct pack_rig *r)
{
  r->sim = qp__os_sim_new(1);
  assert_non_null(r->sim);
  r->fault = qp__os_fault_new(qp__os_sim_os(r->sim));
  assert_non_null(r->fault);
  r->os = qp__os_fault_os(r->fault);
  r->root = root_of(r->os);
  assert_int_equal(make_dir(r->os, r->root, "c"), 0);
}

void
pack_rig_down(struct pack_rig *r)
{
  qp__close(r->os, r->root);
  assert_int_equal(qp__os_fault_open_count(r->fault), 0);
  qp__os_fault_free(r->fault);
  qp__os_sim_free(r->sim);
}

/* Writes messages from..to of the box after `kept` bytes of the pack `old`. */
enum qp_rc
pack_try_write(const struct qp__os *os, int root, const char *name, const char *old, uint64_t kept,
               struct qp_bytes dict, struct pack_box *b, size_t from, size_t to, uint64_t *bytes,
               struct qp_err *err)
{
  struct qp__pack_writer *w = NULL;
  enum qp_rc rc = qp__pack_create(os, root, name, dict, 0, &w, err);

  if (!rc && kept)
    rc = qp__pack_copy(w, root, old, kept, err);
  for (size_t i = from; !rc && i < to; i++) {
    struct qp_bytes json = { b->json[i], b->len[i] };

    rc = qp__pack_add(w, b->dir[i], json, &b->place[i].frame, &b->place[i].pos, err);
  }
  if (!rc)
    rc = qp__pack_finish(w, bytes, err);
  qp__pack_free(w);
  return rc;
}

uint64_t
pack_write(const struct qp__os *os, int root, struct qp_bytes dict, struct pack_box *b)
{
  struct qp_err err = { QP_OK, "" };
  uint64_t bytes = 0;

  (void)os->unlinkat(os->self, root, PACK_PATH, 0);
  if (pack_try_write(os, root, PACK_PATH, NULL, 0, dict, b, 0, b->count, &bytes, &err))
    fail_msg("%s", err.msg);
  return bytes;
}

struct qp__pack_cache *
pack_cache(const struct qp__os *os, int root)
{
  struct qp__pack_cache *c;
  struct qp_err err;

  assert_int_equal(qp__pack_cache_new(os, root, &c, &err), QP_OK);
  return c;
}

/* Reads message i. If it can be read, it must be the message that was written. */
enum qp_rc
pack_read_one(struct qp__pack_cache *c, const struct pack_box *b, size_t i, struct qp_err *err)
{
  struct qp__buf out;
  enum qp_rc rc;

  qp__buf_init(&out, (size_t)1 << 30);
  if (qp__buf_add_char(&out, '>'))
    return QP_NOMEM;
  rc = qp__pack_read(c, PACK_PATH, PACK_DICT, b->place[i].frame, b->place[i].pos,
                     (uint32_t)b->len[i], &out, err);
  if (rc) {
    assert_int_equal(out.len, 1);
    assert_true(strlen(err->msg) > 10 && err->rc == rc);
  } else {
    assert_int_equal(out.len, b->len[i] + 1);
    assert_memory_equal(out.data + 1, b->json[i], b->len[i]);
  }
  qp__buf_release(&out);
  return rc;
}

void
pack_read_all(struct qp__pack_cache *c, const struct pack_box *b)
{
  struct qp_err err = { QP_OK, "" };

  for (size_t i = 0; i < b->count; i++)
    if (pack_read_one(c, b, i, &err))
      fail_msg("message %zu: %s", i, err.msg);
}

/* ---- scanning ---- */

static enum qp_rc
see(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
    struct qp_err *err)
{
  struct pack_walk *w = arg;
  const struct pack_box *b = w->box;
  size_t i = w->next;

  (void)err;
  while (i < b->count && (json.len != b->len[i] || memcmp(json.data, b->json[i], json.len) != 0))
    i++;
  if (i == b->count)
    fail_msg("a message that was never written, or in another order: %.*s", (int)json.len,
             json.data);
  w->skipped += i - w->next;
  w->next = i + 1;
  w->nameless += !*dir;
  if (*dir)
    assert_string_equal(dir, b->dir[i]);
  if (!w->moved) {
    assert_true(frame == b->place[i].frame || !*dir);
    assert_int_equal(pos, b->place[i].pos);
  }
  return QP_OK;
}

enum qp_rc
pack_try_scan(const struct qp__os *os, int root, struct pack_walk *w, bool *damaged,
              struct qp_err *err)
{
  enum qp_rc rc = qp__pack_scan(os, root, PACK_PATH, PACK_DICT, see, w, damaged, err);

  w->skipped += rc ? 0 : w->box->count - w->next;
  return rc;
}

void
pack_scan_all(const struct qp__os *os, int root, const struct pack_box *b)
{
  struct pack_walk w = { .box = b };
  bool damaged = true;
  struct qp_err err = { QP_OK, "" };

  if (pack_try_scan(os, root, &w, &damaged, &err))
    fail_msg("%s", err.msg);
  assert_false(damaged);
  assert_int_equal(w.skipped, 0);
  assert_int_equal(w.nameless, 0);
}

/* ---- dictionaries ---- */

/* Messages that have much text in common, like those of one agent. */
void
pack_fill_alike(struct pack_box *b, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    uint64_t seed = i;

    b->json[i] = malloc(800);
    assert_non_null(b->json[i]);
    b->len[i] = (size_t)snprintf(
        b->json[i], 800,
        "{\"id\":\"%016llx\",\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"find_flights\","
        "\"arguments\":{\"origin\":\"city %llu\",\"date\":\"2026-11-%02llu\"}}],\"text\":\"I have "
        "found %llu flights that match what you asked for. Shall I book the one at %llu?\"}",
        (unsigned long long)pack_random(&seed), (unsigned long long)(pack_random(&seed) % 90),
        (unsigned long long)(pack_random(&seed) % 30), (unsigned long long)(i % 17),
        (unsigned long long)(pack_random(&seed) % 2400));
    b->dir[i] = "branch-main";
  }
  b->count = count;
}

void
pack_train(const struct pack_box *b, uint64_t scale, struct qp__buf *dict)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf samples;

  qp__buf_init(&samples, (size_t)1 << 30);
  for (size_t i = 0; i < b->count; i++)
    assert_int_equal(qp__buf_add(&samples, b->json[i], b->len[i]), QP_OK);
  qp__buf_init(dict, (size_t)1 << 20);
  if (qp__dict_train(qp__buf_bytes(&samples), b->len, b->count, scale, dict, &err))
    fail_msg("%s", err.msg);
  qp__buf_release(&samples);
}

void
pack_put_dict(struct pack_rig *r, struct qp_bytes dict)
{
  (void)r->os->unlinkat(r->os->self, r->root, PACK_DICT, 0);
  assert_int_equal(qp__file_create(r->os, r->root, PACK_DICT, dict), 0);
}
