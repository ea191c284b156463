/* glob.h - patterns with wildcards, for policy rules and for the tools that search files.
 *
 * '?' matches one character, '[a-z]' and '[!a-z]' one of a set, and '\' makes the next character an
 * ordinary one. A '\' at the end and a '[' without ']' are ordinary characters. Matching costs at
 * most pattern length * text length; nothing is allocated. Bytes are compared, so '?' matches one
 * byte of UTF-8. */
#ifndef QP_TOOL_GLOB_H
#define QP_TOOL_GLOB_H

#include <stdbool.h>

/* '*' matches any run of bytes, also '/'. The text that a wildcard matches must not contain any
 * byte of `never` (may be NULL). */
bool qp__glob_text(const char *pattern, const char *text, const char *never);

/* For paths: '*', '?' and sets do not match '/'; a component "**" matches zero or more components.
 * A pattern without '/' is compared with the last component. */
bool qp__glob_path(const char *pattern, const char *path);

#endif
