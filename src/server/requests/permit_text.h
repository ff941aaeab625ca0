/*
 * permit_text.h: writes and reads a permit, by which a client later refunds or reports its request,
 * as a text that clients can neither guess nor change.
 *
 *     base64url( tag 16 | words, 8 bytes each, encrypted )
 *     words: id, cost, then for each charge its limit, key, until;
 *            if any charge has the name of its key (struct engine_names): the number of
 *            charges in the highest byte of the cost, and at the end for each charge the
 *            name's length plus 1 (2 bytes, low first; 0 without a name) and the name;
 *            zeros up to the next word;
 *            after a reload has changed parameters, or with a giver: the generations of
 *            the charges, 4 bits each;
 *            if servers share permits: the giver (struct decision_context)
 *
 * The tag is the 128 bits of SipHash-2-4 over the words. The words are xored with hashes of the tag
 * and a counter. Both use keys that are derived from the table's secret. The tag therefore proves
 * that the words were written here, and it is the only nonce: since ids differ, so do tags (the
 * construction of RFC 5297). The words are encrypted because hashes of keys would show which keys
 * share a cell. If a table's file has the secret, permits outlive a restart.
 *
 * Why SipHash-2-4: no attack on it is better than trying all keys, and a forger can try once per
 * request. The case for 1-3, which hashes keys, rests on outputs that nobody sees. A library of
 * ciphers for 56 bytes would be our only such dependency.
 */
#ifndef SERVER_PERMIT_TEXT_H
#define SERVER_PERMIT_TEXT_H

#include "base/arena.h"
#include "base/hash.h"
#include "engine/engine.h"

/* Bytes of all names. Keys behind a proxy may be longer; names beyond this are omitted. */
#define PERMIT_NAMES_MAX 4096

/** Writes permits of at least one charge. The data is NULL if memory is short. */
struct slice permit_text_write(const struct weir_permits *permits, const struct engine_names *names,
                               const struct hash_key *secret, struct arena *arena);

/**
 * Returns false if the text was not written under this secret, or if `arena`, which gets the names,
 * has no memory.
 */
bool permit_text_read(struct slice text, const struct hash_key *secret, struct arena *arena,
                      struct weir_permits *permits, struct engine_names *names);

#endif
