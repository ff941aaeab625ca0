/*
 * list.h: links structs in doubly linked lists, through nodes that are members of these structs.
 *
 * A list of zeros is empty, and a node of zeros is in no list. Adding, removing, and asking whether
 * a node is in a list take constant time and no memory. A list with nodes must not move.
 *
 *     struct job { int number; struct list_node node; };
 *     struct list jobs = {0};
 *
 *     list_append(&jobs, &job->node);
 *     LIST_EACH(&jobs, struct job, node, job)
 *         printf("%d\n", job->number);
 *     while ((job = list_of(list_pop(&jobs), struct job, node)))
 *         free(job);
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
	struct list_node *next;  /* first: see list_previous */
	struct list_node **link; /* the pointer to this node; NULL if it is in no list */
};

struct list {
	struct list_node *first; /* NULL if the list is empty */
	struct list_node **end;  /* the last node's `next`; undefined if the list is empty */
};

static inline void *list_owner(const struct list_node *node, size_t offset)
{
	return node ? (char *)node - offset : NULL;
}

/** The struct that a node stands in; NULL for NULL. */
#define list_of(node, type, member) ((type *)list_owner(node, offsetof(type, member)))

/**
 * A loop over a list's structs. Its body may remove and free the struct that it is at, and no
 * other.
 */
#define LIST_EACH(list, type, member, name)                                                        \
	for (type *name = list_of((list)->first, type, member), *name##_next;                          \
	     name && (name##_next = list_of(name->member.next, type, member), true); name = name##_next)

static inline bool list_has(const struct list_node *node)
{
	return node->link != NULL;
}

/** Adds a node, which is in no list, before another one; or behind all if that is NULL. */
static inline void list_insert(struct list *list, struct list_node *node, struct list_node *before)
{
	node->next = before;
	node->link = before ? before->link : list->first ? list->end : &list->first;
	*node->link = node;
	*(before ? &before->link : &list->end) = &node->next;
}

static inline void list_append(struct list *list, struct list_node *node)
{
	list_insert(list, node, NULL);
}

/** Removes a node from its list. Does nothing if it is in none. */
static inline void list_remove(struct list *list, struct list_node *node)
{
	if (!node->link)
		return;
	*node->link = node->next;
	*(node->next ? &node->next->link : &list->end) = node->link;
	node->link = NULL;
}

/** Removes the first node and returns it, or NULL if there is none. */
static inline struct list_node *list_pop(struct list *list)
{
	struct list_node *first = list->first;

	if (first)
		list_remove(list, first);
	return first;
}

/** The node before one that is in the list, or NULL if that is the first. */
static inline struct list_node *list_previous(const struct list *list, const struct list_node *node)
{
	return node == list->first ? NULL : (struct list_node *)node->link;
}

/** The last node, or NULL if the list is empty. */
static inline struct list_node *list_last(const struct list *list)
{
	return list->first ? (struct list_node *)list->end : NULL;
}

#endif
