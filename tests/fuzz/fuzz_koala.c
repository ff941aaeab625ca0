/* Reads any bytes as rules in Koala's language, which can be printed, or gets an error with a
 * message. */
#include <stdlib.h>
#include <string.h>

#include "readers/koala/koala.h"
#include "readers/yaml/print.h"
#include "rules/check.h"
#include "rules/remark.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The printed text must be a configuration again. */
static void print(const weir_config *config)
{
	weir_config *defaults = weir_private_config_new(), *again;
	struct weir_error error = {0};
	struct buffer out = {0};

	if (!defaults)
		abort();
	yaml_print(config, defaults, &out);
	if (out.failed || weir_config_read_yaml(out.data, out.len, NULL, &again, &error) != 0)
		abort();
	if (again->rule_count != config->rule_count || again->limit_count != config->limit_count)
		abort();
	weir_config_close(again);
	weir_config_close(defaults);
	buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct source source = {.text = {(const char *)data, size}};
	weir_config *config = weir_private_config_new();

	if (!config || koala_read(config, &source) != 0 || rules_check(config) == WEIR_ENOMEM ||
	    remark_sort(config) != 0)
		abort();
	for (const struct rules_remark *remark = config->remarks.first; remark; remark = remark->next)
		if (strncmp(remark->content.text, "expected ", strlen("expected ")) != 0)
			abort();
	if (config->remarks.errors == 0)
		print(config);
	weir_config_close(config);
	return 0;
}
