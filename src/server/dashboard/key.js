/* key.js: looks up a key: what each limit has counted for it, and its last denials. */
const PEEKS_AT_ONCE = 250, PEEKS_MOST = 1000, DIGEST = /^[0-9a-f]{16}$/i;
let lookUpNumber = 0;

/* The limits that are asked about a key: the busiest first, then those of the file. */
function limitsToPeek() {
	const busy = [...history.limits.keys()].filter(name => configuration.byName.has(name));
	return [...new Set([...busy, ...configuration.byName.keys()])].slice(0, PEEKS_MOST);
}

/* The network of the first `bits` of an IPv6 address, as the server writes it; null for other
 * texts. */
function networkOf(text, bits)
{
	const canonical = address => new URL(`http://[${address}]`).hostname.slice(1, -1);
	try {
		const address = canonical(text);
		if (address.startsWith("::ffff:"))
			return null; /* an address of IPv4 */
		const [head, tail] = address.split("::").map(part => part.split(":").filter(Boolean));
		const groups =
		    tail ? [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail ] : head;
		const kept = groups.map((group, i) =>
		                            parseInt(group, 16) >> Math.max(16 * (i + 1) - bits, 0)
		                                                       << Math.max(16 * (i + 1) - bits, 0));
		return `${
			canonical(kept.map((group, i) => (16 * i < bits ? group : 0).toString(16)).join(":"))}${
			bits < 128 ? `/${bits}` : ""}`;
	} catch {
		return null;
	}
}

/*
 * The keys that may count for a text: itself; the networks of an address, in limits that count
 * these; and the keys of its denials. `digests` are those of the text and its networks.
 */
async function keysToPeek(names, key, denials)
{
	const pairs = new Map(), own = new Set([ key ]), digests = new Set();
	const add = (limit, counted) => {
		pairs.set(JSON.stringify([ limit, counted ]), {limit, key : counted});
	};
	for (const limit of names) {
		add(limit, key);
		for (const bits of configuration.byName.get(limit).ipv6_prefixes ?? []) {
			const network = networkOf(key, bits);
			if (network !== null) {
				own.add(network);
				add(limit, network);
			}
		}
	}
	for (const counted of own)
		digests.add(counted ? (await ask("/v1/key", {key : counted})).digest : "");
	const others = denials.filter(denial => configuration.byName.has(denial.limit) &&
	                                        !own.has(denial.key) && !digests.has(denial.key));
	for (const denial of others)
		add(denial.limit, denial.key);
	return {
		pairs : [...pairs.values() ],
		others : others.filter(denial => DIGEST.test(denial.key))
	};
}

async function peek(pairs)
{
	const found = [];
	for (let i = 0; i < pairs.length; i += PEEKS_AT_ONCE) {
		const some = pairs.slice(i, i + PEEKS_AT_ONCE);
		const answers = await ask("/v1/batch", some.map(pair => ({op : "peek", ...pair})));
		answers.forEach((answer, j) => found.push({...answer, ...some[j]}));
	}
	return found;
}

const isUsed = state =>
    !state.error && (!state.allowed || state.remaining < state.quota || state.reset_after_ms > 0);
const isBreaker = limit => Boolean(configuration.byName.get(limit)?.breakers);

function stateRow(state, key, showsKeys)
{
	const reset = el("button", {
		type : "button",
		onclick : () => confirmFirst({
			question : `Reset the key “${keyText(state.key)}” of the limit “${state.limit}”?`,
			consequence :
				"The limit forgets what it has counted for the key. Other keys stay as they are.",
			path : "/v1/reset",
			body : {limit : state.limit, key : state.key},
			text : "Reset",
			done : () => lookUp(key),
		})
	},
			         "Reset…");
	const open = () => forceButton(state.limit, state.key, "open", "Open",
	                               "All requests of the key are denied until you change it again.",
	                               () => Promise.all([ askLimits(), lookUp(key) ]));
	const verdict = state.allowed ? el("span", {className: "tag good"}, "would pass")
		: el("span", {className: "tag bad"}, state.reason.replaceAll("_", " "));
	return el(
	    "tr", {dataset : {limit : state.limit}}, el("td", {}, state.limit),
	    ...(showsKeys ? [ el("td", {dataset : {label : "Key"}}, keyText(state.key)) ] : []),
	    el("td", {dataset : {label : "Next request"}}, verdict),
	    el("td", {className : "number", dataset : {label : "Left"}},
	       state.quota > 0 ? `${count(state.remaining)} of ${count(state.quota)}` : "–"),
		el("td", {className : "number", dataset : {label : "Retry in"}},
		   state.allowed ? "–" : milliseconds(state.retry_after_ms)),
		el("td", {className : "actions"},
		   el("div", {className : "buttons"},
			  ...(may.has("admin") && isBreaker(state.limit) && state.allowed ? [ open() ] : []),
			  ...(may.has("change") && isUsed(state) ? [ reset ] : []))));
}

const limitList = denials => [...new Set(denials.map(denial => denial.limit))].join(", ");

/* The state of a key, and of other keys that count for it; closed breakers, because they can be
 * forced. */
function statesOf(states, key, others, denials)
{
	const failed = states.filter(state => state.error), used = states.filter(isUsed);
	const usedLimits = new Set(used.map(state => state.limit)),
	      failedLimits = new Set(failed.map(state => state.limit));
	const closed = may.has("admin")
	                   ? states
	                         .filter(state => !state.error && !usedLimits.has(state.limit) &&
	                                          isBreaker(state.limit) && state.key === key)
	                         .slice(0, ROWS)
	                   : [];
	const unseen = others.filter(
	    denial => !used.some(state => state.limit === denial.limit && state.key === denial.key));
	const isUnknownDigest =
	    DIGEST.test(key) &&
	    denials.some(denial => denial.key === key.toLowerCase() && !usedLimits.has(denial.limit));
	const told = new Set([...usedLimits, ...failedLimits, ...unseen.map(denial => denial.limit) ]);
	const unused =
	    [...new Set(states.map(state => state.limit)) ].filter(limit => !told.has(limit)).length;
	const shown = [...used.sort((a, b) => a.allowed - b.allowed), ...closed ],
	      showsKeys = shown.some(state => state.key !== key);
	const notes = [
		isUnknownDigest &&
		    "This is the digest of a key, and the server can’t find what its limits have counted by it: look up the key itself.",
		!isUnknownDigest && unused > 0 &&
		    `${count(unused)} ${
				unused === 1 ? "limit has" : "limits have"} nothing counted for this key.`,
		unseen.length > 0 &&
			`${
				limitList(
					unseen)}: the key that counts is shown by its digest only, and can’t be looked up by it.`,
		failed.length > 0 &&
			`${count(failed.length)} could not be asked: ${failed[0].error.message}.`,
		configuration.byName.size > PEEKS_MOST &&
			`Only the ${count(PEEKS_MOST)} busiest limits were asked.`
	].filter(Boolean);
	const titles =
	    [ "Limit", ...(showsKeys ? [ "Key" ] : []), "Next request", "Left", "Retry in", "" ];
	const table = el(
	    "table", {id : "states"},
	    el("thead", {},
	       el("tr", {},
	          ...titles.map(text => el("th", {
		                        scope : "col",
		                        className : text === "Left" || text === "Retry in" ? "number" : ""
	                        },
	                                   text)))),
	    el("tbody", {}));
	table.tBodies[0].append(...shown.map(state => stateRow(state, key, showsKeys)));
	return [
		el("h3", {}, "Its state"), ...(shown.length ? [ table ] : []),
		el("p", {className : "note"}, notes.join(" "))
	];
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

async function stateParts(key, denials)
{
	if (!may.has("ask"))
		return [
			el("h3", {}, "Its state"),
			el("p", {className : "note"}, "To see it, log in as a user who may ask.")
		];
	try {
		const {pairs, others} = await keysToPeek(limitsToPeek(), key, denials);
		return statesOf(await peek(pairs), key, others, denials);
	} catch (error) {
		return [
			el("p", {className : "tag bad"}, "Its state: "),
			el("p", {className : "note"}, error.message)
		];
	}
}

async function lookUp(key)
{
	const number = ++lookUpNumber, found = byId("found");
	let denials = [], last;
	byId("name").value = key;
	found.setAttribute("aria-busy", "true");
	try {
		denials = await ask(`/v1/denials?n=${key ? 50 : 1000}&key=${encodeURIComponent(key)}`);
		denials = denials.filter(denial => key || !denial.key).slice(0, 50);
		last = denialsOf(denials);
	} catch (error) {
		last = [ el("p", {className : "note"}, `Its denials: ${error.message}`) ];
	}
	const parts = [...await stateParts(key, denials), ...last ];
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
