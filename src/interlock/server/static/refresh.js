// Keeps the page true: fetches it again and takes over what is marked data-live. All wording stays on the server.
"use strict";

const INTERVAL = 2000;
const TIMEOUT = 5000;

function takeOver(fresh) {
  document.title = fresh.title;
  document.documentElement.dataset.state = fresh.documentElement.dataset.state;
  for (const shown of document.querySelectorAll("[data-live]")) {
    const found = fresh.getElementById(shown.id);
    // Only what changed: a screen reader speaks whatever is replaced in a status.
    if (found && found.innerHTML !== shown.innerHTML) shown.replaceChildren(...found.childNodes);
  }
}

function sayItIsSilent() {
  document.documentElement.dataset.state = "silent";
  document.title = "No answer – Interlock";
  const words = document.querySelector("#headline h1").lastChild;
  if (words.textContent !== "No answer") words.textContent = "No answer";
  document.getElementById("explanation").textContent = "This replica has stopped, or cannot be reached from here.";
}

async function refresh() {
  try {
    const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
    if (!answer.ok) throw new Error(answer.statusText);
    takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    sayItIsSilent();
  }
  setTimeout(refresh, document.documentElement.dataset.state === "starting" ? INTERVAL / 4 : INTERVAL);
}

setTimeout(refresh, INTERVAL / 4);
