/* openapi.h - the API description, api/openapi.json, as it is served. The build embeds it
 * (tools/embed.c). */
#ifndef QP_HTTP_OPENAPI_H
#define QP_HTTP_OPENAPI_H

#include <stddef.h>

extern const unsigned char qp__openapi_json[];
extern const size_t qp__openapi_json_len;

#endif
