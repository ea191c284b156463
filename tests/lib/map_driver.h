/* map_driver.h - the smallest driver that the front accepts: a map from names to bytes, without
 * capabilities. It shows the requirements of the core of store/driver.h; the conformance suite
 * runs on it. It ends the program when memory runs out. */
#ifndef MAP_DRIVER_H
#define MAP_DRIVER_H

#include "store/driver.h"

extern const struct qp__driver map_driver;

#endif
