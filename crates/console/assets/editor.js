// The text editor of configurations: line numbers, diagnostics while typing, and completion.
"use strict";
(() => {
  const area = document.getElementById("text");
  if (!area) return;
  const holder = area.parentElement;
  const gutter = holder.querySelector(".gutter");
  const marks = holder.querySelector(".marks");
  const popup = document.getElementById("candidates");
  const list = document.getElementById("diagnostics");
  const state = document.getElementById("check-state");
  const file = area.dataset.file;
  const tab = 4;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const post = async (path, body) => {
    const answer = await fetch(path, { method: "POST", body: JSON.stringify(body) });
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    return value;
  };

  // Diagnostics of this file, by line.
  let found = [];
  const numbers = () => {
    const count = area.value.split("\n").length;
    const worst = new Map();
    for (const one of found) {
      if (worst.get(one.line) !== "error") worst.set(one.line, one.severity);
    }
    const lines = [];
    for (let at = 1; at <= count; at += 1) {
      const severity = worst.get(at);
      lines.push(element("span", `${severity === "error" ? "●" : severity ? "▲" : ""}${at}\n`, severity ?? ""));
    }
    gutter.replaceChildren(...lines);
  };
  // Under the text is a copy of it in spaces, where ranges are marked.
  const underline = () => {
    const blank = (text) => text.replace(/[^\n\t]/gu, " ");
    const made = [];
    area.value.split("\n").forEach((line, at) => {
      const own = found.filter((one) => one.line === at + 1).sort((a, b) => a.column - b.column);
      const chars = [...line];
      let from = 0;
      for (const one of own) {
        const start = Math.max(0, one.column - 1);
        if (start < from) continue;
        const end = Math.max(start + 1, Math.min(chars.length, start + Math.max(1, one.length)));
        made.push(document.createTextNode(blank(chars.slice(from, start).join(""))));
        made.push(element("mark", blank(chars.slice(start, end).join("")) || " ", one.severity));
        from = end;
      }
      made.push(document.createTextNode(`${blank(chars.slice(from).join(""))}\n`));
    });
    marks.replaceChildren(...made);
  };
  const follow = () => {
    gutter.scrollTop = area.scrollTop;
    marks.scrollTop = area.scrollTop;
    marks.scrollLeft = area.scrollLeft;
  };
  const draw = () => { numbers(); underline(); follow(); };

  const goTo = (line, column) => {
    const lines = area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const place = start + [...(lines[line - 1] ?? "")].slice(0, Math.max(0, column - 1)).join("").length;
    area.focus();
    area.setSelectionRange(place, place);
    area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
  };
  const show = (checked) => {
    found = checked.diagnostics.filter((one) => one.is_here && one.line > 0);
    list.replaceChildren(...checked.diagnostics.map((one) => {
      const line = element("li");
      const place = one.line > 0 ? `${one.is_here ? "" : `${one.file}:`}${one.line}:${one.column}` : one.file;
      const text = `${one.severity} ${place}: ${one.message}${one.help ? ` (${one.help})` : ""}`;
      if (one.is_here && one.line > 0) {
        const button = element("button", text, `link ${one.severity}`);
        button.type = "button";
        button.addEventListener("click", () => goTo(one.line, one.column));
        line.append(button);
      } else {
        line.append(element("span", text, one.severity));
      }
      return line;
    }));
    const count = (severity) => checked.diagnostics.filter((one) => one.severity === severity).length;
    state.textContent = checked.diagnostics.length
      ? `Errors: ${count("error")}, warnings: ${count("warning")}, notes: ${count("note")}.` : "No errors.";
    draw();
  };

  // Only the answer about the text that is there counts, and one check runs at a time.
  let timer;
  let running = false;
  let again = false;
  const check = async () => {
    if (running) { again = true; return; }
    running = true;
    const text = area.value;
    try {
      const checked = await post("/api/v1/configuration/check", { file, text });
      if (text === area.value) {
        show(checked);
        document.body.dataset.checked = String(checked.diagnostics.length);
      }
    } catch (error) {
      state.textContent = `The text could not be checked: ${error.message}`;
    }
    running = false;
    if (again) { again = false; check(); }
  };
  const later = () => {
    delete document.body.dataset.checked;
    clearTimeout(timer);
    timer = setTimeout(check, 500);
  };

  let candidates = [];
  let chosen = -1;
  let typed = 0;
  const close = () => {
    popup.hidden = true;
    candidates = [];
    chosen = -1;
    area.removeAttribute("aria-activedescendant");
  };
  const choose = (at) => {
    chosen = (at + candidates.length) % candidates.length;
    [...popup.children].forEach((one, index) => one.setAttribute("aria-selected", String(index === chosen)));
    const own = popup.children[chosen];
    own.scrollIntoView({ block: "nearest" });
    area.setAttribute("aria-activedescendant", own.id);
  };
  const pick = (at) => {
    const end = area.selectionStart;
    const before = [...area.value.slice(0, end)];
    const start = before.slice(0, before.length - typed).join("").length;
    const { text } = candidates[at];
    close();
    area.focus();
    area.setSelectionRange(start, end);
    // As if it were typed, so that it can be undone.
    if (!document.execCommand("insertText", false, text)) {
      area.setRangeText(text, start, end, "end");
      draw();
      later();
    }
    clearTimeout(completing);
  };
  const place = () => {
    const style = getComputedStyle(area);
    const probe = element("span", "0".repeat(50));
    marks.append(probe);
    const width = probe.getBoundingClientRect().width / 50;
    probe.remove();
    const before = area.value.slice(0, area.selectionStart);
    const line = before.slice(before.lastIndexOf("\n") + 1);
    let column = 0;
    for (const one of line) column += one === "\t" ? tab - column % tab : 1;
    const left = parseFloat(style.paddingLeft) + (column - typed) * width - area.scrollLeft;
    const top = parseFloat(style.paddingTop) + before.split("\n").length * parseFloat(style.lineHeight) - area.scrollTop;
    popup.style.left = `${Math.max(0, Math.min(left, holder.clientWidth - popup.offsetWidth))}px`;
    popup.style.top = `${top + 2}px`;
  };
  let asked = 0;
  const complete = async (isWanted) => {
    const end = area.selectionStart;
    if (end !== area.selectionEnd) return close();
    const number = asked += 1;
    let answer;
    try {
      answer = await post("/api/v1/configuration/complete", { file, before: area.value.slice(0, end) });
    } catch {
      return close();
    }
    if (number !== asked || end !== area.selectionStart) return;
    const word = [...area.value.slice(0, end)].slice(-answer.typed || Infinity).join("");
    const isDone = answer.candidates.length === 1 && answer.candidates[0].text === word;
    if (!answer.candidates.length || (isDone && !isWanted) || (!answer.typed && !isWanted)) return close();
    candidates = answer.candidates;
    typed = answer.typed;
    popup.replaceChildren(...candidates.map((one, at) => {
      const item = element("li");
      item.id = `candidate-${at}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.append(element("span", one.text, "code"), element("span", one.detail, "hint"));
      item.addEventListener("mousedown", (event) => { event.preventDefault(); pick(at); });
      return item;
    }));
    popup.hidden = false;
    chosen = -1;
    place();
    if (isWanted) choose(0);
  };
  let completing;

  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", "candidates");
  area.addEventListener("scroll", () => { follow(); close(); });
  area.addEventListener("blur", close);
  area.addEventListener("input", (event) => {
    found = [];
    draw();
    later();
    clearTimeout(completing);
    close();
    if (event.inputType === "insertText" && event.data && /[\w.[<"]$/u.test(event.data)) {
      completing = setTimeout(() => complete(false), 200);
    }
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      // What was typed before would ask again, and take the choice away.
      clearTimeout(completing);
      complete(true);
      return;
    }
    if (popup.hidden) return;
    const act = {
      ArrowDown: () => choose(chosen + 1),
      ArrowUp: () => choose(chosen < 0 ? -1 : chosen - 1),
      Enter: chosen >= 0 ? () => pick(chosen) : undefined,
      Tab: chosen >= 0 ? () => pick(chosen) : undefined,
      Escape: close,
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  draw();
  check();
})();
