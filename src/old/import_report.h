/* import_report.h - the report about one imported or migrated item. */
#ifndef QP_OLD_IMPORT_REPORT_H
#define QP_OLD_IMPORT_REPORT_H

#include "quipu.h"

/* Adds a sentence to the notes, cut to a line's length. False: no memory. */
bool qp__report_note(struct qp_import_report *report, const char *fmt, ...) QP_PRINTF(2, 3);

#endif
