"use strict";
// The page is whole without this: it adds the search, and opens what is linked to or printed.
(() => {
  const entries = [...document.querySelectorAll(".entry")];
  const servers = [...document.querySelectorAll(".server")];
  const form = document.querySelector(".search");
  const query = document.getElementById("query");
  const badge = document.getElementById("badge");
  const found = document.getElementById("found");
  const fold = document.getElementById("fold");
  const none = document.querySelector(".none");
  const texts = new Map();

  const textOf = (entry) => {
    if (!texts.has(entry)) {
      const parts = [entry.querySelector(".name"), entry.querySelector(".words"), entry.querySelector(".route")];
      texts.set(entry, parts.map((part) => part.textContent).join(" ").toLowerCase());
    }
    return texts.get(entry);
  };

  const filter = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = badge.value && badge.value.split("|");
    let number = 0;
    for (const entry of entries) {
      const text = words.length ? textOf(entry) : "";
      const fits = words.every((word) => text.includes(word))
        && (!wanted || wanted.some((word) => entry.dataset.badges.split("|").includes(word)));
      entry.hidden = !fits;
      number += fits;
    }
    const all = !words.length && !wanted;
    for (const server of servers) {
      server.hidden = !all && !server.querySelector(".entry:not([hidden])");
    }
    none.hidden = all || number > 0;
    found.value = all ? "" : `${number} of ${entries.length}`;
  };

  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches(".entry, .server")) {
      if (target.hidden || target.closest("[hidden]")) {
        query.value = badge.value = "";
        filter();
      }
      target.open = true;
      target.scrollIntoView();
    }
  };

  // A class of changes: only its changes are shown, or all of them again.
  const classes = [...document.querySelectorAll(".classes button")];
  const pick = (picked) => {
    const wanted = picked.getAttribute("aria-pressed") === "true" ? "" : picked.dataset.class;
    for (const button of classes) {
      button.setAttribute("aria-pressed", button.dataset.class === wanted);
    }
    for (const change of document.querySelectorAll(".change")) {
      change.hidden = Boolean(wanted) && change.dataset.class !== wanted;
    }
    for (const part of document.querySelectorAll(".changed li, .changed")) {
      part.hidden = !part.querySelector(".change:not([hidden])");
    }
  };

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = entries.filter((entry) => !entry.open);
    for (const entry of opened) entry.open = true;
  });
  addEventListener("afterprint", () => {
    for (const entry of opened) entry.open = false;
  });
  addEventListener("hashchange", reveal);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.matches("input, select")) {
      event.preventDefault();
      query.focus();
    }
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  query.addEventListener("input", filter);
  badge.addEventListener("change", filter);
  fold.addEventListener("click", () => {
    const open = fold.textContent === "Open all";
    for (const entry of entries) entry.open = open;
    fold.textContent = open ? "Close all" : "Open all";
  });
  for (const button of classes) {
    button.disabled = false;
    button.addEventListener("click", () => pick(button));
  }
  form.hidden = false;
  reveal();
})();
