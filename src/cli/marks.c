/* marks.c - see marks.h. */
#include "cli/marks.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/out.h"

enum qp_rc
cli_marks_load(struct qp_context *context, const char *branch, json_t **out, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp_compaction_marks(context, branch, &text, &len, err);

  if (rc)
    return rc;
  *out = json_loadb(text, len, 0, NULL);
  qp_free(text);
  return *out ? QP_OK : cli_fail_nomem(err);
}

const json_t *
cli_marks_after(const json_t *marks, const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  if (!json_array_size(marks))
    return NULL;
  (void)qp_uuid_text(id, text);
  for (size_t i = json_array_size(marks); i-- > 0;) {
    const json_t *mark = json_array_get(marks, i);

    if (strcmp(cli_metadata_text(mark, "after"), text) == 0)
      return mark;
  }
  return NULL;
}

const char *
cli_mark_text(const json_t *mark, char out[CLI_MARK_TEXT])
{
  unsigned long long covered = cli_json_number(mark, "covered");
  unsigned long long kept = cli_json_number(mark, "kept");

  (void)snprintf(out, CLI_MARK_TEXT,
                 "compacted: the model gets a summary of %llu message%s; %llu message%s kept",
                 covered, cli_plural(covered), kept, kept == 1 ? " was" : "s were");
  return out;
}
