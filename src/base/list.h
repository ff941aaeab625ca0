/*
 * list.h: links structs in doubly linked lists, through nodes that are members of these structs.
 *
 * A zeroed list is empty, and a zeroed node is in no list. All functions take constant time and
 * allocate nothing. A list that has nodes must not move in memory.
 *
 *     struct task { int number; struct list_node node; };
 *     struct list tasks = {0};
 *
 *     list_append(&tasks, &task->node);
 *     LIST_EACH (&tasks, struct task, node, task)
 *         printf("%d\n", task->number);
 *     while ((task = list_of(list_pop(&tasks), struct task, node)))
 *         free(task);
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

/** The struct that has this node as a member, or NULL if `node` is NULL. */
#define list_of(node, type, member) ((type *)list_owner(node, offsetof(type, member)))

/** Loops over a list's structs. The body may remove and free the current struct, and no other. */
#define LIST_EACH(list, type, member, name)                                                        \
	for (type *name = list_of((list)->first, type, member), *name##_next;                          \
	     name && (name##_next = list_of(name->member.next, type, member), true); name = name##_next)

static inline bool list_has(const struct list_node *node)
{
	return node->link != NULL;
}

/** Adds a node, which is in no list, before another one, or at the end if `before` is NULL. */
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

/** Removes a node from its list, if it is in one. */
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
