/* question.c: asks a server over the protocol that its address stands for. */
#include "cli/remote/question.h"

enum question_result question_ask(const struct server_flags *flags, const struct question *question,
                                  struct question_answer *answer, struct weir_error *error)
{
	*answer = (struct question_answer){0};
	return flags->address.is_http ? question_ask_http(flags, question, answer, error)
	                              : question_ask_resp(flags, question, answer, error);
}
