// One run at a glance, as it goes.
import {badge, h, lasting, number, panel, say, share, short, signed, time} from "../dom.js";
import {get, listen} from "../api.js";
import {bars, chart, histogram, lines, rewardsOverTime, stack, throughput} from "../charts.js";
import {go} from "../app.js";

export const STATES = [["generating", "info"], ["building", "info2"], ["running", "info3"], ["grading", "info4"], ["solved", "good"], ["failed", "warn"], ["broken", "bad"]];

export function heading(run, page, extra = null) {
  const tabs = [["run", "Overview"], ["episodes", "Episodes"], ["tasks", "Tasks"]];
  return [h("nav.trail", {"aria-label": "Where this is"}, h("ol", {}, h("li", {}, h("a", {href: "#/"}, "Runs")), h("li", {}, page === "run" ? run : h("a", {href: go("run", {run})}, run)), extra ? h("li", {}, extra) : null)),
    h("nav.tabs", {"aria-label": "Of this run"}, tabs.map(([name, label]) => h("a", {href: go(name, {run}), "aria-current": name === page ? "page" : null}, label)),
      h("a", {href: go("alerts", {run})}, "Alerts"))];
}
export async function show(place, query, signal) {
  const run = query.get("run"), title = h("div.title"), lead = h("p.lead"), tiles = h("dl.tiles"), note = h("div");
  const [trail, tabs] = heading(run, "run");
  const charts = {states: chart(), closed: chart(), spread: chart(), time: chart(), learning: chart(), versions: chart()};
  const p = {states: panel("Episodes by state", {wide: true}), closed: panel("Throughput"), time: panel("Reward over time"), spread: panel("Rewards", {note: "from −1 to +1"}), owners: panel("Faults by owner"), faults: panel("Commonest faults"),
    components: panel("Reward components", {note: "mean where measured"}), tasks: panel("Task health"), sandboxes: panel("Sandboxes"), numbers: panel("Last update", {note: "as the learner calls its numbers"}), flags: panel("Flags"), learning: panel("Learning curve", {wide: true}), versions: panel("By policy version", {wide: true})};
  for (const [name, made] of Object.entries(charts)) p[name].set(made.element);
  const grid = h("div.grid", {}, Object.values(p).map(one => one.element));
  place.append(trail, title, lead, tabs, note, tiles, grid);
  let before = null, told = 0;
  const draw = seen => {
    const line = seen.line, all = line.episodes || 0, states = seen.states;
    title.replaceChildren(h("h1", {}, run), badge(line.pace), seen.alerts ? h("a", {href: go("alerts", {run})}, badge(`${seen.alerts} alert${seen.alerts > 1 ? "s" : ""}`, "bad")) : "");
    lead.textContent = line.is_training ? `A training, begun ${time(line.created_unix_seconds)}` : `${line.policy} on ${line.taskset}, begun ${time(line.created_unix_seconds)}`;
    note.replaceChildren(...(seen.damaged ? [h("p.notice", {}, `${seen.damaged} place(s) of the journal are damaged and were passed over.`)] : []));
    const tile = (name, value, under) => h("div.tile", {}, h("dt", {}, name), h("dd", {}, value, under ? h("span.under", {}, under) : null));
    tiles.hidden = line.is_training;
    for (const tab of tabs.querySelectorAll("a")) tab.hidden = line.is_training && /#\/(episodes|tasks)\?/.test(tab.getAttribute("href"));
    if (line.is_training && p.learning.element !== grid.firstElementChild) grid.prepend(p.learning.element);
    if (!line.is_training) tiles.replaceChildren(
      tile("Episodes", number(all), `${number(line.open)} open`), tile("Solved", all ? share(line.solved / all) : "—", `${number(line.solved)} episodes`), tile("Mean reward", signed(line.reward), seen.masked ? `${seen.masked} masked by flags` : "of those that have one"),
      tile("Throughput", `${number(seen.per_minute)}`, "closed in the last minute"), tile("Turns", seen.turns === null ? "—" : seen.turns.toFixed(1), "mean of an episode"), tile("Time", lasting(line.seconds), line.pace === "live" ? "so far" : "from first to last"));
    p.states.element.hidden = p.closed.element.hidden = p.time.element.hidden = p.spread.element.hidden = p.owners.element.hidden = p.faults.element.hidden = p.tasks.element.hidden = line.is_training;
    charts.states.draw(() => stack(STATES.map(([name, mood]) => [name, mood, states[name] || 0]), "Episodes by state"));
    charts.closed.draw(() => throughput(seen.moments, seen.step_seconds));
    charts.time.draw(() => rewardsOverTime(seen.moments));
    charts.spread.draw(() => histogram(seen.rewards));
    const owned = (name, label, mood) => [label, mood, seen.owners[name] || 0, go("episodes", {run, owner: name})];
    p.owners.set(bars([owned("policy", "policy: its answer failed", "warn"), owned("task", "task: not fit to be asked", "violet"), owned("house", "house: ours", "bad")], "Faults by owner"));
    p.faults.set(seen.faults.length ? bars(seen.faults.map(one => [`${one.fault} (${one.owner})`, one.owner === "policy" ? "warn" : one.owner === "task" ? "violet" : "bad", one.count, go("episodes", {run, fault: one.fault})]), "Commonest faults") : h("p.empty", {}, "No fault so far."));
    const parts = Object.entries(seen.components);
    p.components.element.hidden = !parts.length;
    p.components.set(bars(parts.map(([name, value]) => [name, "info", value]), "Reward components", {format: value => value.toFixed(2), top: 1}));
    const fares = [["always solved", "good"], ["mixed", "info"], ["never solved", "warn"], ["broken", "bad"]].map(([name, mood]) => [name, mood, seen.tasks[name] || 0, go("tasks", {run, fares: name})]);
    p.tasks.set(bars(fares, "Tasks by how they fare"));
    const boxes = Object.entries(seen.sandboxes);
    p.sandboxes.element.hidden = line.is_training && !boxes.length;
    const numbers = Object.entries(seen.numbers).sort();
    p.numbers.element.hidden = !numbers.length;
    p.numbers.set(h("dl.numbers", {}, numbers.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, short(value))))));
    p.sandboxes.set(boxes.length ? bars(boxes.map(([name, value]) => [name.replaceAll("_", " "), name === "leaked" ? "bad" : "info", value]), "Sandboxes by state") : h("p.empty", {}, "Not metered: this run keeps no watch, or has not looked yet."));
    const flags = Object.entries(seen.flags);
    p.flags.element.hidden = !flags.length;
    p.flags.set(bars(flags.map(([name, value]) => [name, "warn", value, go("episodes", {run, flag: name})]), "Flags by detector"));
    p.learning.element.hidden = !seen.curves.length;
    if (seen.curves.length) charts.learning.draw(() => lines(seen.curves, {what: "Learning curve", height: 240}));
    p.versions.element.hidden = !seen.versions.length;
    if (seen.versions.length) charts.versions.draw(() => lines(seen.versions, {what: "By policy version", height: 220}));
    const now = Date.now();
    if (before && (before.line.pace !== line.pace || (now - told > 15000 && before.line.solved !== line.solved))) {
      told = now;
      say(`${run} is ${line.pace}: ${number(all)} episodes, ${number(line.solved)} solved, ${number(line.open)} open`);
    }
    before = seen;
  };
  draw(await get("overview", {run}, signal));
  listen({run}, "overview", draw, signal);
}
