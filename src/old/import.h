/* import.h - what import.c and import_chat.c share. */
#ifndef QP_OLD_IMPORT_H
#define QP_OLD_IMPORT_H

#include "old/localstorage.h"
#include "store/context/context_int.h"

/* Imports a chat of a dump as a context, completely or not at all. A context of an earlier import
 * is extended by new messages. Fills in the report, whose rc is returned. Messages of the chat may
 * be moved out of it. */
enum qp_rc qp__import_chat(struct qp_store *s, struct qp__ls_chat *chat, unsigned flags,
                           struct qp_import_report *report);

#endif
