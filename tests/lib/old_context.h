/* old_context.h - old contexts as text, of any length, for tests of migration and rollback. */
#ifndef OLD_CONTEXT_H
#define OLD_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#define OLD_ID "3f0c2b1e-5a77-4c1d-9e10-0a1b2c3d4e5f"

struct old_context {
  const char *id;     /* of the context; its first 8 digits are those of its messages too */
  size_t messages;    /* "m0", "m1", … of branch main; those before the last two have no time */
  const char *prompt; /* JSON of the branch's system_prompt, or NULL */
  const char *config_prompt; /* config.system_prompt_id, or NULL */
  size_t filler;             /* additional bytes per message */
  bool alt;                  /* a branch "alt" of the first message and one of its own, "alt" */
};

/* The whole context in one file; the caller frees it. */
char *old_monolith_text(const struct old_context *o);
void old_monolith_write(const struct old_context *o, const char *path);
/* A directory with context.json and messages_pool/; `dir` must not exist. */
void old_pool_write(const struct old_context *o, const char *dir);

#endif
