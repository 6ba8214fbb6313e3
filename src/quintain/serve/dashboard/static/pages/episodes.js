// The episodes of a run, by what they have come to.
import {badge, failure, h, lasting, number, say, signed, table, time} from "../dom.js";
import {get} from "../api.js";
import {go} from "../app.js";
import {heading, STATES} from "./run.js";

const FIELDS = ["state", "owner", "kind", "fault", "flag", "text", "order", "falling", "offset"], LIMIT = 50;

export async function show(place, query, signal) {
  const run = query.get("run"), asked = Object.fromEntries(FIELDS.map(name => [name, name === "state" ? query.getAll("state") : query.get(name) || ""]));
  const [trail, tabs] = heading(run, "episodes", "Episodes"), filters = h("form.filters", {role: "search", "aria-label": "Choose episodes", onsubmit: event => event.preventDefault()}), chips = h("fieldset.chips", {}, h("legend.unseen", {}, "States")), list = h("section.panel", {"aria-label": "Episodes"});
  place.append(trail, h("div.title", {}, h("h1", {}, "Episodes")), h("p.lead", {}, run), tabs, filters, chips, list);
  let turn = 0;
  const set = changes => { Object.assign(asked, {offset: ""}, changes); keep(); return draw(); };
  const keep = () => history.replaceState(null, "", go("episodes", {run, ...Object.fromEntries(Object.entries(asked).filter(([, value]) => value.length))}));
  const link = episode => go("episode", {run, episode});
  const choice = (name, label, options) => h("label", {}, label, h("select", {onchange: event => set({[name]: event.target.value})}, h("option", {value: ""}, "all"), [...new Set([...options, asked[name]].filter(Boolean))].map(one => h("option", {value: one, selected: one === asked[name]}, one))));
  const sorted = (name, label, right) => ({name: label, right, sorted: (asked.order || "opened") === name ? (asked.falling === "0" ? "ascending" : "descending") : null,
    cell: h("button", {type: "button", onclick: () => set({order: name, falling: (asked.order || "opened") === name && asked.falling !== "0" ? "0" : "1"}).then(() => list.querySelector(`[data-order=${name}]`)?.focus()), "data-order": name}, label, (asked.order || "opened") === name ? (asked.falling === "0" ? " ↑" : " ↓") : "")});
  async function draw() {
    const mine = turn += 1;
    chips.replaceChildren(chips.firstChild, ...STATES.map(([name]) => h("button", {type: "button", "data-state": name, "aria-pressed": String(asked.state.includes(name)), onclick: () => set({state: asked.state.includes(name) ? asked.state.filter(one => one !== name) : [...asked.state, name]}).then(() => chips.querySelector(`[data-state=${name}]`).focus())}, name)));
    let page;
    try { page = await get("episodes", {run, ...asked, limit: LIMIT}, signal); } catch (error) { if (!signal.aborted) list.replaceChildren(failure(error)); return; }
    if (mine !== turn) return;
    if (!filters.children.length) {
      let wait = 0;
      const field = h("input", {type: "search", placeholder: "id, task or fault", value: asked.text, oninput: event => { clearTimeout(wait); wait = setTimeout(() => set({text: event.target.value}), 200); }});
      filters.append(h("label.grow", {}, "Search", field), choice("owner", "Owner of the failure", ["policy", "task", "house"]), choice("fault", "Fault", page.faults), page.kinds.length > 1 ? choice("kind", "Kind of task", page.kinds) : "", page.flags.length ? choice("flag", "Flag", page.flags) : "");
    }
    const from = Number(asked.offset || 0), until = Math.min(page.total, from + LIMIT);
    list.replaceChildren(table("Episodes", [sorted("task", "episode"), "state", sorted("reward", "reward", true), sorted("turns", "turns", true), sorted("seconds", "time", true), "last fault", "flags", sorted("opened", "opened")],
      page.episodes.map(one => [h("a", {href: link(one.id), "data-stop": true}, one.id), h("span.badges", {}, badge(one.state), one.attempt > 1 ? badge(`attempt ${one.attempt}`, "plain") : null, one.trainable && one.trainable !== "yes" ? badge(one.trainable) : null),
        signed(one.reward), number(one.turns), lasting(one.seconds), one.fault ? h("span.clip", {title: one.fault}, one.fault) : "—", one.flags.length ? h("span.badges", {}, one.flags.map(flag => badge(flag, "warn"))) : "—", time(one.opened_unix_seconds)]),
      {empty: "No episode is like that."}),
      h("div.pager", {}, h("button", {type: "button", disabled: from === 0, onclick: () => set({offset: String(Math.max(0, from - LIMIT))})}, "Previous"), h("button", {type: "button", disabled: until >= page.total, onclick: () => set({offset: String(from + LIMIT)})}, "Next"), h("span", {}, page.total ? `${number(from + 1)} to ${number(until)} of ${number(page.total)}` : "none")));
    say(`${page.total} episodes`);
  }
  await draw();
}
