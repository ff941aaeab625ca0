/*
 * adaptive_samples: a measured limit, sample by sample, for test_estimators.py.
 *
 *     arguments   method initial least most
 *     stdin       latency_ns in_flight dropped draw window now_ns
 *     stdout      the whole state after each
 *
 * `window` counts back from the one that is measured. Of bbr, `dropped` is how busy the processors
 * were, in thousandths, and `draw` is what is in flight when the next one asks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/measured/estimators.h"

struct line {
	struct adaptive_sample sample;
	unsigned dropped, draw, window;
	uint64_t now_ns;
};

static const struct adaptive_bounds *bounds;

static void take_knee(const struct line *line)
{
	static struct knee knee;

	if (knee.knee == 0)
		knee_begin(&knee, bounds);
	knee_sample(&knee, bounds, &line->sample, (uint8_t)(knee.window - line->window));
	printf("%u %u %u %u %u %" PRIu64 " %u %u %u %u %u %u\n", knee.count, knee.sum, knee.squares,
	       knee.in_flight, knee.knee, knee.base_ns, knee.limit, (unsigned)knee.phase, knee.streak,
	       knee.windows_since_probe, knee.probe_interval, knee.window);
}

static void take_gradient2(const struct line *line)
{
	static struct gradient2 gradient;

	if (gradient.limit_parts == 0)
		gradient2_begin(&gradient, bounds);
	gradient2_sample(&gradient, bounds, &line->sample);
	printf("%" PRIu64 " %" PRIu64 " %u\n", gradient.limit_parts, gradient.long_parts,
	       gradient.count);
}

static void take_vegas(const struct line *line)
{
	static struct vegas vegas;

	if (vegas.limit == 0)
		vegas_begin(&vegas, bounds);
	vegas_sample(&vegas, bounds, &line->sample);
	printf("%u %" PRIu64 " %u %u\n", vegas.limit, vegas.least_ns, vegas.count, vegas.jitter);
}

static void take_aimd(const struct line *line)
{
	static struct aimd aimd;

	if (aimd.limit == 0)
		aimd_begin(&aimd, bounds);
	aimd_sample(&aimd, bounds, &line->sample);
	printf("%u\n", aimd.limit);
}

static void take_bbr(const struct line *line)
{
	static struct bbr bbr;

	bbr_busy(&bbr, line->dropped, line->now_ns);
	bbr_sample(&bbr, &line->sample, line->now_ns);
	printf("%" PRIu64 " %u", bbr_limit(&bbr, bounds, line->now_ns), bbr.cpu);
	printf(" %d %" PRIu64 "\n", bbr_allows(&bbr, bounds, line->draw, line->now_ns),
	       bbr.first_denied_ns);
}

static const struct {
	const char *name;
	void (*take)(const struct line *line);
} methods[] = {{"knee", take_knee},
               {"gradient2", take_gradient2},
               {"vegas", take_vegas},
               {"aimd", take_aimd},
               {"bbr", take_bbr}};

int main(int argc, char **argv)
{
	struct adaptive_bounds given;
	struct line line;
	unsigned method = 0;

	if (argc != 5)
		return 2;
	while (strcmp(methods[method].name, argv[1]) != 0)
		if (++method == sizeof(methods) / sizeof(methods[0]))
			return 2;
	given = (struct adaptive_bounds){(uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
	                                 (uint32_t)atoi(argv[4])};
	bounds = &given;
	while (scanf("%" SCNu64 " %" SCNu64 " %u %u %u %" SCNu64, &line.sample.latency_ns,
	             &line.sample.in_flight, &line.dropped, &line.draw, &line.window,
	             &line.now_ns) == 6) {
		line.sample.dropped = line.dropped > 0;
		line.sample.draw = (uint16_t)line.draw;
		methods[method].take(&line);
	}
	return 0;
}
