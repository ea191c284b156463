/* fuzz_legacy.c - everything that opens as an old context must be detected as one, be stored
 * without a difference, convert back to the same value, and give the same bytes when it is migrated
 * again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "legacy_rig.h"
#include "legacy_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *detail)
{
  (void)fprintf(stderr, "%s: %s\n", why, detail);
  abort();
}

/* Opens and stores. False: it is refused, as it may be the first time. */
static bool
take(const struct legacy_file *file, struct legacy_stored *stored, struct qp__buf *back)
{
  struct qp__legacy_source *l = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf differences;
  enum qp_legacy format = QP_LEGACY_NONE;
  enum qp_rc rc;

  qp__buf_init(&differences, TEXT_MAX);
  if (qp__legacy_detect(file->os, file->dir, CTX ".json", &format, &err))
    die("cannot be looked at", err.msg);
  rc = legacy_file_open(file, &l, &err);
  if (!rc && format != QP_LEGACY_MONOLITH)
    die("opens and is not detected", "");
  if (!rc)
    rc = legacy_store(l, stored, &differences, &err);
  if (!rc && differences.len)
    die("differs", differences.data);
  if (!rc && legacy_write_back(stored, l, back, &err))
    die("cannot be written back", err.msg);
  if (rc && !err.msg[0])
    die("refused without a reason", "");
  if (rc && rc != QP_INVALID && rc != QP_TOOBIG)
    die("refused for a reason that is none", err.msg);
  qp__buf_release(&differences);
  qp__legacy_close(l);
  return !rc;
}

static void
check_same_value(const uint8_t *data, size_t size, const struct qp__buf *back)
{
  struct qp_bytes input = { (const char *)data, size };
  struct qp_err err = { QP_OK, "" };
  json_t *was = NULL;
  json_t *is = NULL;

  if (qp__json_parse("input", input, &was, &err))
    die("was taken and is no JSON", err.msg);
  if (qp__json_parse("output", qp__buf_bytes(back), &is, &err))
    die("is no JSON when it comes back", err.msg);
  if (!json_equal(was, is))
    die("comes back as something else", back->data);
  json_decref(was);
  json_decref(is);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct legacy_stored first = { NULL, 0, NULL, NULL, 0 };
  struct legacy_stored second = { NULL, 0, NULL, NULL, 0 };
  struct legacy_file file;
  struct qp__buf back;
  struct qp__buf again;
  bool taken;

  qp__buf_init(&back, TEXT_MAX);
  qp__buf_init(&again, TEXT_MAX);
  legacy_file_make_bytes(&file, (const char *)data, size);
  taken = take(&file, &first, &back);
  legacy_file_release(&file);
  if (taken) {
    check_same_value(data, size, &back);
    legacy_file_make_bytes(&file, back.data, back.len);
    if (!take(&file, &second, &again))
      die("is refused the second time", back.data);
    if (!legacy_stored_equal(&first, &second))
      die("is stored in another way the second time", back.data);
    legacy_file_release(&file);
  }
  legacy_stored_release(&first);
  legacy_stored_release(&second);
  qp__buf_release(&back);
  qp__buf_release(&again);
  return 0;
}
