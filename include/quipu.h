/* quipu.h - the interface of libquipu.
 *
 * A store keeps contexts. A context is one conversation: a tree of messages, named branches, a
 * configuration and a state. Each branch points at one message, its head. A message never changes
 * after it was saved; an edit makes a new branch. System prompts are stored beside the contexts,
 * which refer to them by id.
 *
 * This file includes all parts. Each part can also be included alone:
 *
 *   quipu/base.h       errors, ids, memory, the rules for structs
 *   quipu/store.h      opening, closing and recovering a store
 *   quipu/message.h    messages in memory
 *   quipu/context.h    contexts and branches; saving and loading messages
 *   quipu/events.h     the event log of a context; several changes in one commit; saving without
 *                      waiting
 *   quipu/prompt.h     system prompts
 *   quipu/session.h    linear histories for bots
 *   quipu/blob.h       images and other bytes that messages refer to
 *   quipu/space.h      archives, compression, garbage collection
 *   quipu/check.h      checking and repairing a store
 *   quipu/backup.h     backup and restore
 *   quipu/copy.h       copying a store to another one
 *   quipu/import.h     conversations of older programs
 *   quipu/catalogue.h  lists of contexts and search (not in libquipu-store)
 *   quipu/queue.h      messages that wait for the end of a turn (not in libquipu-store)
 *   quipu/turns.h      the engine that calls models and tools (not in libquipu-store)
 *   quipu/compaction.h what a model is sent of a long history (not in libquipu-store)
 *
 * These rules hold for every function:
 *
 *   Errors     A function that can fail returns enum qp_rc. When it fails, its outputs are
 *              unchanged, and *err (may be NULL) holds one sentence for a person.
 *   Durability When a function that writes returns QP_OK, the change survives kill -9 and a power
 *              cut. When it returns anything else, the change was not made. Only after QP_IO it may
 *              still appear, as a whole, after the store was recovered or opened again.
 *   Ownership  What you pass remains yours; the library copies what it needs. What you receive
 *              through a ** output is yours: release it with the function that its comment names.
 *              What a function returns as a pointer, and what a callback receives, is borrowed.
 *   Text       All text is UTF-8 and is checked. Times are milliseconds since 1970 in UTC.
 *   Threads    Every function may be called from any thread at any time, also on the same store and
 *              the same context handle. Two exceptions: do not close a handle while another call
 *              uses it; and a struct qp_message belongs to one thread at a time.
 *   Visitors   A visitor is a callback that is called for each item. When it returns anything but
 *              QP_OK, the visit ends and returns that code. A visitor may call functions that read,
 *              also on the same handle. It must not write and must not close anything.
 *   Reads      Reads never wait for writes. They see what was committed when they began. */
#ifndef QUIPU_H
#define QUIPU_H

#include "quipu/backup.h"
#include "quipu/base.h"
#include "quipu/blob.h"
#include "quipu/catalogue.h"
#include "quipu/check.h"
#include "quipu/compaction.h"
#include "quipu/context.h"
#include "quipu/copy.h"
#include "quipu/events.h"
#include "quipu/import.h"
#include "quipu/message.h"
#include "quipu/prompt.h"
#include "quipu/queue.h"
#include "quipu/session.h"
#include "quipu/space.h"
#include "quipu/store.h"
#include "quipu/tools.h"
#include "quipu/turns.h"

#endif
