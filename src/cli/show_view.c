/* show_view.c - see show_view.h. */
#include "cli/show_view.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/chat_server.h"
#include "cli/out.h"

#define INDENT 4

static void
print_text(const char *text, size_t len)
{
  cli_put_text(stdout, text, len, INDENT);
}

/* A part that is not text, as JSON. */
static void
print_value(const char *label, const json_t *value)
{
  char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

  printf("%*s[%s]\n", INDENT, "", label);
  if (json_is_string(value))
    print_text(json_string_value(value), json_string_length(value));
  else if (text)
    print_text(text, strlen(text));
  qp__free(text);
}

static void
print_part(const json_t *part)
{
  const char *type = cli_metadata_text(part, "type");
  const json_t *text = json_object_get(part, "text");

  if (strcmp(type, "text") == 0)
    print_text(json_string_value(text), json_string_length(text));
  else if (json_is_string(text))
    print_value(type, text);
  else
    print_value(type, part);
}

static void
print_message(const json_t *message)
{
  const char *mark = cli_metadata_text(json_object_get(message, "metadata"), "compact");
  const json_t *result = json_object_get(message, "tool_result");
  const json_t *item;
  size_t i;

  printf("\n%s%s%s\n", cli_metadata_text(message, "role"), mark[0] ? ", " : "", mark);
  json_array_foreach (json_object_get(message, "content"), i, item) {
    print_part(item);
  }
  json_array_foreach (json_object_get(message, "tool_calls"), i, item) {
    printf("%*s[call ", INDENT, "");
    cli_put_word(stdout, cli_metadata_text(item, "id"));
    printf("] ");
    cli_put_word(stdout, cli_metadata_text(item, "tool_name"));
    putchar('\n');
    print_value("arguments", json_object_get(item, "arguments"));
  }
  if (json_is_object(result)) {
    printf("%*s[for ", INDENT, "");
    cli_put_word(stdout, cli_metadata_text(result, "request_id"));
    printf("]\n");
    print_value(json_is_true(json_object_get(result, "is_error")) ? "error" : "result",
                json_object_get(result, "result"));
  }
}

static void
print_view(const json_t *view)
{
  const json_t *system = json_object_get(view, "system");
  const json_t *item;
  size_t i;

  printf("model     ");
  cli_put_word(stdout, cli_metadata_text(view, "model"));
  printf("\ntokens    %lld\ntools    ",
         (long long)json_integer_value(json_object_get(view, "tokens")));
  json_array_foreach (json_object_get(view, "tools"), i, item) {
    putchar(' ');
    cli_put_word(stdout, json_string_value(item));
  }
  putchar('\n');
  if (json_string_length(system)) {
    puts("\nsystem");
    print_text(json_string_value(system), json_string_length(system));
  }
  json_array_foreach (json_object_get(view, "messages"), i, item) {
    print_message(item);
  }
}

enum qp_rc
cli_show_view(struct cli *cli, struct chat_http *http, const char *context, const char *branch,
              struct qp_err *err)
{
  struct qp_uuid id = { { 0 } };
  json_t *view = NULL;
  enum qp_rc rc = cli_server_find(http, context, &id, err);

  if (!rc)
    rc = cli_server_read(http, &id, "/view", branch, &view, err);
  if (rc)
    return rc;
  if (cli->json)
    return cli_put_json(view, err);
  print_view(view);
  json_decref(view);
  return QP_OK;
}
