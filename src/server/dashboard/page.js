/* page.js: asks the server again and again, and shows its answers. */
const ROWS = 40;
const configuration = {byName: new Map(), read: null};
let status = null, top10 = [];

function chooseLimit(name) {
	const series = name === null ? null : history.limits.get(name) ?? new Series(name);
	chart.series = series;
	chart.cursor = null;
	byId("chosen").textContent = series ? limitText(name) : "All limits";
	byId("choose-all").hidden = !series;
	drawChart();
	showLimits();
}

function limitRow(name, series, from) {
	const denied = series?.denials(from, history.now) ?? 0, allowed = series?.sum("allowed", from, history.now) ?? 0;
	const recent = Math.max(history.now - 4, history.first);
	const now = series ? (series.denials(recent, history.now) + series.sum("allowed", recent, history.now)) / (history.now - recent + 1) : 0;
	const row = el("tr", {}, el("td", {}, el("button", {type: "button", className: "link", onclick: () => chooseLimit(name)}, limitText(name))),
		el("td", {className: "spark"}, ...(series ? [drawSmall(series)] : [])),
		el("td", {className: "number", dataset: {label: "Now /s"}}, short(now)), el("td", {className: "number", dataset: {label: "Allowed"}}, count(allowed)),
		el("td", {className: "number", dataset: {label: "Denied"}}, count(denied)),
		el("td", {className: "number", dataset: {label: "Share"}}, percent(denied, denied + allowed)));
	if (chart.series?.name === name)
		row.setAttribute("aria-current", "true");
	return row;
}

/* The limits that match the filter: those with traffic first. Few are made into rows, however many there are. */
function showLimits() {
	const wanted = byId("filter").value.trim().toLowerCase(), from = Math.max(history.now - HOUR + 1, history.first);
	const focused = byId("limits").contains(document.activeElement) ? document.activeElement.textContent : null;
	const names = [...history.limits.keys(), ...[...configuration.byName.keys()].filter(name => !history.limits.has(name))]
		.filter(name => limitText(name).toLowerCase().includes(wanted));
	const sums = new Map(names.map(name => [name, history.limits.get(name)]).filter(([, series]) => series)
		.map(([name, series]) => [name, series.denials(from, history.now) + series.sum("allowed", from, history.now)]));
	names.sort((a, b) => (a === OTHERS) - (b === OTHERS) || (sums.get(b) ?? 0) - (sums.get(a) ?? 0));
	const last = names.at(-1) === OTHERS ? [names.pop()] : [];
	const shown = [...names.slice(0, ROWS), ...last], left = names.length - Math.min(names.length, ROWS);
	rows(byId("limits"), shown.map(name => limitRow(name, history.limits.get(name), from)), 6,
		wanted ? "No limit has this in its name." : "No limit is configured, and no request has come yet.");
	byId("more").textContent = left > 0 ? `${count(left)} more: find them by name.` : "";
	if (focused !== null)
		[...byId("limits").querySelectorAll("button")].find(button => button.textContent === focused)?.focus();
}

/* In a large table the server counts the keys of a sample, each of which stands for several. */
function keysText({keys, keys_sample_weight: weight}) {
	if (keys === null)
		return "–";
	if (weight === 1)
		return short(keys);
	return keys === 0 ? `< ${short(5 * weight)}` : `about ${short(keys)}`;
}

function showTiles() {
	const recent = Math.max(history.now - 4, history.first), seconds = Math.max(history.now - recent + 1, 1);
	const denied = history.all.denials(recent, history.now) / seconds;
	const all = denied + history.all.sum("allowed", recent, history.now) / seconds;
	const tiles = [["Decisions", `${short(all)}/s`, "last 5 s"], ["Denied", `${short(denied)}/s`, percent(denied, all)]];
	if (status) {
		tiles.push(["Waiting", count(status.waiting), status.waiting === 1 ? "answer" : "answers"], ["Connections", count(status.connections), "open"],
			["Keys", keysText(status), status.keys === null ? "at a Redis" : `of ${short(status.capacity)}`]);
		tiles.push([ "Memory", bytes(status.memory_bytes), "resident" ]);
	}
	byId("tiles").replaceChildren(...tiles.map(([name, value, rest]) =>
		el("li", {}, el("span", {}, name), el("strong", {}, value), el("small", {}, rest))));
}

function showStatus() {
	const {files, error, read} = status.configuration;
	const open = status.denials;
	byId("server").textContent = `${location.host} · version ${status.version} · up ${duration(status.uptime_s)}`;
	rows(byId("stores").querySelector("table"), status.stores.map(store => el("tr", {}, el("td", {}, store.name), el("td", {}, store.kind),
		el("td", {}, el("span", {className: store.reachable ? "tag good" : "tag bad"}, store.reachable ? "reachable" : "unreachable")))), 3, "");
	const facts = [["Files", files.length ? files.join(", ") : "none"], ["Read", timeText(read)],
		["Limits", `${count(status.limits)}, rules ${count(status.rules)}`],
		["Denials", `${count(open.kept)} kept, ${count(open.left_out)} left out`]];
	byId("configuration").replaceChildren(...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]),
		...(error ? [el("dt", {}, "Reload"), el("dd", {className: "tag bad"}, `failed: ${error}`)] : []));
}

function showTop() {
	rows(byId("top"), top10.map(({limit, key, denied}) => el("tr", {},
		el("td", {}, el("button", {type: "button", className: "link", onclick: () => { lookUp(key); byId("key").scrollIntoView({block: "nearest"}); }}, keyText(key))),
		el("td", {}, limit), el("td", {className: "number"}, count(denied)))), 3, "No key was denied in the last minutes.");
}

function forceButton(limit, key, state, text, consequence, done = askLimits)
{
	return el("button", {
		type : "button",
		onclick : () => confirmFirst({
			question : `${text} the breaker of “${keyText(key)}” in “${limit}”?`,
			consequence,
			path : "/v1/breaker",
			body : {limit, key, state},
			text : `${text} the breaker`,
			done,
		})
	},
			  `${text}…`);
}

function showBreakers() {
	const limits = [...configuration.byName.values()].filter(limit => limit.breakers);
	const keys = limits.flatMap(limit => limit.breakers.map(breaker => ({...breaker, limit: limit.name})));
	const section = byId("breakers");
	section.hidden = limits.length === 0;
	rows(section.querySelector("table"), keys.slice(0, ROWS).map(({limit, key, phase, switched}) => el("tr", {},
		el("td", {}, limit), el("td", {}, keyText(key)),
		el("td", {}, el("span", {className: phase.includes("open") && phase !== "half_open" ? "tag bad" : "tag"}, phase.replaceAll("_", " ")),
			...(switched ? [el("div", {className: "note"}, `by ${switched.by}${switched.until ? ` until ${timeText(switched.until)}` : ""}`)] : [])),
		el("td", {className: "actions"}, ...(may.has("admin") ? [el("div", {className: "buttons"},
			forceButton(limit, key, "open", "Open", "All requests of the key are denied until you change it again."),
			forceButton(limit, key, "closed", "Close", "All requests of the key pass, however many fail."),
			...(phase.startsWith("forced") ? [forceButton(limit, key, "auto", "Release", "The breaker follows the outcomes of requests again.")] : []))] : [])))),
		4, "All breakers are closed.");
	section.querySelector("p.note").textContent = keys.length > ROWS ? `${count(keys.length - ROWS)} more are not closed.` : "";
}

/* Keys are known of limits that deny: the keys that are denied most. */
async function showAdaptive() {
	const limits = [...configuration.byName.values()].filter(limit => limit.algorithm === "adaptive");
	const section = byId("measured");
	section.hidden = limits.length === 0;
	if (limits.length === 0)
		return;
	if (!may.has("ask")) {
		rows(section.querySelector("table"), [], 4, "To see them, log in as a user who may ask.");
		return;
	}
	const known = top10.filter(({limit}) => configuration.byName.get(limit)?.algorithm === "adaptive").slice(0, 10);
	const answers = known.length ? await ask("/v1/batch", known.map(({limit, key}) => ({op: "peek", limit, key}))) : [];
	rows(section.querySelector("table"), answers.map((answer, i) => ({...answer, ...known[i]})).filter(answer => !answer.error).map(answer =>
		el("tr", {}, el("td", {}, answer.limit), el("td", {}, keyText(answer.key)), el("td", {className: "number"}, count(answer.quota)),
			el("td", {className: "number"}, count(answer.quota - answer.remaining)))), 4, "No adaptive limit has denied a request lately.");
	section.querySelector("p.note").textContent = "Shown are keys that were denied lately.";
}

function showShedding() {
	const limits = [...configuration.byName.values()].filter(limit => limit.algorithm === "random");
	const section = byId("shedding");
	section.hidden = limits.length === 0;
	if (section.contains(document.activeElement))
		return; /* somebody types there */
	rows(section.querySelector("table"), limits.slice(0, ROWS).map(limit => {
		const input = el("input", {className: "share", type: "number", min: 0, max: 100, step: "any", required: true,
			value: Number((limit.deny * 100).toFixed(4)), ariaLabel: `Percent that ${limit.name} denies`});
		const form = el("form", {className: "buttons", onsubmit: event => {
			event.preventDefault();
			confirmFirst({question: `Let “${limit.name}” deny ${input.value}% of its requests?`, text: `Deny ${input.value}%`,
				consequence: `It denies ${percent(limit.deny, 1)} now. The change holds until a restart, or a reload with another share.`,
				path: "/v1/shed", body: {limit: limit.name, deny: Number(input.value) / 100}, done: askLimits});
		}}, input, el("span", {ariaHidden: "true"}, "%"), el("button", {}, "Set…"));
		return el("tr", {}, el("td", {}, limit.name, ...(limit.switched ? [el("div", {className: "note"}, `by ${limit.switched.by}`)] : [])),
			el("td", {className: "number"}, percent(limit.deny, 1)), el("td", {className: "actions"}, ...(may.has("admin") ? [form] : [])));
	}), 3, "");
}

async function askLimits() {
	const limits = await ask("/v1/limits");
	configuration.byName = new Map(limits.map(limit => [limit.name, limit]));
	configuration.read = status?.configuration.read;
	showBreakers();
	showShedding();
	showLimits();
}

async function askStats() {
	if (!addToHistory(await ask(history.now === 0 ? "/v1/stats" : `/v1/stats?since=${history.now}`))) {
		forgetHistory();
		addToHistory(await ask("/v1/stats"));
	}
	if (chart.series)
		chart.series = history.limits.get(chart.series.name) ?? new Series(chart.series.name);
	if (chart.cursor === null)
		drawChart();
	showTiles();
}

async function askStatus() {
	status = await ask("/v1/status");
	showStatus();
	if (configuration.read !== null && configuration.read !== status.configuration.read)
		await askLimits();
}

async function askTop() {
	top10 = await ask("/v1/top?n=15");
	showTop();
	await showAdaptive();
}

/* What is asked how often, in ms. A slow answer is asked for less often: it takes a twentieth of the time at most. */
const questions = [
	[ askStatus, 2000 ], [ askStats, 1000 ], [ askLimits, 5000 ], [ askTop, 5000 ],
	[ showLimits, 3000 ]
].map(([ run, every ]) => ({run, every, due : 0}));
let failures = 0, goneSince = null;

function showFailure(error) {
	const refused = error.status === 401 || error.status === 403;
	failures++;
	goneSince ??= new Date();
	byId("live").dataset.state = "gone";
	byId("live").textContent = refused ? "refused" : "no answer";
	byId("alarm").textContent = refused ? `The server refuses: ${error.message}` : error.status ? `The server answers with an error: ${error.message}`
		: `The server has not answered since ${goneSince.toLocaleTimeString([], {hour12: false})}. What you see is old. Trying again.`;
	byId("alarm").hidden = false;
}

async function tick() {
	if (!document.hidden)
		try {
			for (const question of questions) {
				const begin = performance.now();
				if (begin < question.due)
					continue;
				await question.run();
				const took = performance.now() - begin;
				question.due = begin + Math.max(question.every, 20 * took);
			}
			failures = 0;
			goneSince = null;
			byId("alarm").hidden = true;
			byId("live").dataset.state = "live";
			byId("live").textContent = "live";
		} catch (error) {
			showFailure(error);
		}
	setTimeout(tick, Math.min(250 * 2 ** failures, 5000));
}

byId("filter").addEventListener("input", showLimits);
byId("choose-all").addEventListener("click", () => chooseLimit(null));
document.addEventListener("visibilitychange", () => { byId("live").textContent = document.hidden ? "paused" : "live"; });
listenToChart();
listenToSearch();
tick();
