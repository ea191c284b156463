/* openapi.h - the contract of the server, api/openapi.json, as it is served. The build makes the
 * bytes (tools/embed.c). */
#ifndef QP_HTTP_OPENAPI_H
#define QP_HTTP_OPENAPI_H

#include <stddef.h>

extern const unsigned char qp__openapi_json[];
extern const size_t qp__openapi_json_len;

#endif
