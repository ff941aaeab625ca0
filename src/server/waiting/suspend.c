/*
 * suspend.c: copies a work, a request that is being processed, into a block of memory of its own,
 * with all that its plan and its answer need. So it outlives the iteration that read it.
 */
#include "server/waiting/suspend.h"

#include <stdlib.h>
#include <string.h>

#include "engine/remote/submit.h"
#include "server/denials/denial_attributes.h"

#define ALIGNMENT alignof(max_align_t)

/* The size of most suspended works, and how many free blocks of that size a worker retains. */
#define SMALL_BLOCK_BYTES ((size_t)896)
#define SPARE_BLOCKS_MAX  2048

/*
 * Memory that is given out from its start. Once it is used up, reserve_space() returns NULL but
 * still counts. The functions below then copy nothing: so they find the size of block that is
 * needed.
 */
struct copy_space {
	char *memory;
	size_t size, used;
};

static void *reserve_space(struct copy_space *copy_space, size_t size)
{
	char *memory = copy_space->memory + copy_space->used;

	copy_space->used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return copy_space->used <= copy_space->size ? memory : NULL;
}

/* Returns NULL if the space is used up, like all functions below that return a copy. */
static void *copy_block(struct copy_space *copy_space, const void *from, size_t size)
{
	void *to = reserve_space(copy_space, size);

	return to && size > 0 ? memcpy(to, from, size) : to;
}

static void copy_slice(struct copy_space *copy_space, struct slice *text)
{
	if (text->data)
		text->data = copy_block(copy_space, text->data, text->len);
}

/* Copies the fields that the answer needs. Other fields serve only to prepare the plan. */
static void copy_request(struct copy_space *copy_space, const struct request *from,
                         struct request *to)
{
	struct slice *words =
	    copy_block(copy_space, from->words, from->word_count * sizeof *from->words);
	struct request *items =
	    copy_block(copy_space, from->items, from->item_count * sizeof *from->items);
	struct request ignored;

	*to = *from;
	to->origin = NULL;
	to->attributes = NULL;
	to->attribute_count = 0;
	to->key = to->permit = to->forwarded_for = (struct slice){NULL, 0};
	to->words = words;
	to->items = items;
	copy_slice(copy_space, &to->limit);
	copy_slice(copy_space, &to->name);
	copy_slice(copy_space, &to->local_text);
	for (size_t i = 0; i < from->word_count; i++) {
		struct slice word = from->words[i];

		copy_slice(copy_space, &word);
		if (words)
			words[i] = word;
	}
	for (size_t i = 0; i < from->item_count; i++)
		copy_request(copy_space, &from->items[i], items ? &items[i] : &ignored);
}

static struct slice copy_bytes(struct copy_space *copy_space, struct slice bytes)
{
	copy_slice(copy_space, &bytes);
	return bytes;
}

static const struct weir_attribute *copy_attributes(struct copy_space *copy_space,
                                                    const struct weir_attribute *from, size_t n)
{
	struct weir_attribute *to = reserve_space(copy_space, n * sizeof *to), ignored;

	for (size_t i = 0; i < n; i++) {
		struct weir_attribute *attribute = to ? &to[i] : &ignored;

		*attribute = from[i];
		attribute->name = copy_block(copy_space, from[i].name, strlen(from[i].name) + 1);
		attribute->value = copy_block(copy_space, from[i].value, from[i].value_len);
	}
	return to;
}

/* Copies the fields that copy_request omits, for an item of a batch that is not prepared yet. */
static void copy_unprepared_fields(struct copy_space *copy_space, const struct request *from,
                                   struct request *to)
{
	struct request *items = (struct request *)to->items, ignored = {0};

	to->key = copy_bytes(copy_space, from->key);
	to->permit = copy_bytes(copy_space, from->permit);
	to->forwarded_for = copy_bytes(copy_space, from->forwarded_for);
	to->attributes = copy_attributes(copy_space, from->attributes, from->attribute_count);
	to->attribute_count = from->attribute_count;
	for (size_t i = 0; i < from->item_count; i++)
		copy_unprepared_fields(copy_space, &from->items[i], items ? &items[i] : &ignored);
}

/* Omits the login: the sender of a batch is known, and is not proved again for its items. */
static const struct request_origin *copy_origin(struct copy_space *copy_space,
                                                const struct request_origin *from)
{
	struct request_origin *origin = from ? reserve_space(copy_space, sizeof *origin) : NULL;
	struct slice host = from ? copy_bytes(copy_space, from->host) : (struct slice){NULL, 0};

	if (origin)
		*origin = (struct request_origin){host, from->is_from_foreign_page, from->forwarded,
		                                  .login = {{0}, {0}}};
	return origin;
}

/* Copies what the items of a batch that have not begun still need to be prepared. */
static void copy_items_to_begin(struct copy_space *copy_space, const struct batch *from,
                                struct request *to)
{
	struct request *items = (struct request *)to->items, ignored = {0};

	to->origin = copy_origin(copy_space, from->request.origin);
	for (size_t i = from->begun_count; i < from->request.item_count; i++)
		copy_unprepared_fields(copy_space, &from->request.items[i], items ? &items[i] : &ignored);
}

static void copy_work(const struct decider *decider, struct copy_space *copy_space,
                      const struct work *from, struct work *to);

/* Copies a batch with its items. It is copied before it runs, so the replies begin empty. */
static struct request *copy_batch(const struct decider *decider, struct copy_space *copy_space,
                                  const struct work *work)
{
	size_t begun;
	const struct work *item_works = items_of(work, &begun);
	const struct batch *from = (const struct batch *)work->full_request;
	size_t item_count = from->request.item_count;
	struct batch *batch =
	    reserve_space(copy_space, sizeof *batch + item_count * sizeof *batch->items);
	struct reply *replies = reserve_space(copy_space, item_count * sizeof *replies);
	struct request request;
	struct work ignored;

	copy_request(copy_space, work->full_request, &request);
	copy_items_to_begin(copy_space, from, &request);
	if (batch) {
		*batch = *from;
		batch->request = request;
		batch->replies = replies;
	}
	for (size_t i = 0; i < begun; i++)
		copy_work(decider, copy_space, &item_works[i], batch ? &batch->items[i] : &ignored);
	for (size_t i = 0; replies && i < item_count; i++)
		replies[i] = (struct reply){.is_unfinished = true}; /* so that its item is run */
	return batch ? &batch->request : NULL;
}

static struct request *copy_full_request(const struct decider *decider,
                                         struct copy_space *copy_space, const struct work *work)
{
	struct request *request, ignored;

	if (!work->full_request)
		return NULL;
	if (work->kind == REQUEST_BATCH)
		return copy_batch(decider, copy_space, work);
	request = reserve_space(copy_space, sizeof *request);
	copy_request(copy_space, work->full_request, request ? request : &ignored);
	return request;
}

/*
 * Copies the attributes that a denial of the plan would be kept with, those that fit into
 * DENIAL_ATTRIBUTES_MAX bytes.
 */
static void copy_attributes_to_keep(const struct decider *decider, struct copy_space *copy_space,
                                    const struct plan *from, struct plan *to)
{
	struct weir_attribute kept[WEIR_ATTRIBUTES_MAX];
	size_t count = 0, bytes = 0;

	for (size_t i = 0; i < from->attributes.count; i++) {
		const struct weir_attribute *attribute = &from->attributes.items[i];
		size_t size = strlen(attribute->name) + 1 + attribute->value_len;

		if (bytes + size > DENIAL_ATTRIBUTES_MAX || !denial_attributes_are_kept(decider, from, i))
			continue;
		kept[count++] = *attribute;
		bytes += size;
	}
	to->attributes = (struct plan_attributes){copy_attributes(copy_space, kept, count), count};
}

static void copy_plan(const struct decider *decider, struct copy_space *copy_space,
                      const struct work *from, struct work *to)
{
	void *memory = reserve_space(copy_space, engine_suspend_size(&from->plan));

	if (memory)
		engine_suspend(decider->shared->table, &to->plan, &from->plan, memory);
	if (from->plan.has_attributes)
		copy_attributes_to_keep(decider, copy_space, &from->plan, &to->plan);
}

static void copy_work(const struct decider *decider, struct copy_space *copy_space,
                      const struct work *from, struct work *to)
{
	*to = *from;
	if (work_has_plan(from))
		copy_plan(decider, copy_space, from, to);
	else
		to->plan.step_count = 0;
	if (from->status != WEIR_OK && from->kind != REQUEST_LOCAL)
		to->message = copy_block(copy_space, from->message, strlen(from->message) + 1);
	else
		to->full_request = copy_full_request(decider, copy_space, from);
}

bool suspend_needed_for_store(const struct work *work)
{
	size_t n;
	const struct work *items = items_of(work, &n);

	for (size_t i = 0; i < n; i++)
		if (suspend_needed_for_store(&items[i]))
			return true;
	return work_has_plan(work) && engine_is_remote(&work->plan);
}

/* The memory that store clients need for the plans of a work while these are at stores. */
static size_t bytes_at_stores(const struct work *work)
{
	size_t n;
	const struct work *items = items_of(work, &n);
	size_t size =
	    work_has_plan(work) && engine_is_remote(&work->plan) ? submit_size(&work->plan) : 0;

	for (size_t i = 0; i < n; i++)
		size += bytes_at_stores(&items[i]);
	return size;
}

size_t suspend_size(const struct work *work)
{
	size_t n =
	    work->kind == REQUEST_BATCH && work->status == WEIR_OK ? work->full_request->item_count : 0;

	return PENDING_SIZE + n * (sizeof *work + sizeof(struct request) + sizeof(struct reply)) +
	       bytes_at_stores(work);
}

/* Keeps small blocks for later works: an iteration may suspend many. */
void suspend_release(struct unanswered *unanswered)
{
	struct suspended *suspended = (struct suspended *)unanswered;
	struct waiting *waiting = suspended->waiting;

	if (suspended->block_size > SMALL_BLOCK_BYTES || waiting->spare_count == SPARE_BLOCKS_MAX) {
		free(suspended);
		return;
	}
	list_insert(&waiting->spare_blocks, &suspended->node, waiting->spare_blocks.first);
	waiting->spare_count++;
}

/* Returns a free block or a new one. The fields before `work` that it does not set are zero. */
static struct suspended *allocate_suspended(struct waiting *waiting, size_t size)
{
	struct list_node *spare = size <= SMALL_BLOCK_BYTES ? list_pop(&waiting->spare_blocks) : NULL;
	struct suspended *suspended = list_of(spare, struct suspended, node);

	if (suspended) {
		waiting->spare_count--;
	} else {
		suspended = malloc(size <= SMALL_BLOCK_BYTES ? SMALL_BLOCK_BYTES : size);
		if (!suspended)
			return NULL;
	}
	memset(suspended, 0, offsetof(struct suspended, work));
	suspended->block_size = size <= SMALL_BLOCK_BYTES ? SMALL_BLOCK_BYTES : size;
	suspended->waiting = waiting;
	suspended->decider = waiting->decider;
	return suspended;
}

/*
 * Copies into a block of `size`, or of the size that turns out to be needed. Returns NULL if memory
 * is short.
 */
static struct suspended *copy_to_block(struct waiting *waiting, const struct work *work,
                                       size_t size)
{
	struct suspended *suspended = allocate_suspended(waiting, size);
	struct copy_space copy_space;

	if (!suspended)
		return NULL;
	copy_space = (struct copy_space){suspended->bytes, size - sizeof *suspended, 0};
	copy_work(waiting->decider, &copy_space, work, &suspended->work);
	if (copy_space.used <= copy_space.size)
		return suspended;
	suspend_release(&suspended->unanswered);
	return copy_to_block(waiting, work, sizeof *suspended + copy_space.used);
}

/* Copies the work and lists it as the newest of its client. Returns NULL if memory is short. */
struct suspended *suspend_work(struct waiting *waiting, const struct work *work,
                               const struct unanswered_kind *kind,
                               const struct unanswered_owner *owner)
{
	struct suspended *suspended = copy_to_block(waiting, work, SMALL_BLOCK_BYTES);

	if (!suspended)
		return NULL;
	suspended->unanswered.charged_bytes = suspended->block_size + bytes_at_stores(work);
	pending_identify(&suspended->unanswered, waiting->decider, work);
	suspended->unanswered.owner = owner;
	if (pending_add(&waiting->pending, &suspended->unanswered, kind, work->conn, PENDING_NEVER))
		return suspended;
	suspend_release(&suspended->unanswered);
	return NULL;
}

void suspend_close(struct waiting *waiting)
{
	LIST_EACH (&waiting->spare_blocks, struct suspended, node, suspended)
		free(suspended);
}
