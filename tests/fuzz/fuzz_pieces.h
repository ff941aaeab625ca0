/* fuzz_pieces.h: cuts an input into pieces, each of which begins with its length. */
#ifndef FUZZ_PIECES_H
#define FUZZ_PIECES_H

#include "base/slice.h"

/* The next piece of *rest, which is not empty. */
static inline struct slice cut_piece(struct slice *rest)
{
	size_t len = (unsigned char)*rest->data;
	struct slice piece = {rest->data + 1, len < rest->len - 1 ? len : rest->len - 1};

	*rest = (struct slice){piece.data + piece.len, rest->len - 1 - piece.len};
	return piece;
}

#endif
