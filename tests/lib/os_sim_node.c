/* os_sim_node.c - the parts of the simulated file system: contents, directories, inodes.
 *
 * A journal segment consists mostly of zeros, so a content is a table of pages that are allocated
 * when the first byte other than 0 is written to them. */
#include "os_sim_int.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define PAGE_LEN 4096u
#define FIRST_PAGES 8
#define FIRST_NAMES 8

/* ---- contents ---- */

bool
qp__sim_is_zero(const unsigned char *p, size_t n)
{
  return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* The part of n bytes at `off` that is in the page of `off`. */
static size_t
part_in_page(size_t n, uint64_t off)
{
  size_t room = PAGE_LEN - (size_t)(off % PAGE_LEN);

  return n < room ? n : room;
}

static int
grow_pages(struct qp__sim_data *d, uint64_t end)
{
  size_t need = (size_t)((end + PAGE_LEN - 1) / PAGE_LEN);
  size_t cap = d->page_cap ? d->page_cap : FIRST_PAGES;
  unsigned char **pages;

  if (need <= d->page_cap)
    return 0;
  while (cap < need)
    cap *= 2;
  pages = qp__realloc(d->pages, cap * sizeof(*pages));
  if (!pages)
    return -ENOMEM;
  memset(pages + d->page_cap, 0, (cap - d->page_cap) * sizeof(*pages));
  d->pages = pages;
  d->page_cap = cap;
  return 0;
}

/* Allocates the pages that a write needs; a page that is not needed in the end has only zeros
 * and does no harm. */
static int
make_pages(struct qp__sim_data *d, const unsigned char *src, size_t n, uint64_t off)
{
  size_t part;

  for (size_t done = 0; done < n; done += part) {
    unsigned char **page = &d->pages[(off + done) / PAGE_LEN];

    part = part_in_page(n - done, off + done);
    if (*page || qp__sim_is_zero(src + done, part))
      continue;
    *page = qp__alloc0(1, PAGE_LEN);
    if (!*page)
      return -ENOMEM;
  }
  return 0;
}

int
qp__sim_data_write(struct qp__sim_data *d, const unsigned char *src, size_t n, uint64_t off)
{
  size_t part;
  int rc;

  if (n == 0)
    return 0;
  if (src) {
    rc = grow_pages(d, off + n);
    if (!rc)
      rc = make_pages(d, src, n, off);
    if (rc)
      return rc;
  }
  for (size_t done = 0; done < n; done += part) {
    size_t i = (size_t)((off + done) / PAGE_LEN);

    part = part_in_page(n - done, off + done);
    if (i >= d->page_cap || !d->pages[i])
      continue; /* zeros already, and zeros to write */
    if (src)
      memcpy(d->pages[i] + (off + done) % PAGE_LEN, src + done, part);
    else
      memset(d->pages[i] + (off + done) % PAGE_LEN, 0, part);
  }
  if (d->size < off + n)
    d->size = off + n;
  return 0;
}

void
qp__sim_data_read(const struct qp__sim_data *d, unsigned char *dst, size_t n, uint64_t off)
{
  size_t part;

  for (size_t done = 0; done < n; done += part) {
    size_t i = (size_t)((off + done) / PAGE_LEN);

    part = part_in_page(n - done, off + done);
    if (i < d->page_cap && d->pages[i])
      memcpy(dst + done, d->pages[i] + (off + done) % PAGE_LEN, part);
    else
      memset(dst + done, 0, part);
  }
}

void
qp__sim_data_resize(struct qp__sim_data *d, uint64_t size)
{
  size_t keep = (size_t)((size + PAGE_LEN - 1) / PAGE_LEN);
  size_t tail = (size_t)(size % PAGE_LEN);

  if (size < d->size) {
    for (size_t i = keep; i < d->page_cap; i++) {
      qp__free(d->pages[i]);
      d->pages[i] = NULL;
    }
    if (tail && keep - 1 < d->page_cap && d->pages[keep - 1])
      memset(d->pages[keep - 1] + tail, 0, PAGE_LEN - tail);
  }
  d->size = size;
}

void
qp__sim_data_release(struct qp__sim_data *d)
{
  for (size_t i = 0; i < d->page_cap; i++)
    qp__free(d->pages[i]);
  qp__free(d->pages);
  memset(d, 0, sizeof(*d));
}

int
qp__sim_data_copy(struct qp__sim_data *d, const struct qp__sim_data *from)
{
  struct qp__sim_data copy = { 0 };
  int rc = 0;

  for (size_t i = 0; !rc && i < from->page_cap; i++)
    if (from->pages[i])
      rc = qp__sim_data_write(&copy, from->pages[i], PAGE_LEN, (uint64_t)i * PAGE_LEN);
  if (rc) {
    qp__sim_data_release(&copy);
    return rc;
  }
  copy.size = from->size;
  qp__sim_data_release(d);
  *d = copy;
  return 0;
}

/* ---- directories ---- */

/* The place of a name, or where it would be. */
static size_t
find_index(const struct qp__sim_names *names, const char *text, bool *found)
{
  size_t lo = 0;
  size_t hi = names->count;

  *found = false;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    int order = strcmp(names->v[mid].text, text);

    if (order == 0) {
      *found = true;
      return mid;
    }
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

struct qp__sim_inode *
qp__sim_names_find(const struct qp__sim_names *names, const char *text)
{
  bool found;
  size_t i = find_index(names, text, &found);

  return found ? names->v[i].node : NULL;
}

static int
grow_names(struct qp__sim_names *names, size_t need)
{
  size_t cap = names->cap ? names->cap : FIRST_NAMES;
  struct qp__sim_name *v;

  if (need <= names->cap)
    return 0;
  while (cap < need)
    cap *= 2;
  v = qp__realloc(names->v, cap * sizeof(*v));
  if (!v)
    return -ENOMEM;
  names->v = v;
  names->cap = cap;
  return 0;
}

int
qp__sim_names_put(struct qp__sim_names *names, const char *text, struct qp__sim_inode *node)
{
  bool found;
  size_t i = find_index(names, text, &found);
  struct qp__sim_inode *old;
  char *copy;

  if (found) {
    old = names->v[i].node;
    names->v[i].node = qp__sim_inode_ref(node);
    qp__sim_inode_unref(old);
    return 0;
  }
  if (grow_names(names, names->count + 1))
    return -ENOMEM;
  copy = qp__strdup(text);
  if (!copy)
    return -ENOMEM;
  memmove(names->v + i + 1, names->v + i, (names->count - i) * sizeof(*names->v));
  names->v[i].text = copy;
  names->v[i].node = qp__sim_inode_ref(node);
  names->count++;
  return 0;
}

void
qp__sim_names_remove(struct qp__sim_names *names, const char *text)
{
  bool found;
  size_t i = find_index(names, text, &found);
  struct qp__sim_name old;

  if (!found)
    return;
  old = names->v[i];
  names->count--;
  memmove(names->v + i, names->v + i + 1, (names->count - i) * sizeof(*names->v));
  qp__free(old.text);
  qp__sim_inode_unref(old.node);
}

void
qp__sim_names_release(struct qp__sim_names *names)
{
  struct qp__sim_names old = *names;

  memset(names, 0, sizeof(*names));
  for (size_t i = 0; i < old.count; i++) {
    qp__free(old.v[i].text);
    qp__sim_inode_unref(old.v[i].node);
  }
  qp__free(old.v);
}

int
qp__sim_names_copy(struct qp__sim_names *names, const struct qp__sim_names *from)
{
  struct qp__sim_names copy = { 0 };
  int rc = grow_names(&copy, from->count);

  for (size_t i = 0; !rc && i < from->count; i++)
    rc = qp__sim_names_put(&copy, from->v[i].text, from->v[i].node);
  if (rc) {
    qp__sim_names_release(&copy);
    return rc;
  }
  qp__sim_names_release(names);
  *names = copy;
  return 0;
}

/* ---- inodes ---- */

struct qp__sim_inode *
qp__sim_inode_new(struct qp__os_sim *s, mode_t mode)
{
  struct qp__sim_inode *node = qp__alloc0(1, sizeof(*node));

  if (!node)
    return NULL;
  node->sim = s;
  node->number = s->next_inode++;
  node->mode = mode;
  node->mtime_ms = s->now;
  node->prev = s->last;
  if (s->last)
    s->last->next = node;
  else
    s->first = node;
  s->last = node;
  return node;
}

static void
free_alone(struct qp__sim_inode *node)
{
  struct qp__sim_change *change = node->first_change;

  while (change) {
    struct qp__sim_change *next = change->next;

    qp__free(change);
    change = next;
  }
  qp__sim_data_release(&node->data);
  qp__sim_data_release(&node->disk_data);
  if (node->prev)
    node->prev->next = node->next;
  else
    node->sim->first = node->next;
  if (node->next)
    node->next->prev = node->prev;
  else
    node->sim->last = node->prev;
  qp__free(node);
}

struct qp__sim_inode *
qp__sim_inode_ref(struct qp__sim_inode *node)
{
  node->refs++;
  return node;
}

void
qp__sim_inode_unref(struct qp__sim_inode *node)
{
  if (!node || --node->refs > 0)
    return;
  qp__sim_names_release(&node->names);
  qp__sim_names_release(&node->disk_names);
  free_alone(node);
}

void
qp__sim_hold_all(struct qp__os_sim *s)
{
  for (struct qp__sim_inode *node = s->first; node; node = node->next)
    node->refs++;
}

/* Freeing an inode may free others that it names, but none that the loop has still to visit. */
void
qp__sim_release_all(struct qp__os_sim *s)
{
  struct qp__sim_inode *node = s->first;

  while (node) {
    struct qp__sim_inode *next = node->next;

    qp__sim_inode_unref(node);
    node = next;
  }
}

void
qp__sim_close(struct qp__os_sim *s, struct qp__sim_file *file)
{
  struct qp__sim_inode *node = file->node;

  memset(file, 0, sizeof(*file));
  node->opens--;
  if (node->links == 0 && node->opens == 0)
    s->used -= node->data.size;
  qp__sim_inode_unref(node);
}
