// What is wrong now, what was, and what has been stopped for it; with the token of this page it can be silenced and let go.
import {badge, copy, h, panel, say, table, time} from "../dom.js";
import {get, post, token} from "../api.js";
import {go} from "../app.js";

export async function show(place, query, signal) {
  const run = query.get("run"), on = panel("On now", {wide: true}), holds = panel("Stopped", {wide: true, note: "by breakers, alerts and people"}), quiet = panel("Silenced", {wide: true, note: "shown and logged, but nobody is told"}), past = panel("History", {wide: true});
  const problem = h("p.notice", {role: "alert", hidden: true});
  place.append(h("div.title", {}, h("h1", {}, "Alerts")), h("p.lead", {}, run ? h("span", {}, "Of the run ", h("a", {href: go("run", {run})}, run), ". ", h("a", {href: "#/alerts"}, "Of all runs")) : "Of all runs that keep a watch."), problem, h("div.grid", {}, on.element, holds.element, quiet.element, past.element));
  const labels = one => Object.entries(one.labels).map(([name, value]) => `${name}=${value}`).join(", ") || "—";
  const house = await get("house", {}, signal), may = house.token && token();
  let known = null;
  const act = (label, done, path, body) => h("button.small", {type: "button", onclick: async event => {
    event.target.disabled = true;
    problem.hidden = true;
    try { await post(`alerts/${path}`, body); say(done); known = ""; draw(await ask()); }
    catch (error) { problem.textContent = error.message; problem.hidden = false; event.target.disabled = false; }
  }}, label);
  const where = one => h("a", {href: go("run", {run: one.run})}, one.run);
  const row = one => [h("b", {}, one.rule), badge(one.turn), badge(one.severity), one.text, labels(one), time(one.unix_seconds), where(one)];
  const heads = ["rule", "state", "severity", {name: "what", full: true}, "where", {name: "when", full: true}, "run"];
  const command = one => h("span.command", {}, h("code", {}, one.undo), h("button", {type: "button", onclick: event => copy(one.undo).then(done => { if (done) event.target.textContent = "Copied"; })}, "Copy"));
  const draw = seen => {
    const key = JSON.stringify(seen);
    if (key === known) return;
    const firing = seen.on.filter(one => one.turn === "firing").length;
    if (known) say(`${firing} alerts fire`);
    known = key;
    on.set(table("Alerts that are on", [...heads, "to hush it"], seen.on.map(one => [...row(one), one.silenced ? badge("silenced") : may ? act("Silence 1 h", `${one.rule} is silenced for an hour`, "silence", {run: one.run, rule: one.rule, labels: one.labels, seconds: 3600, reason: "from the dashboard"}) : "—"]), {empty: "No alert is on."}));
    holds.set(table("What is stopped", ["what", "state", {name: "why", full: true}, "by", {name: "since", full: true}, "run", "to let it go"], seen.holds.map(one => [h("b", {}, `${one.scope} ${one.key}`), badge(one.state), one.reason, one.by, time(one.since_unix_seconds), where(one), may ? act("Release", `${one.scope} ${one.key} is free`, "release", {run: one.run, scope: one.scope, key: one.key}) : one.undo ? command(one) : "—"]), {empty: "Nothing is stopped."}));
    quiet.element.hidden = !seen.silences.length;
    quiet.set(table("Silences", ["rule", "where", {name: "until", full: true}, {name: "why", full: true}, "by", "run", "to end it"], seen.silences.map(one => [h("b", {}, one.rule), labels(one), time(one.until_unix_seconds), one.reason || "—", one.by, where(one), may ? act("End", `the silence of ${one.rule} is over`, "unsilence", {run: one.run, id: one.id}) : "—"])));
    past.set(table("Alerts that fired and were resolved", heads, seen.history.map(row), {empty: "No alert has fired."}));
  };
  const ask = () => get("alerts", run ? {run} : {}, signal);
  draw(await ask());
  const timer = setInterval(() => { if (!document.hidden) ask().then(draw, () => {}); }, 3000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
