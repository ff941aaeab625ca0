/*
 * read_user.c: parses and prints `users:` of a rule file in YAML. A user has one proof of identity
 * (a token, password, certificate or Unix user) and permissions. No message shows a secret, not
 * even one that is not a hash, because it may be a password.
 */
#include <string.h>

#include "base/number.h"
#include "readers/yaml/read.h"
#include "rules/scalar.h"

#define USERS_MAX  1000
#define SECRET_MAX 384 /* bytes */

#define TOKEN_DIGITS 64 /* SHA-256 in hexadecimal */

#define FIELD(name)            offsetof(struct rules_user, name)
#define ARRAY(elements, count) NODE_ARRAY(struct rules_user, elements, count)

static const struct word permissions[] = {
    {"ask", RULES_MAY_ASK}, {"change", RULES_MAY_CHANGE}, {"admin", RULES_MAY_ADMIN}, {0}};

/* HTTP separates name and password by a colon, and logs separate names by blanks. */
static int read_user_name(struct reader *reader, const struct node_key *key,
                          const yaml_node_t *value, void *field)
{
	const char **name = field;
	int status = node_name(reader, value, name);

	(void)key;
	if (status == WEIR_OK && strpbrk(*name, ": \t"))
		return node_expected(reader, value, "a name without blanks and colons");
	return status;
}

static int copy_secret(struct reader *reader, struct slice text, void *field)
{
	const char **secret = field;

	*secret = arena_copy(&reader->config->arena, text);
	return *secret ? WEIR_OK : node_no_memory(reader);
}

/* Only methods that take much memory are allowed; the form is libcrypt's, see crypt(5). */
static bool is_password_hash(struct slice text)
{
	static const struct slice methods[] = {SLICE("$y$"), SLICE("$gy$"), SLICE("$7$")};
	static const char letters[] =
	    "./0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ$";
	bool has_known_method = false;

	for (size_t i = 0; i < sizeof methods / sizeof *methods && !has_known_method; i++)
		has_known_method = slice_skip(&text, methods[i]);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\0' || !strchr(letters, text.data[i]))
			return false;
	/* Parameters, salt and hash: 43 letters of hash, and a $ before them. */
	return has_known_method && text.len > 44 && text.len < SECRET_MAX &&
	       text.data[text.len - 44] == '$';
}

/* Describes the text in place of a hash for a message, without showing it. */
static const char *describe_secret(struct slice text)
{
	struct slice rest = text;

	return hex_is_valid(text, TOKEN_DIGITS)    ? "the hash of a token"
	       : is_password_hash(text)            ? "the hash of a password"
	       : slice_skip(&rest, SLICE("weir_")) ? "a token itself"
	       : slice_skip(&rest, SLICE("$"))     ? "a hash of another method, or a damaged one"
	                                           : "another text";
}

static int read_token(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	struct slice text = value->type == YAML_SCALAR_NODE ? node_slice(value) : SLICE("");

	(void)key;
	if (!hex_is_valid(text, TOKEN_DIGITS))
		return node_error(
		    reader, value,
		    "expected the SHA-256 of a token in 64 hexadecimal digits, as `weir passwd "
		    "--token` prints it, found %s",
		    describe_secret(text));
	return copy_secret(reader, text, field);
}

static int read_password(struct reader *reader, const struct node_key *key,
                         const yaml_node_t *value, void *field)
{
	struct slice text = value->type == YAML_SCALAR_NODE ? node_slice(value) : SLICE("");

	(void)key;
	if (!is_password_hash(text))
		return node_error(reader, value,
		                  "expected the hash of a password, as `weir passwd` prints it, found %s",
		                  describe_secret(text));
	return copy_secret(reader, text, field);
}

static int read_permission(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                           void *element)
{
	static const struct node_key permission = {"may", .words = permissions};

	(void)name;
	return node_read_word(reader, &permission, node, element);
}

/* Reads `may:`, a list of permissions, into a set of bits. */
static int read_may(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                    void *field)
{
	static const struct node_items items = {.type = YAML_SEQUENCE_NODE,
	                                        .expected = "a list such as [ask, change, admin]",
	                                        .item_name = "right",
	                                        .size = sizeof(unsigned),
	                                        .required = true,
	                                        .read = read_permission};
	struct node_array found = {0};
	unsigned *may = field;
	int status = node_items(reader, value, &items, &found, NULL);

	(void)key;
	for (size_t i = 0; i < found.count && status == WEIR_OK; i++)
		*may |= ((const unsigned *)found.elements)[i];
	return status;
}

static bool print_may(const struct printer *printer, const struct node_key *key, const void *field,
                      const void *default_value)
{
	unsigned may = *(const unsigned *)field;
	const char *between = "";

	(void)key;
	(void)default_value;
	buffer_add(printer->out, "[", 1);
	for (const struct word *permission = permissions; permission->name; permission++)
		if (may & permission->value) {
			buffer_printf(printer->out, "%s%s", between, permission->name);
			between = ", ";
		}
	buffer_add(printer->out, "]", 1);
	return true;
}

/* Reads the name or pattern of limits. They may be in another file, so they are looked up later. */
static int read_pattern(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                        void *element)
{
	struct rules_text *pattern = element;

	(void)name;
	pattern->file = reader->file;
	pattern->line = (unsigned)node->start_mark.line + 1;
	pattern->column = (unsigned)node->start_mark.column + 1;
	return node_name(reader, node, &pattern->text);
}

static void print_pattern(const struct printer *printer, const void *element)
{
	scalar_add(printer->out, slice_of(((const struct rules_text *)element)->text));
}

static const struct node_items patterns = {.type = YAML_SEQUENCE_NODE,
                                           .expected = "a list of limits such as [login, \"api*\"]",
                                           .item_name = "limit",
                                           .size = sizeof(struct rules_text),
                                           .required = true,
                                           .read = read_pattern,
                                           .print = print_pattern};

static const struct node_kind name_kind = {read_user_name, node_print_text};
static const struct node_kind token_kind = {read_token, node_print_text};
static const struct node_kind password_kind = {read_password, node_print_text};
static const struct node_kind may_kind = {read_may, print_may};

enum { USER_NAME, USER_PROOF, PROOFS = RULES_UNIX + 1 };

/* The keys of proofs are in the order of enum rules_proof, which is also the variant of a user. */
static const struct node_key user_keys[] = {
    [USER_NAME] = {"name", &name_kind, FIELD(name), .required = true},
    [USER_PROOF + RULES_TOKEN] = {"token", &token_kind, FIELD(secret), 1u << RULES_TOKEN},
    [USER_PROOF +
        RULES_PASSWORD] = {"password", &password_kind, FIELD(secret), 1u << RULES_PASSWORD},
    [USER_PROOF + RULES_CERTIFICATE] = {"certificate", &node_text, FIELD(secret),
                                        1u << RULES_CERTIFICATE, .min = 1, .max = SECRET_MAX},
    [USER_PROOF + RULES_UNIX] = {"unix", &node_text, FIELD(secret), 1u << RULES_UNIX, .min = 1,
                                 .max = RULES_NAME_MAX},
    {"may", &may_kind, FIELD(may), .required = true},
    {"limits", &node_list, ARRAY(limits, limit_count), .items = &patterns},
};

static const struct node_table user_table = {"a user", user_keys,
                                             sizeof user_keys / sizeof *user_keys};

/* Returns how many proofs the user has, and sets *proof to the last. */
static int count_proofs(struct reader *reader, const yaml_node_t *node, enum rules_proof *proof)
{
	int count = 0;

	for (int i = 0; i < PROOFS; i++)
		if (node_find_value(reader, node, user_keys[USER_PROOF + i].name)) {
			*proof = (enum rules_proof)i;
			count++;
		}
	return count;
}

#define EXPECTED_ONE_PROOF "expected one of token, password, certificate and unix in a user, found "

static int read_user(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                     void *element)
{
	const yaml_node_t *values[NODE_KEYS_MAX];
	struct rules_user *user = element;
	int proofs,
	    status = node_check_type(reader, node, YAML_MAPPING_NODE,
	                             "a user such as { name: shop, token: \"HASH\", may: [ask] }");

	if (status != WEIR_OK)
		return status;
	proofs = count_proofs(reader, node, &user->proof);
	if (proofs > 1)
		return node_error(reader, node, EXPECTED_ONE_PROOF "several");
	/* A user without proof may have all keys, so that a misspelled key is reported first. */
	status = node_mapping(reader, node, &user_table,
	                      proofs ? 1u << user->proof : (1u << PROOFS) - 1, user, values);
	if (status == WEIR_OK && proofs == 0)
		status = node_error(reader, node, EXPECTED_ONE_PROOF "none");
	if (status != WEIR_OK)
		return status;
	name->text = slice_of(user->name);
	name->node = values[USER_NAME];
	user->line = (unsigned)name->node->start_mark.line + 1;
	user->column = (unsigned)name->node->start_mark.column + 1;
	return WEIR_OK;
}

static bool is_same_proof(const struct rules_user *a, const struct rules_user *b)
{
	return a->proof == b->proof && a->proof != RULES_PASSWORD &&
	       (a->proof == RULES_TOKEN ? strcasecmp : strcmp)(a->secret, b->secret) == 0;
}

/* Refuses two users with one proof. Equal passwords go unnoticed, since their hashes differ. */
static int check_proofs_differ(struct reader *reader, const yaml_node_t *value,
                               const struct rules_user *users, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (is_same_proof(&users[i], &users[j]))
				return node_error(
				    reader, node_at(reader, value->data.sequence.items.start[i]),
				    "expected another %s than user '%s' has, found the same in user '%s'",
				    user_keys[USER_PROOF + users[i].proof].name, users[j].name, users[i].name);
	return WEIR_OK;
}

static int read_users(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	static const struct node_items users = {.type = YAML_SEQUENCE_NODE,
	                                        .expected = "a list of users",
	                                        .item_name = "user",
	                                        .size = sizeof(struct rules_user),
	                                        .required = true,
	                                        .read = read_user};
	struct node_array *array = field;
	int status;

	(void)key;
	if (value->type == YAML_SEQUENCE_NODE && node_item_count(value) > USERS_MAX)
		return node_error(reader, value, "expected at most %d users, found %zu", USERS_MAX,
		                  node_item_count(value));
	status = node_items(reader, value, &users, array, NULL);
	if (status == WEIR_OK)
		status = check_proofs_differ(reader, value, array->elements, array->count);
	return status;
}

/* Prints each user with the keys of its kind of proof. Returns whether anything was printed. */
static bool print_users(const struct printer *printer, const struct node_key *key,
                        const void *field, const void *default_value)
{
	const struct node_array *array = field;
	const struct rules_user *users = array->elements;

	(void)key;
	(void)default_value;
	for (size_t i = 0; i < array->count; i++) {
		buffer_add_text(printer->out, "\n  - ");
		node_print_flow(printer, &(struct node_object){.table = &user_table,
		                                               .variant = 1u << users[i].proof,
		                                               .fields = &users[i]});
	}
	return array->count > 0;
}

const struct node_kind read_users_kind = {read_users, print_users};
