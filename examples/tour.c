/* tour.c - libquipu in one small program: a conversation with a prompt and two branches, written,
 * read back and checked.
 *
 *   cc tour.c -lquipu -o tour && ./tour ./knots
 *
 * Every call answers QP_OK or a code with one sentence in `err`; nothing is printed by the
 * library. The program may be run again on the same directory: it adds one more conversation. */
#include <quipu.h>
#include <stdio.h>
#include <string.h>

#define PROMPT_ID "tour-guide"

/* Prints the sentence of a failure; returns its code, so that a caller can pass it on. */
static enum qp_rc
say(enum qp_rc rc, const struct qp_err *err)
{
  if (rc)
    fprintf(stderr, "tour: %s: %s\n", qp_rc_name(rc), err->msg);
  return rc;
}

/* Appends a text to a branch. When this returns QP_OK the message survives kill -9 and a power
 * cut. */
static enum qp_rc
tell(struct qp_context *context, const char *branch, enum qp_role role, const char *text,
     struct qp_uuid *id, struct qp_err *err)
{
  struct qp_bytes bytes = { text, strlen(text) };
  struct qp_message *message = NULL;
  char id_text[QP_UUID_TEXT];
  enum qp_rc rc;

  rc = qp_message_new_text(role, bytes, &message, err);
  if (!rc)
    rc = qp_message_save(context, branch, message, id, err);
  if (!rc)
    printf("saved %s  %s: %s\n", qp_uuid_text(id, id_text), qp_role_name(role), text);
  qp_message_free(message);
  return rc;
}

/* The prompt is shared by all conversations, so that a second run finds it there. */
static enum qp_rc
make_prompt(struct qp_store *store, struct qp_err *err)
{
  struct qp_prompt prompt = {
    .id = PROMPT_ID,
    .name = "Tour guide",
    .content = "You answer in one short sentence.",
  };
  enum qp_rc rc = qp_prompt_create(store, &prompt, NULL, err);

  return rc == QP_EXISTS ? QP_OK : rc;
}

static enum qp_rc
make_context(struct qp_store *store, struct qp_context **out, struct qp_err *err)
{
  struct qp_context_spec spec = {
    .size = sizeof(struct qp_context_spec),
    .title = "The tour of libquipu",
    .model_id = "demo",
    .system_prompt_id = PROMPT_ID,
  };
  char text[QP_UUID_TEXT];
  struct qp_uuid id;
  enum qp_rc rc = qp_context_create(store, &spec, out, err);

  if (rc)
    return rc;
  id = qp_context_id(*out);
  printf("created context %s\n", qp_uuid_text(&id, text));
  return QP_OK;
}

/* Two messages on "main", then a second answer on a branch that begins after the question. */
static enum qp_rc
write_messages(struct qp_context *context, struct qp_err *err)
{
  struct qp_uuid question, answer;
  enum qp_rc rc;

  rc = tell(context, NULL, QP_ROLE_USER, "What is a quipu?", &question, err);
  if (!rc)
    rc = tell(context, NULL, QP_ROLE_ASSISTANT, "A record kept in knotted cords.", &answer, err);
  if (!rc)
    rc = qp_branch_fork(context, "second-try", "main", &question, err);
  if (!rc)
    rc = tell(context, "second-try", QP_ROLE_ASSISTANT, "The Inca's way to write numbers.", &answer,
              err);
  return rc;
}

/* A visitor is handed the stored JSON of one message after the other. */
static enum qp_rc
print_stored(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)arg;
  printf("  #%llu %s, %u bytes: %.*s\n", (unsigned long long)info->position + 1,
         qp_role_name(info->role), (unsigned)info->size, (int)json.len, json.data);
  return QP_OK;
}

/* The index alone knows ids, roles and sizes: `json` is empty and no message file is opened. */
static enum qp_rc
count_bytes(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  uint64_t *sum = arg;

  (void)json;
  *sum += info->size;
  return QP_OK;
}

static enum qp_rc
print_branch(void *arg, const struct qp_branch_info *branch)
{
  (void)arg;
  printf("  %s %s: %llu messages\n", branch->active ? "*" : " ", branch->name,
         (unsigned long long)branch->messages);
  return QP_OK;
}

static enum qp_rc
read_back(struct qp_context *context, struct qp_err *err)
{
  uint64_t bytes = 0;
  enum qp_rc rc;

  puts("branches:");
  rc = qp_branch_list(context, print_branch, NULL, err);
  if (rc)
    return rc;
  puts("the last message of second-try:");
  rc = qp_messages_last(context, "second-try", 1, print_stored, NULL, err);
  if (rc)
    return rc;
  puts("all of main:");
  rc = qp_messages_range(context, "main", 0, UINT64_MAX, print_stored, NULL, err);
  if (rc)
    return rc;
  rc = qp_messages_index(context, "main", 0, UINT64_MAX, count_bytes, &bytes, err);
  if (!rc)
    printf("main holds %llu bytes of messages\n", (unsigned long long)bytes);
  return rc;
}

/* Closes the context and opens it again: only metadata and index are read, and messages come on
 * demand. */
static enum qp_rc
open_again(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context *context = NULL;
  struct qp_store_stats stats;
  enum qp_rc rc;

  rc = qp_context_open(store, id, QP_LOAD_NONE, &context, err);
  if (!rc)
    rc = read_back(context, err);
  qp_context_close(context);
  qp_store_stats_get(store, &stats);
  if (!rc)
    printf("%llu message reads went to disk, %llu were answered from memory\n",
           (unsigned long long)stats.message_reads, (unsigned long long)stats.pool_hits);
  return rc;
}

static enum qp_rc
check(struct qp_store *store, struct qp_err *err)
{
  struct qp_check_summary sum;
  enum qp_rc rc = qp_store_check(store, NULL, 0, NULL, NULL, &sum, err);

  if (!rc)
    printf("checked %llu contexts and %llu messages: %llu problems\n",
           (unsigned long long)sum.contexts, (unsigned long long)sum.messages,
           (unsigned long long)sum.problems);
  return rc;
}

int
main(int argc, char **argv)
{
  struct qp_context *context = NULL;
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid id;
  enum qp_rc rc;

  if (argc != 2) {
    fprintf(stderr, "usage: tour DIRECTORY\n");
    return 2;
  }
  printf("libquipu %s, data in %s\n", qp_version(), argv[1]);
  rc = qp_store_open(argv[1], NULL, &store, &err);
  if (rc)
    goto out;
  rc = make_prompt(store, &err);
  if (!rc)
    rc = make_context(store, &context, &err);
  if (rc)
    goto out;
  id = qp_context_id(context);
  rc = write_messages(context, &err);
  qp_context_close(context);
  if (!rc)
    rc = open_again(store, &id, &err);
  if (!rc)
    rc = check(store, &err);
out:
  qp_store_close(store);
  return say(rc, &err) != QP_OK;
}
