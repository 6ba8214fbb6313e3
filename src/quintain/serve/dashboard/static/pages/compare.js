// Runs side by side.
import {h, lasting, number, panel, share, signed, table} from "../dom.js";
import {get} from "../api.js";
import {bars, chart, lines} from "../charts.js";
import {go} from "../app.js";

export async function show(place, query, signal) {
  const names = query.getAll("run"), known = (await get("runs", {}, signal)).filter(line => !line.is_training || names.includes(line.name));
  const picked = new Set(names.length ? names : known.slice(0, 2).map(line => line.name));
  const chosen = h("fieldset.chips", {}, h("legend.unseen", {}, "Runs to compare"), known.slice(0, 30).map(line => h("button", {type: "button", "aria-pressed": String(picked.has(line.name)), onclick: event => {
    picked.has(line.name) ? picked.delete(line.name) : picked.size < 6 && picked.add(line.name);
    event.target.setAttribute("aria-pressed", String(picked.has(line.name)));
    history.replaceState(null, "", go("compare", {run: [...picked]}));
    draw();
  }}, line.name)));
  const body = h("div.grid");
  place.append(h("div.title", {}, h("h1", {}, "Compare runs")), h("p.lead", {}, "Up to six. Differences are to the first of them."), chosen, body);
  async function draw() {
    if (!picked.size) { body.replaceChildren(h("p.empty", {}, "Choose runs above.")); return; }
    const seen = await get("compare", {run: [...picked]}, signal), first = seen[0];
    const rate = one => one.line.episodes ? one.line.solved / one.line.episodes : null, delta = (value, of, told) => value === null || of === null || seen.length < 2 ? "" : ` (${value - of >= 0 ? "+" : "−"}${told(Math.abs(value - of))})`;
    const row = (name, tell) => [name, ...seen.map((one, at) => tell(one, at))];
    const components = [...new Set(seen.flatMap(one => Object.keys(one.components)))].sort();
    const numbers = panel("Side by side", {wide: true});
    numbers.set(table("Numbers of the runs", ["measure", ...seen.map(one => ({name: one.line.name, right: true}))], [
      row("state", one => one.line.pace), row("policy", one => one.line.policy || "a training"), row("tasks", one => one.line.taskset || "—"), row("episodes", one => number(one.line.episodes)),
      row("solved", (one, at) => share(rate(one)) + (at ? delta(rate(one), rate(first), share) : "")), row("mean reward", (one, at) => signed(one.line.reward) + (at ? delta(one.line.reward, first.line.reward, value => value.toFixed(2)) : "")),
      row("turns", one => one.turns === null ? "—" : one.turns.toFixed(1)), row("time", one => lasting(one.line.seconds)), row("faults of the policy", one => number(one.owners.policy || 0)), row("faults of tasks", one => number(one.owners.task || 0)), row("faults of the house", one => number(one.owners.house || 0)), row("masked", one => number(one.masked)),
      ...components.map(name => row(name, one => name in one.components ? one.components[name].toFixed(2) : "—")),
    ], {stacked: false}));
    const solved = panel("Share solved");
    solved.set(bars(seen.map(one => [one.line.name, "good", rate(one) || 0, go("run", {run: one.line.name})]), "Share solved", {format: share, top: 1}));
    const time = panel("Mean reward by time since the beginning"), drawn = chart();
    drawn.draw(() => lines(seen.map(one => ({name: one.line.name, points: one.moments.filter(at => at.reward !== null).map(at => [at.unix_seconds - one.line.created_unix_seconds, at.reward])})), {what: "Mean reward by seconds since the beginning", format: lasting, bottom: Math.min(0, ...seen.flatMap(one => one.moments.map(at => at.reward ?? 0)))}));
    time.set(drawn.element);
    const faults = seen.map(one => { const made = panel(`Commonest faults of ${one.line.name}`); made.set(one.faults.length ? bars(one.faults.map(fault => [`${fault.fault} (${fault.owner})`, fault.owner === "policy" ? "warn" : fault.owner === "task" ? "violet" : "bad", fault.count]), "Faults") : h("p.empty", {}, "No fault.")); return made.element; });
    body.replaceChildren(numbers.element, solved.element, time.element, ...faults);
  }
  await draw();
}
