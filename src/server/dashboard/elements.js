/* elements.js: makes elements and asks the server. Names of limits and keys become text, never markup. */
function el(tag, properties, ...children) {
	const element = document.createElement(tag);
	const {dataset, ...others} = properties;
	Object.assign(element, others);
	Object.assign(element.dataset, dataset);
	element.append(...children);
	return element;
}

/* A limit without a key counts all requests under the empty key. */
const keyText = key => key || "(no key)";

const byId = id => document.getElementById(id);
const may = new Set(document.documentElement.dataset.may.split(" "));

/* 1234 as 1,234; 2500000 as 2.5M where there is little room. */
const count = number => Math.round(number).toLocaleString("en");
function short(number) {
	for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e4]])
		if (number >= size)
			return `${(number / (unit === "k" ? 1e3 : size)).toFixed(1).replace(".0", "")}${unit}`;
	return number === 0 || number >= 100 ? count(number) : number.toFixed(number < 10 ? 1 : 0).replace(".0", "");
}

/* Never 0% for something that is there, never 100% for something that is not all. */
function percent(part, whole) {
	const share = whole > 0 ? part / whole * 100 : 0;
	if (share === 0 || share === 100)
		return `${share}%`;
	return share < .1 ? "<0.1%" : share > 99.9 ? ">99.9%" : `${share.toFixed(share < 10 ? 1 : 0)}%`;
}

function bytes(number) {
	const units = ["B", "kB", "MB", "GB", "TB"];
	let unit = 0;
	for (; number >= 1000 && unit < units.length - 1; unit++)
		number /= 1000;
	return `${number >= 100 || unit === 0 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

function duration(seconds) {
	const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].map(([unit, size], i, all) =>
		[Math.floor(seconds / size) % (i ? all[i - 1][1] / size : Infinity), unit]);
	return parts.filter(([n]) => n > 0).slice(0, 2).map(([n, unit]) => `${n} ${unit}`).join(" ") || "0 s";
}

/* The time alone if it is of today. */
function timeText(text) {
	const time = new Date(text), isToday = time.toDateString() === new Date().toDateString();
	return time.toLocaleString([], {...(!isToday && {dateStyle: "medium"}), timeStyle: "medium", hour12: false});
}

const milliseconds = ms => ms < 1000 ? `${ms} ms` : duration(Math.ceil(ms / 1000));

/* The body of an answer. Throws an error with the server's message, and `status`. */
async function ask(path, body) {
	/* A browser refuses URLs with a login, and paths are relative to the page's, which may have one. */
	const response = await fetch(location.origin + path, {
		method: body === undefined ? "GET" : "POST", cache: "no-store", signal: AbortSignal.timeout(20000),
		...(body !== undefined && {body: JSON.stringify(body), headers: {"Content-Type": "application/json"}}),
	});
	const text = await response.text();
	if (!response.ok) {
		let message = response.statusText || `status ${response.status}`;
		try {
			message = JSON.parse(text).error.message;
		} catch {
			/* the answer is not the server's */
		}
		throw Object.assign(new Error(message), {status: response.status});
	}
	return JSON.parse(text);
}

/* A limit's name as it is shown. */
const limitText = name => name === OTHERS ? "All other limits" : name === "" ? "(no limit applied)" : name;

function rows(table, made, columns, emptyText) {
	table.tBodies[0].replaceChildren(...(made.length ? made :
		[el("tr", {}, el("td", {colSpan: columns, className: "empty"}, emptyText))]));
}

/* Asks the operator once more, and then the server. `done` is called when it has agreed. */
function confirmFirst({question, consequence, path, body, text, done}) {
	const dialog = byId("confirm"), button = byId("do-it"), refused = byId("refused");
	byId("question").textContent = question;
	byId("consequence").textContent = consequence;
	button.textContent = text;
	button.disabled = refused.hidden = false;
	refused.hidden = true;
	button.onclick = async () => {
		button.disabled = true;
		try {
			await ask(path, body);
			dialog.close();
			say(`Done: ${text}`);
			done();
		} catch (error) {
			refused.textContent = `The server refused: ${error.message}`;
			refused.hidden = false;
			button.disabled = false;
		}
	};
	dialog.showModal();
	byId("cancel").focus();
}

let silence;
function say(text) {
	byId("done").textContent = text;
	clearTimeout(silence);
	silence = setTimeout(() => { byId("done").textContent = ""; }, 6000);
}
