// Theme, copying, tabs and keys. Every page works without this file.
"use strict";

const root = document.documentElement;
root.classList.add("js");

function toggleTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("parqlake-theme", root.dataset.theme); } catch { /* it lasts for this page then */ }
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function choose(tab) {
  const group = tab.closest("[data-choices]");
  for (const other of group.querySelectorAll("[role=tab]")) {
    const on = other === tab;
    other.setAttribute("aria-selected", String(on));
    other.tabIndex = on ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).hidden = !on;
  }
}

for (const group of document.querySelectorAll("[data-choices]")) {
  const tabs = [...group.querySelectorAll("[role=tab]")];
  choose(tabs[0]);
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = tabs.indexOf(event.target);
    if (!step || place < 0) return;
    const next = tabs[(place + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}

const keys = document.getElementById("keys");

document.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.matches(".copy")) copy(target);
  else if (target.matches("[role=tab]")) choose(target);
  else if (target.id === "theme") toggleTheme();
  else if (target.id === "keys-open") keys.showModal();
});

function neighbour(step) {
  const tabs = [...document.querySelectorAll(".tabs a")];
  const place = tabs.findIndex((tab) => tab.getAttribute("aria-current") === "page");
  const next = place < 0 ? null : tabs[place + step];
  if (next) location.assign(next.href);
}

function focusOn(id) {
  const box = document.getElementById(id);
  if (box) { box.focus(); box.select(); }
  return Boolean(box);
}

const shortcuts = {
  "/": () => focusOn("search"),
  p: () => focusOn("where") || focusOn("q"),
  "[": () => neighbour(-1),
  "]": () => neighbour(1),
  j: () => { const twin = document.getElementById("twin"); if (twin) location.assign(twin.href); },
  t: toggleTheme,
  "?": () => keys.showModal(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (typing && event.key === "Escape") event.target.blur();
  if (typing && event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const act = shortcuts[event.key];
  if (act) { event.preventDefault(); act(); }
});
