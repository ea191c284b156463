/* fuzz_storefile.c - any bytes as one of the small files of a store or a backup. The first byte
 * chooses which:
 *   'b'  backup.json: refused with a reason, or read
 *   'm'  manifest.b2, with the hash that backup.json would have of it
 *   'c'  catalogue.behind
 *   'k'  keys.json
 *   's'  an object with a checksum: with a new one it is right, and wrong when changed */
#include <fcntl.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/seal.h"
#include "http/keyfile.h"
#include "os/file.h"
#include "os_sim.h"
#include "store/backup/backup_int.h"
#include "store/catalogue/catalogue_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *what)
{
  (void)fprintf(stderr, "%s: %s\n", why, what);
  abort();
}

static void
must_have_reason(enum qp_rc rc, const struct qp_err *err)
{
  if (rc && !err->msg[0])
    die("refused without a reason", qp_rc_name(rc));
}

/* ---- files ---- */

static enum qp_rc
look_at_path(void *arg, const char *path, const uint8_t hash[16], struct qp_err *err)
{
  (void)arg;
  (void)hash;
  (void)err;
  if (strlen(path) >= 4096)
    die("a path that is too long", path);
  return QP_OK;
}

static void
try_manifest(const struct qp__os *os, int dir, const uint8_t *data, size_t size)
{
  struct qp__backup_info info = { .began_at = 0 };
  struct qp_err err = { QP_OK, "" };

  (void)crypto_generichash(info.manifest, sizeof(info.manifest), data, size, NULL, 0);
  must_have_reason(qp__manifest_read(os, dir, &info, look_at_path, NULL, &err), &err);
}

static void
try_info(const struct qp__os *os, int dir)
{
  struct qp__backup_info info;
  struct qp_err err = { QP_OK, "" };

  must_have_reason(qp__backup_info_read(os, dir, ".", &info, &err), &err);
}

static void
try_keys(const struct qp__os *os, int dir)
{
  struct qp__keyfile file = { NULL, 0, false };
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = qp__keyfile_load(os, dir, NULL, &file, &err);

  must_have_reason(rc, &err);
  for (size_t i = 0; !rc && i < file.count; i++)
    if (strlen(file.keys[i].id) != QP__KEY_ID - 1 || file.keys[i].scope == QP__SCOPE_NONE ||
        (file.keys[i].owner[0] && !qp__owner_ok(file.keys[i].owner)))
      die("half a key", file.keys[i].id);
  qp__keyfile_release(&file);
}

static void
try_file(char mode, const uint8_t *data, size_t size)
{
  static const char *const names[] = { QP__BACKUP_INFO, QP__BACKUP_MANIFEST, QP__KEYFILE_NAME };
  struct qp__os_sim *sim = qp__os_sim_new(1);
  const struct qp__os *os;
  int dir;

  if (!sim)
    return;
  os = qp__os_sim_os(sim);
  dir = os->open_root(os->self, "/data", 1);
  if (dir < 0 || qp__file_create(os, dir,
                                 names[mode == 'b'   ? 0
                                       : mode == 'm' ? 1
                                                     : 2],
                                 (struct qp_bytes){ (const char *)data, size }))
    die("cannot be written", "file");
  if (mode == 'b')
    try_info(os, dir);
  else if (mode == 'm')
    try_manifest(os, dir, data, size);
  else
    try_keys(os, dir);
  qp__close(os, dir);
  qp__os_sim_free(sim);
}

/* ---- texts ---- */

static void
try_behind(const uint8_t *data, size_t size)
{
  struct qp__idset set = { 0 };
  char *text = malloc(size + 1);
  uint64_t epoch = 0;

  if (!text)
    return;
  memcpy(text, data, size);
  text[size] = 0;
  (void)qp__cat_parse_behind(text, size, &epoch, &set);
  qp__idset_release(&set);
  free(text);
}

static struct qp__seal
look(struct qp_bytes text, uint32_t before)
{
  struct qp__seal seal;

  if (qp__seal_look(text, before, &seal, NULL))
    die("no memory", "checksum");
  if (seal.at_end && seal.body >= text.len)
    die("the checksum is behind the text", text.data);
  return seal;
}

/* Looking at any bytes is safe; an object loses its checksum and gets one that is right. */
static void
try_seal(const uint8_t *data, size_t size)
{
  struct qp_bytes text = { (const char *)data, size };
  struct qp__seal seal = look(text, 1);
  json_t *object = NULL;
  struct qp__buf line;

  if (qp__json_parse_object("input", text, &object, NULL))
    return;
  (void)json_object_del(object, QP__SEAL_KEY);
  qp__buf_init(&line, (size_t)1 << 26);
  if (json_object_size(object) && !qp__json_write(&line, object)) {
    if (qp__seal_line(&line, 0, 7, NULL, NULL))
      die("no memory", "checksum");
    if (look(qp__buf_bytes(&line), 7).state != QP__SUM_RIGHT)
      die("its own checksum is wrong", line.data);
    if (look(qp__buf_bytes(&line), 8).state != QP__SUM_WRONG)
      die("another line before it is not noticed", line.data);
    line.data[line.len - 3] ^= 1; /* the last digit */
    if (look(qp__buf_bytes(&line), 7).state != QP__SUM_WRONG)
      die("a change is not noticed", line.data);
  }
  qp__buf_reset(&line);
  if (qp__seal_strip(text, &seal, &line, NULL))
    die("the checksum cannot be removed", "line");
  qp__buf_release(&line);
  json_decref(object);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!size || sodium_init() < 0)
    return 0;
  if (data[0] == 'b' || data[0] == 'm' || data[0] == 'k')
    try_file((char)data[0], data + 1, size - 1);
  else if (data[0] == 'c')
    try_behind(data + 1, size - 1);
  else if (data[0] == 's')
    try_seal(data + 1, size - 1);
  return 0;
}
