/* test_pack_damage.c - packs with damage at every byte, hostile packs, and failures of every call
 * and allocation: never a crash, and never other bytes than those that were written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "alloc_fault.h"
#include "os/file.h"
#include "os_tools.h"
#include "pack_rig.h"

static struct pack_box box;

/* ---- damage ---- */

/* Three frames, the middle one of a message alone. */
static uint64_t
write_small(struct pack_rig *r)
{
  pack_add(&box, "branch-main", 40, false);
  pack_add(&box, "branch-b", 90, true);
  pack_add(&box, "branch-main", 40, false);
  pack_add(&box, "branch-main", QP__FRAME_TARGET + 10, false);
  pack_add(&box, "branch-b", 60, false);
  pack_add(&box, "branch-b", 60, true);
  return pack_write(r->os, r->root, pack_no_dict, &box);
}

static void
put_pack(struct pack_rig *r, const char *data, size_t len)
{
  struct qp_bytes bytes = { data, len };

  (void)r->os->unlinkat(r->os->self, r->root, PACK_PATH, 0);
  assert_int_equal(qp__file_create(r->os, r->root, PACK_PATH, bytes), 0);
}

/* Reads and scans; messages of frames other than the one with byte `at` are there. */
static void
check_damaged(struct pack_rig *r, uint64_t at)
{
  struct qp__pack_cache *c = pack_cache(r->os, r->root);
  struct pack_walk w = { .box = &box };
  bool damaged = false;
  struct qp_err err;

  for (size_t i = 0; i < box.count; i++) {
    uint64_t next = UINT64_MAX;
    enum qp_rc rc;

    for (size_t k = box.count; k-- > i;)
      next = box.place[k].frame > box.place[i].frame ? box.place[k].frame : next;
    rc = pack_read_one(c, &box, i, &err);
    if (at < box.place[i].frame || at >= next)
      assert_int_equal(rc, QP_OK);
    else
      assert_true(rc == QP_OK || rc == QP_CORRUPT);
  }
  assert_int_equal(pack_try_scan(r->os, r->root, &w, &damaged, &err), QP_OK);
  assert_true(damaged || (!w.skipped && !w.nameless));
  assert_true(w.skipped <= 3);
  qp__pack_cache_free(c);
}

static void
test_damage_at_every_byte(void **state)
{
  static const unsigned char masks[] = { 0x01, 0x04, 0x20, 0x80, 0xff };
  struct qp__buf text;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  (void)write_small(&r);
  qp__buf_init(&text, (size_t)1 << 20);
  assert_int_equal(qp__file_read(r.os, r.root, PACK_PATH, &text), 0);
  for (size_t at = 0; at < text.len; at++)
    for (size_t m = 0; m < sizeof(masks); m++) {
      text.data[at] = (char)(text.data[at] ^ masks[m]);
      put_pack(&r, text.data, text.len);
      check_damaged(&r, at);
      text.data[at] = (char)(text.data[at] ^ masks[m]);
    }
  put_pack(&r, text.data, text.len);
  pack_scan_all(r.os, r.root, &box);
  qp__buf_release(&text);
  pack_empty(&box);
  pack_rig_down(&r);
}

/* Cut at every length, and a piece taken out or put in at every place. */
static void
test_cuts_and_insertions(void **state)
{
  struct qp__buf text;
  struct qp__buf odd;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  (void)write_small(&r);
  qp__buf_init(&text, (size_t)1 << 20);
  qp__buf_init(&odd, (size_t)1 << 20);
  assert_int_equal(qp__file_read(r.os, r.root, PACK_PATH, &text), 0);
  for (size_t at = 0; at <= text.len; at++) {
    struct pack_walk w = { .box = &box, .moved = true };
    bool is_end = at == text.len;
    bool damaged = false;
    struct qp_err err;

    for (size_t i = 0; i < box.count; i++)
      is_end |= box.place[i].frame == at;
    put_pack(&r, text.data, at);
    assert_int_equal(pack_try_scan(r.os, r.root, &w, &damaged, &err), QP_OK);
    assert_int_equal(damaged, !is_end);

    w = (struct pack_walk){ .box = &box, .moved = true };
    qp__buf_reset(&odd);
    (void)qp__buf_add(&odd, text.data, at);
    (void)qp__buf_add_str(&odd, "(\xb5/\xfdP*M\x18 some text that is no frame");
    (void)qp__buf_add(&odd, text.data + at, text.len - at);
    put_pack(&r, odd.data, odd.len);
    assert_int_equal(pack_try_scan(r.os, r.root, &w, &damaged, &err), QP_OK);
    assert_true(damaged && w.skipped <= 3);
    assert_true(!is_end || w.skipped == 0);
  }
  qp__buf_release(&text);
  qp__buf_release(&odd);
  pack_empty(&box);
  pack_rig_down(&r);
}

/* A frame as any tool could make it. */
static void
put_frame(struct pack_rig *r, struct qp_bytes content, bool checksum, bool size)
{
  size_t cap = ZSTD_compressBound(content.len) + 64;
  char *out = malloc(cap);
  ZSTD_CCtx *cctx = ZSTD_createCCtx();
  size_t n;

  assert_true(out && cctx);
  (void)ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, checksum);
  (void)ZSTD_CCtx_setParameter(cctx, ZSTD_c_contentSizeFlag, size);
  n = ZSTD_compress2(cctx, out, cap, content.data, content.len);
  assert_false(ZSTD_isError(n));
  put_pack(r, out, n);
  (void)ZSTD_freeCCtx(cctx);
  free(out);
}

static void
expect(struct pack_rig *r, uint64_t frame, uint32_t pos, uint32_t size, const char *message)
{
  struct qp__pack_cache *c = pack_cache(r->os, r->root);
  struct qp_err err = { QP_OK, "" };
  struct qp__buf out;
  enum qp_rc rc;

  qp__buf_init(&out, (size_t)1 << 30);
  rc = qp__pack_read(c, PACK_PATH, NULL, frame, pos, size, &out, &err);
  if (!message) {
    assert_int_equal(rc, QP_OK);
  } else {
    assert_int_equal(rc, QP_CORRUPT);
    if (!strstr(err.msg, message))
      fail_msg("'%s' is not in: %s", message, err.msg);
    assert_int_equal(out.len, 0);
  }
  qp__buf_release(&out);
  qp__pack_cache_free(c);
}

static enum qp_rc
see_none(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
         struct qp_err *err)
{
  (void)dir;
  (void)frame;
  (void)pos;
  (void)err;
  ++*(size_t *)arg;
  return json.len > 2 ? QP_STOPPED : QP_OK;
}

static void
test_hostile_packs(void **state)
{
  /* A frame that tells of 2^40 bytes, or of 900 MB, and has one block. */
  static const char huge[] = "(\xb5/\xfd\xe4\0\0\0\0\0\1\0\0\x01\0\0";
  static const char large[] = "(\xb5/\xfd\xa4\0\0\xa4\x35\x01\0\0\0\0\0\0";
  /* A header of 4 GB. */
  static const char header[] = "P*M\x18\xff\xff\xff\xff{\"quipu-pack\":1,";
  char *zeros = calloc(1, 3 << 20);
  struct qp_err err;
  bool damaged = false;
  size_t seen = 0;
  struct pack_rig r;

  (void)state;
  assert_non_null(zeros);
  pack_rig_up(&r);
  put_frame(&r, (struct qp_bytes){ "{}\n[]\nx\n", 8 }, true, true);
  expect(&r, 0, 0, 2, NULL);
  expect(&r, 0, 3, 2, NULL);
  expect(&r, 0, 6, 1, NULL);
  expect(&r, 0, 6, 2, "no message of 2 bytes");
  expect(&r, 0, 0, 1, "no message");
  expect(&r, 0, 0, 5, "no message"); /* two lines */
  expect(&r, 0, 1, 1, "no message");
  expect(&r, 0, 8, 0, "no message");
  expect(&r, 0, UINT32_MAX, 1, "no message");
  expect(&r, 0, 0, UINT32_MAX, "cannot contain a message");
  expect(&r, 0, 1, UINT32_MAX - (1 << 28), "cannot contain a message");
  expect(&r, 1, 0, 2, "there is no frame");
  expect(&r, 5000, 0, 2, "the file ends there");
  expect(&r, UINT64_MAX, 0, 2, "the file is shorter");
  expect(&r, (uint64_t)1 << 62, 0, 2, "the file ends there");
  /* Frames without a header are visited all the same, and the visitor can stop. */
  assert_int_equal(qp__pack_scan(r.os, r.root, PACK_PATH, NULL, see_none, &seen, &damaged, &err),
                   QP_OK);
  assert_true(seen == 3 && damaged);
  put_frame(&r, (struct qp_bytes){ "{}\nlong\nx\n", 10 }, true, true);
  seen = 0;
  assert_int_equal(qp__pack_scan(r.os, r.root, PACK_PATH, NULL, see_none, &seen, &damaged, &err),
                   QP_STOPPED);
  assert_int_equal(seen, 2);
  put_frame(&r, (struct qp_bytes){ "{}\n", 3 }, false, true);
  expect(&r, 0, 0, 2, "has no checksum");
  put_frame(&r, (struct qp_bytes){ "{}\n", 3 }, true, false);
  expect(&r, 0, 0, 2, "no content size");
  put_frame(&r, (struct qp_bytes){ zeros, 3 << 20 }, true, true); /* 3 MB from 100 bytes */
  expect(&r, 0, 0, 2, "exceeds its limit");
  expect(&r, 0, 1, 2 << 20, "exceeds its limit");
  put_pack(&r, huge, sizeof(huge) - 1);
  expect(&r, 0, 0, 2, "exceeds its limit");
  put_pack(&r, large, sizeof(large) - 1);
  expect(&r, 0, 0, 2, "exceeds its limit");
  put_pack(&r, header, sizeof(header) - 1);
  expect(&r, 0, 0, 2, "header is too long");
  assert_int_equal(make_dir(r.os, r.root, "c/dir"), 0);
  put_pack(&r, "", 0);
  expect(&r, 0, 0, 2, "the file ends there");
  free(zeros);
  pack_rig_down(&r);
}

static void
test_a_missing_pack_is_not_found(void **state)
{
  struct qp__pack_cache *c;
  struct qp__buf out;
  bool damaged = false;
  struct qp_err err;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  c = pack_cache(r.os, r.root);
  qp__buf_init(&out, 100);
  assert_int_equal(qp__pack_read(c, PACK_PATH, NULL, 0, 0, 2, &out, &err), QP_NOTFOUND);
  assert_int_equal(qp__pack_scan(r.os, r.root, PACK_PATH, NULL, see_none, NULL, &damaged, &err),
                   QP_NOTFOUND);
  assert_int_equal(qp__pack_read(c, "c", NULL, 0, 0, 2, &out, &err), QP_CORRUPT);
  qp__buf_release(&out);
  qp__pack_cache_free(c);
  pack_rig_down(&r);
}

/* ---- failures ---- */

/* Everything once; answers the first failure. A pack that was not finished is not there. */
static enum qp_rc
live(struct pack_rig *r, struct qp_bytes dict, struct qp_err *err)
{
  struct pack_walk w = { .box = &box };
  struct qp__pack_cache *c = NULL;
  bool damaged = false;
  uint64_t bytes = 0;
  enum qp_rc rc;

  rc = pack_try_write(r->os, r->root, "c/old", NULL, 0, dict, &box, 0, 20, &bytes, err);
  if (!rc)
    rc = pack_try_write(r->os, r->root, PACK_PATH, "c/old", bytes, dict, &box, 20, box.count,
                        &bytes, err);
  if (rc)
    return rc;
  rc = pack_try_scan(r->os, r->root, &w, &damaged, err);
  assert_false(damaged);
  if (!rc)
    rc = qp__pack_cache_new(r->os, r->root, &c, err);
  for (size_t i = 0; !rc && i < box.count; i += 7)
    rc = pack_read_one(c, &box, i, err);
  qp__pack_cache_free(c);
  return rc;
}

static void
clear(struct pack_rig *r)
{
  (void)r->os->unlinkat(r->os->self, r->root, "c/old", 0);
  (void)r->os->unlinkat(r->os->self, r->root, PACK_PATH, 0);
}

static void
test_every_call_may_fail(void **state)
{
  static const enum qp__os_fault_kind kinds[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC, QP__FAULT_EINTR,
                                                  QP__FAULT_SHORT };
  struct qp__buf dict;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  pack_fill_alike(&box, 150);
  pack_add(&box, "branch-b", 50000, true);
  pack_train(&box, 100000, &dict);
  assert_true(dict.len);
  pack_put_dict(&r, qp__buf_bytes(&dict));
  for (size_t k = 0; k < 4; k++) {
    bool fired = true;

    for (uint64_t n = 1; fired; n++) {
      struct qp_err err = { QP_OK, "" };
      uint64_t open = qp__os_fault_open_count(r.fault);
      enum qp_rc rc;

      qp__os_fault_arm(r.fault, n, kinds[k], false);
      rc = live(&r, qp__buf_bytes(&dict), &err);
      fired = qp__os_fault_fired(r.fault);
      qp__os_fault_disarm(r.fault);
      assert_int_equal(qp__os_fault_open_count(r.fault), open);
      if (!fired || k >= 2)
        assert_int_equal(rc, QP_OK);
      else
        assert_true((rc == QP_IO || rc == QP_FULL) && strlen(err.msg) > 10);
      clear(&r);
    }
  }
  qp__buf_release(&dict);
  pack_empty(&box);
  pack_rig_down(&r);
}

static void
test_every_allocation_may_fail(void **state)
{
  struct qp__buf samples;
  struct qp__buf dict;
  bool fired = true;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  pack_fill_alike(&box, 150);
  pack_add(&box, "branch-b", 50000, true);
  pack_train(&box, 100000, &dict);
  pack_put_dict(&r, qp__buf_bytes(&dict));
  for (long n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    uint64_t open = qp__os_fault_open_count(r.fault);
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = live(&r, qp__buf_bytes(&dict), &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(qp__os_fault_open_count(r.fault), open);
    assert_true(!rc || rc == QP_NOMEM || rc == QP_IO || rc == QP_FULL); /* the others: os_sim's */
    assert_true(fired || !rc);
    clear(&r);
  }
  qp__buf_init(&samples, (size_t)1 << 20);
  for (size_t i = 0; i < box.count; i++)
    assert_int_equal(qp__buf_add(&samples, box.json[i], box.len[i]), QP_OK);
  fired = true;
  for (long n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc;

    qp__buf_release(&dict);
    alloc_fault_arm(n);
    rc = qp__dict_train(qp__buf_bytes(&samples), box.len, box.count, 100000, &dict, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
    assert_int_equal(dict.len == 0, fired);
  }
  qp__buf_release(&samples);
  qp__buf_release(&dict);
  pack_empty(&box);
  pack_rig_down(&r);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_damage_at_every_byte), cmocka_unit_test(test_cuts_and_insertions),
    cmocka_unit_test(test_hostile_packs),        cmocka_unit_test(test_a_missing_pack_is_not_found),
    cmocka_unit_test(test_every_call_may_fail),  cmocka_unit_test(test_every_allocation_may_fail),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
