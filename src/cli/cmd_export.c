/* cmd_export.c - `quipu export`: a conversation as a document for people, or as lines or one object
 * for programs.
 *
 * Messages are written one by one as the library visits them; only one is in memory at a time. The
 * file of --output gets its name only when it is complete. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/export_md.h"
#include "cli/marks.h"
#include "cli/out.h"

enum { OPT_FORMAT, OPT_BRANCH, OPT_OUTPUT };

static const struct cli_option options[] = {
  [OPT_FORMAT] = { "format", 'f', "md|json|jsonl", "output format (default: md)", NULL },
  [OPT_BRANCH] = { "branch", 'b', "B", "the branch to use (default: the active branch)", NULL },
  [OPT_OUTPUT] = { "output", 'o', "FILE", "write to this file (default: standard output)", NULL },
  { 0 },
};

enum format { FORMAT_MD, FORMAT_JSON, FORMAT_JSONL, FORMAT_COUNT };
static const char *const format_names[] = { "md", "json", "jsonl" };

/* A branch at the start of the export. */
struct branch {
  char *name;
  bool active;
  uint64_t messages;
};

struct export
{
  struct cli *cli;
  enum format format;
  struct qp_context *context;
  json_t *meta;
  struct branch *branches;
  size_t branch_count, branch_cap;
  const struct branch *branch; /* for md and jsonl */
  json_t *marks;               /* of that branch */
  struct export_md md;
  FILE *f;
  uint64_t written;
  uint64_t unavailable;
  struct qp_err *err;
};

/* ---- the output file ---- */

struct target {
  const char *path; /* NULL: standard output */
  char *temporary;  /* NULL: written in place, because it is not a regular file */
  FILE *f;
};

static enum qp_rc
open_temporary(struct target *target, struct qp_err *err)
{
  int fd;

  target->temporary = qp__strf("%s.part-%ld", target->path, (long)getpid());
  if (!target->temporary)
    return cli_fail_nomem(err);
  fd = open(target->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) {
    enum qp_rc rc = qp__fail_sys(err, -errno, "cannot write '%.150s'", target->path);

    qp__free(target->temporary);
    target->temporary = NULL;
    return rc;
  }
  target->f = fdopen(fd, "w");
  if (target->f)
    return QP_OK;
  (void)close(fd);
  return cli_fail_nomem(err);
}

static enum qp_rc
target_open(struct target *target, const char *path, struct qp_err *err)
{
  struct stat st;

  *target = (struct target){ .f = stdout };
  if (!path || strcmp(path, "-") == 0)
    return QP_OK;
  target->f = NULL;
  target->path = path;
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
    return open_temporary(target, err);
  target->f = fopen(path, "we");
  return target->f ? QP_OK : qp__fail_sys(err, -errno, "cannot write '%.150s'", path);
}

/* Renames a complete file, or removes an incomplete one. Returns rc, or its own failure. */
static enum qp_rc
target_close(struct target *target, enum qp_rc rc, struct qp_err *err)
{
  bool complete = rc == QP_OK || rc == QP_UNAVAILABLE;

  if (!target->path)
    return rc;
  if (target->f) {
    bool failed = ferror(target->f) || fflush(target->f) ||
                  (target->temporary && complete && fsync(fileno(target->f)));
    int error = errno;

    if ((fclose(target->f) || failed) && complete) {
      rc = qp__fail_sys(err, -error, "cannot write '%.150s'", target->path);
      complete = false;
    }
  }
  if (target->temporary && complete && rename(target->temporary, target->path)) {
    rc = qp__fail_sys(err, -errno, "cannot write '%.150s'", target->path);
    complete = false;
  }
  if (target->temporary && !complete)
    (void)unlink(target->temporary);
  qp__free(target->temporary);
  return rc;
}

/* ---- the branches ---- */

static enum qp_rc
add_branch(void *arg, const struct qp_branch_info *info)
{
  struct export *ex = arg;
  struct branch branch = {
    .name = qp__strdup(info->name),
    .active = info->active,
    .messages = info->messages,
  };

  if (branch.name && qp__vec_push(ex->branches, ex->branch_count, ex->branch_cap, branch))
    return QP_OK;
  qp__free(branch.name);
  return cli_fail_nomem(ex->err);
}

static enum qp_rc
find_branch(struct export *ex, const char *name, struct qp_err *err)
{
  for (size_t i = 0; i < ex->branch_count; i++)
    if (name ? strcmp(ex->branches[i].name, name) == 0 : ex->branches[i].active) {
      ex->branch = &ex->branches[i];
      return QP_OK;
    }
  return qp__fail(err, QP_NOTFOUND,
                  "no branch '%.200s' in this context; 'quipu branch CTX' lists them",
                  name ? name : cli_metadata_text(ex->meta, "active_branch_name"));
}

/* ---- messages ---- */

static void
count_message(struct export *ex, const struct qp_message_info *info)
{
  if (info->status != QP_STATUS_UNAVAILABLE) {
    ex->written++;
    return;
  }
  ex->unavailable++;
  cli_warn_unavailable(info);
}

static enum qp_rc
write_md(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct export *ex = arg;
  const json_t *mark = cli_marks_after(ex->marks, &info->id);
  enum qp_rc rc = cli_export_md_message(&ex->md, info, json, ex->err);

  count_message(ex, info);
  if (!rc && mark)
    cli_export_md_mark(&ex->md, mark);
  return rc || !ferror(ex->f) ? rc : QP_STOPPED;
}

/* The stored form cannot mark a message as unavailable, so it is omitted. */
static enum qp_rc
write_line(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct export *ex = arg;
  const json_t *mark = cli_marks_after(ex->marks, &info->id);

  count_message(ex, info);
  if (info->status != QP_STATUS_UNAVAILABLE) {
    cli_put_stored(ex->f, info, json);
    putc('\n', ex->f);
  }
  if (mark) {
    fputs("{\"compaction\":", ex->f);
    (void)json_dumpf(mark, ex->f, JSON_COMPACT);
    fputs("}\n", ex->f);
  }
  return ferror(ex->f) ? QP_STOPPED : QP_OK;
}

static enum qp_rc
write_item(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct export *ex = arg;

  fputs(ex->written + ex->unavailable ? ",\n" : "\n", ex->f);
  count_message(ex, info);
  cli_put_stored(ex->f, info, json);
  return ferror(ex->f) ? QP_STOPPED : QP_OK;
}

/* ---- the whole context as one object ---- */

static enum qp_rc
take_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp_uuid *id = arg;

  (void)json;
  *id = info->id;
  return QP_OK;
}

static enum qp_rc
same_at(struct export *ex, const struct branch *a, const struct branch *b, uint64_t position,
        bool *same)
{
  struct qp_uuid in_a = { 0 };
  struct qp_uuid in_b = { 0 };
  enum qp_rc rc = qp_messages_index(ex->context, a->name, position, 1, take_id, &in_a, ex->err);

  if (!rc)
    rc = qp_messages_index(ex->context, b->name, position, 1, take_id, &in_b, ex->err);
  if (!rc)
    *same = qp_uuid_equal(&in_a, &in_b);
  return rc;
}

/* The number of messages that two branches share. These are the first messages of both, because the
 * parent of a message is the same in all branches: so a binary search finds the end. */
static enum qp_rc
shared(struct export *ex, const struct branch *a, const struct branch *b, uint64_t *out)
{
  uint64_t low = 0;
  uint64_t high = a->messages < b->messages ? a->messages : b->messages;

  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    bool same = false;
    enum qp_rc rc = same_at(ex, a, b, middle, &same);

    if (rc)
      return rc;
    if (same)
      low = middle + 1;
    else
      high = middle;
  }
  *out = low;
  return QP_OK;
}

/* The messages of branch `i` that no earlier branch has. */
static enum qp_rc
write_own(struct export *ex, size_t i)
{
  const struct branch *branch = &ex->branches[i];
  uint64_t first = 0;

  for (size_t k = 0; k < i; k++) {
    uint64_t common = 0;
    enum qp_rc rc = shared(ex, &ex->branches[k], branch, &common);

    if (rc)
      return rc;
    if (common > first)
      first = common;
  }
  return qp_messages_range(ex->context, branch->name, first, branch->messages - first, write_item,
                           ex, ex->err);
}

struct id_list {
  FILE *f;
  uint64_t count;
};

static enum qp_rc
write_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct id_list *list = arg;
  char id[QP_UUID_TEXT];

  (void)json;
  fprintf(list->f, "%s\"%s\"", list->count++ ? "," : "", qp_uuid_text(&info->id, id));
  return ferror(list->f) ? QP_STOPPED : QP_OK;
}

static enum qp_rc
write_branch(struct export *ex, const struct branch *branch)
{
  struct id_list list = { .f = ex->f };
  json_t *marks = NULL;
  enum qp_rc rc = cli_marks_load(ex->context, branch->name, &marks, ex->err);

  if (rc)
    return rc;
  cli_put_json_string(ex->f, branch->name, strlen(branch->name));
  fprintf(ex->f, ":{\"active\":%s,\"message_ids\":[", branch->active ? "true" : "false");
  rc = qp_messages_index(ex->context, branch->name, 0, branch->messages, write_id, &list, ex->err);
  fputs("],\"compactions\":", ex->f);
  (void)json_dumpf(marks, ex->f, JSON_COMPACT);
  putc('}', ex->f);
  json_decref(marks);
  return rc;
}

static enum qp_rc
write_object(struct export *ex, struct qp_err *err)
{
  char *meta = NULL;
  size_t len;
  enum qp_rc rc = qp_context_metadata(ex->context, &meta, &len, err);

  if (rc)
    return rc;
  fputs("{\"metadata\":", ex->f);
  cli_put_stored(ex->f, NULL, (struct qp_bytes){ meta, len });
  qp_free(meta);
  fputs(",\n\"branches\":{", ex->f);
  for (size_t i = 0; !rc && i < ex->branch_count; i++) {
    fputs(i ? ",\n" : "\n", ex->f);
    rc = write_branch(ex, &ex->branches[i]);
  }
  fputs("},\n\"messages\":[", ex->f);
  for (size_t i = 0; !rc && i < ex->branch_count; i++)
    rc = write_own(ex, i);
  fputs("]}\n", ex->f);
  return rc;
}

/* ---- the command ---- */

static enum qp_rc
find_format(struct cli *cli, const struct cli_args *args, enum format *out, struct qp_err *err)
{
  const char *name = args->values[OPT_FORMAT];

  *out = cli->json && !args->values[OPT_OUTPUT] ? FORMAT_JSON : FORMAT_MD;
  for (int i = 0; name && i < FORMAT_COUNT; i++)
    if (strcmp(name, format_names[i]) == 0) {
      *out = (enum format)i;
      name = NULL;
    }
  if (name)
    return qp__fail(err, QP_INVALID, "--format is md, json or jsonl, not '%.60s'", name);
  if (*out == FORMAT_JSON && args->values[OPT_BRANCH])
    return qp__fail(err, QP_INVALID,
                    "--branch needs --format md or jsonl: json exports the whole context");
  return QP_OK;
}

static enum qp_rc
write_all(struct export *ex, struct qp_err *err)
{
  const struct branch *branch = ex->branch;
  enum qp_rc rc;

  if (ex->format == FORMAT_JSON) {
    rc = write_object(ex, err);
  } else {
    if (ex->format == FORMAT_MD)
      cli_export_md_head(&ex->md, ex->meta, branch->name);
    rc = qp_messages_range(ex->context, branch->name, 0, branch->messages,
                           ex->format == FORMAT_MD ? write_md : write_line, ex, err);
  }
  if (!rc && ex->unavailable)
    return qp__fail(err, QP_UNAVAILABLE, "%llu message%s could not be exported",
                    (unsigned long long)ex->unavailable, cli_plural(ex->unavailable));
  if (rc == QP_STOPPED) /* closing the file reports the reason */
    return ex->f == stdout ? rc : QP_OK;
  return rc;
}

static enum qp_rc
read_context(struct export *ex, const char *branch, struct qp_err *err)
{
  enum qp_rc rc = cli_context_metadata(ex->context, &ex->meta, err);

  if (!rc)
    rc = qp_branch_list(ex->context, add_branch, ex, err);
  if (!rc && ex->format != FORMAT_JSON)
    rc = find_branch(ex, branch, err);
  if (!rc && ex->branch)
    rc = cli_marks_load(ex->context, ex->branch->name, &ex->marks, err);
  return rc;
}

static enum qp_rc
report(const struct export *ex, const char *path, struct qp_err *err)
{
  unsigned long long n = ex->written;

  if (ex->cli->json)
    return cli_put_json(json_pack("{s:s, s:s, s:I}", "file", path, "format",
                                  format_names[ex->format], "messages", (json_int_t)n),
                        err);
  printf("%llu message%s in ", n, cli_plural(n));
  cli_put_word(stdout, path);
  putchar('\n');
  return QP_OK;
}

static enum qp_rc
run_export(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct export ex = { .cli = cli, .err = err };
  struct target target = { 0 };
  enum qp_rc rc = find_format(cli, args, &ex.format, err);

  if (!rc)
    rc = cli_open(cli, CLI_READ, err);
  if (!rc)
    rc = cli_context_open(cli, args->words.at[0], &ex.context, err);
  if (!rc)
    rc = read_context(&ex, args->values[OPT_BRANCH], err);
  if (!rc) {
    rc = target_open(&target, args->values[OPT_OUTPUT], err);
    if (!rc) {
      ex.f = target.f;
      ex.md = (struct export_md){ .f = ex.f, .tty = ex.f == stdout && cli->tty };
      rc = write_all(&ex, err);
    }
    rc = target_close(&target, rc, err);
    if (!rc && target.path)
      rc = report(&ex, target.path, err);
  }
  for (size_t i = 0; i < ex.branch_count; i++)
    qp__free(ex.branches[i].name);
  qp__free(ex.branches);
  json_decref(ex.marks);
  json_decref(ex.meta);
  qp_context_close(ex.context);
  return rc;
}

const struct cli_command cli_cmd_export = {
  .name = "export",
  .run = run_export,
  .summary = "export a context as a document or as data",
  .usage = { "CTX [--format md|json|jsonl] [--branch B] [--output FILE]" },
  .about = "Exports a context, also while a server uses the data directory:\n\n"
           "  md     a document of one branch: headings, texts unchanged, tool calls and\n"
           "         results as fenced blocks, images by their address\n"
           "  jsonl  the stored messages of one branch, one per line\n"
           "  json   the whole context as one object: \"metadata\", \"branches\" with the ids of\n"
           "         their messages, and \"messages\", each once, parents before children\n\n"
           "  quipu export CTX -o talk.md\n"
           "  quipu export CTX --format jsonl | quipu add OTHER --jsonl -\n\n"
           "Where the conversation was compacted, md has a note, jsonl a line with the field\n"
           "\"compaction\", and json a list \"compactions\" in the branch.\n\n"
           "FILE appears when it is complete. A message whose file is damaged or missing is\n"
           "marked as unavailable (jsonl leaves it out), and the exit code is 9.",
  .options = options,
  .words_min = 1,
  .words_max = 1,
};
