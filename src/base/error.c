/* error.c: returns the texts of status codes and reasons, and fills in struct weir_error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

const char *weir_strerror(int status)
{
	switch (status) {
#define CASE(name, value, text)                                                                    \
	case value:                                                                                    \
		return text;
		WEIR_STATUS_LIST(CASE)
#undef CASE
	}
	return "unknown error";
}

const char *weir_reason_text(enum weir_reason reason)
{
	static const char *const texts[] = {
#define TEXT(name, text) text,
	    WEIR_REASON_LIST(TEXT)
#undef TEXT
	};
	return (unsigned)reason < WEIR_REASON_COUNT ? texts[reason] : "unknown";
}

int error_check_zeros(struct weir_error *error, const uint64_t *reserved, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (reserved[i] != 0)
			return error_set(error, WEIR_EINVAL, "reserved: expected 0, found %llu",
			                 (unsigned long long)reserved[i]);
	return WEIR_OK;
}

#define STRING_OF_TOKEN(x) #x
#define STRING(x)          STRING_OF_TOKEN(x) /* of the value of a macro */

const char *weir_version(void)
{
	return STRING(WEIR_VERSION_MAJOR) "." STRING(WEIR_VERSION_MINOR) "." STRING(WEIR_VERSION_PATCH);
}

int error_set_at(struct weir_error *error, int status, unsigned line, unsigned column,
                 const char *format, ...)
{
	va_list args;

	if (!error)
		return status;
	*error = (struct weir_error){.status = status, .line = line, .column = column};
	va_start(args, format);
	vsnprintf(error->message, sizeof error->message, format, args);
	va_end(args);
	return status;
}
