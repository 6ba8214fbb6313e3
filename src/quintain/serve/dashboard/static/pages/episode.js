// One episode, turn by turn.
import {badge, copy, diffOf, facts, h, lasting, number, say, signed, table} from "../dom.js";
import {get, post, token} from "../api.js";
import {heading} from "./run.js";

const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

export async function show(place, query, signal) {
  const run = query.get("run"), id = query.get("episode"), [told, house] = await Promise.all([get("episode", {run, episode: id}, signal), get("house", {}, signal)]), line = told.line;
  const [trail, tabs] = heading(run, "episodes", id), several = new Set(told.steps.map(step => step.attempt)).size > 1;
  const name = step => `${several ? `Attempt ${step.attempt}, ` : ""}${step.number ? `${several ? "turn" : "Turn"} ${step.number}` : (several ? "asked" : "Asked")}`;
  const anchor = at => `step-${at}`;
  const steps = told.steps.map((step, at) => {
    const judged = step.parts.filter(part => part.verdict).at(-1), mood = judged ? (judged.verdict.solved ? "good" : "bad") : step.parts.some(part => part.mood === "bad") ? "bad" : "plain";
    return h(`li.step.${mood}`, {id: anchor(at), tabindex: "-1", "data-stop": true, "aria-label": name(step)}, h("div.head", {}, h("h2", {}, name(step)), h("span.muted.small", {}, `at ${lasting(step.at_seconds)}, took ${lasting(step.seconds)}`)),
      h("div.panel", {}, step.parts.map(part => partOf(part, run, id))));
  });
  const outline = h("nav.panel.outline", {"aria-label": "Turns"}, h("h2", {}, "Turns"), h("ol", {}, told.steps.map((step, at) => h("li", {}, h("a", {href: `#${anchor(at)}`, onclick: event => { event.preventDefault(); steps[at].focus(); steps[at].scrollIntoView(); }}, h("span", {}, name(step)), h("span.muted", {}, lasting(step.at_seconds)))))));
  place.append(trail, h("div.title", {}, h("h1", {}, id), line ? badge(line.state) : null, line && line.trainable && line.trainable !== "yes" ? badge(line.trainable) : null), tabs,
    line ? h("section.panel", {"aria-label": "In short"}, facts([["task", line.task], ["group", line.group], ["reward", h("b", {}, signed(line.reward))], ["turns", number(line.turns)], ["time", lasting(line.seconds)], ["ended by", line.stop || "still going on"], line.owner ? ["failed by", `${line.owner}: ${line.fault || ""}`] : null, line.flags.length ? ["flags", h("span.badges", {}, line.flags.map(flag => badge(flag, "warn")))] : null]),
      again(told, house, run, id)) : "", h("p"), h("div.episode", {}, outline, h("ol.steps", {}, steps)));
}
function again(told, house, run, id) {
  const last = Math.max(...told.steps.map(step => step.number)), step = h("select", {"aria-label": "from turn"}, Array.from({length: last}, (_, at) => h("option", {value: at + 1}, `turn ${at + 1}`)));
  const words = house.replays ? () => `quintain replay ${quoted(id)} --run ${quoted(told.folder)} --step ${step.value || 0}` : () => `quintain show ${quoted(told.folder)} ${quoted(id)}`;
  const command = h("code", {}, words()), answer = h("div", {role: "status"});
  step.addEventListener("change", () => { command.textContent = words(); });
  const button = h("button.primary", {type: "button", disabled: !token(), title: token() ? null : "needs the address that quintain watch printed", onclick: async () => {
    button.disabled = true;
    answer.replaceChildren(h("p.muted", {}, "Running it again …"));
    try { answer.replaceChildren(h("pre.code", {tabindex: "0"}, (await post("replay", {run, episode: id, step: Number(step.value || 0)})).told)); } catch (error) { answer.replaceChildren(h("p.notice", {}, error.message)); }
    button.disabled = false;
  }}, "Replay");
  return [h("div.command", {}, house.replays && last > 0 ? [step, button] : null, command, h("button", {type: "button", onclick: async event => { if (await copy(words())) event.target.textContent = "Copied"; }}, "Copy")), answer];
}
function block(text, run, episode) {
  const pre = h("pre.code", {tabindex: "0", role: "group", "aria-label": text.title || text.field || "text"}, text.text || "(empty)");
  const left = text.chars - text.text.length;
  const more = left > 0 ? h("button", {type: "button", onclick: async () => {
    more.disabled = true;
    try { pre.textContent = await get("text", {run, episode, event: text.event, field: text.field}); more.remove(); pre.focus(); say("All of it is shown."); } catch (error) { more.disabled = false; say(error.message); }
  }}, `Show all ${number(text.chars)} characters`) : null;
  return h("div", {}, text.title ? h("h4.small.muted", {}, text.title) : null, pre, more);
}
function partOf(part, run, episode) {
  const many = part.kind === "program" && part.diff.length > 0;
  const texts = part.texts.map(text => block(text, run, episode));
  return h("section.part", {"data-kind": part.kind}, h("div.head", {}, h("h3", {}, part.title), part.verdict ? badge(part.verdict.solved ? "solved" : "not solved", part.verdict.solved ? "good" : "warn") : null, part.kind === "broke" || part.kind === "rejected" ? badge(part.kind, "bad") : null),
    part.facts.length ? facts(part.facts) : null, part.notes.map(note => h("p.small", {}, note)),
    many ? [part.diff.map(one => h("div", {}, h("h4.small.muted", {}, `${one.title}${one.lines_added === null ? "" : `: ${one.lines_added} added, ${one.lines_removed} removed`}`), diffOf(one.text))), texts.length ? h("details", {}, h("summary.small", {}, "The whole files"), texts) : null] : texts,
    part.verdict ? verdictOf(part.verdict) : null, part.total !== null ? rewardOf(part) : null);
}
export function verdictOf(verdict) {
  return [facts([["tests passed", `${verdict.passed} of ${verdict.total}`], ["isolation", verdict.level], ["time", lasting(verdict.wall_seconds)], verdict.runs > 1 ? ["runs that agree", verdict.runs] : null]),
    verdict.fault ? h("p.small", {}, badge(verdict.owner), " ", verdict.fault) : null,
    h("details", {open: verdict.tests.some(test => test.passed !== "passed")}, h("summary.small", {}, `Tests (${verdict.tests.length} shown)`), h("ul.tests", {}, verdict.tests.map(test => h("li", {}, badge(test.passed), h("span", {}, test.id), test.fault ? h("span.muted", {}, test.fault) : null)))),
    verdict.evidence.length ? h("details", {open: !verdict.solved}, h("summary.small", {}, `Evidence (${verdict.evidence.length})`), verdict.evidence.map(([source, text]) => h("div", {}, h("h4.small.muted", {}, source), h("pre.code", {tabindex: "0", role: "group", "aria-label": `evidence: ${source}`}, text)))) : null];
}
export function rewardOf(part) {
  return [h("p", {}, h("span.total", {}, signed(part.total))),
    part.scores.length ? table("Components of the reward", ["component", {name: "value", right: true}, {name: "weight", right: true}, {name: "adds", right: true}, "evidence"], part.scores.map(score => [score.name, score.value === null ? "not measured" : score.value.toFixed(3), String(score.weight), score.contribution === null ? "—" : signed(score.contribution), score.evidence || "—"])) : null,
    part.flags.length ? h("ul.tests", {"aria-label": "Flags"}, part.flags.map(flag => h("li", {}, badge(flag.severity), h("b", {}, flag.detector), h("span.muted", {}, flag.evidence)))) : null];
}
