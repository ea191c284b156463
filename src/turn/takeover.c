/* takeover.c - see takeover.h. */
#include "turn/takeover.h"

#include <string.h>

const struct qp__record *
qp__takeover_find(const struct qp__conversation *c, const struct qp__plan_input *input,
                  struct qp__plan *plan)
{
  uint64_t from = c->record ? c->record->covered : 0;
  const struct qp__record *ready =
      qp__record_prepared(c->records, c->record_count, from, qp__conversation_holds, (void *)c);
  int64_t all = input->system + input->tools + input->pins + input->summary;
  int64_t after;
  size_t cut = 0;
  size_t last_user = QP__PLAN_NONE_AT;

  if (!ready)
    return NULL;
  after = input->system + input->tools + input->pins + qp__conversation_summary_tokens(c, ready);
  for (size_t i = 0; i < c->tail_count; i++) {
    all += c->items[i].tokens;
    if (c->items[i].kind == QP__ITEM_USER)
      last_user = i;
    if (c->tail_at[i] <= ready->covered) {
      cut = i + 1;
      after += c->items[i].pinned ? c->items[i].tokens + QP__PLAN_QUOTE_TOKENS : 0;
    } else {
      after += c->items[i].tokens;
    }
  }
  if (all > 0 && input->used > input->reserve)
    after = after * (input->used - input->reserve) / all;
  after += input->reserve;
  if (!cut || last_user == QP__PLAN_NONE_AT || last_user < cut ||
      after > input->window * input->policy->target / 100)
    return NULL;
  plan->action = QP__PLAN_SUMMARISE;
  plan->cut = cut;
  plan->carry = QP__PLAN_NONE_AT;
  plan->edit_count = 0;
  plan->after = after;
  return ready;
}

void
qp__takeover_fill(struct qp__record *record, const struct qp__record *ready)
{
  record->covered = ready->covered;
  record->last = ready->last;
  memcpy(record->hash, ready->hash, QP__CHAIN);
  record->narrative = ready->narrative;
  record->ledger = ready->ledger;
  record->model = ready->model;
  record->generation = ready->generation;
  record->prompt_version = ready->prompt_version;
  record->recall = true;
  record->cost = 0;
}
