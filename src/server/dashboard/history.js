/*
 * history.js: the points of the last hour that /v1/stats has sent. Each series has a ring of points
 * for each result; the point of the Unix second s is at s modulo 3600.
 */
const RESULTS = ["allowed", "denied", "shed", "breaker_open", "failed", "shadow"];
const DENIALS = RESULTS.slice(1, 5);
const RESULT_TEXTS = {
	allowed: "allowed", denied: "denied", shed: "shed", breaker_open: "breaker open", failed: "failed",
	shadow: "denied in shadow",
};
const HOUR = 3600;

class Series {
	constructor(name) {
		this.name = name;
		this.points = {};
	}

	add(answer, from) {
		for (const result of RESULTS) {
			if (!answer[result])
				continue;
			const ring = this.points[result] ??= new Float64Array(HOUR);
			answer[result].forEach((point, i) => { ring[(from + i) % HOUR] += point; });
		}
	}

	clear(from, to) {
		for (const ring of Object.values(this.points))
			for (let second = from; second <= to; second++)
				ring[second % HOUR] = 0;
	}

	/* The sum of the points of the seconds from `from` up to `to`. */
	sum(result, from, to) {
		const ring = this.points[result];
		let sum = 0;
		if (ring)
			for (let second = from; second <= to; second++)
				sum += ring[second % HOUR];
		return sum;
	}

	denials(from, to) {
		return DENIALS.reduce((sum, result) => sum + this.sum(result, from, to), 0);
	}
}

const OTHERS = Symbol("all other limits");
const history = {
	now: 0,     /* the last second with points; 0 before the first answer */
	first: 0,   /* the first second that any answer had */
	complete: 0, /* when all points were last asked for */
	all: new Series("All limits"),
	limits: new Map(),
};

function forgetHistory() {
	history.now = 0;
	history.all = new Series("All limits");
	history.limits.clear();
}

/* Takes an answer. Returns false if it does not continue what is there: then ask for all points. */
function addToHistory(answer) {
	const isFirst = history.now === 0;
	const parts = [...answer.limits.map(limit => [limit.limit, limit]), [OTHERS, answer.others]];
	const moved = answer.limits.some(limit => limit.since > history.complete);

	if (!isFirst && (answer.now < history.now || answer.from > history.now + 1 || moved))
		return false;
	if (isFirst) {
		history.first = answer.from;
		history.complete = answer.now;
	} else {
		for (const series of [history.all, ...history.limits.values()])
			series.clear(history.now + 1, answer.now);
	}
	history.now = answer.now;
	history.first = Math.max(history.first, answer.now - HOUR + 1);
	for (const [name, points] of parts) {
		history.all.add(points, answer.from);
		if (!history.limits.has(name) && RESULTS.some(result => points[result]))
			history.limits.set(name, new Series(name));
		history.limits.get(name)?.add(points, answer.from);
	}
	return true;
}
