// Every task of a run: how it fared, how it stands in the ledger, and why.
import {badge, h, number, share, signed, table, time} from "../dom.js";
import {get} from "../api.js";
import {go} from "../app.js";
import {heading} from "./run.js";

export async function show(place, query, signal) {
  const run = query.get("run"), [trail, tabs] = heading(run, "tasks", "Tasks"), page = await get("tasks", {run}, signal), list = h("section.panel", {"aria-label": "Tasks"});
  let text = "", fares = query.get("fares") || "", count = 100;
  const states = [...new Set(page.tasks.map(one => one.standing?.state).filter(Boolean))];
  const reasons = standing => standing && standing.moves.length ? h("details", {}, h("summary", {}, `${standing.moves.at(-1).why.replaceAll("_", " ")}${standing.moves.at(-1).evidence ? `: ${standing.moves.at(-1).evidence}` : ""}`), h("ol", {}, standing.moves.map(move => h("li.small", {}, badge(move.to), ` ${time(move.unix_seconds)} ${move.why.replaceAll("_", " ")}${move.evidence ? `: ${move.evidence}` : ""}${move.by ? ` (${move.by})` : ""}`)))) : "—";
  const draw = () => {
    const found = page.tasks.filter(one => (!fares || one.fares === fares || one.standing?.state === fares) && one.task.toLowerCase().includes(text.toLowerCase())), ledger = Boolean(page.ledger);
    list.replaceChildren(table("Tasks, those in trouble first", ["task", "fares", ...(ledger ? ["standing", "reason"] : []), {name: "attempts", right: true}, {name: "solved", right: true}, {name: "broken", right: true}, {name: "reward", right: true}, "commonest fault"],
      found.slice(0, count).map(one => [h("a", {href: go("episodes", {run, text: one.task}), "data-stop": true}, one.task), badge(one.fares), ...(ledger ? [one.standing ? h("span", {}, badge(one.standing.state), h("span.muted.small", {}, ` since ${time(one.standing.since_unix_seconds)}`)) : "—", reasons(one.standing)] : []),
        number(one.attempts), one.attempts > one.broken ? share(one.solved / (one.attempts - one.broken)) : "—", number(one.broken), signed(one.reward), one.fault || "—"]), {empty: "No task is like that."}),
      found.length > count ? h("div.pager", {}, h("button", {type: "button", onclick: () => { count += 400; draw(); }}, `Show more of ${found.length}`)) : "");
  };
  const options = ["always solved", "mixed", "never solved", "broken", "not finished", ...states];
  place.append(trail, h("div.title", {}, h("h1", {}, "Tasks")), h("p.lead", {}, page.ledger ? `Standings by the ledger ${page.ledger}` : "Without a health ledger: how each fared in this run. quintain run … --health LEDGER keeps one."), tabs,
    h("form.filters", {role: "search", "aria-label": "Choose tasks", onsubmit: event => event.preventDefault()}, h("label.grow", {}, "Search", h("input", {type: "search", placeholder: "task", oninput: event => { text = event.target.value; draw(); }})),
      h("label", {}, "Fares or stands", h("select", {onchange: event => { fares = event.target.value; draw(); }}, h("option", {value: ""}, "all"), options.map(one => h("option", {value: one, selected: one === fares}, one))))), list);
  draw();
}
