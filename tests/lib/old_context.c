/* old_context.c - see old_context.h. */
#include "old_context.h"

#include <stdio.h>
#include <stdlib.h>

#include "store_test.h"

struct text {
  char *data;
  size_t len;
};

static void add(struct text *t, const char *fmt, ...) QP_PRINTF(2, 3);

static void
add(struct text *t, const char *fmt, ...)
{
  va_list args;
  va_list again;
  int n;

  va_start(args, fmt);
  va_copy(again, args);
  n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  assert_true(n >= 0);
  t->data = realloc(t->data, t->len + (size_t)n + 1);
  assert_non_null(t->data);
  (void)vsnprintf(t->data + t->len, (size_t)n + 1, fmt, again);
  va_end(again);
  t->len += (size_t)n;
}

static void
add_id(struct text *t, const struct old_context *o, size_t i)
{
  add(t, "%.8s-0000-4000-8000-%012zx", o->id, i + 1);
}

static size_t
node_count(const struct old_context *o)
{
  return o->messages + (o->alt ? 1 : 0);
}

static void
add_node(struct text *t, const struct old_context *o, size_t i)
{
  bool is_alt = i == o->messages;
  size_t parent = is_alt ? 0 : i - 1;

  add(t, "{\"id\": \"");
  add_id(t, o, i);
  add(t, "\", \"message\": {\"role\": \"%s\", \"content\": [{\"type\": \"text\", \"text\": \"",
      i % 2 ? "Assistant" : "User");
  if (is_alt)
    add(t, "alt\"}], ");
  else
    add(t, "m%zu\"}], ", i);
  if (o->filler)
    add(t, "\"x_filler\": \"%0*d\", ", (int)o->filler, 0);
  if (i + 2 < o->messages)
    add(t, "\"metadata\": null}, ");
  else
    add(t, "\"metadata\": {\"created_at\": \"2025-11-01T08:00:%02zu.442124Z\"}}, ", i % 60);
  if (i == 0) {
    add(t, "\"parent_id\": null}");
  } else {
    add(t, "\"parent_id\": \"");
    add_id(t, o, parent);
    add(t, "\"}");
  }
}

static void
add_branch(struct text *t, const struct old_context *o, const char *name, const char *prompt)
{
  bool is_alt = strcmp(name, "alt") == 0;
  size_t count = is_alt ? 2 : o->messages;

  add(t, "\"%s\": {\"name\": \"%s\", \"message_ids\": [", name, name);
  for (size_t i = 0; i < count; i++) {
    add(t, i ? ", \"" : "\"");
    add_id(t, o, is_alt && i ? o->messages : i);
    add(t, "\"");
  }
  add(t, "], \"system_prompt\": %s, \"user_prompt\": null}", prompt ? prompt : "null");
}

/* Everything around the pool's nodes. */
static void
add_head(struct text *t, const struct old_context *o)
{
  add(t,
      "{\n  \"id\": \"%s\",\n  \"parent_id\": null,\n  \"config\": {\"model_id\": \"gpt-4\", "
      "\"mode\": \"chat\", \"parameters\": {}",
      o->id);
  if (o->config_prompt)
    add(t, ", \"system_prompt_id\": \"%s\"", o->config_prompt);
  add(t, "},\n  \"message_pool\": {");
}

static void
add_tail(struct text *t, const struct old_context *o)
{
  add(t, "},\n  \"branches\": {");
  if (o->alt) {
    add_branch(t, o, "alt", NULL);
    add(t, ", ");
  }
  add_branch(t, o, "main", o->prompt);
  add(t, "},\n  \"active_branch_name\": \"main\",\n  \"current_state\": \"Idle\",\n"
         "  \"x_unknown\": [1, 2.50, \"kept\"]\n}");
}

char *
old_monolith_text(const struct old_context *o)
{
  struct text t = { NULL, 0 };

  add_head(&t, o);
  for (size_t i = 0; i < node_count(o); i++) {
    add(&t, i ? ",\n    \"" : "\n    \"");
    add_id(&t, o, i);
    add(&t, "\": ");
    add_node(&t, o, i);
  }
  add_tail(&t, o);
  return t.data;
}

void
old_monolith_write(const struct old_context *o, const char *path)
{
  char *text = old_monolith_text(o);

  write_text(path, text);
  free(text);
}

void
old_pool_write(const struct old_context *o, const char *dir)
{
  struct text t = { NULL, 0 };
  char top[PATH_LEN];

  (void)snprintf(top, sizeof(top), "%s", dir); /* the caller's may be one of pathf() */
  dir = top;
  make_directory(dir);
  make_directory(pathf("%s/messages_pool", dir));
  add_head(&t, o);
  add_tail(&t, o);
  write_text(pathf("%s/context.json", dir), t.data);
  free(t.data);
  for (size_t i = 0; i < node_count(o); i++) {
    struct text node = { NULL, 0 };
    struct text name = { NULL, 0 };

    add_node(&node, o, i);
    add_id(&name, o, i);
    write_text(pathf("%s/messages_pool/%s.json", dir, name.data), node.data);
    free(node.data);
    free(name.data);
  }
}
