/* http_framing.c: chooses the error that answers an HTTP message whose framing is broken, or of
 * which a part is too long. */
#include "base/error.h"
#include "proto/http/http_request.h"

/* The error and message by enum http1_result; HTTP1_BAD has its own message. */
static const struct {
	enum http_error error;
	const char *message;
} framing_errors[] = {
    [HTTP1_BAD] = {HTTP_ERROR_BAD_REQUEST, NULL},
    [HTTP1_TARGET_LONG] = {HTTP_ERROR_TARGET_LONG, "the request line is longer than accepted"},
    [HTTP1_HEADER_LONG] = {HTTP_ERROR_HEADER_LONG, "the header is longer than accepted"},
    [HTTP1_BODY_LONG] = {HTTP_ERROR_BODY_LONG, "the body is longer than accepted"},
    [HTTP1_BAD_CODING] = {HTTP_ERROR_CODING, "expected only the transfer coding chunked"},
    [HTTP1_BAD_VERSION] = {HTTP_ERROR_VERSION, "expected HTTP/1.0 or HTTP/1.1"},
};

/* `why` and `at`, the byte where the error was found, are for HTTP1_BAD only. */
void http_refuse_framing(struct fill *fill, enum http1_result result, const char *why, size_t at)
{
	if (result == HTTP1_BAD)
		error_set(&fill->error, WEIR_ESYNTAX, "%s, at byte %zu of the request", why, at);
	else
		error_set(&fill->error, WEIR_ESYNTAX, "%s", framing_errors[result].message);
	http_refuse_as(fill, framing_errors[result].error);
}
