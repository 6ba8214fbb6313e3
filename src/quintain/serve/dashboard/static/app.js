// The entrance: which page an address means, the theme, and the keys that all pages share.
import {failure, h, say} from "./dom.js";
import {get} from "./api.js";

const PAGES = {
  "": ["runs", "Runs"], run: ["run", "Run"], episodes: ["episodes", "Episodes"], episode: ["episode", "Episode"], tasks: ["tasks", "Tasks"],
  compare: ["compare", "Compare"], reviews: ["reviews", "Reviews"], alerts: ["alerts", "Alerts"],
};
const NAV = [["", "Runs"], ["compare", "Compare"], ["reviews", "Reviews"], ["alerts", "Alerts"]];
const main = document.getElementById("main");
let leaving = new AbortController();

function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.has("token")) return;
  sessionStorage.setItem("quintain-token", given.get("token"));
  history.replaceState(null, "", `#/${given.get("to") || ""}`);
}
export function go(page, query = {}) {
  return `#/${page}${Object.keys(query).length ? "?" + new URLSearchParams(Object.entries(query).flatMap(([name, value]) => [value].flat().map(one => [name, one]))) : ""}`;
}
async function show() {
  takeToken();
  leaving.abort();
  leaving = new AbortController();
  const signal = leaving.signal, [name, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [module, title] = PAGES[name] || ["missing", "Not found"], asked = new URLSearchParams(query || "");
  document.getElementById("nav").replaceChildren(...NAV.map(([page, label]) => h("a", {href: `#/${page}`, "aria-current": page === name || (page === "" && ["run", "episodes", "episode", "tasks"].includes(name)) ? "page" : null}, label)));
  document.title = [asked.get("episode"), asked.get("run"), title, "Quintain"].filter(Boolean).join(" · ");
  try {
    if (module === "missing") throw new Error(`there is no page ${name}`);
    const page = await import(`./pages/${module}.js`);
    if (signal.aborted) return;
    const place = h("div");
    await page.show(place, asked, signal);
    if (signal.aborted) return;
    main.replaceChildren(place);
    const heading = place.querySelector("h1");
    if (heading) { heading.tabIndex = -1; if (show.before) heading.focus({preventScroll: true}); }
    if (show.before !== undefined && show.before !== location.hash) scrollTo(0, 0);
    if (show.before) say(document.title);
  } catch (error) {
    if (signal.aborted) return;
    main.replaceChildren(failure(error));
  }
  show.before = location.hash;
  document.body.dataset.ready = location.hash || "#/";
}

const root = document.documentElement, button = document.getElementById("theme"), THEMES = ["auto", "light", "dark"], dark = matchMedia("(prefers-color-scheme: dark)");
function theme() {
  const wanted = localStorage.getItem("quintain-theme") || "auto";
  root.dataset.theme = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
  button.textContent = {auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark"}[wanted];
}
button.addEventListener("click", () => {
  localStorage.setItem("quintain-theme", THEMES[(THEMES.indexOf(localStorage.getItem("quintain-theme") || "auto") + 1) % 3]);
  theme();
});
dark.addEventListener("change", theme);
theme();

document.getElementById("skip").addEventListener("click", event => { event.preventDefault(); main.focus(); });
addEventListener("keydown", event => {
  const typing = event.target.closest("input, textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape")) return;
  if (event.key === "/") { const field = main.querySelector("input[type=search]"); if (field) { event.preventDefault(); field.focus(); } }
  if (event.key === "Escape" && typing) typing.blur();
  if (event.key === "j" || event.key === "k") {
    const stops = [...main.querySelectorAll("[data-stop]")], at = stops.findIndex(one => one === document.activeElement || one.contains(document.activeElement));
    const next = stops[Math.max(0, Math.min(stops.length - 1, at + (event.key === "j" ? 1 : -1)))];
    if (next) { next.focus(); next.scrollIntoView({block: "start"}); }
  }
});
addEventListener("hashchange", show);
get("house").then(house => { document.getElementById("where").textContent = `Runs in ${house.runs}`; }).catch(() => {});
show();
