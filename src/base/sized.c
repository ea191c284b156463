/* sized.c - see sized.h. */
#include "base/sized.h"

#include <string.h>

#include "base/err.h"

enum qp_rc
qp__sized_copy(const char *what, const void *given, void *own, size_t size, struct qp_err *err)
{
  const char *bytes = (const char *)given;
  size_t given_size = size;

  if (given)
    memcpy(&given_size, given, sizeof(given_size));
  if (given_size < sizeof(given_size))
    return qp__fail(err, QP_MISUSE, "%s: 'size' is not set; start from QP_INIT", what);
  for (size_t i = size; i < given_size; i++)
    if (bytes[i])
      return qp__fail(err, QP_MISUSE,
                      "%s: sets a member that libquipu %s does not have; use a newer libquipu",
                      what, QP_VERSION);
  memset(own, 0, size);
  if (given)
    memcpy(own, given, given_size < size ? given_size : size);
  memcpy(own, &size, sizeof(size));
  return QP_OK;
}
