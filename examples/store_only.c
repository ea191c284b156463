/* store_only.c - a program that stores conversations and does nothing else. It uses no lists, no
 * search and no turns, so it links libquipu-store (or libquipu.a) and needs neither libcurl, libuv,
 * PCRE2 nor SQLite:
 *
 *   cc store_only.c $(pkg-config --cflags --libs quipu-store) -o store_only
 *   printf 'What is a quipu?\nA record kept in knotted cords.\n' | ./store_only ./knots
 *   ./store_only ./knots erase 0198c3f2-6a4e-7c11-9d0e-0242ac120002
 *
 * Every line of standard input becomes a message of a new context, from the user and the assistant
 * in turn. With `erase` a context is deleted, and no file of the store holds its text any more. */
#include <quipu.h>
#include <stdio.h>
#include <string.h>

static enum qp_rc
save_line(struct qp_context *context, enum qp_role role, const char *text, struct qp_err *err)
{
  struct qp_bytes bytes = { text, strcspn(text, "\n") };
  struct qp_message *message = NULL;
  enum qp_rc rc = qp_message_new_text(role, bytes, &message, err);

  if (!rc)
    rc = qp_message_save(context, NULL, message, NULL, err);
  qp_message_free(message);
  return rc;
}

static enum qp_rc
save_input(struct qp_store *store, struct qp_err *err)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = "Stored only" };
  struct qp_context *context = NULL;
  char id_text[QP_UUID_TEXT];
  char line[4096];
  enum qp_role role = QP_ROLE_USER;
  struct qp_uuid id;
  enum qp_rc rc = qp_context_create(store, &spec, &context, err);

  while (!rc && fgets(line, sizeof(line), stdin)) {
    rc = save_line(context, role, line, err);
    role = role == QP_ROLE_USER ? QP_ROLE_ASSISTANT : QP_ROLE_USER;
  }
  if (!rc) {
    id = qp_context_id(context);
    printf("%s\n", qp_uuid_text(&id, id_text));
  }
  qp_context_close(context);
  return rc;
}

int
main(int argc, char **argv)
{
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid id;
  enum qp_rc rc;

  if (argc != 2 && (argc != 4 || strcmp(argv[2], "erase") != 0)) {
    fprintf(stderr, "usage: store_only DIRECTORY [erase CONTEXT]\n");
    return 2;
  }
  rc = qp_store_open(argv[1], NULL, &store, &err);
  if (!rc && argc == 2)
    rc = save_input(store, &err);
  else if (!rc)
    rc = qp_uuid_parse(argv[3], &id, &err);
  if (!rc && argc == 4)
    rc = qp_context_erase(store, &id, &err);
  if (rc)
    fprintf(stderr, "store_only: %s\n", err.msg);
  qp_store_close(store);
  return rc != QP_OK;
}
