/*
 * permit_text.h: a permit as clients carry it: opaque, and not to be guessed or changed.
 *
 *     base64url( tag 16 | words, 8 bytes each, encrypted )
 *     words: id, cost, then for each charge its limit, key, until;
 *            where any charge has the name of its key (struct engine_names): the count of
 *            charges above the cost, in its highest byte, and in the end for each charge one
 *            more than the name's length (2 bytes, low first; 0: none) and the name; zeros.
 *            After a reload has changed parameters, or with a giver: the generations of the
 * charges, 4 bits each. Where servers share permits: the giver (struct decision_context)
 *
 * The tag is SipHash-2-4's 128 bits of the words, and the words are xored with those of
 * the tag and a counter, under two keys derived from the table's secret. So the tag
 * proves that the words came from here, and it is the only nonce: ids differ, so tags do
 * (the construction of RFC 5297). The words are encrypted because hashes of keys would
 * show which keys share a cell. With the secret in a table's file permits outlive a restart.
 *
 * Why SipHash-2-4: no attack on it is better than trying all keys, and a forger has one
 * try a request. The case for 1-3, which hashes keys, rests on outputs that nobody sees. A
 * library of ciphers for 56 bytes would be our only such dependency.
 */
#ifndef SERVER_PERMIT_TEXT_H
#define SERVER_PERMIT_TEXT_H

#include "base/arena.h"
#include "base/hash.h"
#include "engine/engine.h"

/* Bytes of names. Behind a proxy keys may be longer: those are left out. */
#define PERMIT_NAMES_MAX 4096

/** Writes permits of one charge or more. NULL in the slice: no memory. */
struct slice permit_text_write(const struct weir_permits *permits,
                               const struct engine_names *names, const struct hash_key *secret,
                               struct arena *arena);

/**
 * False: it was not written under this secret, whatever is wrong with it; or there is no memory
 * for the names, which are in `arena`.
 */
bool permit_text_read(struct slice text, const struct hash_key *secret, struct arena *arena,
                      struct weir_permits *permits, struct engine_names *names);

#endif
