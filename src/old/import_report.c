/* import_report.c - see import_report.h and struct qp_import_report in quipu.h. */
#include "old/import_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define NOTE_MAX 400

const char *
qp_import_outcome_name(enum qp_import_outcome outcome)
{
  static const char *const names[] = {
    [QP_IMPORT_DONE] = "done",
    [QP_IMPORT_ALREADY] = "already",
    [QP_IMPORT_FAILED] = "failed",
  };

  return (size_t)outcome < sizeof(names) / sizeof(names[0]) ? names[outcome] : "unknown";
}

void
qp_import_report_release(struct qp_import_report *report)
{
  for (size_t i = 0; i < report->note_count; i++)
    qp__free(report->notes[i]);
  qp__free(report->notes);
  memset(report, 0, sizeof(*report));
}

bool
qp__report_note(struct qp_import_report *report, const char *fmt, ...)
{
  size_t n = report->note_count;
  char text[NOTE_MAX];
  char **notes = report->notes;
  va_list args;

  if (!(n & (n - 1))) { /* 0, 1, 2, 4, …: full */
    notes = qp__realloc(notes, (n ? 2 * n : 1) * sizeof(*notes));
    if (!notes)
      return false;
    report->notes = notes;
  }
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  notes[n] = qp__strdup(text);
  if (!notes[n])
    return false;
  report->note_count++;
  return true;
}
