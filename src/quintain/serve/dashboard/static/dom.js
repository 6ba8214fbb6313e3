// Elements without markup: what candidates wrote only ever becomes text.
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElement(name || "div"), classes, attributes, children);
}
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), [], attributes, children);
}
function fill(element, classes, attributes, children) {
  for (const name of classes) element.classList.add(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(one => one !== null && one !== undefined && one !== false));
  return element;
}
export const say = text => { document.getElementById("say").textContent = text; };

export const number = value => value === null || value === undefined ? "—" : Number(value).toLocaleString("en");
export const share = value => value === null || value === undefined ? "—" : `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;
export const signed = value => value === null || value === undefined ? "—" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
export const short = value => value === null || value === undefined ? "—" : Number.isInteger(value) || Math.abs(value) >= 1000 ? number(Math.round(value)) : String(Number(value.toPrecision(3)));
export function time(unix) {
  if (!unix) return "—";
  const at = new Date(unix * 1000), pad = n => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}
export function lasting(seconds) {
  if (seconds === null || seconds === undefined) return "—";
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round(seconds % 3600 / 60)} min`;
}
export const badge = (word, mood) => h(`span.badge.${mood || moodOf(word)}`, {}, word);
const MOODS = {solved: "good", live: "info", failed: "warn", broken: "bad", interrupted: "warn", ended: "plain", passed: "good", missing: "bad",
  generating: "info", building: "info", running: "info", grading: "info", policy: "warn", task: "violet", house: "bad", active: "good",
  probation: "info", suspended: "bad", retired: "plain", candidate: "plain", firing: "bad", fired: "bad", pending: "warn", resolved: "good",
  critical: "bad", page: "bad", warning: "warn", warn: "warn", info: "info", silenced: "plain", held: "warn", hard: "bad", soft: "warn", mask: "warn", drop: "bad", yes: "good", honest: "good", hack: "bad",
  "always solved": "good", "never solved": "warn", mixed: "info", "not finished": "plain", open: "bad", half_open: "warn"};
export const moodOf = word => MOODS[word] || "plain";

export function table(caption, heads, rows, {empty = "Nothing yet.", stacked = true} = {}) {
  if (!rows.length) return h("p.empty", {}, empty);
  return h("div.scroll", {tabindex: "0", role: "group", "aria-label": caption},
    h(`table${stacked ? ".stacked" : ""}`, {}, h("caption.unseen", {}, caption),
      h("thead", {}, h("tr", {}, heads.map(head => h("th", {scope: "col", class: head.right ? "right" : null, "aria-sort": head.sorted || null}, head.cell || head.name || head)))),
      h("tbody", {}, rows.map(cells => h("tr", {}, cells.map((cell, at) => {
        const head = heads[at];
        return h(at ? "td" : "th", {scope: at ? null : "row", class: [head.right ? "right" : "", head.full ? "full" : ""].join(" ").trim() || null, "data-name": head.name || head, "data-empty": cell === "—" || cell === ""}, cell);
      }))))));
}
export function panel(title, {wide = false, note = ""} = {}) {
  const body = h("div.body"), id = `p${panel.count = (panel.count || 0) + 1}`;
  const element = h(`section.panel${wide ? ".wide" : ""}`, {"aria-labelledby": id}, h("div.head", {}, h("h2", {id}, title), note ? h("span.muted", {}, note) : null), body);
  return {element, body, set: (...children) => body.replaceChildren(...children.flat(Infinity).filter(Boolean))};
}
export function facts(pairs) {
  return h("dl.facts", {}, pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
export function failure(error) {
  return h("div.failure", {role: "alert"}, h("h2", {}, "This cannot be shown"), h("p", {}, error.message || String(error)));
}
export function diffOf(text) {
  return h("pre.code.diff", {tabindex: "0", role: "group", "aria-label": "differences"}, text.split("\n").map(line => {
    const mood = /^(\+\+\+|---)/.test(line) ? "file" : line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "same";
    return h(`span.${mood}`, {}, line + "\n");
  }));
}
export async function copy(text) {
  try { await navigator.clipboard.writeText(text); say("Copied."); return true; } catch { return false; }
}
