/* chat_approve.c - asking a person whether a tool may run. Every answer is an action of its own,
 * and durable before the next question. */
#include <stdio.h>
#include <string.h>

#include "cli/chat.h"
#include "cli/mem.h"
#include "cli/out.h"

#define IDS_MAX 256
#define PROMPT "[y]es / [n]o / [a]ll / reason: "

enum answer { ANSWER_NONE, ANSWER_YES, ANSWER_NO, ANSWER_ALL, ANSWER_REASON };

static enum answer
read_answer(const char *line)
{
  static const struct {
    const char *word;
    enum answer answer;
  } words[] = {
    { "y", ANSWER_YES }, { "yes", ANSWER_YES }, { "n", ANSWER_NO },
    { "no", ANSWER_NO }, { "a", ANSWER_ALL },   { "all", ANSWER_ALL },
  };

  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (strcasecmp(line, words[i].word) == 0)
      return words[i].answer;
  return line[0] ? ANSWER_REASON : ANSWER_NONE;
}

static void
put_question(struct chat *chat, const json_t *call)
{
  char *arguments = json_dumps(json_object_get(call, "arguments"), JSON_COMPACT | JSON_ENCODE_ANY);

  cli_view_end(&chat->view);
  fputs("allow ", chat->view.f);
  cli_view_call(&chat->view, cli_metadata_text(call, "tool_name"), arguments ? arguments : "");
  fputs(chat->tty ? "?\n" : "? " PROMPT "\n", chat->view.f);
  (void)fflush(chat->view.f);
  cli_free(arguments);
}

static enum qp_rc
decide(struct chat *chat, const json_t *pending, enum answer answer, const char *reason,
       struct qp_err *err)
{
  const char *ids[IDS_MAX];
  size_t count = answer == ANSWER_ALL ? json_array_size(pending) : 1;
  struct qp_action action = { .kind = QP_ACTION_APPROVE_TOOLS };

  if (count > IDS_MAX)
    count = IDS_MAX; /* the others are asked about again */
  for (size_t i = 0; i < count; i++)
    ids[i] = cli_metadata_text(json_array_get(pending, i), "id");
  if (answer == ANSWER_YES || answer == ANSWER_ALL) {
    action.approved = ids;
    action.approved_count = count;
  } else {
    action.denied = ids;
    action.denied_count = count;
    action.reason = answer == ANSWER_REASON ? reason : NULL;
  }
  return cli_chat_act(chat, &action, err);
}

enum qp_rc
cli_chat_approve(struct chat *chat, const json_t *pending, bool *left, struct qp_err *err)
{
  struct qp_action cancel = { .kind = QP_ACTION_CANCEL };

  put_question(chat, json_array_get(pending, 0));
  for (;;) {
    enum chat_typed typed = CHAT_END;
    const char *line = "";
    enum answer answer;
    enum qp_rc rc = cli_input_line(chat->input, PROMPT, NULL, false, &typed, &line, err);

    if (rc)
      return rc;
    if (typed == CHAT_INTERRUPT)
      return cli_chat_act(chat, &cancel, err);
    line += strspn(line, " \t");
    if (typed == CHAT_END || strcmp(line, "/quit") == 0) {
      *left = true;
      chat->quits = true;
      return QP_OK;
    }
    answer = line[0] == '/' ? ANSWER_NONE : read_answer(line);
    if (answer != ANSWER_NONE)
      return decide(chat, pending, answer, line, err);
    cli_view_note(&chat->view, "y runs it, n does not, a runs all that wait, any other text is the "
                               "reason why not; /quit leaves it waiting");
  }
}
