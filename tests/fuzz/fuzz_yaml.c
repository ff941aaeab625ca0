/* Reads any bytes as a configuration, or gets an error with a message. */
#include <stdlib.h>
#include <string.h>

#include <weir/rules.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_error error = {0};
	weir_config *config;
	int status = weir_config_read_yaml((const char *)data, size, NULL, &config, &error);

	if ((status == 0) != (config != NULL) || status != error.status)
		abort();
	if (status != 0 && strncmp(error.message, "expected ", strlen("expected ")) != 0 &&
	    status != WEIR_ENOMEM)
		abort();
	weir_config_close(config);
	return 0;
}
