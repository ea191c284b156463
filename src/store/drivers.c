/* drivers.c - the drivers of libquipu. */
#include "store/driver.h"

const struct qp__driver *const qp__drivers[] = {
  &qp__driver_files,
  &qp__driver_memory,
#ifdef QP_POSTGRES
  &qp__driver_postgres,
#endif
  NULL,
};
