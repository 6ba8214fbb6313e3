// What is wrong now, what was, and what has been stopped for it.
import {badge, copy, h, panel, say, table, time} from "../dom.js";
import {get} from "../api.js";
import {go} from "../app.js";

export async function show(place, query, signal) {
  const run = query.get("run"), on = panel("On now", {wide: true}), holds = panel("Stopped", {wide: true, note: "by breakers, alerts and people"}), past = panel("History", {wide: true});
  place.append(h("div.title", {}, h("h1", {}, "Alerts")), h("p.lead", {}, run ? h("span", {}, "Of the run ", h("a", {href: go("run", {run})}, run), ". ", h("a", {href: "#/alerts"}, "Of all runs")) : "Of all runs that keep a watch."), h("div.grid", {}, on.element, holds.element, past.element));
  const labels = one => Object.entries(one.labels).map(([name, value]) => `${name}=${value}`).join(", ") || "—";
  let known = null;
  const row = one => [h("b", {}, one.rule), badge(one.turn), badge(one.severity), one.text, labels(one), time(one.unix_seconds), h("a", {href: go("run", {run: one.run})}, one.run), one.silenced ? "silenced" : ""];
  const heads = ["rule", "state", "severity", "what", "where", "when", "run", "note"];
  const draw = seen => {
    const key = JSON.stringify(seen);
    if (key === known) return;
    const firing = seen.on.filter(one => one.turn === "firing").length;
    if (known !== null) say(`${firing} alerts fire`);
    known = key;
    on.set(table("Alerts that are on", heads, seen.on.map(row), {empty: "No alert is on."}));
    holds.set(table("What is stopped", ["what", "state", "why", "by", "since", "run", "to let it go"], seen.holds.map(one => [h("b", {}, `${one.scope} ${one.key}`), badge(one.state), one.reason, one.by, time(one.since_unix_seconds), h("a", {href: go("run", {run: one.run})}, one.run), one.undo ? h("span.command", {}, h("code", {}, one.undo), h("button", {type: "button", onclick: event => copy(one.undo).then(done => { if (done) event.target.textContent = "Copied"; })}, "Copy")) : "—"]), {empty: "Nothing is stopped."}));
    past.set(table("Alerts that fired and were resolved", heads, seen.history.map(row), {empty: "No alert has fired."}));
  };
  const ask = () => get("alerts", run ? {run} : {}, signal);
  draw(await ask());
  const timer = setInterval(() => { if (!document.hidden) ask().then(draw, () => {}); }, 3000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
