// The basket lives in this browser; the filter hides what was not asked for. Without this script the shop is complete but for both.
"use strict";

const basket = {
  key: "kestrel-basket",
  read() {
    try {
      const kept = JSON.parse(localStorage.getItem(this.key));
      return Array.isArray(kept) ? kept : [];
    } catch {
      return [];
    }
  },
  add(article) {
    const articles = [...this.read(), article];
    try {
      localStorage.setItem(this.key, JSON.stringify(articles));
    } catch {
      // Storage is switched off: the basket lasts as long as the page.
    }
    show(articles.length);
  },
};

function show(count) {
  document.getElementById("basket").textContent = `Basket: ${count}`;
}

function filter(form) {
  const wanted = new FormData(form);
  let count = 0;
  for (const card of document.querySelectorAll("#products > li")) {
    const fits = ["form", "glaze"].every((name) => !wanted.get(name) || card.dataset[name] === wanted.get(name));
    card.hidden = !fits;
    count += fits ? 1 : 0;
  }
  document.getElementById("count").textContent = count === 1 ? "1 pot" : `${count} pots`;
}

show(basket.read().length);
document.addEventListener("click", (event) => {
  const article = event.target.dataset?.basket;
  if (article) basket.add(article);
});
document.getElementById("filter")?.addEventListener("change", (event) => filter(event.currentTarget));
