/* fuzz_modellist.c - arbitrary responses of a server to the requests for its models. The first byte
 * says whether it has the protocol of Ollama; the rest is the responses, separated by line breaks.
 * Stored names are not too long, windows are not negative, and the requests come to an end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "llm/modellist.h"

#define QUESTIONS 20 /* more than are ever asked */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why)
{
  (void)fprintf(stderr, "%s\n", why);
  abort();
}

static enum qp_rc
look_at(void *arg, const struct qp__known_model *model)
{
  (void)arg;
  if (!model->id[0] || strlen(model->id) > 150)
    die("a name that cannot be one");
  if (model->window < 0)
    die("a negative window");
  return QP_OK;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *at = (const char *)data + 1;
  const char *end = (const char *)data + size;
  struct qp__modellist m;
  struct qp__known known;
  int asked = 0;

  if (size == 0)
    return 0;
  qp__known_init(&known);
  qp__modellist_init(&m, &known, "mine", data[0] & 1);
  for (; m.step != QP__MODELLIST_END; asked++) {
    const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    json_t *root = NULL;

    stop = stop ? stop : end;
    if (asked > QUESTIONS)
      die("it asks on and on");
    if (m.step == QP__MODELLIST_SHOW && !qp__modellist_shown(&m))
      die("no model to ask for");
    if (at < stop)
      (void)qp__json_parse_outside("answer", (struct qp_bytes){ at, (size_t)(stop - at) }, &root,
                                   NULL);
    qp__modellist_read(&m, root);
    json_decref(root);
    at = stop < end ? stop + 1 : end;
  }
  (void)qp__known_each(&known, look_at, NULL);
  qp__modellist_release(&m);
  qp__known_release(&known);
  return 0;
}
