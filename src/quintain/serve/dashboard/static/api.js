// What the pages ask the server for. Addresses are relative, so that the dashboard may be mounted anywhere.
const base = new URL("./", document.baseURI);
export const token = () => sessionStorage.getItem("quintain-token") || "";

export async function get(path, query = {}, signal) {
  return answer(await fetch(address(path, query), {signal, headers: token() ? {"x-quintain-token": token()} : {}}));
}
export async function post(path, body) {
  return answer(await fetch(address(path), {method: "POST", body: JSON.stringify(body),
    headers: {"content-type": "application/json", "x-quintain-token": token()}}));
}
export function address(path, query = {}) {
  const url = new URL(`api/${path}`, base);
  for (const [name, value] of Object.entries(query)) for (const one of [value].flat()) if (one !== "" && one !== null && one !== undefined) url.searchParams.append(name, one);
  return url;
}
async function answer(response) {
  const text = await response.text();
  if (!response.ok) {
    let message = text;
    try { message = JSON.parse(text).error; } catch { /* not ours: as it is */ }
    throw Object.assign(new Error(message || `the server answered ${response.status}`), {status: response.status});
  }
  return (response.headers.get("content-type") || "").includes("json") ? JSON.parse(text) : text;
}
export function listen(query, kind, heard, signal) {
  const pulse = state => {
    document.getElementById("pulse").dataset.state = state;
    document.getElementById("pulse-text").textContent = {on: "connected", off: "not connected", lost: "connection lost"}[state];
  };
  const source = new EventSource(address("stream", query));
  source.addEventListener(kind, event => { pulse("on"); heard(JSON.parse(event.data)); });
  source.addEventListener("error", () => pulse("lost"));
  signal.addEventListener("abort", () => { source.close(); pulse("off"); });
}
