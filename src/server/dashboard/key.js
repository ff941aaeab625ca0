/* key.js: looks up a key: what each limit has counted for it, and its last denials. */
const PEEKS_AT_ONCE = 250, PEEKS_MOST = 1000;
let lookUpNumber = 0;

/* The limits that are asked about a key: the busiest first, then those of the file. */
function limitsToPeek() {
	const busy = [...history.limits.keys()].filter(name => configuration.byName.has(name));
	return [...new Set([...busy, ...configuration.byName.keys()])].slice(0, PEEKS_MOST);
}

async function peek(names, key) {
	const found = [];
	for (let i = 0; i < names.length; i += PEEKS_AT_ONCE) {
		const some = names.slice(i, i + PEEKS_AT_ONCE);
		const answers = await ask("/v1/batch", some.map(limit => ({op: "peek", limit, key})));
		answers.forEach((answer, j) => found.push({...answer, limit: some[j]}));
	}
	return found;
}

function stateRow(state, key) {
	const reset = el("button", {type: "button", onclick: () => confirmFirst({
		question: `Reset the key “${keyText(key)}” of the limit “${state.limit}”?`,
		consequence: "The limit forgets what it has counted for the key. Other keys stay as they are.",
		path: "/v1/reset", body: {limit: state.limit, key}, text: "Reset", done: () => lookUp(key),
	})}, "Reset…");
	const verdict = state.allowed ? el("span", {className: "tag good"}, "would pass")
		: el("span", {className: "tag bad"}, state.reason.replaceAll("_", " "));
	return el("tr", {dataset: {limit: state.limit}}, el("td", {}, state.limit), el("td", {dataset: {label: "Next request"}}, verdict),
		el("td", {className: "number", dataset: {label: "Left"}}, state.quota > 0 ? `${count(state.remaining)} of ${count(state.quota)}` : "–"),
		el("td", {className: "number", dataset: {label: "Retry in"}}, state.allowed ? "–" : milliseconds(state.retry_after_ms)),
		el("td", {className: "actions"}, ...(may.has("change") ? [reset] : [])));
}

function statesOf(states, key, askedAll) {
	const failed = states.filter(state => state.error);
	const used = states.filter(state => !state.error && (!state.allowed || state.remaining < state.quota || state.reset_after_ms > 0));
	const unused = states.length - failed.length - used.length;
	const notes = [
		unused > 0 && `${count(unused)} ${unused === 1 ? "limit has" : "limits have"} nothing counted for this key.`,
		failed.length > 0 && `${count(failed.length)} could not be asked: ${failed[0].error.message}.`,
		!askedAll && `Only the ${count(PEEKS_MOST)} busiest limits were asked.`].filter(Boolean);
	const table = el("table", {id: "states"}, el("thead", {}, el("tr", {}, ...["Limit", "Next request", "Left", "Retry in", ""].map((text, i) =>
		el("th", {scope: "col", className: i === 2 || i === 3 ? "number" : ""}, text)))), el("tbody", {}));
	table.tBodies[0].append(...used.sort((a, b) => a.allowed - b.allowed).map(state => stateRow(state, key)));
	return [el("h3", {}, "Its state"), ...(used.length ? [table] : []), el("p", {className: "note"}, notes.join(" "))];
}

function denialsOf(denials) {
	if (denials.length === 0)
		return [el("h3", {}, "Its last denials"), el("p", {className: "note"}, "No denial of this key is kept.")];
	const table = el("table", {id: "denials"}, el("thead", {}, el("tr", {}, ...["Time", "Rule", "Limit", "Reason"].map(text =>
		el("th", {scope: "col"}, text)))), el("tbody", {}));
	table.tBodies[0].append(...denials.map(denial => el("tr", {title: `id ${denial.id}`},
		el("td", {}, timeText(denial.time)),
		el("td", {dataset: {label: "Rule"}}, denial.rule || "–"), el("td", {dataset: {label: "Limit"}}, denial.limit || "–"),
		el("td", {dataset: {label: "Reason"}}, el("span", {className: denial.shadow ? "tag shadow" : ""},
			`${denial.reason.replaceAll("_", " ")}${denial.shadow ? " in shadow" : ""}`)))));
	return [el("h3", {}, "Its last denials"), table];
}

async function lookUp(key) {
	const number = ++lookUpNumber, found = byId("found"), parts = [];
	const names = limitsToPeek();
	byId("name").value = key;
	found.setAttribute("aria-busy", "true");
	try {
		parts.push(...statesOf(await peek(names, key), key, names.length >= Math.min(PEEKS_MOST, configuration.byName.size) && configuration.byName.size <= PEEKS_MOST));
	} catch (error) {
		parts.push(el("p", {className: "tag bad"}, "Its state: "), el("p", {className: "note"}, error.message));
	}
	try {
		parts.push(...denialsOf(await ask(`/v1/denials?n=50&key=${encodeURIComponent(key)}`)));
	} catch (error) {
		parts.push(el("p", {className: "note"}, `Its denials: ${error.message}`));
	}
	if (number !== lookUpNumber)
		return; /* another key was asked for meanwhile */
	found.replaceChildren(...parts);
	found.removeAttribute("aria-busy");
	found.dataset.key = key;
}

function listenToSearch() {
	byId("search").addEventListener("submit", event => {
		event.preventDefault();
		lookUp(byId("name").value);
	});
}
