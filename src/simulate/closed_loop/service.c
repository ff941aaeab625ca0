#include "simulate/closed_loop/service.h"

#include <stddef.h>
#include <string.h>

#include "simulate/closed_loop/draw.h"

static double constant(double uniform)
{
	(void)uniform;
	return 1;
}

/* One of ten takes 19 times as long as the others. */
static double bimodal(double uniform)
{
	return uniform < 0.1 ? 19 / 2.8 : 1 / 2.8;
}

/* One of a hundred takes 50 times the mean. */
static double mixed(double uniform)
{
	return uniform < 0.01 ? 50 : 0.5 / 0.99;
}

/* One of two hundred, a hit of a cache, takes a thousandth. */
static double lucky(double uniform)
{
	return uniform < 0.005 ? 0.001 : exponential((uniform - 0.005) / 0.995);
}

service_time *service_named(const char *name)
{
	static const struct {
		const char *name;
		service_time *draw;
	} services[] = {{"exponential", exponential},
	                {"constant", constant},
	                {"bimodal", bimodal},
	                {"mixed", mixed},
	                {"lucky", lucky}};

	for (size_t i = 0; i < sizeof services / sizeof services[0]; i++)
		if (strcmp(name, services[i].name) == 0)
			return services[i].draw;
	return NULL;
}
