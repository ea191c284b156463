/* drivers_local.c - the drivers of libquipu-store: those that need no other library. */
#include "store/driver.h"

const struct qp__driver *const qp__drivers[] = { &qp__driver_files, &qp__driver_memory, NULL };
