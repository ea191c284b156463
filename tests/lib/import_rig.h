/* import_rig.h - an import that can be interrupted at any point, and the checks after it.
 *
 * The store has the chats of a first dump. A second dump has more messages of one of them, a new
 * chat, images and prompts. However the import of the second dump ends: each chat is either as
 * before or completely as in the second dump, and the latter if its import was reported as done;
 * and importing again adds the rest. */
#ifndef IMPORT_RIG_H
#define IMPORT_RIG_H

#include <stdbool.h>
#include <stddef.h>

#include "os/os.h"
#include "quipu.h"

#define IMPORT_CHATS 3
#define IMPORT_WHY 600

/* The reports about the second dump. */
struct import_told {
  bool done[IMPORT_CHATS]; /* per chat: it was reported as imported */
  bool failed;             /* something was left out */
  char text[IMPORT_WHY];   /* the message of the first failure */
};

/* Writes both dumps durably to `dir` and "/first.json", "/second.json"; the directory must
 * exist. Asserts. */
void import_rig_write(const struct qp__os *os, const char *dir);

enum qp_rc import_rig_first(struct qp_store *store, const char *dir, struct qp_err *err);
enum qp_rc import_rig_second(struct qp_store *store, const char *dir, struct import_told *told,
                             struct qp_err *err);

/* Whether the store agrees with the reports about the second dump so far. `all`: it must be
 * complete, because nothing failed. */
bool import_rig_holds(struct qp_store *store, const struct import_told *told, bool all,
                      char why[IMPORT_WHY]);

#endif
