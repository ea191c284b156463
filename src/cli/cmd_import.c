/* cmd_import.c - `quipu import`: imports conversations from files of other programs. The format of
 * a file is detected by words that every file of that format contains. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/out.h"

#define FILES_MAX 10000
#define PIECE ((size_t)64 << 10)
#define MARK_MAX 64
#define MARKS_MAX 8

enum { OPT_DRY_RUN };

static const struct cli_option options[] = {
  [OPT_DRY_RUN] = { "dry-run", 'n', NULL, "read and compare everything, write nothing", NULL },
  { 0 },
};

/* ---- formats ---- */

typedef enum qp_rc import_fn(struct qp_store *store, const char *path, unsigned flags,
                             qp_import_visit *visit, void *arg, struct qp_err *err);

static const struct format {
  const char *name;
  import_fn *import; /* NULL: 'quipu migrate' reads it */
  const char
      *marks[MARKS_MAX]; /* every file of the format contains one of these; shorter than MARK_MAX */
} formats[] = {
  { "localstorage",
    qp_localstorage_import,
    { "copilot_chats", "copilot_messages", "copilot_migration_backup_v1", "copilot_system_prompts",
      "copilot_custom_system_prompts" } },
  { "old context", NULL, { "\"message_pool\"" } },
};

#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

static const struct format *
find_marks(const char *text, size_t n)
{
  for (size_t i = 0; i < FORMAT_COUNT; i++)
    for (size_t k = 0; k < MARKS_MAX && formats[i].marks[k]; k++)
      if (memmem(text, n, formats[i].marks[k], strlen(formats[i].marks[k])))
        return &formats[i];
  return NULL;
}

static ssize_t
read_piece(int fd, char *out, size_t n)
{
  ssize_t got;

  do
    got = read(fd, out, n);
  while (got < 0 && errno == EINTR);
  return got;
}

/* The format of the file; *out is NULL if it is unknown. */
static enum qp_rc
detect(const char *path, const struct format **out, struct qp_err *err)
{
  char text[MARK_MAX + PIECE];
  size_t kept = 0; /* from the previous block: a mark may cross the border */
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = 0;

  if (fd < 0)
    return qp__fail_sys(err, -errno, "cannot open '%.150s'", path);
  *out = NULL;
  while (!*out && (got = read_piece(fd, text + kept, PIECE)) > 0) {
    size_t n = kept + (size_t)got;

    *out = find_marks(text, n);
    kept = n < MARK_MAX ? n : MARK_MAX;
    memmove(text, text + n - kept, kept);
  }
  if (got < 0)
    (void)qp__fail_sys(err, -errno, "cannot read '%.150s'", path);
  (void)close(fd);
  return got < 0 ? err->rc : QP_OK;
}

/* ---- where it comes from ---- */

static enum qp_rc
write_all(int fd, const char *data, size_t n, struct qp_err *err)
{
  while (n) {
    ssize_t put = write(fd, data, n);

    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return qp__fail_sys(err, -errno, "cannot write a temporary file");
    data += put;
    n -= (size_t)put;
  }
  return QP_OK;
}

/* Copies input that cannot be read twice, such as a pipe, to a temporary file. */
static enum qp_rc
spool(int from, char path[PATH_MAX], struct qp_err *err)
{
  const char *tmp = getenv("TMPDIR");
  char piece[PIECE];
  ssize_t got;
  enum qp_rc rc = QP_OK;
  int fd;

  (void)snprintf(path, PATH_MAX, "%s/quipu-import-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
  fd = mkstemp(path);
  if (fd < 0) {
    path[0] = 0;
    return qp__fail_sys(err, -errno, "cannot create a temporary file");
  }
  while (!rc && (got = read_piece(from, piece, sizeof(piece))) != 0)
    rc = got < 0 ? qp__fail_sys(err, -errno, "cannot read the input")
                 : write_all(fd, piece, (size_t)got, err);
  (void)close(fd);
  return rc;
}

/* A path that the library can read: `out`. *spooled: it must be removed afterwards. */
static enum qp_rc
find_file(const char *word, char out[PATH_MAX], bool *spooled, struct qp_err *err)
{
  struct stat st;
  int fd = STDIN_FILENO;
  enum qp_rc rc;

  *spooled = false;
  if (strcmp(word, "-") != 0) {
    if (stat(word, &st))
      return qp__fail_sys(err, -errno, "cannot open '%.150s'", word);
    if (S_ISDIR(st.st_mode))
      return qp__fail(err, QP_INVALID, "'%.150s' is a directory; name the files in it", word);
    if (S_ISREG(st.st_mode) && realpath(word, out))
      return QP_OK;
    fd = open(word, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return qp__fail_sys(err, -errno, "cannot open '%.150s'", word);
  }
  rc = spool(fd, out, err);
  *spooled = out[0] != 0;
  if (fd != STDIN_FILENO)
    (void)close(fd);
  return rc;
}

/* ---- reporting ---- */

struct counts {
  uint64_t chats;   /* imported, or extended */
  uint64_t already; /* chats that exist already */
  uint64_t prompts; /* new prompts */
  uint64_t messages;
  uint64_t failed; /* items of any kind */
  uint64_t notes;
};

struct import {
  struct cli *cli;
  const char *file;
  bool dry;
  struct counts count;
  struct qp_err first; /* first failure */
  struct qp_err *err;
};

static bool
is_chat(const struct qp_import_report *report)
{
  return !qp_uuid_is_none(&report->context);
}

static void
count_report(struct import *im, const char *item, const struct qp_import_report *report)
{
  struct counts *c = &im->count;

  c->notes += report->note_count;
  switch (report->outcome) {
  case QP_IMPORT_DONE:
    if (is_chat(report)) {
      c->chats++;
      c->messages += report->messages;
    } else if (strncmp(item, "prompt ", 7) == 0) {
      c->prompts++;
    }
    break;
  case QP_IMPORT_ALREADY:
    c->already += is_chat(report);
    break;
  case QP_IMPORT_FAILED:
    if (!c->failed++)
      im->first = report->err;
    break;
  }
}

static enum qp_rc
print_report_json(struct import *im, const char *item, const struct qp_import_report *report)
{
  return cli_put_json(
      json_pack("{s:o, s:o, s:s, s:o, s:I, s:I, s:o, s:o}", "file", cli_json_string(im->file),
                "item", cli_json_string(item), "outcome", qp_import_outcome_name(report->outcome),
                "context", cli_json_uuid(&report->context), "messages",
                (json_int_t)report->messages, "bytes", (json_int_t)report->bytes, "notes",
                cli_json_notes(report), "error", cli_json_error(&report->err)),
      im->err);
}

static const char *
outcome_word(const struct import *im, const struct qp_import_report *report)
{
  switch (report->outcome) {
  case QP_IMPORT_DONE:
    return im->dry ? "would import" : "imported";
  case QP_IMPORT_ALREADY:
    return "already there";
  case QP_IMPORT_FAILED:
    break;
  }
  return "left out";
}

static void
print_report(struct import *im, const char *item, const struct qp_import_report *report)
{
  char id[QP_UUID_TEXT];
  char bytes[CLI_BYTES_TEXT];
  bool failed = report->outcome == QP_IMPORT_FAILED;

  if (!failed && !is_chat(report) && strncmp(item, "prompt ", 7) != 0)
    printf("note: "); /* only a note */
  else
    printf("%s: ", outcome_word(im, report));
  cli_put_word(stdout, item);
  if (failed) {
    fputs(": ", stdout);
    cli_put_word(stdout, report->err.msg);
  } else if (is_chat(report)) {
    if (!strstr(item, qp_uuid_text(&report->context, id))) /* its id has changed */
      printf(" as %s", id);
    if (report->outcome == QP_IMPORT_DONE)
      printf(", %llu message%s, %s", (unsigned long long)report->messages,
             cli_plural(report->messages), cli_bytes_text(report->bytes, bytes));
  }
  putchar('\n');
  for (size_t i = 0; i < report->note_count && im->cli->verbose; i++) {
    fputs("  note: ", stdout);
    cli_put_word(stdout, report->notes[i]);
    putchar('\n');
  }
}

static enum qp_rc
visit_report(void *arg, const char *item, const struct qp_import_report *report)
{
  struct import *im = arg;
  bool remark =
      report->outcome == QP_IMPORT_DONE && !is_chat(report) && strncmp(item, "prompt ", 7) != 0;

  count_report(im, item, report);
  if (im->cli->json)
    return print_report_json(im, item, report);
  if (!remark || im->cli->verbose)
    print_report(im, item, report);
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static enum qp_rc
print_summary(const struct import *im, struct qp_err *err)
{
  const struct counts *c = &im->count;

  if (im->cli->json)
    return cli_put_json(json_pack("{s:{s:b, s:I, s:I, s:I, s:I, s:I, s:I}}", "summary", "dry_run",
                                  im->dry, "chats", (json_int_t)c->chats, "already",
                                  (json_int_t)c->already, "prompts", (json_int_t)c->prompts,
                                  "messages", (json_int_t)c->messages, "left_out",
                                  (json_int_t)c->failed, "notes", (json_int_t)c->notes),
                        err);
  printf("%s%llu chat%s with %llu message%s and %llu prompt%s; %llu already there, %llu left out\n",
         im->dry ? "would import " : "imported ", (unsigned long long)c->chats,
         cli_plural(c->chats), (unsigned long long)c->messages, cli_plural(c->messages),
         (unsigned long long)c->prompts, cli_plural(c->prompts), (unsigned long long)c->already,
         (unsigned long long)c->failed);
  if (c->notes && !im->cli->verbose)
    printf("%llu note%s; --verbose shows %s\n", (unsigned long long)c->notes, cli_plural(c->notes),
           c->notes == 1 ? "it" : "them");
  return QP_OK;
}

/* ---- the command ---- */

static enum qp_rc
import_file(struct import *im, const char *word, struct qp_err *err)
{
  const struct format *format = NULL;
  char path[PATH_MAX] = "";
  bool spooled = false;
  enum qp_rc rc = find_file(word, path, &spooled, err);

  im->file = word;
  im->err = err;
  if (!rc)
    rc = detect(path, &format, err);
  if (!rc && !format)
    rc = qp__fail(err, QP_INVALID, "'%.150s' has no format that quipu can import", word);
  if (!rc && !format->import)
    rc = qp__fail(err, QP_INVALID, "'%.150s' is a context of an older program: use 'quipu migrate'",
                  word);
  if (!rc)
    rc = format->import(im->cli->store, path, im->dry ? QP_IMPORT_DRY_RUN : 0, visit_report, im,
                        err);
  if (spooled)
    (void)unlink(path);
  return rc;
}

/* A dry run needs no store: an empty one in memory is used. */
static enum qp_rc
open_store(struct cli *cli, bool dry, struct qp_err *err)
{
  enum qp_rc rc = cli_open(cli, dry ? CLI_READ : CLI_CREATE, err);

  return rc == QP_NOTFOUND && dry ? qp_store_open("memory:", NULL, &cli->store, err) : rc;
}

static enum qp_rc
run_import(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct import im = { .cli = cli, .dry = args->values[OPT_DRY_RUN] != NULL };
  struct qp_err bad = { QP_OK, "" }; /* of the first file that could not be read */
  size_t bad_count = 0;
  enum qp_rc rc = open_store(cli, im.dry, err);

  for (size_t i = 0; i < args->words.count && !rc; i++) {
    rc = import_file(&im, args->words.at[i], err);
    if (!rc || args->words.count == 1 || cli_out_failed())
      continue;
    cli_report(err, cli->json);
    if (!bad_count++)
      bad = *err;
    rc = QP_OK;
  }
  if (!rc)
    rc = print_summary(&im, err);
  if (rc)
    return rc;
  if (bad_count)
    return qp__fail(err, bad.rc, "%zu of %zu files could not be read", bad_count,
                    args->words.count);
  if (!im.count.failed)
    return QP_OK;
  return qp__fail(err, im.first.rc, "%llu item%s left out", (unsigned long long)im.count.failed,
                  im.count.failed == 1 ? " was" : "s were");
}

const struct cli_command cli_cmd_import = {
  .name = "import",
  .run = run_import,
  .summary = "import conversations from files of other programs",
  .usage = { "FILE… [--dry-run]" },
  .about = "Detects the format of each file; '-' is standard input. Supported: a dump of\n"
           "the LocalStorage of a chat page, as an object of keys (in the browser's\n"
           "console: copy(JSON.stringify(localStorage))). Each chat becomes a context with\n"
           "its id, times, title, pin and tool calls. Each prompt becomes a system prompt.\n"
           "Images become blobs.\n\n"
           "A chat is imported completely or not at all. Importing the same file again\n"
           "changes nothing. A later dump adds new messages to contexts that were not\n"
           "changed since. Items that cannot be imported are reported, one per line, and\n"
           "skipped. For contexts of older programs, {id}.json, see 'quipu migrate'.\n\n"
           "  quipu import dump.json --dry-run --verbose\n"
           "  quipu import dump.json\n\n"
           "Exit code 0: everything was imported or existed already. Otherwise: the code of\n"
           "the first item that failed.",
  .options = options,
  .words_min = 1,
  .words_max = FILES_MAX,
};
