/* glob.h - patterns with wildcards: of policy rules, and of the tools that look for files.
 *
 * '?' is one character, '[a-z]' and '[!a-z]' one of a set, '\' takes the meaning from what follows.
 * A pattern that ends in '\' or has an open '[' takes these as they are. Matching takes at most
 * time pattern * text; nothing is allocated. Bytes are compared, so '?' is one byte of UTF-8. */
#ifndef QP_TOOL_GLOB_H
#define QP_TOOL_GLOB_H

#include <stdbool.h>

/* '*' is any run of bytes, '/' too. What a wildcard takes must hold none of the bytes of `never`
 * (may be NULL). */
bool qp__glob_text(const char *pattern, const char *text, const char *never);

/* For paths: '*', '?' and sets stop at '/', a component "**" is any number of components, also
 * none. A pattern without '/' is compared with the last component. */
bool qp__glob_path(const char *pattern, const char *path);

#endif
