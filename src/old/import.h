/* import.h - what import.c and import_chat.c share. */
#ifndef QP_OLD_IMPORT_H
#define QP_OLD_IMPORT_H

#include "old/localstorage.h"
#include "store/context/context_int.h"

/* Makes a context of a chat of a dump: all of it, or nothing. One that is there from an earlier
 * import gets what is new. Fills in the report, whose rc is returned. Messages of the chat may be
 * gone from it afterwards. */
enum qp_rc qp__import_chat(struct qp_store *s, struct qp__ls_chat *chat, unsigned flags,
                           struct qp_import_report *report);

#endif
