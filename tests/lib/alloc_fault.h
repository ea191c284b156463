/* alloc_fault.h - makes a chosen allocation fail.
 *
 * Needs the linker options --wrap=malloc, --wrap=calloc and --wrap=realloc, which redirect every
 * call in our own code to the functions here; jansson is redirected through its hooks. The
 * allocations of all threads are counted together. A loop that tries every point:
 *
 *   for (long n = 1; fired; n++) {
 *     alloc_fault_arm(n);
 *     ... call the tested function ...
 *     fired = alloc_fault_fired();
 *     alloc_fault_disarm();
 *     ... check the result ...
 *   } */
#ifndef ALLOC_FAULT_H
#define ALLOC_FAULT_H

#include <stdbool.h>

/* Once, before anything else uses jansson. */
void alloc_fault_init(void);

/* The nth allocation from now on fails, later ones succeed; 1 (and 0) is the next one. Resets
 * `fired`. */
void alloc_fault_arm(long n);
/* The same, but all later ones fail too. */
void alloc_fault_arm_all(long n);
void alloc_fault_disarm(void);

/* Whether an allocation was made to fail since it was last armed. */
bool alloc_fault_fired(void);

#endif
