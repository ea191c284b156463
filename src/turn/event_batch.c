/* event_batch.c - see event_batch.h. */
#include "turn/event_batch.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

void
qp__event_batch_init(struct qp__event_batch *list)
{
  memset(list, 0, sizeof(*list));
  list->last = &list->first;
}

void
qp__event_batch_release(struct qp__event_batch *list)
{
  while (list->first) {
    struct qp__event_copy *kept = list->first;

    list->first = kept->next;
    qp__free(kept);
  }
  qp__event_batch_init(list);
}

enum qp_rc
qp__event_batch_add(struct qp__event_batch *list, const struct qp_event_info *info,
                    struct qp_err *err)
{
  size_t type = strlen(info->type) + 1;
  struct qp__event_copy *kept = qp__alloc(sizeof(*kept) + type + info->json.len + 1);

  if (!kept)
    return qp__fail_nomem(err, "reading events");
  memcpy(kept->text, info->type, type);
  memcpy(kept->text + type, info->json.data, info->json.len);
  kept->text[type + info->json.len] = 0;
  kept->info = *info;
  kept->info.type = kept->text;
  kept->info.json.data = kept->text + type;
  kept->next = NULL;
  *list->last = kept;
  list->last = &kept->next;
  list->count++;
  list->bytes += info->json.len;
  return QP_OK;
}
