/* dies.h - tests of the checks of base/assert.h: a function that breaks an invariant on purpose
 * must end its process with the message of that check. */
#ifndef TEST_DIES_H
#define TEST_DIES_H

/* Runs fn(arg) in a child process. The test fails unless the child aborts and has printed
 * "check failed: " and, behind it in the same line, `condition`. */
void test_dies(void (*fn)(void *arg), void *arg, const char *condition);

#endif
