/* turn_rig.h - an engine on the store of a fixture with a scripted demo model, actions that wait
 * for their end, and a record of the events of a subscriber.
 *
 * Nothing here sleeps: the callbacks of the engine wake it. An operation of more than a minute
 * fails the test. */
#ifndef TURN_RIG_H
#define TURN_RIG_H

#include "store_test.h"

struct turn_rig {
  struct fixture *f;
  struct qp_engine *engine;
  struct qp_engine_options options; /* for the next start */
  char workspace[PATH_LEN];         /* "": none */
  struct qp_uuid id;                /* the context that the short forms use */

  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct qp_subscription *sub;
  char *events; /* the recorded events, one line each */
  size_t events_len, events_cap;
  size_t event_count;
  uint64_t last_seq;
  bool ended; /* the subscription */
  bool out_of_order;
};

/* The result of an action. */
struct turn_answer {
  bool done;
  enum qp_rc rc;
  char msg[320];
  char state[40];
  char branch[256];
  struct qp_uuid message;
  uint64_t seq;
  bool replayed;
  unsigned times;
  struct turn_rig *rig;
};

/* A rig with a new context and without an engine. `script` (may be NULL) is for the demo model; it
 * must live until the engine has started. */
void turn_rig_init(struct turn_rig *rig, struct fixture *f, const char *script);
/* Creates a workspace with a file notes.txt. */
void turn_rig_workspace(struct turn_rig *rig);
void turn_rig_start(struct turn_rig *rig);
void turn_rig_stop(struct turn_rig *rig);
void turn_rig_release(struct turn_rig *rig);

/* Starts an action; *answer is filled in later. */
void turn_begin(struct turn_rig *rig, const struct qp_action *action, struct turn_answer *answer);
/* The same where it may fail. */
enum qp_rc turn_try(struct turn_rig *rig, const struct qp_action *action,
                    struct turn_answer *answer);
void turn_wait(struct turn_answer *answer);
/* Both, with `wait`. */
struct turn_answer turn_act(struct turn_rig *rig, struct qp_action action);
struct turn_answer turn_send(struct turn_rig *rig, const char *text);
/* An action of that kind without further arguments. */
struct turn_answer turn_do(struct turn_rig *rig, enum qp_action_kind kind);
struct turn_answer turn_approve(struct turn_rig *rig, const char *approved, const char *denied);

/* Records events from now on; drops earlier records. */
void turn_listen(struct turn_rig *rig, uint64_t after);
void turn_unlisten(struct turn_rig *rig);
/* Waits until an event with this text was recorded. */
void turn_hear(struct turn_rig *rig, const char *part);
/* Waits until the subscription has ended. */
void turn_hear_end(struct turn_rig *rig);
bool turn_has_heard(struct turn_rig *rig, const char *part);
/* The recorded states, each followed by a space. Static. */
const char *turn_states(struct turn_rig *rig);
/* The recorded pieces of text, joined. Static. */
const char *turn_text(struct turn_rig *rig);

/* The stored state of the context, and a field of its detail ("error.kind"), "" if it is absent.
 * Static. */
const char *turn_stored_state(struct turn_rig *rig);
const char *turn_detail(struct turn_rig *rig, const char *field, const char *inner);
/* One line per message of the active branch: "user: hi", "assistant: …", "assistant! …" if it is
 * interrupted, "assistant: … [name id Approved]" with calls, "tool: id …", "tool! id …" for an
 * error. Static. */
const char *turn_story(struct turn_rig *rig);

#endif
