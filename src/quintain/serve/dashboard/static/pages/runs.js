// All runs: those that go on, and what the others came to.
import {badge, h, lasting, number, panel, share, signed, table, time} from "../dom.js";
import {get, listen} from "../api.js";
import {bars} from "../charts.js";
import {go} from "../app.js";

export async function show(place, query, signal) {
  const tiles = h("dl.tiles"), list = panel("All runs", {wide: true}), faults = panel("Faults by owner, all runs"), solved = panel("Solved, latest runs"), chosen = new Set();
  const compare = h("a.button", {href: "#/compare", "aria-disabled": "true"}, "Compare");
  const choose = name => event => {
    event.target.checked ? chosen.add(name) : chosen.delete(name);
    compare.href = go("compare", {run: [...chosen]});
    compare.textContent = chosen.size ? `Compare ${chosen.size} run${chosen.size > 1 ? "s" : ""}` : "Compare";
  };
  place.append(h("div.title", {}, h("h1", {}, "Runs"), compare), h("p.lead", {}, "What goes on now, and what came of everything before. Choose two or more to compare them."), tiles,
    h("div.grid.two", {}, list.element, faults.element, solved.element));
  const draw = lines => {
    const live = lines.filter(line => line.pace === "live"), sum = name => lines.reduce((all, line) => all + (line[name] || 0), 0);
    const owners = {policy: 0, task: 0, house: 0};
    for (const line of lines) for (const [owner, count] of Object.entries(line.faults)) owners[owner] = (owners[owner] || 0) + count;
    tiles.replaceChildren(...[["Live runs", number(live.length)], ["Open episodes", number(live.reduce((all, line) => all + (line.open || 0), 0))],
      ["Episodes", number(sum("episodes")), `in ${lines.length} runs`], ["Solved", number(sum("solved")), sum("episodes") ? share(sum("solved") / sum("episodes")) : ""]].map(([name, value, under]) =>
      h("div.tile", {}, h("dt", {}, name), h("dd", {}, value, under ? h("span.under", {}, under) : null))));
    const focused = list.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    list.set(table("Runs, the newest first", ["run", "state", "policy", {name: "episodes", right: true}, {name: "open", right: true}, {name: "solved", right: true}, {name: "reward", right: true}, {name: "time", right: true}, "began", "compare"],
      lines.map(line => [
        h("a", {href: go("run", {run: line.name}), "data-stop": true, "data-key": line.name}, line.name), badge(line.pace), line.is_training ? "a training" : `${line.policy} on ${line.taskset}`, number(line.episodes), number(line.open),
        line.episodes ? `${number(line.solved)} (${share(line.solved / line.episodes)})` : "—", signed(line.reward), lasting(line.seconds), time(line.created_unix_seconds),
        h("input", {type: "checkbox", "aria-label": `Choose ${line.name} to compare`, "data-key": `choose ${line.name}`, onchange: choose(line.name), checked: chosen.has(line.name)}),
      ]), {empty: "No run is here yet: quintain run humaneval --policy oracle makes one."}));
    if (focused) list.body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    faults.set(bars([["policy: its answer failed", "warn", owners.policy], ["task: not fit to be asked", "violet", owners.task], ["house: ours", "bad", owners.house]], "Faults by owner"));
    const shown = lines.filter(line => line.episodes).slice(0, 8);
    solved.set(shown.length ? bars(shown.map(line => [line.name, "good", line.solved / line.episodes, go("run", {run: line.name})]), "Share solved", {format: share, top: 1}) : h("p.empty", {}, "Nothing yet."));
  };
  draw(await get("runs", {}, signal));
  listen({}, "runs", draw, signal);
}
