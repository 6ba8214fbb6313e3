// Charts as SVG of our own, each with a sentence and a table for whoever does not see it.
import {h, s, short as figure, table} from "./dom.js";

let count = 0, W = 640;

// A chart that can be drawn again while its table stays open.
export function chart() {
  const picture = h("div.picture"), data = h("div"), more = h("details.data", {}, h("summary", {}, "As a table"), data);
  const element = h("figure", {}, picture, more);
  let latest = "", make = null, width = 0;
  const redraw = () => {
    W = Math.max(260, width || 640);
    const made = make(), key = JSON.stringify([made.rows, made.sentence, W]);
    if (key === latest) return;
    latest = key;
    picture.replaceChildren(...[made.svg, made.legend].filter(Boolean));
    data.replaceChildren(table(made.sentence, made.heads, made.rows, {stacked: false}));
    more.hidden = !made.rows.length;
  };
  // as wide as its place, so that its letters stay as large as all others
  new ResizeObserver(() => { const now = picture.clientWidth; if (Math.abs(now - width) > 4) { width = now; if (make && now) redraw(); } }).observe(picture);
  return {element, draw(given) { make = given; redraw(); }};
}
function frame(height, sentence, ...children) {
  const id = `c${count += 1}`;
  return s("svg", {viewBox: `0 0 ${W} ${height}`, role: "img", "aria-labelledby": id, class: "chart"}, s("title", {id}, sentence), children);
}
const legend = entries => h("ul.legend", {}, entries.map(([name, mood, value]) => h("li", {}, h(`span.key.${mood}`, {"aria-hidden": "true"}), h("span", {}, name), value === undefined ? null : h("b", {}, value))));

export function stack(entries, what) {
  const known = entries.filter(([, , value]) => value > 0), all = known.reduce((sum, [, , value]) => sum + value, 0);
  let x = 0;
  const parts = known.map(([name, mood, value]) => {
    const width = W * value / all, part = s("rect", {x: x + 1, y: 0, width: Math.max(1, width - 2), height: 26, rx: 4, class: `fill ${mood}`}, s("title", {}, `${name}: ${value}`));
    x += width;
    return part;
  });
  const sentence = all ? `${what}: ${known.map(([name, , value]) => `${name} ${value}`).join(", ")}` : `${what}: none yet`;
  const svg = frame(26, sentence, all ? parts : s("rect", {width: W, height: 26, rx: 4, class: "fill none"}));
  svg.setAttribute("preserveAspectRatio", "none");
  svg.classList.add("strip");
  return {svg, legend: legend(entries.map(([name, mood, value]) => [name, mood, value.toLocaleString("en")])), sentence, heads: ["what", {name: "count", right: true}], rows: known.map(([name, , value]) => [name, String(value)])};
}
function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map(n => n * power).find(n => n >= value);
}
function axes(top, height, {bottom = 0, left = 44, format = v => v, ticks = 3}) {
  const low = height - 22, high = 8, y = value => low - (low - high) * (value - bottom) / (top - bottom || 1);
  const lines = [];
  for (let n = 0; n <= ticks; n += 1) {
    const value = bottom + (top - bottom) * n / ticks;
    lines.push(s("line", {x1: left, x2: W, y1: y(value), y2: y(value), class: n ? "grid" : "axis"}), s("text", {x: left - 8, y: y(value) + 4, class: "tick", "text-anchor": "end"}, format(value)));
  }
  return {y, low, left, lines};
}
const short = value => value >= 10000 ? `${Math.round(value / 1000)}k` : String(Math.round(value * 100) / 100);

export function histogram(bins) {
  const top = niceTop(Math.max(...bins, 1)), {y, low, left, lines} = axes(top, 170, {format: short, ticks: 2}), step = (W - left) / (bins.length || 1);
  const bars = bins.map((value, at) => value ? s("rect", {x: left + at * step + 1.5, width: step - 3, y: y(value), height: Math.max(1.5, low - y(value)), rx: 2, class: `fill ${at < 10 ? "warn" : "good"}`}, s("title", {}, `${(at / 10 - 1).toFixed(1)} to ${((at + 1) / 10 - 1).toFixed(1)}: ${value}`)) : null);
  const marks = [-1, -0.5, 0, 0.5, 1].map(value => s("text", {x: left + (W - left) * (value + 1) / 2, y: 166, class: "tick", "text-anchor": value === -1 ? "start" : value === 1 ? "end" : "middle"}, value > 0 ? `+${value}` : String(value).replace("-", "−")));
  const rows = bins.map((value, at) => [`${(at / 10 - 1).toFixed(1)} to ${((at + 1) / 10 - 1).toFixed(1)}`, String(value)]).filter(row => row[1] !== "0");
  const all = bins.reduce((sum, value) => sum + value, 0);
  return {svg: frame(170, `Distribution of ${all} rewards from −1 to +1`, lines, bars, marks), sentence: "Rewards, how many in each range", heads: ["from … to", {name: "episodes", right: true}], rows};
}
const clock = unix => { const at = new Date(unix * 1000), pad = n => String(n).padStart(2, "0"); return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`; };

export function throughput(moments, step) {
  const top = niceTop(Math.max(...moments.map(one => one.closed), 1)), {y, low, left, lines} = axes(top, 170, {format: short, ticks: 2});
  const slots = Math.max(moments.length, 12), width = (W - left) / slots;
  const bars = moments.map((one, at) => [
    one.closed ? s("rect", {x: left + at * width + 1, width: Math.max(1, width - 2), y: y(one.closed), height: low - y(one.closed), rx: 1.5, class: "fill warn"}, s("title", {}, `${clock(one.unix_seconds)}: ${one.closed} closed, ${one.solved} solved`)) : null,
    one.solved ? s("rect", {x: left + at * width + 1, width: Math.max(1, width - 2), y: y(one.solved), height: low - y(one.solved), rx: 1.5, class: "fill good"}, s("title", {}, `${clock(one.unix_seconds)}: ${one.solved} solved`)) : null]);
  return {svg: frame(170, `Episodes closed in each ${step} s`, lines, bars, ends(moments, left, width)), legend: legend([["solved", "good"], ["closed unsolved", "warn"]]),
    sentence: `Episodes closed in each ${step} s`, heads: ["until", {name: "closed", right: true}, {name: "solved", right: true}], rows: moments.filter(one => one.closed).map(one => [clock(one.unix_seconds), String(one.closed), String(one.solved)])};
}
function ends(moments, left, width) {
  if (!moments.length) return [];
  const first = s("text", {x: left, y: 166, class: "tick"}, clock(moments[0].unix_seconds));
  const last = moments.length > 8 ? s("text", {x: Math.min(W, left + moments.length * width), y: 166, class: "tick", "text-anchor": "end"}, clock(moments.at(-1).unix_seconds)) : null;
  return [first, last];
}
export function rewardsOverTime(moments) {
  const known = moments.filter(one => one.reward !== null);
  return lines([{name: "mean reward", points: known.map(one => [one.unix_seconds, one.reward])}], {format: clock, what: "Mean reward over time", bottom: Math.min(0, ...known.map(one => one.reward))});
}
const COLOURS = ["line-a", "line-b", "line-c", "line-d", "line-e", "line-f"];
export function lines(curves, {format = value => String(Math.round(value)), what, bottom = 0, height = 190} = {}) {
  const points = curves.flatMap(curve => curve.points), xs = points.map(point => point[0]), ys = points.map(point => point[1]);
  const most = Math.max(...ys, 0), top = most <= 1 && most > 0.3 ? 1 : niceTop(most), low0 = bottom < 0 ? -niceTop(-bottom) : 0;
  const {y, low, left, lines: grid} = axes(top, height, {bottom: low0, format: value => short(value).replace("-", "−"), ticks: 4});
  const from = Math.min(...xs), until = Math.max(...xs), x = value => left + 6 + (W - left - 14) * (until > from ? (value - from) / (until - from) : 0.5);
  const drawn = curves.map((curve, at) => [
    s("path", {d: curve.points.map(([a, b], n) => `${n ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join(""), class: `stroke ${COLOURS[at % 6]}`}),
    curve.points.length <= 40 ? curve.points.map(([a, b]) => s("circle", {cx: x(a), cy: y(b), r: 3, class: `point ${COLOURS[at % 6]}`}, s("title", {}, `${curve.name}, ${format(a)}: ${b}`))) : null]);
  const marks = points.length ? [s("text", {x: left, y: low + 18, class: "tick"}, format(from)), until > from ? s("text", {x: W, y: low + 18, class: "tick", "text-anchor": "end"}, format(until)) : null] : [];
  return {svg: frame(height, `${what}: ${curves.map(curve => `${curve.name} ${curve.points.length ? `from ${curve.points[0][1]} to ${curve.points.at(-1)[1]}` : "none yet"}`).join("; ")}`, grid, drawn, marks),
    legend: curves.length > 1 ? legend(curves.map((curve, at) => [curve.name, COLOURS[at % 6], curve.points.length ? figure(curve.points.at(-1)[1]) : "—"])) : null,
    sentence: what, heads: ["at", "curve", {name: "value", right: true}], rows: curves.flatMap(curve => curve.points.slice(-60).map(([a, b]) => [format(a), curve.name, String(b)]))};
}
export function bars(entries, what, {format = value => value.toLocaleString("en"), top = null} = {}) {
  const most = top ?? Math.max(...entries.map(([, , value]) => value), 1);
  const body = h("ul.bars", {"aria-label": what}, entries.map(([name, mood, value, link]) => {
    const bar = s("svg", {viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true", class: "bar"}, s("rect", {width: 100, height: 8, rx: 1, class: "fill none"}), s("rect", {width: value ? Math.max(0.6, 100 * value / most) : 0, height: 8, rx: 1, class: `fill ${mood}`}));
    return h("li", {}, link ? h("a", {href: link}, name) : h("span", {}, name), h("b", {}, format(value)), bar);
  }));
  return body;
}
