/* cmd_search.c - `quipu search`: finds messages by their words. */
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/out.h"

#define PAGE 1000 /* hits per query */
#define LIMIT_DEFAULT 20

enum { OPT_LIMIT, OPT_OWNER };

static const struct cli_option options[] = {
  [OPT_LIMIT] = { "limit", 'n', "N", "at most N messages (default: 20)", NULL },
  [OPT_OWNER] = { "owner", 0, "NAME", "search only things of owner NAME", NULL },
  { 0 },
};

struct search {
  struct cli *cli;
  struct qp_err *err;
};

/* On one line; on a terminal the searched words are bold. */
static void
put_snippet(const struct cli *cli, const char *s)
{
  while (*s) {
    size_t n = strcspn(s, QP_MARK_BEGIN QP_MARK_END "\n\t");

    cli_put_wordn(stdout, s, n);
    s += n;
    if (!*s)
      break;
    if (*s == QP_MARK_BEGIN[0])
      fputs(cli->tty ? "\033[1m" : "", stdout);
    else if (*s == QP_MARK_END[0])
      fputs(cli->tty ? "\033[0m" : "", stdout);
    else if (s[1])
      putchar(' ');
    s++;
  }
  putchar('\n');
}

static enum qp_rc
print_hit(struct cli *cli, const struct qp_search_hit *hit, struct qp_err *err)
{
  char context[QP_UUID_TEXT];
  char message[QP_UUID_TEXT];
  char time[CLI_TIME_TEXT];

  if (cli->json)
    return cli_put_json(
        json_pack("{s:o, s:o, s:o, s:s, s:o, s:s, s:f}", "context", cli_json_uuid(&hit->context),
                  "title", cli_json_string(hit->title), "message", cli_json_uuid(&hit->message),
                  "role", qp_role_name(hit->role), "created_at", cli_json_time(hit->created_at),
                  "snippet", hit->snippet, "rank", hit->rank),
        err);
  (void)qp_uuid_text(&hit->context, context);
  (void)qp_uuid_text(&hit->message, message);
  (void)cli_time_text(hit->created_at, time);
  if (cli->tty) {
    printf("%s  ", context);
    cli_put_time(stdout, time);
    printf("  %-9s  ", qp_role_name(hit->role));
    cli_put_word(stdout, hit->title ? hit->title : "-");
    fputs("\n  ", stdout);
  } else {
    printf("%s\t%s\t%s\t%s\t", context, message, qp_role_name(hit->role), time);
  }
  put_snippet(cli, hit->snippet);
  return QP_OK;
}

static enum qp_rc
visit_hit(void *arg, const struct qp_search_hit *hit)
{
  struct search *search = arg;

  return cli_out_failed() ? QP_STOPPED : print_hit(search->cli, hit, search->err);
}

/* All words of the command line, joined by spaces; NULL: out of memory. */
static char *
join_words(const struct cli_words *words)
{
  struct qp__buf text;
  char *joined;

  qp__buf_init(&text, SIZE_MAX / 4);
  for (size_t i = 0; i < words->count; i++) {
    (void)qp__buf_add_str(&text, i ? " " : "");
    (void)qp__buf_add_str(&text, words->at[i]);
  }
  joined = text.rc ? NULL : qp__buf_take(&text, NULL);
  qp__buf_release(&text);
  return joined;
}

static enum qp_rc
search_all(struct search *search, const struct qp_search_query *what, uint64_t limit,
           struct qp_err *err)
{
  struct qp_search_query query = *what;
  char *cursor = NULL;
  enum qp_rc rc = QP_OK;

  while (!rc && limit) {
    char *next = NULL;

    query.cursor = cursor;
    query.limit = limit < PAGE ? (uint32_t)limit : PAGE;
    limit -= query.limit;
    rc = qp_search(search->cli->store, &query, visit_hit, search, &next, err);
    qp_free(cursor);
    cursor = next;
    if (!cursor)
      break;
  }
  qp_free(cursor);
  return rc;
}

static enum qp_rc
run_search(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct search search = { cli, err };
  struct qp_search_query query = { .size = sizeof(struct qp_search_query),
                                   .owner = args->values[OPT_OWNER] };
  uint64_t limit = LIMIT_DEFAULT;
  char *text;
  enum qp_rc rc = cli_opts_number("--limit", args->values[OPT_LIMIT], 1, UINT64_MAX, &limit, err);

  if (!rc)
    rc = cli_open(cli, CLI_READ, err);
  if (rc)
    return rc;
  text = join_words(&args->words);
  if (!text)
    return cli_fail_nomem(err);
  query.text = text;
  rc = search_all(&search, &query, limit, err);
  qp__free(text);
  return rc && cli_out_failed() ? QP_OK : rc;
}

const struct cli_command cli_cmd_search = {
  .name = "search",
  .run = run_search,
  .summary = "search messages by words",
  .usage = { "WORD... [--limit N] [--owner NAME]" },
  .about = "Finds the messages that contain all words, best matches first. It searches\n"
           "texts, tool calls and results of tools, in all branches. Case and accents are\n"
           "ignored. '\"a phrase\"' must occur as it is, 'begin*' matches every word that\n"
           "begins with it, and after '--' a '-word' must not occur.\n\n"
           "On a terminal: context, time (UTC), role, title, and the match in the next\n"
           "line. In a pipe, separated by tabs: context, message, role, time, match. In\n"
           "JSON the matching words are between \\u0002 and \\u0003.\n\n"
           "Examples:\n"
           "  quipu search trout recipe\n"
           "  quipu search '\"smoked trout\"' -n 3\n"
           "  quipu search -- trout -salmon",
  .options = options,
  .words_min = 1,
  .words_max = 1000,
};
