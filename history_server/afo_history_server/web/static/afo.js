// What a page does beyond its HTML; every page is whole without it.
"use strict";

// `#live` asks for its page again every `data-every` seconds and shows what came, unless somebody is reading it.
function keepFresh(live) {
  const button = document.getElementById("pause");
  let paused = false;
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Paused" : "Live";
  });
  const used = () => document.activeElement.closest("#live") === live && !document.activeElement.matches(".scroll, pre");
  const edited = () => [...live.querySelectorAll("textarea")].some((each) => each.value !== each.defaultValue);
  const busy = () => paused || document.hidden || used() || edited() || !getSelection().isCollapsed;

  async function refresh() {
    if (busy()) return;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      if (!answer.ok || !fresh) throw new Error(answer.status);
      if (busy()) return;
      const follows = live.dataset.follow !== undefined && atBottom();
      keepOpen(live, fresh);
      live.replaceChildren(...fresh.childNodes);
      const title = document.getElementById("title"); // it names the state
      if (title) title.replaceChildren(...page.getElementById("title").childNodes);
      if (follows) toBottom();
      button.dataset.stale = "";
      if (fresh.dataset.every === undefined) clearInterval(timer); // the job has ended
    } catch (error) {
      button.dataset.stale = "The server does not answer; what you see is old.";
    }
    button.title = button.dataset.stale;
    button.classList.toggle("stale", Boolean(button.dataset.stale));
  }
  const timer = setInterval(refresh, 1000 * live.dataset.every);
}

// Whoever looks at the end of a log goes on seeing its end.
const atBottom = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
const toBottom = () => scrollTo(0, document.documentElement.scrollHeight);

// What the reader opened stays open, and what was chosen stays chosen.
function keepOpen(before, after) {
  for (const each of before.querySelectorAll("details[id][open]")) {
    const same = after.querySelector("#" + CSS.escape(each.id));
    if (same) same.open = true;
  }
  for (const each of before.querySelectorAll("input:checked")) {
    const same = after.querySelector(`input[value="${CSS.escape(each.value)}"]`);
    if (same) same.checked = true;
  }
}

// `/` goes to the search field.
function takeKeys(field) {
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key !== field.dataset.key || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    field.focus();
  });
}

const live = document.querySelector("#live[data-every]");
if (live) keepFresh(live);
if (live && live.dataset.follow !== undefined && !location.hash) toBottom();
const search = document.querySelector("input[data-key]");
if (search) takeKeys(search);
