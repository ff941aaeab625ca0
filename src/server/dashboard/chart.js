/* chart.js: draws the traffic of a series on a canvas, and the small pictures of the table. */
const chart = {span: HOUR, series: null, cursor: null, columns: 1, left: 0, width: 0};

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const clock = (second, withSeconds) => new Date(second * 1000).toLocaleTimeString([], {
	hour: "2-digit", minute: "2-digit", ...(withSeconds && {second: "2-digit"}), hour12: false});

/* The smallest round number that is not below the value. */
function niceAbove(value) {
	const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
	return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map(n => n * unit).find(nice => nice >= value);
}

/* The seconds of a column of the chart. */
function columnSeconds(column) {
	const begin = history.now - chart.span + 1;
	const from = begin + Math.floor(column * chart.span / chart.columns);
	return [from, Math.max(from, begin + Math.floor((column + 1) * chart.span / chart.columns) - 1)];
}

const STEPS = [60, 120, 300, 600, 900];
function drawTimes(context, height) {
	const step = STEPS.find(each => chart.span / each <= chart.width / 90) ?? 900;
	const begin = history.now - chart.span;
	const offset = new Date(history.now * 1000).getTimezoneOffset() * 60;
	context.textAlign = "center";
	context.textBaseline = "top";
	for (let at = Math.ceil((begin - offset) / step) * step + offset; at <= history.now; at += step) {
		const x = chart.left + (at - begin) / chart.span * chart.width;
		if (x > chart.left + 16 && x < chart.left + chart.width - 16)
			context.fillText(clock(at), x, height + 6);
	}
}

function drawGrid(context, top, height, most) {
	context.fillStyle = colour("muted");
	context.strokeStyle = colour("line");
	context.lineWidth = 1;
	context.textAlign = "right";
	context.textBaseline = "middle";
	for (let i = 0; i <= 2; i++) {
		const y = Math.round(top + height * (1 - i / 2)) + .5;
		context.beginPath();
		context.moveTo(chart.left, y);
		context.lineTo(chart.left + chart.width, y);
		context.stroke();
		if (i > 0 || most > 0)
			context.fillText(short(most * i / 2), chart.left - 8, y);
	}
}

/* Draws each column as a stack of the results, in requests a second; shadow is a line above. */
function drawColumns(context, top, height, columns, most) {
	const width = chart.width / chart.columns;
	for (let column = 0; column < chart.columns; column++) {
		const x = chart.left + column * width;
		let y = top + height;
		for (const result of RESULTS.slice(0, 5)) {
			const h = columns[column][result] / most * height;
			if (h === 0)
				continue;
			context.fillStyle = colours[result];
			context.fillRect(x, y - Math.max(h, .75), Math.max(width - (width > 4 ? 1 : 0), 1), Math.max(h, .75));
			y -= h;
		}
		if (columns[column].shadow > 0) {
			context.fillStyle = colours.shadow;
			context.fillRect(x, top + height - columns[column].shadow / most * height - 1, Math.max(width, 1), 2);
		}
	}
}

let colours = {};
function drawChart() {
	const canvas = document.getElementById("chart");
	const series = chart.series ?? history.all;
	const ratio = window.devicePixelRatio || 1;
	const width = canvas.clientWidth, height = canvas.clientHeight;
	const context = canvas.getContext("2d");
	const top = 8, bottom = 24;

	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(height * ratio);
	context.scale(ratio, ratio);
	context.font = "12px system-ui, sans-serif";
	colours = Object.fromEntries(RESULTS.map(result => [result, colour(result)]));
	chart.left = 46;
	chart.width = Math.max(width - chart.left - 2, 1);
	chart.columns = Math.min(chart.span, Math.max(Math.floor(chart.width / 2), 1));
	const columns = Array.from({length: chart.columns}, (_, column) => {
		const [from, to] = columnSeconds(column);
		return Object.fromEntries(RESULTS.map(result => [
			result, from < history.first ? 0 : series.sum(result, from, to) / (to - from + 1)]));
	});
	const heights = columns.map(each => Math.max(each.shadow, RESULTS.slice(0, 5).reduce((sum, result) => sum + each[result], 0)));
	const most = niceAbove(Math.max(...heights));
	drawGrid(context, top, height - top - bottom, most);
	drawTimes(context, height - bottom);
	drawColumns(context, top, height - top - bottom, columns, most);
	if (chart.cursor !== null) {
		context.fillStyle = colour("text");
		context.fillRect(chart.left + (chart.cursor + .5) * chart.width / chart.columns - .5, top, 1, height - top - bottom);
	}
	drawLegend(series);
}

/* The legend shows the sums of the chart, or the numbers a second at the cursor. */
function drawLegend(series) {
	const isAtCursor = chart.cursor !== null && chart.cursor < chart.columns;
	const [from, to] = isAtCursor ? columnSeconds(chart.cursor) : [Math.max(history.now - chart.span + 1, history.first), history.now];
	const shown = RESULTS.filter(result => result === "allowed" || result === "denied" ||
		series.sum(result, Math.max(history.now - HOUR + 1, history.first), history.now) > 0);
	const items = shown.map(result => {
		const sum = from < history.first ? 0 : series.sum(result, from, to);
		return el("li", {dataset: {result}}, `${RESULT_TEXTS[result]} `,
			el("b", {}, isAtCursor ? `${short(sum / (to - from + 1))}/s` : count(sum)));
	});
	const when = isAtCursor ? `at ${clock(from, true)}` : "";
	document.getElementById("legend").replaceChildren(...items, ...(when ? [el("li", {className: "when"}, when)] : []));
	document.getElementById("chart").setAttribute("aria-label", `Requests a second, ${shown.map(result =>
		`${RESULT_TEXTS[result]} ${count(series.sum(result, Math.max(history.now - chart.span + 1, history.first), history.now))}`).join(", ")}`);
}

/* A picture of the last hour, a minute a bar. */
function drawSmall(series) {
	const BARS = 60, svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	const bars = Array.from({length: BARS}, (_, i) => {
		const from = history.now - HOUR + 1 + i * HOUR / BARS, to = from + HOUR / BARS - 1;
		const not = series.denials(from, to);
		return {not, all: not + series.sum("allowed", from, to)};
	});
	const most = Math.max(1, ...bars.map(bar => bar.all));
	const path = (name, of) => {
		const made = document.createElementNS(svg.namespaceURI, "path");
		made.setAttribute("class", name);
		made.setAttribute("d", bars.map((bar, i) => of(bar) > 0 ? `M${i * 2} 20h1.6v${-Math.max(of(bar) / most * 20, .8)}h-1.6z` : "").join(""));
		return made;
	};
	svg.setAttribute("viewBox", "0 0 120 20");
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("aria-hidden", "true");
	svg.append(path("all", bar => bar.all), path("not", bar => bar.not));
	return svg;
}

function moveCursor(column) {
	chart.cursor = column === null ? null : Math.min(Math.max(column, 0), chart.columns - 1);
	drawChart();
}

function listenToChart() {
	const canvas = document.getElementById("chart");
	const columnAt = event => Math.floor((event.offsetX - chart.left) / chart.width * chart.columns);
	canvas.tabIndex = 0;
	canvas.addEventListener("pointermove", event => moveCursor(event.offsetX < chart.left ? null : columnAt(event)));
	canvas.addEventListener("pointerleave", () => moveCursor(null));
	canvas.addEventListener("blur", () => moveCursor(null));
	canvas.addEventListener("keydown", event => {
		const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20}[event.key];
		if (step)
			moveCursor((chart.cursor ?? chart.columns) + step);
		else if (event.key === "Escape")
			moveCursor(null);
		else
			return;
		event.preventDefault();
	});
	for (const button of document.querySelectorAll("[data-span]"))
		button.addEventListener("click", () => {
			chart.span = Number(button.dataset.span);
			chart.cursor = null;
			for (const each of document.querySelectorAll("[data-span]"))
				each.setAttribute("aria-pressed", each === button);
			drawChart();
		});
	new ResizeObserver(drawChart).observe(canvas);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawChart);
}
