/* cmd_debug.c - `quipu debug`: prints internals of quipu. */
#include <string.h>

#include "cli/cli.h"
#include "cli/out.h"
#include "turn/fsm.h"

enum { OPT_DOT };

static const struct cli_option options[] = {
  [OPT_DOT] = { "dot", 0, NULL, "fsm: print a graph for Graphviz", "fsm" },
  { 0 },
};

enum { DO_FSM };

static const struct cli_action actions[] = {
  [DO_FSM] = { "fsm", 0, 0, "", NULL },
  { 0 },
};

typedef enum qp_rc visit_cell(enum qp_state from, enum qp__turn_event event,
                              struct qp__transition cell, void *arg, struct qp_err *err);

static enum qp_rc
each_cell(visit_cell *visit, void *arg, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (int state = 0; state < QP__STATES && !rc; state++)
    for (int event = 0; event < QP__EVENTS && !rc; event++) {
      struct qp__transition cell = qp__fsm_next((enum qp_state)state, (enum qp__turn_event)event);

      if (cell.legal)
        rc = visit((enum qp_state)state, (enum qp__turn_event)event, cell, arg, err);
    }
  return rc;
}

static enum qp_rc
print_cell(enum qp_state from, enum qp__turn_event event, struct qp__transition cell, void *arg,
           struct qp_err *err)
{
  int *last = arg;

  (void)err;
  if (*last != (int)from)
    printf("%s%s\n", *last < 0 ? "" : "\n", qp_state_name(from));
  *last = (int)from;
  printf("  %-54s -> %-21s  %s\n", qp__event_text(event), qp_state_name(cell.to),
         qp__step_text(cell.step));
  return QP_OK;
}

static enum qp_rc
put_cell(enum qp_state from, enum qp__turn_event event, struct qp__transition cell, void *arg,
         struct qp_err *err)
{
  (void)arg;
  return cli_put_json(json_pack("{s:s, s:s, s:s, s:s}", "state", qp_state_name(from), "event",
                                qp__event_name(event), "to", qp_state_name(cell.to), "action",
                                qp__step_text(cell.step)),
                      err);
}

/* Draws one arrow for all events between two states. Failures, cancelling and restarts are omitted
 * if they would only hide the normal path of a turn: the table has them. */
static bool
is_drawn(enum qp__turn_event event)
{
  return event != QP__EVENT_SAVE_FAILED && event != QP__EVENT_FINAL_ERROR &&
         event != QP__EVENT_LIMIT && event != QP__EVENT_CANCEL && event != QP__EVENT_RESTART;
}

static void
print_arrow(enum qp_state from, enum qp_state to)
{
  bool any = false;

  for (int event = 0; event < QP__EVENTS; event++) {
    struct qp__transition cell = qp__fsm_next(from, (enum qp__turn_event)event);

    if (!cell.legal || cell.to != to || !is_drawn((enum qp__turn_event)event))
      continue;
    if (any)
      printf("\\n");
    else
      printf("  %s -> %s [label=\"", qp_state_name(from), qp_state_name(to));
    any = true;
    printf("%s", qp__event_text((enum qp__turn_event)event));
  }
  if (any)
    printf("\"];\n");
}

static void
print_dot(void)
{
  printf("digraph turn {\n"
         "  rankdir=TB;\n"
         "  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n"
         "  edge [fontname=\"sans-serif\", fontsize=10];\n");
  for (int state = 0; state < QP__STATES; state++)
    if (!qp__fsm_is_busy((enum qp_state)state))
      printf("  %s [penwidth=2];\n", qp_state_name((enum qp_state)state));
  for (int from = 0; from < QP__STATES; from++)
    for (int to = 0; to < QP__STATES; to++)
      print_arrow((enum qp_state)from, (enum qp_state)to);
  printf("}\n");
}

static enum qp_rc
run_debug(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  size_t action = 0;
  int last = -1;
  enum qp_rc rc = cli_action_find(&cli_cmd_debug, args, actions, 0, &action, err);

  if (rc)
    return rc;
  if (args->values[OPT_DOT])
    print_dot();
  else if (cli->json)
    rc = each_cell(put_cell, NULL, err);
  else
    rc = each_cell(print_cell, &last, err);
  return rc;
}

const struct cli_command cli_cmd_debug = {
  .name = "debug",
  .run = run_debug,
  .summary = "show internals of quipu",
  .usage = { "fsm [--dot]" },
  .about = "'fsm' prints the state machine of a turn: for each state the possible events,\n"
           "the next state and its step. An event that is not listed is refused and changes\n"
           "nothing.\n\n"
           "  quipu debug fsm\n"
           "  quipu debug fsm --dot | dot -Tsvg > turn.svg",
  .options = options,
  .words_min = 1,
  .words_max = 1,
};
