// The review queue: one attempt at a time, evidence side by side, one key for each word.
import {badge, diffOf, facts, h, number, panel, say, share, signed} from "../dom.js";
import {get, post, token} from "../api.js";
import {rewardOf, verdictOf} from "./episode.js";

const KEYS = {h: "honest", x: "hack", u: "unclear"};

export async function show(place, query, signal) {
  const stats = h("dl.tiles"), body = h("div"), status = h("p.notice", {role: "status", hidden: true});
  let reviewer = localStorage.getItem("quintain-reviewer") || "", current = null, busy = false;
  const who = h("input", {value: reviewer, autocomplete: "name", placeholder: "your name", onchange: event => { reviewer = event.target.value.trim(); localStorage.setItem("quintain-reviewer", reviewer); next(); }});
  place.append(h("div.title", {}, h("h1", {}, "Review queue")), h("p.lead", {}, "Was this attempt honest? ", h("kbd", {}, "h"), " honest, ", h("kbd", {}, "x"), " a hack, ", h("kbd", {}, "u"), " unclear, ", h("kbd", {}, "z"), " take the last word back."), stats);
  const count = async () => {
    const seen = await get("reviews", {reviewer}, signal);
    stats.replaceChildren(...[["Open", number(seen.open), `of ${seen.cases} cases`], ["Decided by you", number(seen.mine)], ["Hacks confirmed", number(seen.decided.hack || 0), `${seen.decided.honest || 0} honest, ${seen.decided.unclear || 0} unclear`], ["Hacks among paid attempts", seen.reviewed ? `≤ ${share(seen.upper)}` : "—", seen.reviewed ? `${seen.hits} of ${seen.reviewed} drawn by chance (95 %)` : "nothing drawn by chance is reviewed"]]
      .map(([name, value, under]) => h("div.tile", {}, h("dt", {}, name), h("dd", {}, value, under ? h("span.under", {}, under) : null))));
  };
  try { await count(); } catch (error) { stats.remove(); place.append(h("div.panel", {}, h("p", {}, error.message))); return; }
  if (!token()) { place.append(h("div.panel", {}, h("p", {}, "This address may only look. To decide, open the one that quintain watch printed: it holds the token."))); return; }
  place.append(h("div.filters", {}, h("label", {}, "Reviewer", who)), status, body);
  const tell = text => { status.hidden = !text; status.textContent = text; };
  const draw = (found, note = "") => {
    current = found;
    tell(note);
    body.replaceChildren(...(found ? caseOf(found, act, undo) : [h("div.panel", {}, h("p.empty", {}, `Nothing is left to review for ${reviewer}.`), h("button", {type: "button", onclick: () => undo()}, "Take the last word back (z)"))]));
    const heading = body.querySelector("h2");
    if (heading) { heading.tabIndex = -1; heading.focus({preventScroll: true}); scrollTo(0, 0); }
    say(found ? `Case ${found.case}, task ${found.content.task}` : "Nothing is left to review.");
  };
  const tried = async work => {
    if (busy) return;
    busy = true;
    const told = error => { if (!signal.aborted) { tell(error.message); say(error.message); } };
    try { await work(); } catch (error) { told(error); }
    busy = false;  // the next key counts at once, whether the tiles are up to date or not
    count().catch(told);
  };
  const next = (note = "") => reviewer ? tried(async () => draw((await post("reviews/next", {reviewer})).case, note)) : (body.replaceChildren(h("div.panel", {}, h("p", {}, "Say who you are, and the first case is shown."))), who.focus());
  const act = decision => current && tried(async () => {
    const note = body.querySelector("#note")?.value || "", decided = current.case;
    await post("reviews/decide", {reviewer, case: decided, decision, note});
    draw((await post("reviews/next", {reviewer})).case, `${decided}: ${decision}. Press z to take it back.`);
  });
  const undo = () => tried(async () => { const back = (await post("reviews/undo", {reviewer})).case; draw(back, `${back.case} is open again.`); });
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (KEYS[event.key]) { event.preventDefault(); act(KEYS[event.key]); }
    if (event.key === "z") { event.preventDefault(); undo(); }
    if (event.key === "c") { event.preventDefault(); body.querySelector("#note")?.focus(); }
  }, {signal});
  if (reviewer) next(); else body.replaceChildren(h("div.panel", {}, h("p", {}, "Say who you are, and the first case is shown.")));
}
function caseOf(found, act, undo) {
  const one = found.content, verdict = one.verdict, passed = verdict.tests.filter(test => test.passed === "passed").length;
  const shown = {...verdict, passed, total: verdict.tests.length, solved: one.reward.solved, runs: verdict.runs ?? 1, wall_seconds: verdict.wall_seconds ?? 0, owner: verdict.fault?.owner || "", fault: verdict.fault ? `${verdict.fault.kind}: ${verdict.fault.message}` : "",
    tests: [...verdict.tests].sort((a, b) => (a.passed === "passed") - (b.passed === "passed")).slice(0, 60).map(test => ({id: test.id, passed: test.passed, fault: test.fault ? test.fault.message : ""})), evidence: (verdict.evidence || []).map(item => [item.source, item.text])};
  const box = (title, ...children) => { const made = panel(title); made.set(...children); return made.element; };
  const code = (label, text) => h("pre.code", {tabindex: "0", role: "group", "aria-label": label}, text);
  const flags = one.flags || [];
  return [h("div.title", {}, h("h2", {}, `Case ${found.case}: ${one.task}`), badge(one.reward.solved ? "solved" : "failed"), flags.map(flag => badge(flag.detector, "warn"))),
    h("div.side", {},
      box("Asked", code("instructions", one.instructions)), box("Verdict and reward", verdictOf(shown), rewardOf({total: one.reward.total, scores: (one.reward.scores || []).map(score => ({weight: 1, contribution: null, evidence: "", ...score})), flags})),
      box("Answer", Object.entries(one.answer).map(([path, text]) => [h("h3.small.muted", {}, path), code(path, text)])), box("From the author's answer to this one", one.difference === null ? h("p.empty", {}, "The author's answer is not at hand.") : one.difference ? diffOf(one.difference) : h("p.empty", {}, "No difference."))),
    (one.siblings || []).length ? h("details.panel", {}, h("summary", {}, `Other answers of the group (${one.siblings.length})`), one.siblings.map(other => h("div", {}, facts([["episode", other.episode], ["reward", signed(other.reward)], ["solved", other.solved ? "yes" : "no"]]), code(other.episode, other.answer)))) : "",
    h("div.actions", {role: "group", "aria-label": "Decide"}, h("button.good", {type: "button", onclick: () => act("honest")}, "Honest ", h("kbd", {}, "h")), h("button.bad", {type: "button", onclick: () => act("hack")}, "Hack ", h("kbd", {}, "x")), h("button.warn", {type: "button", onclick: () => act("unclear")}, "Unclear ", h("kbd", {}, "u")), h("input", {id: "note", "aria-label": "What settled it", placeholder: "What settled it (c)", maxlength: "2000"}), h("button.quiet", {type: "button", onclick: undo}, "Undo ", h("kbd", {}, "z")))];
}
